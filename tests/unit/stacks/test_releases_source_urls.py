"""Which sources URLs and settings select, and the access that a Secret gives."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from shared.download import SourceError
from shared.download.access import Access, from_secret
from shared.download.github import GitHubReleases
from shared.releases.sources import Source
from shared.releases.sources.folder import FolderSource
from shared.releases.sources.http import HttpSource
from shared.releases.sources.oci import OciSource
from shared.releases.sources.s3 import S3Source
from shared.releases.sources.urls import SourceChain, from_env, from_url

GITHUB = "https://api.github.com"

URLS: dict[str, Source] = {
    "file:///srv/releases": FolderSource(Path("/srv/releases")),
    "file://localhost/srv": FolderSource(Path("/srv")),
    "file:/srv": FolderSource(Path("/srv")),
    "file:///with%20space": FolderSource(Path("/with space")),
    Path("/a b/ü").as_uri(): FolderSource(Path("/a b/ü")),
    "/srv/rele%20ases?#": FolderSource(Path("/srv/rele%20ases?#")),
    "relative/path": FolderSource(Path("relative/path")),
    "./a:b": FolderSource(Path("./a:b")),
    "https://host/releases/": HttpSource("https://host/releases"),
    "http://host:8080": HttpSource("http://host:8080"),
    "http://[::1]:8080/x": HttpSource("http://[::1]:8080/x"),
    "github://github.com/org/repo": GitHubReleases(GITHUB, "org", "repo"),
    "github://GitHub.com/org/repo/": GitHubReleases(GITHUB, "org", "repo"),
    "github://git.example.com/org/a.b_c": GitHubReleases("https://git.example.com/api/v3", "org", "a.b_c"),
    "github+http://localhost:99/org/repo": GitHubReleases("http://localhost:99/api/v3", "org", "repo"),
    "oci://registry:5000/a/b": OciSource("registry:5000", "a/b"),
    "oci+http://registry/a": OciSource("registry", "a", plain=True),
    "OCI://registry/a": OciSource("registry", "a"),
    "s3://bucket": S3Source("bucket", "", ambient=True),
    "s3://bucket/some/prefix/": S3Source("bucket", "some/prefix", ambient=True),
}


@pytest.mark.parametrize("url", URLS)
def test_url_selects_the_source(url: str) -> None:
    assert from_url(url) == from_env({"RELEASE_SOURCE": url}) == URLS[url]


@pytest.mark.parametrize(
    "url",
    [
        *("", "file://token/x", "file:", "ftp://h/token", "github:org/token", "javascript:token"),
        *("https://h/x?token", "https://h/x#token", "https:///token", "https://u:token@h/x", "https://token@h"),
        *("https://h token/x", "https://[::1/token", "https://h:port/token", "https://token\r\nx: y/"),
        *("github://h/token", "github://h/org/repo/token", "github://h/../token", "github://token@h/org/repo"),
        *("oci://registry", "oci://u:token@registry/repo", "s3://", "s3:///token", "s3://u:token@bucket/x"),
    ],
)
def test_unusable_url_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(SourceError, match="must be a path or one of") as caught:
        from_url(url)
    assert "token" not in str(caught.value)
    assert not caught.value.transient


@pytest.mark.parametrize("url", ["/srv", "file:///srv", "relative", ".", ""])
def test_folder_is_refused_in_urls_of_users(url: str) -> None:
    with pytest.raises(SourceError, match="only the setting RELEASE_SOURCE may name a folder"):
        from_url(url, local=False)


def test_bucket_of_a_user_is_opened_without_ambient_credentials() -> None:
    assert from_url("s3://bucket", local=False) == S3Source("bucket", "", ambient=False)


def _oci_token(token: str) -> Access:
    return Access(token=base64.b64encode(token.encode()).decode())


USER = {"OCI_USERNAME": "u", "OCI_PASSWORD": "p"}
ENVIRONMENTS: list[tuple[dict[str, str], Source]] = [
    (
        {"RELEASE_SOURCE": " /a\n\tgithub://github.com/o/r  oci://h/r ", "GIT_ACCESS_TOKEN": "t", **USER},
        SourceChain(
            (
                FolderSource(Path("/a")),
                GitHubReleases(GITHUB, "o", "r", Access(token="t")),
                OciSource("h", "r", Access(username="u", password="p")),
            )
        ),
    ),
    (
        {
            "RELEASE_SOURCE": "oci://a/x oci://b/x oci://A/y github://a/o/r https://a/x",
            "OCI_ACCESS_TOKEN": "t",
        },
        SourceChain(
            (
                OciSource("a", "x", _oci_token("t")),
                OciSource("b", "x"),
                OciSource("A", "y", _oci_token("t")),
                GitHubReleases("https://a/api/v3", "o", "r"),
                HttpSource("https://a/x"),
            )
        ),
    ),
    (
        {"GIT_PROVIDER": "github", "GIT_ORG_NAME": "o", "GIT_REPOSITORY_NAME": "r", "GIT_ACCESS_TOKEN": "t"},
        GitHubReleases(GITHUB, "o", "r", Access(token="t")),
    ),
    ({"OCI_REGISTRY": "h", "OCI_REPOSITORY": "a/b", **USER}, OciSource("h", "a/b", Access(username="u", password="p"))),
    ({"OCI_REGISTRY": "h", "OCI_REPOSITORY": "h/a/b"}, OciSource("h", "a/b")),
    (
        {"GIT_ORG_NAME": "o", "GIT_REPOSITORY_NAME": "r", "OCI_REGISTRY": "h", "OCI_REPOSITORY": "r"},
        GitHubReleases(GITHUB, "o", "r"),
    ),
    ({"RELEASE_SOURCE": "/a", "GIT_ORG_NAME": "o", "GIT_REPOSITORY_NAME": "r"}, FolderSource(Path("/a"))),
]


@pytest.mark.parametrize(("env", "source"), ENVIRONMENTS)
def test_settings_select_sources_and_their_credentials(env: dict[str, str], source: Source) -> None:
    assert from_env(env) == source


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({}, "RELEASE_SOURCE is not set"),
        ({"RELEASE_SOURCE": " "}, "RELEASE_SOURCE is not set"),
        ({"GIT_ORG_NAME": "o"}, "RELEASE_SOURCE is not set"),
        ({"GIT_PROVIDER": "gitlab", "GIT_ORG_NAME": "o", "GIT_REPOSITORY_NAME": "r"}, "only github is supported"),
    ],
)
def test_settings_without_a_source_are_an_error(env: dict[str, str], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        from_env(env)


def _secret(**data: str) -> dict[str, object]:
    encoded = {name.replace("_", "."): base64.b64encode(value.encode()).decode() for name, value in data.items()}
    return {"metadata": {"namespace": "ns", "name": "s"}, "data": encoded}


def test_secret_gives_access() -> None:
    access = from_secret(_secret(token="t0ken\n", ca_crt="PEM\nPEM\n", endpoint="https://s3", other="x"))
    assert access == Access(token="t0ken", ca="PEM\nPEM", endpoint="https://s3")
    assert "t0ken" not in repr(access)
    assert from_secret(_secret(username="u", password="p")).authorization == "Basic dTpw"
    assert from_secret(_secret(accessKeyId="a", secretAccessKey="s", region="r")) == Access(
        access_key="a", secret_key="s", region="r"
    )


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        (_secret(tokne="t0ken"), "Secret ns/s has none of the keys token, "),
        ({"metadata": {"namespace": "ns", "name": "s"}}, "has none of the keys"),
        ({"metadata": {"namespace": "ns", "name": "s"}, "data": {"token": "/w=="}}, "Secret ns/s: token is not text"),
        (
            _secret(token="t0ken", ca_crt="x") | {"type": "kubernetes.io/service-account-token"},
            "Secret ns/s has the type kubernetes.io/service-account-token: use a Secret of type Opaque or",
        ),
        (_secret(token="t0ken\r\nx: y"), "Secret ns/s: token is more than one line"),
    ],
)
def test_unusable_secret_is_refused_without_quoting_it(secret: dict[str, object], message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        from_secret(secret)
    assert "t0ken" not in str(caught.value)
