"""Repositories of components on real servers: code hosts, an OCI registry, folders."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from shared.components.errors import ComponentsError, InvalidToken
from shared.components.repositories import Files
from shared.components.repositories.folder import FolderRepository
from shared.components.repositories.gitlab import GitLabRepository
from shared.components.repositories.oci import ARTIFACT_TYPE, OciRepository, layers_of
from shared.components.repositories.releases import ReleaseRepository
from shared.download import SourceError
from shared.download.access import Access
from shared.download.registry import Layer, Registry
from tests.support.http_server import HttpServer, Request, Response
from tests.support.registry import PASSWORD, USER, StartRegistry, certificate, htpasswd

METADATA = """apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Metadata
releaseSeries: [{major: 1, minor: 2, contract: v1beta2}, {major: 1, minor: 1, contract: v1beta2}]
"""
FILES = Files(METADATA, "components")
BASE = "/o/r/releases"
FILE = "core-components.yaml"


def site(pages: Mapping[str, Response]) -> HttpServer:
    return HttpServer(lambda request: pages.get(request.path, Response(404)))


def release(version: str, place: str = "download/") -> dict[str, Response]:
    folder = f"{BASE}/{place}{version}"
    return {
        f"{folder}/metadata.yaml": Response(body=METADATA.encode()),
        f"{folder}/{FILE}": Response(body=b"components"),
    }


def listed(*tags: str, **more: object) -> Response:
    return Response(body=json.dumps([{"tag_name": tag, **more} for tag in tags]).encode())


LIST = "/api/v3/repos/o/r/releases?per_page=100&page=1"


# -- releases of a code host ---------------------------------------------------------------------------------------


def test_given_version_is_downloaded_without_listing_releases() -> None:
    with site(release("v1.1.0")) as server:
        repository = ReleaseRepository(f"{server.url}{BASE}/latest/{FILE}")
        assert repository.fetch("v1.1.0") == FILES
        assert [asked.path for asked in server.requests] == list(release("v1.1.0"))


def test_mirror_without_download_in_its_paths_is_supported() -> None:
    with site(release("v1.1.0", "")) as server:
        assert ReleaseRepository(f"{server.url}{BASE}/v1.1.0/{FILE}").fetch("v1.1.0") == FILES


def test_latest_is_the_newest_published_version() -> None:
    with site({**release("v1.1.0"), LIST: listed("v1.2.0", "v1.1.0", "v1.0.0")}) as server:
        repository = ReleaseRepository(f"{server.url}{BASE}/latest/{FILE}", token="secret-token")
        assert repository.default_version() == "v1.1.0"
        assert {asked.authorization for asked in server.requests} == {"Bearer secret-token"}
    assert ReleaseRepository(f"http://host{BASE}/v1.0.0/{FILE}").default_version() == "v1.0.0"


def test_latest_ignores_drafts_and_reads_all_pages() -> None:
    pages = {
        **release("v1.1.0"),
        LIST: replace(listed("v9.0.0", builder=True), headers={"Link": '<https://x/>; rel="next"'}),
        LIST.replace("&page=1", "&page=2"): listed("v1.1.0"),
    }
    with site(pages) as server:
        assert ReleaseRepository(f"{server.url}{BASE}/latest/{FILE}").default_version() == "v1.1.0"


@pytest.mark.parametrize(
    ("response", "word", "transient", "after"),
    [
        (Response(404), "no version v1.1.0", False, None),
        (Response(429, headers={"Retry-After": "30"}), "limits requests", True, 30.0),
        (Response(500), "HTTP 500", True, None),
        (Response(401), "github-token", False, None),
        (Response(body=b"half", length=1000), "does not answer", True, None),
        (Response(302, headers={"Location": "ftp://elsewhere/x"}), "refused", False, None),
    ],
)
def test_answer_of_the_host_decides_whether_to_retry(
    response: Response, word: str, transient: bool, after: float | None
) -> None:
    path = f"{BASE}/download/v1.1.0/metadata.yaml"
    with site({path: response}) as server, pytest.raises(SourceError) as error:
        ReleaseRepository(f"{server.url}{BASE}/v1.1.0/{FILE}", token="secret-token").fetch("v1.1.0")
    assert word in str(error.value)
    assert "secret-token" not in str(error.value)
    assert (error.value.transient, error.value.retry_after) == (transient, after)


@pytest.mark.parametrize(
    "path", [f"{BASE}/download/v1.1.0/metadata.yaml", "/api/v3/repos/o/r/releases/tags/v1.1.0", LIST]
)
def test_token_that_the_host_rejects_is_named(path: str) -> None:
    with site({path: Response(401)}) as server:
        repository = ReleaseRepository(f"{server.url}{BASE}/latest/{FILE}", token="secret-token")
        with pytest.raises(InvalidToken, match="does not accept the token") as error:
            repository.default_version() if path == LIST else repository.fetch("v1.1.0")
        assert "secret-token" not in str(error.value)
        with pytest.raises(SourceError) as refused:
            replace(repository, token="").default_version()
    assert not isinstance(refused.value, InvalidToken)


def test_latest_is_not_chosen_from_a_list_without_end() -> None:
    page = Response(body=b'[{"tag_name": "v1.1.0"}]', headers={"Link": '</more>; rel="next"'})
    with HttpServer(lambda _: page) as server, pytest.raises(SourceError, match=r"more than 100 pages.*spec\.version"):
        ReleaseRepository(f"{server.url}{BASE}/latest/{FILE}").default_version()


def test_host_without_release_list_needs_spec_version() -> None:
    with site({}) as server, pytest.raises(SourceError, match=r"set spec\.version"):
        ReleaseRepository(f"{server.url}{BASE}/latest/{FILE}").default_version()


def private(request: Request) -> Response:
    """A private repository: no downloads for anybody, and an API for whom it knows; assets are kept elsewhere."""
    files = {"metadata.yaml": METADATA.encode(), FILE: b"components"}
    api = "/api/v3/repos/o/r/releases"
    if request.authorization != "Bearer secret-token" or not request.path.startswith(api):
        return Response(404)
    path = request.path.removeprefix(api)
    if path == "/tags/v1.1.0":
        assets = [{"id": n, "name": name, "size": len(data)} for n, (name, data) in enumerate(files.items())]
        return Response(body=json.dumps({"assets": assets}).encode())
    if path.startswith("?"):
        return listed("v1.2.0", "v1.1.0")
    number = path.removeprefix("/assets/")
    return Response(body=list(files.values())[int(number)]) if number in ("0", "1") else Response(404)


def test_token_opens_a_private_repository() -> None:
    with HttpServer(private) as server:
        url = f"{server.url}{BASE}/latest/{FILE}"
        repository = ReleaseRepository(url, token="secret-token")
        assert repository.default_version() == "v1.1.0"
        assert repository.fetch("v1.1.0") == FILES
        for version in ("v1.2.0", "v9.9.9"):
            with pytest.raises(SourceError, match=f"no version {version}"):
                repository.fetch(version)
        with pytest.raises(SourceError, match="for a private repository, give a token"):
            ReleaseRepository(url).fetch("v1.1.0")


def test_settings_replace_the_host_of_github(monkeypatch: pytest.MonkeyPatch) -> None:
    with site({"/api/repos/o/r/releases?per_page=100&page=1": listed("v1.1.0")}) as api, site(release("v1.1.0")) as web:
        monkeypatch.setenv("GITHUB_URL", web.url)
        monkeypatch.setenv("GITHUB_API_URL", f"{api.url}/api")
        assert ReleaseRepository(f"{web.url}{BASE}/latest/{FILE}").default_version() == "v1.1.0"


@pytest.mark.parametrize(
    ("response", "transient", "after"),
    [
        (Response(429, headers={"Retry-After": "30"}), True, 30.0),
        (Response(500), True, None),
        (Response(body=b"{}"), True, None),
    ],
)
def test_failing_release_list_has_a_hint_at_spec_version(
    response: Response, transient: bool, after: float | None
) -> None:
    with (
        site({LIST: response}) as server,
        pytest.raises(SourceError, match=r"set spec\.version, which needs no") as error,
    ):
        ReleaseRepository(f"{server.url}{BASE}/latest/{FILE}").default_version()
    assert (error.value.transient, error.value.retry_after) == (transient, after)


def test_host_with_its_own_ca_is_trusted_by_ca_crt(tmp_path: Path) -> None:
    _, ca = certificate(tmp_path)
    with HttpServer(lambda request: release("v1.1.0").get(request.path, Response(404)), tls=tmp_path) as server:
        url = f"{server.url}{BASE}/v1.1.0/{FILE}"
        assert ReleaseRepository(url, ca=ca).fetch("v1.1.0") == FILES
        with pytest.raises(SourceError, match="not trusted"):
            ReleaseRepository(url).fetch("v1.1.0")


def test_file_beyond_the_size_limit_is_refused() -> None:
    endless = Response(body=(b"x" * 2**20 for _ in range(100)))
    pages = {**release("v1.1.0"), f"{BASE}/download/v1.1.0/{FILE}": endless}
    with site(pages) as server, pytest.raises(SourceError, match="more than"):
        ReleaseRepository(f"{server.url}{BASE}/v1.1.0/{FILE}").fetch("v1.1.0")


def test_version_cannot_change_the_path_of_the_download() -> None:
    with site(release("v1.1.0")) as server:
        with pytest.raises(SourceError):
            ReleaseRepository(f"{server.url}{BASE}/v1.1.0/{FILE}").fetch("../../secret")
        assert all("/secret" not in asked.path for asked in server.requests)


# -- GitLab --------------------------------------------------------------------------------------------------------

PACKAGE = "/api/v4/projects/1/packages/generic/p"


def test_version_is_downloaded_from_a_gitlab_package() -> None:
    folder = f"{PACKAGE}/v1.1.0"
    pages = {
        f"{folder}/metadata.yaml": Response(body=METADATA.encode()),
        f"{folder}/{FILE}": Response(body=b"components"),
    }
    with site(pages) as server:
        repository = GitLabRepository(f"{server.url}{PACKAGE}/v1.0.0/{FILE}", "secret-token")
        assert repository.fetch("v1.1.0") == FILES
        assert {asked.authorization for asked in server.requests} == {"Bearer secret-token"}
        with pytest.raises(SourceError, match=r"no version v1\.0\.0"):
            repository.fetch("v1.0.0")


def test_refusal_of_gitlab_names_the_token() -> None:
    with HttpServer(lambda _request: Response(401)) as server, pytest.raises(SourceError, match="gitlab-access-token"):
        GitLabRepository(f"{server.url}{PACKAGE}/v1.0.0/{FILE}").fetch("v1.0.0")


# -- a real OCI registry -------------------------------------------------------------------------------------------


def pushed(host: str, tag: str, files: Mapping[str, str], access: Access | None = None, *, plain: bool = True) -> str:
    layers = [Layer(name, text.encode(), "text/plain") for name, text in files.items()]
    with Registry(host, "org/provider", access or Access(), plain) as registry:
        return registry.push(tag, layers, artifact_type="application/vnd.example")


def oci(url: str, name: str = "docker", access: Access | None = None) -> OciRepository:
    return OciRepository(url, "infrastructure", name, access or Access())


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("metadata.yaml", "components.yaml"), id="OC6"),
        pytest.param(("metadata.yaml", "infrastructure-components.yaml"), id="by type"),
        pytest.param(
            ("infrastructure-docker-v1.1.0-metadata.yaml", "infrastructure-docker-v1.1.0-components.yaml"), id="OC7"
        ),
    ],
)
def test_files_are_layers_of_an_oci_artifact(registry: str, names: tuple[str, str]) -> None:
    others = {"infrastructure-aws-v1.1.0-metadata.yaml": "x", "infrastructure-aws-v1.1.0-components.yaml": "y"}
    digest = pushed(registry, "v1.1.0", {names[0]: METADATA, names[1]: "components", **others})
    for url in ("", ":v1.1.0", f"@{digest}"):
        assert oci(f"http://{registry}/org/provider{url}").fetch("v1.1.0") == FILES
    assert oci(f"http://{registry}/org/provider:v1.1.0").default_version() == "v1.1.0"


def test_one_oci_artifact_may_have_files_of_several_providers(registry: str) -> None:
    """E8, OC7: what `layers_of` names is what is found again."""
    other = Files(METADATA, "other components")
    layers = [*layers_of("infrastructure", "docker", "v1.1.0", FILES), *layers_of("core", "x", "v1.1.0", other)]
    with Registry(registry, "org/provider", Access(), plain=True) as opened:
        opened.push("v1.1.0", layers, artifact_type=ARTIFACT_TYPE)
    url = f"http://{registry}/org/provider"
    assert oci(url).fetch("v1.1.0") == FILES
    assert OciRepository(url, "core", "x").fetch("v1.1.0") == other
    with pytest.raises(ComponentsError, match="none of the files"):
        oci(url, "aws").fetch("v1.1.0")


def test_oci_layer_beyond_the_size_limit_is_refused(registry: str) -> None:
    pushed(registry, "v1.1.0", {"metadata.yaml": "m" * 1_000_001, "components.yaml": "c"})
    with pytest.raises(SourceError, match="too large"):
        oci(f"http://{registry}/org/provider").fetch("v1.1.0")


def test_missing_artifact_or_file_is_named(registry: str) -> None:
    pushed(registry, "v1.1.0", {"meta.yaml": METADATA, "components.yaml": "c"})
    with pytest.raises(ComponentsError, match=r"none of the files .*metadata\.yaml"):  # OC8
        oci(f"http://{registry}/org/provider").fetch("v1.1.0")
    pushed(registry, "v1.1.0", {"metadata.yaml": METADATA, "comp.yaml": "c"})
    with pytest.raises(ComponentsError, match=r"infrastructure-components\.yaml"):  # OC9
        oci(f"http://{registry}/org/provider").fetch("v1.1.0")
    with pytest.raises(SourceError, match=r"v9\.9\.9"):  # OC10
        oci(f"http://{registry}/org/provider").fetch("v9.9.9")
    for tag in ("", ":latest"):
        with pytest.raises(ComponentsError, match=r"set spec\.version"):  # D-8
            oci(f"http://{registry}/org/provider{tag}").default_version()


def test_oci_registry_is_opened_with_credentials_and_its_own_ca(start_registry: StartRegistry, tmp_path: Path) -> None:
    tls, ca = certificate(tmp_path)
    host = start_registry(auth=htpasswd(tmp_path), http={"tls": tls})
    access = Access(username=USER, password=PASSWORD, ca=ca)
    pushed(host, "v1.1.0", {"metadata.yaml": METADATA, "components.yaml": "components"}, access, plain=False)
    assert oci(f"{host}/org/provider", access=access).fetch("v1.1.0") == FILES
    wrong = Access(username=USER, password="wrong-word", ca=ca)
    with pytest.raises(SourceError) as error:
        oci(f"{host}/org/provider", access=wrong).fetch("v1.1.0")
    assert "wrong-word" not in str(error.value)
    with pytest.raises(SourceError, match="not trusted"):
        oci(f"{host}/org/provider", access=Access(username=USER, password=PASSWORD)).fetch("v1.1.0")


def test_oci_layer_that_does_not_match_its_digest_is_refused() -> None:
    layers = [
        {
            "mediaType": "text/plain",
            "digest": f"sha256:{hashlib.sha256(b'm').hexdigest()}",
            "size": 1,
            "annotations": {"org.opencontainers.image.title": "metadata.yaml"},
        }
    ]
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": "sha256:" + "0" * 64, "size": 2},
            "layers": layers,
        }
    ).encode()

    def answer(request: Request) -> Response:
        if "/manifests/" in request.path:
            return Response(body=manifest, headers={"Content-Type": "application/vnd.oci.image.manifest.v1+json"})
        return Response(body=b"X")

    with HttpServer(answer) as server, pytest.raises(SourceError, match="does not match its digest"):
        oci(f"{server.url}/org/provider").fetch("v1.1.0")


# -- folders -------------------------------------------------------------------------------------------------------


def test_versions_are_read_from_a_folder_of_clusterctl(tmp_path: Path) -> None:
    for version in ("v1.9.0", "v1.10.0", "notes"):
        folder = tmp_path / "cluster-api" / version
        folder.mkdir(parents=True)
        (folder / "metadata.yaml").write_text(METADATA)
        (folder / FILE).write_text("components")
    url = f"file://{tmp_path}/cluster-api"
    latest = FolderRepository(f"{url}/latest/{FILE}")
    assert latest.default_version() == "v1.10.0"
    assert FolderRepository(f"{url}/v1.9.0/{FILE}").default_version() == "v1.9.0"
    assert latest.fetch("v1.9.0") == FILES
    assert latest.place == FolderRepository(f"{url}/v1.9.0/{FILE}").place
    with pytest.raises(SourceError, match=r"v2\.0\.0/metadata\.yaml cannot be read"):
        latest.fetch("v2.0.0")
    with pytest.raises(ComponentsError, match="in place of a version"):
        latest.fetch("../../cluster-api/v1.9.0")
    (tmp_path / "cluster-api" / "v1.9.0" / "metadata.yaml").write_text("m" * 1_000_001)
    with pytest.raises(ComponentsError, match="larger than"):
        latest.fetch("v1.9.0")
    with pytest.raises(ComponentsError, match="no folder whose name is a version"):
        FolderRepository(f"file://{tmp_path}/latest/{FILE}").default_version()
    with pytest.raises(SourceError, match="cannot be read"):
        FolderRepository(f"file://{tmp_path}/none/latest/{FILE}").default_version()
