"""Components in ConfigMaps, and the references of OCI artifacts. Numbers are those of the acceptance list."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path
from typing import Any

import pytest

from shared.api.provider import CORE, INFRASTRUCTURE
from shared.components.errors import ComponentsError
from shared.components.repositories import Files, open_repository
from shared.components.repositories.config_maps import ConfigMapRepository, as_config_map, packed, read, unpacked
from shared.components.repositories.folder import FolderRepository
from shared.components.repositories.gitlab import GitLabRepository
from shared.components.repositories.oci import Reference, parse
from shared.components.repositories.releases import ReleaseRepository
from shared.kube import Object
from tests.support.provider_objects import provider

LABEL = "provider.cluster.x-k8s.io/version"


def config_map(name: str, label: str = "", **data: str) -> Object:
    labels = {LABEL: label} if label else {}
    given = data or {"metadata": "m", "components": f"c of {name}"}
    return {"kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns", "labels": labels}, "data": given}


def of(*found: Object) -> ConfigMapRepository:
    return ConfigMapRepository(found, "a=b")


@pytest.mark.parametrize(
    ("found", "word"),
    [
        pytest.param([], "selector a=b", id="CR1"),
        pytest.param([config_map("v1.2.3", components="c")], "ConfigMap ns/v1.2.3 has no metadata", id="CR2"),
        pytest.param([config_map("v1.2.3", metadata="m")], "Data has no components", id="CR3"),
        pytest.param([config_map("mine")], "invalid version 'mine' (from the Name)", id="CR4"),
        pytest.param([config_map("v1.2.3", "new")], f"(from the Label {LABEL})", id="CR5"),
    ],
)
def test_what_is_refused(found: list[Object], word: str) -> None:
    with pytest.raises(ComponentsError) as error:
        of(*found).fetch("v1.2.3")
    assert word in str(error.value)


def test_cr6_to_cr8_what_is_found() -> None:
    assert of(config_map("v1.2.3")).default_version() == "v1.2.3"
    assert of(config_map("any", "v1.2.3")).fetch("1.2.3") == Files("m", "c of any")
    several = of(config_map("v1.2.3"), config_map("v1.10.0"), config_map("v1.9.0"))
    assert several.default_version() == "v1.10.0"
    assert several.fetch("v1.9.0").components == "c of v1.9.0"
    with pytest.raises(ComponentsError, match=r"there are v1\.2\.3, v1\.10\.0, v1\.9\.0"):
        several.fetch("v1.8.0")


def test_d12_several_may_match_but_not_for_one_version() -> None:
    several = of(config_map("v1.2.3"), config_map("again", "1.2.3"), config_map("v1.3.0"))
    assert several.fetch("v1.3.0").components == "c of v1.3.0"
    with pytest.raises(ComponentsError, match=r"ns/v1\.2\.3 and ns/again .* both of version v1\.2\.3"):
        several.fetch("v1.2.3")


def test_content_is_what_tells_sources_apart() -> None:
    assert of(config_map("v1.2.3")).identity == of(config_map("v1.2.3")).identity
    changed = config_map("v1.2.3", metadata="m", components="other")
    assert of(config_map("v1.2.3")).identity != of(changed).identity


def test_cz_compression() -> None:
    assert unpacked(packed("text"), "x") == b"text"
    assert unpacked(packed(""), "x") == b""
    with pytest.raises(ComponentsError, match="cannot open gzip reader"):
        unpacked(base64.b64encode(b"no gzip").decode(), "x")
    bomb = base64.b64encode(gzip.compress(b"\0" * 50_000_000)).decode()
    with pytest.raises(ComponentsError, match="larger than"):
        unpacked(bomb, "x")
    cut = base64.b64encode(gzip.compress(b"some text" * 100)[:-12]).decode()
    with pytest.raises(ComponentsError, match="too early"):
        unpacked(cut, "x")


@pytest.mark.parametrize(("size", "compressed"), [(10, False), (2**20 + 1, True)])
def test_downloads_as_config_maps(size: int, compressed: bool) -> None:
    owner = provider(INFRASTRUCTURE, "docker", "ns")
    files = Files("m", "c" * size)
    made = as_config_map(owner, "v1.12.0", files, oci="registry/x:v1")
    assert made["metadata"]["name"] == "infrastructure-docker-v1.12.0"
    assert made["metadata"]["labels"] == {
        "provider.cluster.x-k8s.io/type": "infrastructure",
        "provider.cluster.x-k8s.io/name": "docker",
        "provider.cluster.x-k8s.io/version": "v1.12.0",
        "provider.cluster.x-k8s.io/source": "oci",
        "managed-by.operator.cluster.x-k8s.io": "true",
    }
    annotations = made["metadata"]["annotations"]
    assert annotations["provider.cluster.x-k8s.io/source"] == "registry/x:v1"  # D-2: also when compressed
    assert ("provider.cluster.x-k8s.io/compressed" in annotations) is compressed
    assert ("binaryData" in made) is compressed
    assert made["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    assert read(made) == files
    assert of(made).default_version() == "v1.12.0"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        pytest.param("registry/image:v1.1.0", Reference("registry", "image", "v1.1.0"), id="OC1"),
        pytest.param("registry/image", Reference("registry", "image"), id="OC2"),
        pytest.param("registry:5050/image", Reference("registry:5050", "image"), id="OC3"),
        pytest.param("registry:5050/image:v1.1.0", Reference("registry:5050", "image", "v1.1.0"), id="OC4"),
        pytest.param("image", Reference("docker.io", "library/image"), id="OC5"),
        pytest.param(
            f"ghcr.io/a/b/c@sha256:{'0' * 64}", Reference("ghcr.io", "a/b/c", "", f"sha256:{'0' * 64}"), id="D-7"
        ),
        pytest.param("r/i:t@sha256:" + "1" * 64, Reference("r", "i", "t", "sha256:" + "1" * 64), id="tag and digest"),
    ],
)
def test_oci_references(url: str, found: Reference) -> None:
    assert parse(url) == found
    assert parse(f"http://{url}") == Reference(found.host, found.repository, found.tag, found.digest, plain=True)


@pytest.mark.parametrize("url", ["", "http://", "a b", "host/path:tag:tag", "host//x", "host/x@sha256:12"])
def test_no_oci_references(url: str) -> None:
    with pytest.raises(ComponentsError, match="OCI URL"):
        parse(url)


def chosen(**config: Any) -> object:
    return open_repository(provider(INFRASTRUCTURE, "docker", "ns", fetchConfig=config), {}, [], "")


PACKAGE = "api/v4/projects/group%2Fproject/packages/generic/package/v1.0.0/infrastructure-components.yaml"


def test_uf_which_place_a_url_means() -> None:
    github = chosen(url="https://github.com/o/r/releases/v1.0.0/infrastructure-components.yaml")
    assert isinstance(github, ReleaseRepository)
    assert github.default_version() == "v1.0.0"
    assert not github.private
    for host in ("gitlab.example.com", "gitlab-test.example.com"):
        gitlab = chosen(url=f"https://{host}/{PACKAGE}")
        assert isinstance(gitlab, GitLabRepository)
        assert gitlab.default_version() == "v1.0.0"
    # Any host that is laid out like GitHub's downloads: an internal mirror, say.
    assert isinstance(chosen(url="https://mirror.internal/o/r/releases/v1.0.0/c.yaml"), ReleaseRepository)
    assert isinstance(open_repository(provider(CORE), {}, [], ""), ReleaseRepository)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/o/r/releases/v1/x.yaml",
        "garbage",
        "https://github.com/o/r",
        "https://github.com/o/r/tags/v1/x.yaml",
        "https://gitlab.example.com/o/r/releases/v1/x.yaml",
        "file:///etc/passwd",
        "https://github.com/o/../releases/v1/x.yaml",
        "https://[github.com/o/r/releases/v1/x.yaml",
        "https://github.com:port/o/r/releases/v1/x.yaml",
        "https:///o/r/releases/v1/x.yaml",
        "https://:443/o/r/releases/v1/x.yaml",
        "https://user:s3cret@github.com/o/r/releases/v1/x.yaml",
    ],
)
def test_uf_what_is_refused(url: str) -> None:
    with pytest.raises(ComponentsError) as error:
        chosen(url=url)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    "url", ["https://github.com/o/r/releases/nightly/x.yaml", f"https://gitlab.com/{PACKAGE.replace('v1.0.0', 'main')}"]
)
def test_a_tag_that_is_no_version_is_nobodys_default(url: str) -> None:
    found = open_repository(provider(INFRASTRUCTURE, "docker", "ns", fetchConfig={"url": url}), {}, [], "")
    with pytest.raises(ComponentsError, match=r"set spec\.version"):
        found.default_version()


def test_folders_are_for_the_command_line_alone() -> None:
    made = provider(CORE, fetchConfig={"url": "file:///a/cluster-api/latest/core-components.yaml"})
    assert isinstance(open_repository(made, {}, [], "", local=True), FolderRepository)
    with pytest.raises(ComponentsError, match="only https and http"):
        open_repository(made, {}, [], "")


def test_what_own_credentials_or_cas_open_is_for_the_namespace_alone() -> None:
    def private(variables: dict[str, str], **config: str) -> bool:
        return open_repository(provider(CORE, fetchConfig=config), variables, [], "").private

    places = {"url": "https://host/o/r/releases/v1.0.0/x.yaml"}, {"url": f"https://host/{PACKAGE}"}, {"oci": "host/x"}
    for place, variable in zip(places, ("github-token", "gitlab-access-token", "OCI_PASSWORD"), strict=True):
        assert not private({}, **place)
        assert private({variable: "x"}, **place)
        assert private({"ca.crt": "x"}, **place)


@pytest.mark.parametrize(
    ("base", "token"),
    [
        ("https://github.com", "everybody's"),
        ("https://github.com:443", "everybody's"),
        ("https://mirror.internal", ""),
        ("https://github.com.mirror.internal", ""),
        ("http://github.com", ""),
        ("http://github.com:443", ""),
        ("https://github.com:8443", ""),
    ],
)
def test_everybodys_token_is_for_github_alone(monkeypatch: pytest.MonkeyPatch, base: str, token: str) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "everybody's")
    found = chosen(url=f"{base}/o/r/releases/v1.0.0/x.yaml")
    assert isinstance(found, ReleaseRepository)
    assert found.token == token


@pytest.mark.parametrize("path", ["o/r/releases/v1.0.0/x.yaml", PACKAGE])
def test_plain_http_gets_tokens_only_by_the_providers_own_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    configuration = tmp_path / "clusterctl.yaml"
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(configuration))
    variables = {"github-token": "mine", "gitlab-access-token": "mine"}
    for scheme, elsewhere in (("https", "mine"), ("http", "")):
        url = f"{scheme}://mirror.internal/{path}"
        configuration.write_text(f"providers: [{{name: cluster-api, type: CoreProvider, url: '{url}'}}]")
        named = open_repository(provider(CORE, fetchConfig={"url": url}), variables, [], "")
        listed = open_repository(provider(CORE), variables, [], "")
        assert isinstance(named, ReleaseRepository | GitLabRepository)
        assert isinstance(listed, ReleaseRepository | GitLabRepository)
        assert (named.token, listed.token) == ("mine", elsewhere)


def test_a_folder_is_for_the_command_line_alone() -> None:
    provider: Object = {"kind": "CoreProvider", "metadata": {"name": "cluster-api", "namespace": "x"}}
    provider["spec"] = {"fetchConfig": {"url": "file:///a/b/v1.0.0/c.yaml"}}
    with pytest.raises(ComponentsError, match=r"only https and http are supported; only `provider export` reads"):
        open_repository(provider, {}, (), "")
    assert open_repository(provider, {}, (), "", local=True).place == "file:///a/b/c.yaml"
