"""Addresses that connections must not reach, checked when a name is resolved for the connection."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from shared import network
from shared.download import SourceError
from shared.download.web import HttpSession
from shared.kube import Unavailable, connect
from shared.kube.connect import KubeconfigError
from shared.network import ALLOWED, PLAIN_HTTP, Forbidden, check_host, origin
from tests.support.hostile import HostileServer, answering, kubeconfig, redirecting

METADATA = (
    *(
        "169.254.169.254",
        "169.254.169.254.",
        "169.254.170.2",
        "169.254.0.1",
        "169.254.169.254.",
        "2852039166",
        "0xa9fea9fe",
        "169.254.43518",
    ),
    *("::ffff:169.254.169.254", "[::ffff:a9fe:a9fe]", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"),
    *("fe80::1", "fe80::1%eth0", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
)
ELSEWHERE = (
    "127.0.0.1",
    "::1",
    "10.0.0.1",
    "192.168.1.1",
    "fd00::1",
    "8.8.8.8",
    "2001:db8::1",
    "metadata",
    "h.example",
)


@pytest.mark.parametrize("host", METADATA)
def test_metadata_addresses_are_refused(host: str) -> None:
    with pytest.raises(Forbidden, match="link-local or metadata"):
        check_host(host)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_other_addresses_are_allowed(host: str) -> None:
    check_host(host)


def test_setting_exempts_networks_from_the_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED, "169.254.7.0/24, fe80::/10")
    check_host("169.254.7.1")
    check_host("fe80::1")
    with pytest.raises(Forbidden):
        check_host("169.254.169.254")


@pytest.mark.parametrize("networks", ["169.254.0.0/99", "10.0.0.0/8 metadata"])
def test_invalid_networks_setting_is_named_in_refusals(networks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED, networks)
    wrong = f"{ALLOWED} is ignored: '{networks.split()[-1]}' is not a network"
    with pytest.raises(Forbidden, match=wrong):
        check_host("169.254.169.254")
    with pytest.raises(KubeconfigError, match=wrong):
        connect.workload(kubeconfig("http://169.254.169.254"))
    _answers(monkeypatch, "169.254.169.254")
    with pytest.raises(Unavailable, match=wrong):
        connect.workload(kubeconfig("https://rebinds.example")).text("/readyz")


@pytest.mark.parametrize("host", ["169.254.169.254", "2852039166", "%31%36%39.254.169.254", "[fd00:ec2::254]"])
def test_kubeconfig_with_metadata_address_is_refused(host: str) -> None:
    with pytest.raises(KubeconfigError, match="metadata address"):
        connect.workload(kubeconfig(f"http://{host}/latest"))


def _answers(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """A resolver with one hostile zone: each lookup of its name returns the next answer."""
    real, left = socket.getaddrinfo, list(answers)

    def lookup(host: str, port: int, *args: Any, **options: Any) -> Any:
        if host != "rebinds.example":
            return real(host, port, *args, **options)
        return real(left.pop(0), port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    return left


def test_addresses_of_a_name_are_checked_at_each_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checked address is the one that is connected to, so a changed answer cannot bypass the check."""
    monkeypatch.setenv(PLAIN_HTTP, "true")
    with HostileServer(answering(b"{}", "200 OK", "Connection: close")) as server:
        left = _answers(monkeypatch, "127.0.0.1", "169.254.169.254")
        client = connect.workload(kubeconfig(server.url.replace("127.0.0.1", "rebinds.example")))
        client.request("GET", "/version")
        client.close()
        with pytest.raises(Unavailable, match=r"169\.254\.169\.254 is a link-local or metadata address"):
            client.text("/version")
        assert left == []
        assert len(server.seen) == 1


def test_proxy_of_a_kubeconfig_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, "169.254.169.254")
    client = connect.workload(kubeconfig("https://h.example", **{"proxy-url": "http://rebinds.example:3128"}))
    with pytest.raises(Unavailable, match="metadata address"):
        client.text("/readyz")


def test_sources_and_their_redirects_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, "fd00:ec2::254")
    with HostileServer(redirecting("http://rebinds.example/latest")) as server, HttpSession() as session:
        with pytest.raises(SourceError, match=r"http://rebinds\.example/latest is refused") as caught:
            session.get(server.url)
        assert not caught.value.transient


def test_management_cluster_may_have_any_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_check", lambda _address: pytest.fail("it was judged"))
    with HostileServer(answering(b"{}")) as server:
        manager = network.manager(anywhere=True)
        assert manager.request("GET", server.url).status == 200
        manager.clear()


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://h.example", ("http", "h.example", 80)),
        ("HTTPS://H.example:8443/a?b#c", ("https", "h.example", 8443)),
        ("https://user:word@h.example/@x", ("https", "h.example", 443)),
        ("https://[::1]:6443/", ("https", "::1", 6443)),
        ("http://10.0.0.1/a%5Cb", ("http", "10.0.0.1", 80)),
    ],
)
def test_origin_is_the_target_of_requests(url: str, found: tuple[str, str, int]) -> None:
    assert origin(url) == found


AMBIGUOUS = (
    *("http://169.254.169.254\\@h.example/", "http://169.254.169.254\\.h.example/", "http://h.example/a\\b"),
    *("http://h.example\t/", "http://h.exa\nmple/", "http://h.example /", "http://h.example/\u2028", "http://%e4.h/"),
)


@pytest.mark.parametrize(
    "url", [*AMBIGUOUS, "", "h:1", "ftp://h/", "http://", "http://h:x/", "http://h:0/", "http://["]
)
def test_ambiguous_url_has_no_origin(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of whatever kind
        origin(url)


@pytest.mark.parametrize("field", ["server", "proxy-url"])
@pytest.mark.parametrize("url", AMBIGUOUS)
def test_kubeconfig_with_ambiguous_url_is_refused(url: str, field: str) -> None:
    fields = {"proxy-url": url} if field == "proxy-url" else {}
    with pytest.raises(KubeconfigError, match=f"kubeconfig {field} is not an http"):
        connect.workload(kubeconfig("http://h.example" if fields else url, **fields))


@pytest.mark.parametrize("host", ["169.254.169.254\\@{}", "{}\\@127.0.0.1:1"])
def test_redirect_cannot_hide_its_host_from_the_check(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with HostileServer(answering(b"{}")) as proxy, HttpSession() as session:
        address = proxy.url.partition("://")[2]
        with HostileServer(redirecting(f"http://{host.format(address)}/latest")) as server:
            monkeypatch.setenv("http_proxy", proxy.url)
            monkeypatch.setenv("no_proxy", "127.0.0.1")
            with pytest.raises(SourceError, match=r"which is refused") as caught:
                session.get(server.url, "Bearer t0ken")
        assert not caught.value.transient
        assert proxy.seen == []


def test_source_with_ambiguous_url_is_refused_permanently() -> None:
    with HttpSession() as session, pytest.raises(SourceError, match=r"is not an http\(s\) URL") as caught:
        session.get("http://127.0.0.1:1\\@h.example/", "Bearer t0ken")
    assert not caught.value.transient
