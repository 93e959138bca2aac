"""Attacks by addresses: whoever writes a kubeconfig or a source makes functions send requests to a neighbour."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from shared.download import SourceError
from shared.download.web import HttpSession
from shared.kube import Unavailable, connect
from shared.kube.connect import KubeconfigError
from shared.network import ALLOWED, PLAIN_HTTP, REFUSED, Forbidden, check_host
from tests.support.hostile import HostileServer, answering, kubeconfig, redirecting

TOKEN = {"token": "of-the-author"}


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions run in a pod."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns a function that makes `rebinds.example` resolve to one address after the other, and to the last again."""
    real = socket.getaddrinfo

    def answer(*addresses: str) -> None:
        left = list(addresses)

        def lookup(host: str, port: int, *args: Any, **options: Any) -> Any:
            if host == "rebinds.example":
                host = left.pop(0) if len(left) > 1 else left[0]
            return real(host, port, *args, **options)

        monkeypatch.setattr(socket, "getaddrinfo", lookup)

    return answer


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/internal/admin/delete?x=",
            "/internal/admin/delete#",
            "?x=",
            "#x",
            "/a?",
            "/a/../b",
            "/..",
            "/./a",
            "/.git",
        ),
        *(
            "//a",
            "/a//b",
            "/a%2fb",
            "/%2e%2e/a",
            "/a%3Fx=",
            "/a%20b",
            "/a;b",
            "/a&b",
            "/a=b",
            "/ä",
            "/" * 100_000 + "?",
        ),
    ],
)
def test_server_of_a_kubeconfig_cannot_choose_the_request(path: str) -> None:
    with HostileServer(answering(b"{}")) as neighbour:
        with pytest.raises(KubeconfigError, match="kubeconfig server") as caught:
            connect.workload(kubeconfig(neighbour.url + path, TOKEN)).request("DELETE", "/api/v1/namespaces/x")
        assert neighbour.seen == []
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("userinfo", ["u:p@", "u@", "127.0.0.1:1@"])
def test_server_of_a_kubeconfig_has_no_userinfo(userinfo: str) -> None:
    with HostileServer(answering(b"{}")) as neighbour:
        with pytest.raises(KubeconfigError, match="server contains credentials"):
            connect.workload(kubeconfig(neighbour.url.replace("://", f"://{userinfo}"), TOKEN))
        assert neighbour.seen == []


@pytest.mark.parametrize(
    "path", ["", "/", "/k8s/clusters/c-m-x1", "/k8s/clusters/x/", "/clusters/root:org", "/a.b_c~d"]
)
def test_path_prefix_of_a_proxy_is_kept(path: str) -> None:
    with HostileServer(answering(b"{}")) as proxy:
        client = connect.workload(kubeconfig(proxy.url + path, TOKEN))
        client.request("GET", "/version")
        client.close()
        assert proxy.seen == [f"GET {path.rstrip('/')}/version HTTP/1.1"]


LOOPBACK = (
    *("127.0.0.1", "127.9.9.9", "2130706433", "0x7f000001", "127.1", "localhost", "x.localhost.", "[::1]"),
    *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::1]"),
    "[::127.0.0.1]",
)
NOWHERE = ("0.0.0.0", "0", "0.1.2.3", "[::]", "[::ffff:0.0.0.0]", "224.0.0.1", "239.1.1.1", "[ff02::1]")


@pytest.mark.usefixtures("pod")
@pytest.mark.parametrize("host", [*LOOPBACK, *NOWHERE])
def test_loopback_of_a_pod_is_refused_in_any_notation(host: str) -> None:
    with pytest.raises(Forbidden):
        check_host(host)
    with pytest.raises(KubeconfigError, match="which is refused"):
        connect.workload(kubeconfig(f"https://{host}:6443", TOKEN))
    with HttpSession() as session, pytest.raises(SourceError, match="refused"):
        session.get(f"https://{host}/")


@pytest.mark.parametrize("host", NOWHERE)
def test_addresses_of_no_server_are_refused_everywhere(host: str) -> None:
    """Linux connects 0.0.0.0 to loopback."""
    with pytest.raises(Forbidden):
        check_host(host)


@pytest.mark.parametrize("host", LOOPBACK)
def test_local_run_may_use_loopback(host: str) -> None:
    check_host(host)


