"""Which repository `spec.fetchConfig` or the catalog selects. Numbers are those of the acceptance list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.api.provider import CORE, INFRASTRUCTURE
from shared.components.errors import ComponentsError
from shared.components.repositories import open_repository
from shared.components.repositories.folder import FolderRepository
from shared.components.repositories.gitlab import GitLabRepository
from shared.components.repositories.oci import ArtifactReference, parse
from shared.components.repositories.releases import ReleaseRepository
from tests.support.provider_objects import provider


@pytest.mark.parametrize(
    ("url", "found"),
    [
        pytest.param("registry/image:v1.1.0", ArtifactReference("registry", "image", "v1.1.0"), id="OC1"),
        pytest.param("registry/image", ArtifactReference("registry", "image"), id="OC2"),
        pytest.param("registry:5050/image", ArtifactReference("registry:5050", "image"), id="OC3"),
        pytest.param("registry:5050/image:v1.1.0", ArtifactReference("registry:5050", "image", "v1.1.0"), id="OC4"),
        pytest.param("image", ArtifactReference("docker.io", "library/image"), id="OC5"),
        pytest.param(
            f"ghcr.io/a/b/c@sha256:{'0' * 64}",
            ArtifactReference("ghcr.io", "a/b/c", "", f"sha256:{'0' * 64}"),
            id="D-7",
        ),
        pytest.param(
            "r/i:t@sha256:" + "1" * 64, ArtifactReference("r", "i", "t", "sha256:" + "1" * 64), id="tag and digest"
        ),
    ],
)
def test_oci_url_is_parsed_into_host_repository_tag_and_digest(url: str, found: ArtifactReference) -> None:
    assert parse(url) == found
    assert parse(f"http://{url}") == ArtifactReference(
        found.host, found.repository, found.tag, found.digest, plain=True
    )


@pytest.mark.parametrize("url", ["", "http://", "a b", "host/path:tag:tag", "host//x", "host/x@sha256:12"])
def test_invalid_oci_url_is_refused(url: str) -> None:
    with pytest.raises(ComponentsError, match="OCI URL"):
        parse(url)


def chosen(**config: Any) -> object:
    return open_repository(provider(INFRASTRUCTURE, "docker", "ns", fetchConfig=config), {}, [], "")


PACKAGE = "api/v4/projects/group%2Fproject/packages/generic/package/v1.0.0/infrastructure-components.yaml"


def test_uf_url_selects_the_type_of_repository() -> None:
    github = chosen(url="https://github.com/o/r/releases/v1.0.0/infrastructure-components.yaml")
    assert isinstance(github, ReleaseRepository)
    assert github.default_version() == "v1.0.0"
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
def test_uf_unusable_url_is_refused_without_quoting_credentials(url: str) -> None:
    with pytest.raises(ComponentsError) as error:
        chosen(url=url)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    "url", ["https://github.com/o/r/releases/nightly/x.yaml", f"https://gitlab.com/{PACKAGE.replace('v1.0.0', 'main')}"]
)
def test_tag_that_is_no_version_has_no_default_version(url: str) -> None:
    found = open_repository(provider(INFRASTRUCTURE, "docker", "ns", fetchConfig={"url": url}), {}, [], "")
    with pytest.raises(ComponentsError, match=r"set spec\.version"):
        found.default_version()


def test_file_url_is_refused_unless_local() -> None:
    for url, place in (
        ("file:///a/cluster-api/latest/core-components.yaml", "file:///a/cluster-api/core-components.yaml"),
        ("file:///a/b/v1.0.0/c.yaml", "file:///a/b/c.yaml"),
    ):
        made = provider(CORE, fetchConfig={"url": url})
        found = open_repository(made, {}, [], "", local=True)
        assert isinstance(found, FolderRepository)
        assert found.place == place
        with pytest.raises(ComponentsError, match=r"only https and http are supported; only `provider export` reads"):
            open_repository(made, {}, [], "")


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
def test_token_of_the_installation_is_sent_to_github_alone(
    monkeypatch: pytest.MonkeyPatch, base: str, token: str
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "everybody's")
    found = chosen(url=f"{base}/o/r/releases/v1.0.0/x.yaml")
    assert isinstance(found, ReleaseRepository)
    assert found.token == token


@pytest.mark.parametrize("path", ["o/r/releases/v1.0.0/x.yaml", PACKAGE])
@pytest.mark.parametrize(("scheme", "token"), [("https", "mine"), ("http", "")])
def test_tokens_go_to_a_host_of_the_catalog_with_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, scheme: str, token: str
) -> None:
    configuration = tmp_path / "clusterctl.yaml"
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(configuration))
    url = f"{scheme}://mirror.internal/{path}"
    configuration.write_text(f"providers: [{{name: cluster-api, type: CoreProvider, url: '{url}'}}]")
    listed = open_repository(provider(CORE), {"github-token": "mine", "gitlab-access-token": "mine"}, [], "")
    assert isinstance(listed, ReleaseRepository | GitLabRepository)
    assert listed.token == token
