"""Attacks on credentials: the author of a ClusterStack or a provider names a Secret and a server of his choice."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from shared.api.provider import CORE
from shared.api.resources import CLUSTER_STACK, SECRET
from shared.clients import Clients
from shared.components.errors import ComponentsError
from shared.components.repositories import open_repository
from shared.components.repositories.gitlab import GitLabRepository
from shared.components.repositories.oci import OciRepository
from shared.components.repositories.releases import ReleaseRepository
from shared.download import SourceError
from shared.download.access import HOSTS, Access, hosts_of
from shared.download.registry import Registry
from shared.download.web import HttpSession
from shared.kube import Client, Key
from shared.releases.naming import ReleaseName
from shared.releases.source_resolution import resolve_source
from shared.releases.sources.urls import from_url
from tests.support import objects
from tests.support.http_server import HttpServer, Request, Response
from tests.support.provider_objects import provider

TOKEN = "t0ken-of-the-team"
TAG = ReleaseName.parse("test-stack-1-36-v1")


@pytest.fixture
def stranger() -> Iterator[HttpServer]:
    """A server that asks for credentials and records what it gets."""
    challenge = {"WWW-Authenticate": 'Basic realm="x"'}
    with HttpServer(lambda _request: Response(401, headers=challenge)) as server:
        yield server


def sent(server: HttpServer) -> list[str]:
    return [request.authorization for request in server.requests if request.authorization]


# -- ClusterStacks -------------------------------------------------------------------------------------------------


class Team:
    """A namespace with a Secret, and a ClusterStack that names it."""

    def __init__(self, clients: Clients, namespace: str) -> None:
        self._clients, self._namespace = clients, namespace
        self._client: Client = clients.management

    def secret(self, hosts: str | None, **data: str) -> None:
        secret = objects.secret("access", self._namespace, **(data or {"token": TOKEN}))
        if hosts is not None:
            secret["metadata"]["annotations"] = {HOSTS: hosts}
        self._client.apply(SECRET, secret, manager="user")

    def fetch(self, url: str) -> str:
        """Returns why the release cannot be fetched from the URL with the Secret."""
        spec = {
            "provider": TAG.provider,
            "name": TAG.name,
            "kubernetesVersion": "1.36",
            "noProvider": True,
            "sources": [{"url": url, "secretRef": {"name": "access"}}],
        }
        stack = objects.manifest(CLUSTER_STACK, "stack", self._namespace, spec=spec)
        version = self._client.apply(CLUSTER_STACK, stack, manager="user")["metadata"]["resourceVersion"]
        source = resolve_source(self._clients, self._namespace, TAG, since=version).source
        with pytest.raises(SourceError) as listed:
            source.list()
        with pytest.raises(SourceError) as fetched:
            list(source.fetch(TAG.tag))
        assert TOKEN not in f"{listed.value}{fetched.value}"
        return str(fetched.value)

    def remove(self) -> None:
        objects.remove(self._client, CLUSTER_STACK, Key(self._namespace, "stack"))


@pytest.fixture
def team(clients: Clients, namespace: str) -> Iterator[Team]:
    made = Team(clients, namespace)
    yield made
    made.remove()


@pytest.mark.parametrize("scheme", ["", "github+", "oci+"])
@pytest.mark.parametrize("hosts", [None, "", "github.com", "127.0.0.1", "x127.0.0.1:{port}", "127.0.0.1:{port}1"])
def test_secret_is_sent_to_no_host_that_it_does_not_name(
    team: Team, stranger: HttpServer, scheme: str, hosts: str | None
) -> None:
    team.secret(hosts and hosts.format(port=stranger.port))
    problem = team.fetch(f"{scheme}{stranger.url}/a/b")
    assert f"is not sent to {stranger.host}: add the host to its annotation {HOSTS}" in problem
    assert stranger.requests == []


@pytest.mark.parametrize("scheme", ["", "github+"])
def test_secret_is_sent_to_a_host_that_it_names(team: Team, stranger: HttpServer, scheme: str) -> None:
    team.secret(f"registry.example.com, {stranger.host}")
    assert "refuses access" in team.fetch(f"{scheme}{stranger.url}/a/b")
    assert set(sent(stranger)) == {f"Bearer {TOKEN}"}


def test_secret_without_hosts_is_sent_to_a_source_of_the_settings(
    team: Team, stranger: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEASE_SOURCE", f"/srv/releases {stranger.url}/common")
    team.secret(None)
    assert "refuses access" in team.fetch(f"{stranger.url}/of-the-team")
    assert sent(stranger)
    team.secret("registry.example.com")
    assert "is not sent to" in team.fetch(f"{stranger.url}/of-the-team")


def test_source_outside_the_allow_list_gets_no_request(
    team: Team, stranger: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEASE_ALLOWED_SOURCES", f"{stranger.url}/ours s3://bucket")
    team.secret(stranger.host)
    assert "is refused because RELEASE_ALLOWED_SOURCES does not list it" in team.fetch(f"{stranger.url}/theirs")
    team.secret(None, accessKeyId="key", secretAccessKey=TOKEN, endpoint=stranger.url)
    assert "is refused because RELEASE_ALLOWED_SOURCES" in team.fetch("s3://bucket/prefix")
    assert stranger.requests == []
    team.secret(stranger.host)
    assert "refuses access" in team.fetch(f"{stranger.url}/ours/stacks")


def test_secret_without_credentials_needs_no_hosts(team: Team, stranger: HttpServer) -> None:
    """Such as one with a CA alone; and a Secret with keys of a bucket names the endpoint itself."""
    team.secret(None, region="eu-1")
    assert "refuses access" in team.fetch(f"{stranger.url}/a/b")
    team.secret(None, accessKeyId="key", secretAccessKey=TOKEN, endpoint=stranger.url)
    assert "refuses access" in team.fetch("s3://bucket/prefix")
    assert TOKEN not in str([dict(request.headers) for request in stranger.requests])


@pytest.mark.parametrize(
    ("annotation", "hosts"),
    [
        (None, None),
        ("", set()),
        ("a.example", {"a.example"}),
        (" A.example,b:5000\n, c:443 ", {"a.example", "b:5000", "c"}),
        ("x " * 100_000, {"x"}),
    ],
)
def test_hosts_of_a_secret(annotation: str | None, hosts: set[str] | None) -> None:
    annotations = {} if annotation is None else {HOSTS: annotation}
    assert hosts_of({"metadata": {"annotations": annotations}}) == hosts
    assert hosts_of({"metadata": {}}) is None


# -- in the clear --------------------------------------------------------------------------------------------------

USER = Access(username="robot", password=TOKEN)


@pytest.mark.parametrize(
    ("url", "access"),
    [
        ("http://h.example/a", Access(token=TOKEN)),
        ("http://h.example/a", USER),
        ("github+http://h.example/a/b", Access(token=TOKEN)),
        ("oci+http://h.example/a", Access(token=TOKEN)),
        ("oci+http://10.0.0.1:5000/a", USER),
    ],
)
def test_credentials_are_not_sent_without_tls(url: str, access: Access) -> None:
    with pytest.raises(SourceError, match=r"http://.* would receive credentials without TLS") as caught:
        from_url(url, access).list()
    assert not caught.value.transient
    assert TOKEN not in str(caught.value)


def test_credentials_for_loopback_are_not_sent_to_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpServer(lambda _request: Response()) as proxy, HttpSession() as session:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(SourceError, match="without TLS"):
            session.get("http://127.0.0.1:1/a", f"Bearer {TOKEN}")
        assert proxy.requests == []


@pytest.mark.parametrize("location", ["http://localhost:{port}/b", "http://127.0.0.2:{port}/b", "//localhost:{port}/b"])
def test_credentials_do_not_follow_a_redirect_to_another_host(location: str) -> None:
    def answer(request: Request) -> Response:
        moved = Response(302, headers={"Location": location.format(port=elsewhere.port)})
        return moved if request.path == "/a" else Response(body=b"x")

    with HttpServer(answer, address="0.0.0.0") as elsewhere, HttpSession() as session:
        assert session.get(f"http://127.0.0.1:{elsewhere.port}/a", f"Bearer {TOKEN}").status == 200
    assert [request.authorization for request in elsewhere.requests] == [f"Bearer {TOKEN}", None]


def test_plain_registry_cannot_have_credentials_sent_to_a_server_of_its_choice(stranger: HttpServer) -> None:
    """Anybody on the way to it may change the challenge."""
    with pytest.raises(SourceError, match="would receive credentials without TLS"):
        Registry("h.example", "team/stacks", USER, plain=True)


# -- providers -----------------------------------------------------------------------------------------------------

PACKAGE = "api/v4/projects/1/packages/generic/package/v1.0.0/core-components.yaml"
VARIABLES = {"github-token": TOKEN, "gitlab-access-token": TOKEN, "OCI_USERNAME": "robot", "OCI_PASSWORD": TOKEN}
RELEASE = "o/r/releases/v1.0.0/core-components.yaml"


def opened(config: Mapping[str, Any], hosts: str | None = None) -> object:
    annotated = None if hosts is None else hosts_of({"metadata": {"annotations": {HOSTS: hosts}}})
    return open_repository(provider(CORE, fetchConfig=dict(config)), VARIABLES, [], "", hosts=annotated)


@pytest.mark.parametrize(
    ("url", "hosts", "token"),
    [
        ("https://github.com", None, TOKEN),
        ("https://github.com:443", None, TOKEN),
        ("https://evil.example", None, ""),
        ("https://github.com.evil.example", None, ""),
        ("https://github.com:8443", None, ""),
        ("https://git.example.com", "github.com git.example.com", TOKEN),
    ],
)
def test_github_token_is_for_github_and_the_hosts_of_its_secret(url: str, hosts: str | None, token: str) -> None:
    found = opened({"url": f"{url}/{RELEASE}"}, hosts)
    assert isinstance(found, ReleaseRepository)
    assert found.token == token


@pytest.mark.parametrize(
    "config",
    [
        {"url": f"https://evil.example/{RELEASE}"},
        {"url": f"https://gitlab.evil.example/{PACKAGE}"},
        {"oci": "evil.example/providers:v1.0.0"},
        {"oci": "evil.example:5000/providers:v1.0.0"},
    ],
)
def test_config_secret_is_sent_to_no_host_that_it_does_not_name(config: dict[str, str]) -> None:
    with pytest.raises(
        ComponentsError, match=f"is not sent to .*evil.example.*: add the host to its annotation {HOSTS}"
    ):
        opened(config, "github.com gitlab.com registry.example.com")


def test_config_secret_without_hosts_works_as_with_cluster_api_operator() -> None:
    gitlab = opened({"url": f"https://gitlab.example.com/{PACKAGE}"})
    registry = opened({"oci": "registry.example.com/providers:v1.0.0"})
    assert isinstance(gitlab, GitLabRepository)
    assert isinstance(registry, OciRepository)
    assert (gitlab.token, registry.access.password) == (TOKEN, TOKEN)


@pytest.mark.parametrize(
    "config",
    [
        {"url": f"http://gitlab.example.com/{PACKAGE}"},
        {"oci": "http://registry.example.com/providers:v1.0.0"},
        {"url": f"http://git.example.com/{RELEASE}"},
    ],
)
def test_credentials_of_a_provider_are_not_sent_without_tls(config: dict[str, str]) -> None:
    found: Any = opened(config, "gitlab.example.com registry.example.com git.example.com")
    with pytest.raises(SourceError, match="would receive credentials without TLS"):
        found.fetch("v1.0.0")


def test_basic_authentication_is_not_in_messages(stranger: HttpServer) -> None:
    with pytest.raises(SourceError) as caught:
        from_url(f"{stranger.url}/a", USER).list()
    assert sent(stranger) == [USER.basic]
    assert base64.b64encode(f"robot:{TOKEN}".encode()).decode() not in str(caught.value)