@pytest.mark.usefixtures("pod")
def test_name_that_resolves_to_loopback_is_refused_in_a_pod(resolve: Callable[..., None]) -> None:
    with HostileServer(answering(b"{}"), tls=True) as neighbour:
        server = neighbour.url.replace("127.0.0.1", "rebinds.example")
        for address in ("127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1"):
            resolve(address)
            with pytest.raises(Unavailable, match="which is refused"):
                connect.workload(kubeconfig(server, TOKEN)).request("GET", "/version")
        with HttpSession() as session, pytest.raises(SourceError, match="which is refused"):
            session.get(server)
        assert neighbour.seen == []


@pytest.mark.usefixtures("pod")
def test_proxy_of_a_kubeconfig_cannot_be_loopback_of_a_pod(resolve: Callable[..., None]) -> None:
    with HostileServer(answering(b"{}")) as neighbour:
        resolve("127.0.0.1")
        for host in ("127.0.0.1", "rebinds.example"):
            proxy = neighbour.url.replace("127.0.0.1", host)
            with pytest.raises(Unavailable, match="a loopback address of this pod"):
                connect.workload(kubeconfig("https://h.example", TOKEN, **{"proxy-url": proxy})).request("GET", "/x")
        assert neighbour.seen == []


@pytest.mark.parametrize("rest", ["/admin/delete", "?x=", "/?x", "#x", "//"])
def test_proxy_of_a_kubeconfig_is_host_and_port_alone(rest: str) -> None:
    with pytest.raises(KubeconfigError, match="proxy-url has more than a host and a port"):
        connect.workload(kubeconfig("https://h.example", TOKEN, **{"proxy-url": f"http://p:3128{rest}"}))


@pytest.mark.parametrize("name", ["a b", "a/b", "a\nb", "ä", "x" * 300, "a@b"])
def test_server_name_of_a_kubeconfig_is_a_host_name(name: str) -> None:
    with pytest.raises(KubeconfigError, match="tls-server-name is not a host name"):
        connect.workload(kubeconfig("https://h.example", TOKEN, **{"tls-server-name": name}))


def test_kubeconfig_without_tls_needs_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    with HostileServer(answering(b"{}")) as proxy:
        plain = kubeconfig("http://h.example", TOKEN)
        through_proxy = kubeconfig("http://127.0.0.1:1", TOKEN, **{"proxy-url": proxy.url})
        for content in (plain, through_proxy):
            with pytest.raises(KubeconfigError, match=f"without TLS: use https:, or set {PLAIN_HTTP} to true"):
                connect.workload(content)
        monkeypatch.setenv(PLAIN_HTTP, "true")
        client = connect.workload(through_proxy)
        client.request("GET", "/version")
        client.close()
        assert len(proxy.seen) == 1


@pytest.mark.parametrize("refused", ["127.0.0.0/8", "10.0.0.0/8, 127.0.0.1/32", "0.0.0.0/0 ::/0"])
def test_refused_networks_hold_for_every_connection(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with HostileServer(answering(b"{}")) as neighbour:
        monkeypatch.setenv(REFUSED, refused)
        with pytest.raises(KubeconfigError, match=f"in a network of {REFUSED}, which is refused"):
            connect.workload(kubeconfig(neighbour.url))
        with HttpSession() as session, pytest.raises(SourceError, match=REFUSED):
            session.get(neighbour.url)
        with pytest.raises(Forbidden):
            check_host("::ffff:127.0.0.1")
        monkeypatch.setenv(ALLOWED, "127.0.0.1/32")
        client = connect.workload(kubeconfig(neighbour.url))
        client.request("GET", "/version")
        client.close()
        assert len(neighbour.seen) == 1


def test_redirect_into_a_refused_network_is_not_followed(
    resolve: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REFUSED, "10.0.0.0/8")
    resolve("10.1.2.3")
    for target in ("http://rebinds.example/", "http://10.1.2.3/", "http://[::ffff:10.1.2.3]/", "http://167838211/"):
        refused = pytest.raises(SourceError, match=f"in a network of {REFUSED}")
        with HostileServer(redirecting(target)) as source, HttpSession() as session, refused:
            session.get(source.url)


def test_invalid_list_of_refused_networks_refuses_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REFUSED, "10.0.0.0/8 10.0.0.0/99")
    with pytest.raises(Forbidden, match=f"{REFUSED} is invalid: '10.0.0.0/99' is not a network"):
        check_host("8.8.8.8")
