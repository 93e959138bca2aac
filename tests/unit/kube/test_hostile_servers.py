"""A hostile workload API server can exhaust the limits of one request, and nothing else."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.addons.labelled import labelled_entries
from shared.api.resources import CONFIG_MAP
from shared.clients import ClusterClients
from shared.kube import ApiError, Client, Unavailable, connect, discovery
from shared.kube.crds import await_all_established
from shared.kube.discovery import Discovery
from shared.kube.errors import Silent, TooLarge
from shared.kube.transport import LIST_LIMITS, ListLimits, ResponseLimits
from tests.support.hostile import (
    Behaviour,
    HostileServer,
    answering,
    continuing,
    dripping,
    dripping_headers,
    flooding,
    hanging,
    kubeconfig,
    paths,
    redirecting,
)
from tests.support.releases import config_map
from tests.support.until import HANGS

SOON = ResponseLimits(0.4, 1 << 20)


def client(server: HostileServer, limits: ResponseLimits = SOON) -> Client:
    ca = {"certificate-authority-data": base64.b64encode(server.ca).decode()} if server.ca else {}
    made = connect.workload(kubeconfig(server.url, **ca))
    made._transport.limits = limits
    return made


def ended(call: Callable[[], object]) -> object:
    """Returns the outcome of a call that only ends because of a limit."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(timeout=HANGS)


def test_request_that_used_up_its_time_is_not_repeated() -> None:
    """Three attempts of a read at 30 s each would hold the function for longer than the forwarder waits."""
    with HostileServer(dripping) as server:
        made = client(server)
        with pytest.raises(Unavailable, match="no answer in time"):
            ended(lambda: made.request("GET", "/version"))
        assert len(server.seen) == 1


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("behaviour", [dripping, dripping_headers, continuing, hanging])
def test_slow_response_ends_at_the_deadline(behaviour: Behaviour, tls: bool) -> None:
    """Each byte arrives in time, so that a read timeout alone would never expire."""
    with HostileServer(behaviour, tls=tls) as server, pytest.raises(Unavailable, match="no answer in time"):
        ended(lambda: client(server).request("GET", "/version"))
    with HostileServer(behaviour, tls=tls) as server, pytest.raises(Unavailable, match="no answer in time"):
        ended(lambda: client(server).text("/readyz", timeout=0.4))


@pytest.mark.parametrize("body", [b"{}", b'{"gitVersion": 1}', b'{"gitVersion": ""}'])
def test_missing_version_is_an_error_of_the_server(body: bytes) -> None:
    with HostileServer(answering(body)) as server, pytest.raises(Unavailable, match="has no gitVersion"):
        client(server, ResponseLimits(30.0, 1 << 20)).version()


@pytest.mark.parametrize("tls", [False, True])
def test_endless_response_is_cut_off_and_not_retried(tls: bool) -> None:
    with HostileServer(flooding, tls=tls) as server:
        with pytest.raises(TooLarge, match="larger than 1 MiB"):
            ended(lambda: client(server, ResponseLimits(30.0, 1 << 20)).request("GET", "/version"))
        assert len(server.seen) == 1  # it is not asked again, either
        assert server.sent < 16 << 20


def test_response_with_too_many_values_is_not_parsed() -> None:
    body = b'{"items":[' + b"[]," * 2_000_000 + b"[]]}"
    with HostileServer(answering(body)) as server, pytest.raises(TooLarge, match="memory"):
        client(server, ResponseLimits(30.0, 64 << 20)).request("GET", "/version")


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b"[]", b"5"])
def test_response_without_object_is_an_error_of_the_server(body: bytes) -> None:
    with HostileServer(answering(body)) as server, pytest.raises(Unavailable, match="is this an API server"):
        client(server).request("GET", "/version")


@pytest.mark.parametrize(
    "page",
    [
        {"items": 5},
        {"items": [5]},
        {"items": {"a": {}}},
        {"items": [], "metadata": None},
        {"items": [], "metadata": 5},
        {"items": [], "metadata": {"continue": {"a": 1}}},
    ],
)
def test_invalid_list_is_an_error_of_the_server(page: object) -> None:
    answer = answering(json.dumps(page).encode())
    with HostileServer(answer) as server, pytest.raises(Unavailable, match="is not a list"):
        list(client(server).list(CONFIG_MAP))


@pytest.mark.parametrize(
    "answer",
    [
        {"kind": "APIGroupDiscoveryList", "items": 5},
        {"kind": "APIGroupDiscoveryList", "items": [{"versions": [{"resources": [7]}]}]},
        {"groups": [{"versions": 5}]},
        {"versions": 5},
    ],
)
def test_invalid_discovery_is_an_error_of_the_server(answer: object) -> None:
    body = json.dumps(answer).encode()
    with HostileServer(answering(body)) as server, pytest.raises(Unavailable, match="discovery"):
        Discovery(client(server, ResponseLimits(5.0, 1 << 20))).served()


def many_kinds(path: str, closing: threading.Event) -> Iterator[bytes]:
    """Names kinds without end, each group version with others, as servers before 1.26 do it."""
    if path == "/apis":
        groups: object = {"groups": [{"name": f"g{n}", "versions": [{"version": "v1"}]} for n in range(1000)]}
        return answering(json.dumps(groups).encode())(path, closing)
    kinds = [{"name": f"k{n}", "kind": f"K{n}", "namespaced": True} for n in range(4000)]
    return answering(json.dumps({"resources": kinds}).encode())(path, closing)


def test_number_of_kinds_is_limited() -> None:
    with HostileServer(many_kinds) as server, pytest.raises(Unavailable, match="more than 10000 kinds"):
        Discovery(client(server, ResponseLimits(30.0, 1 << 20))).served()
    assert len(server.seen) < 10


def test_kinds_are_shared_in_memory_and_dropped_with_their_last_server() -> None:
    def answer(kind: str) -> Behaviour:
        kinds = [{"resource": "k", "responseKind": {"kind": kind}, "scope": "Namespaced"}]
        groups = [{"metadata": {"name": "g"}, "versions": [{"version": "v1", "resources": kinds}]}]
        return answering(json.dumps({"kind": "APIGroupDiscoveryList", "items": groups}).encode())

    with HostileServer(answer("Shared")) as server:
        first, second = (Discovery(client(server, ResponseLimits(5.0, 1 << 20))) for _ in range(2))
        assert first.served() is second.served()
        before = len(discovery._SHARED)
        server.behaviour = answer("Other")
        for each in (first, second):
            each.invalidate()
            each.served()
        assert len(discovery._SHARED) == before
        del first, second, each
        assert len(discovery._SHARED) < before


def test_length_of_the_name_of_a_kind_is_limited() -> None:
    kinds = [{"resource": "k", "responseKind": {"kind": "K" * 254}, "scope": "Namespaced"}]
    groups = [{"metadata": {"name": "g"}, "versions": [{"version": "v1", "resources": kinds}]}]
    body = json.dumps({"kind": "APIGroupDiscoveryList", "items": groups}).encode()
    with HostileServer(answering(body)) as server, pytest.raises(Unavailable, match="more than 253 characters"):
        Discovery(client(server, ResponseLimits(5.0, 1 << 20))).served()


def test_oversized_list_is_read_in_smaller_pages() -> None:
    items = [{"metadata": {"name": f"m{number}"}, "data": {"x": "x" * 1000}} for number in range(20)]
    asked: list[int] = []

    def listing(path: str, closing: threading.Event) -> object:
        query = dict(pair.split("=") for pair in server.seen[-1].split(" ")[1].partition("?")[2].split("&"))
        asked.append(int(query["limit"]))
        start = int(query.get("continue", 0))
        end = start + int(query["limit"])
        page = {"metadata": {"continue": str(end) if end < len(items) else ""}, "items": items[start:end]}
        return answering(json.dumps(page).encode())(path, closing)

    with HostileServer(listing) as server:
        found = list(client(server, ResponseLimits(30.0, 10_000)).list(CONFIG_MAP, limit=16))
    assert [one["metadata"]["name"] for one in found] == [one["metadata"]["name"] for one in items]
    assert asked[0] == 16
    assert set(asked[1:]) == {2}


def endless_list(_path: str, _closing: threading.Event) -> Iterator[bytes]:
    """A page of objects of a kind, which says that another page follows."""
    items = [{"metadata": {"name": f"m{number}" + "x" * 200, "namespace": "n"}} for number in range(500)]
    return answering(json.dumps({"metadata": {"continue": "more"}, "items": items}).encode())(_path, _closing)


def test_objects_with_our_label_are_no_more_than_an_inventory_can_name() -> None:
    with HostileServer(endless_list) as server:
        cluster = ClusterClients(client(server, ResponseLimits(HANGS, 1 << 20)))
        with pytest.raises(Unavailable, match="more objects have the label"):
            labelled_entries(cluster, [CONFIG_MAP])
        assert len(server.seen) < 30


@pytest.mark.parametrize("items", [500, 1, 0])
def test_list_without_end_is_given_up(items: int) -> None:
    page = {"metadata": {"continue": "more"}, "items": [{"metadata": {"name": f"m{n}"}} for n in range(items)]}
    with HostileServer(answering(json.dumps(page).encode())) as server:
        with pytest.raises(TooLarge, match="does not end after"):
            for _ in client(server, ResponseLimits(HANGS, 8 << 20)).list(CONFIG_MAP):
                pass
        assert len(server.seen) <= LIST_LIMITS["workload"].pages


def test_bytes_of_all_pages_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIST_LIMITS, "workload", ListLimits(1000, 1_000_000, 1 << 20))
    with HostileServer(endless_list) as server:
        with pytest.raises(TooLarge, match="does not end after"):
            list(client(server, ResponseLimits(HANGS, 1 << 20)).list(CONFIG_MAP))
        assert len(server.seen) < 20


def opened_and_silent(_path: str, closing: threading.Event) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n\r\n"
    closing.wait()


@pytest.mark.parametrize("tls", [False, True])
def test_watch_that_brings_nothing_is_silent(tls: bool) -> None:
    with HostileServer(opened_and_silent, tls=tls) as server, pytest.raises(Silent, match="nothing arrived"):
        ended(lambda: list(client(server).watch(CONFIG_MAP, version="1", silence=0.3)))


def test_watch_that_is_not_answered_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.kube.client._OPENS_WITHIN", 0.3)
    with HostileServer(hanging) as server, pytest.raises(Unavailable, match="does not answer"):
        ended(lambda: list(client(server).watch(CONFIG_MAP, version="1")))


def test_watch_line_length_is_limited() -> None:
    def line(_path: str, closing: threading.Event) -> object:
        yield b'HTTP/1.1 200 OK\r\n\r\n{"type":"'
        while not closing.is_set():
            yield b"x" * 65536

    with HostileServer(line) as server, pytest.raises(TooLarge, match="a line"):
        ended(lambda: list(client(server, ResponseLimits(30.0, 1 << 20)).watch(CONFIG_MAP, version="1")))


@pytest.mark.parametrize("chunked", [False, True])
def test_watch_event_is_received_while_the_response_goes_on(chunked: bool) -> None:
    event = b'{"type":"BOOKMARK","object":{}}\n'

    def watch(_path: str, closing: threading.Event) -> object:
        header = b"Transfer-Encoding: chunked\r\n" if chunked else b""
        yield b"HTTP/1.1 200 OK\r\n" + header + b"\r\n"
        yield b"%x\r\n%s\r\n" % (len(event), event) if chunked else event
        closing.wait()

    with HostileServer(watch) as server:
        changes = client(server).watch(CONFIG_MAP, version="1")
        assert ended(lambda: next(changes)) == {"type": "BOOKMARK", "object": {}}
        changes.close()


def dripping_bookmarks(_path: str, closing: threading.Event) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n\r\n"
    while not closing.wait(0.02):
        yield b'{"type":"BOOKMARK","object":{"metadata":{}}}\n'


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("behaviour", [dripping_headers, dripping, dripping_bookmarks])
def test_watch_that_its_server_does_not_end_ends_at_the_deadline(behaviour: Behaviour, tls: bool) -> None:
    """Each byte arrives in time, so that the limit of silence never expires."""
    with HostileServer(behaviour, tls=tls) as server, pytest.raises(Unavailable, match="no answer in time"):
        ended(lambda: list(client(server).within(0.4).watch(CONFIG_MAP, version="1")))


def test_watch_without_end_does_not_hold_those_who_await_a_crd() -> None:
    with HostileServer(dripping_bookmarks) as server:
        crd = {"metadata": {"name": "things.example.com", "resourceVersion": "1"}}
        with pytest.raises(Unavailable, match="used up the time limit"):
            ended(lambda: await_all_established(client(server).within(0.4), [crd]))


@pytest.mark.parametrize("line", [b"{", b"5", b'{"type":"ADDED"}', b'{"type":"ERROR","object":5}'])
def test_invalid_watch_event_is_an_error_of_the_server(line: bytes) -> None:
    with HostileServer(answering(line + b"\n")) as server, pytest.raises(Unavailable, match="is not a watch event"):
        list(client(server).watch(CONFIG_MAP, version="1"))


def test_requests_of_one_view_share_a_time_limit() -> None:
    with HostileServer(answering(b"{}")) as server:
        whole = client(server)
        view = whole.within(0.2)
        view.request("GET", "/version")
        time.sleep(0.3)
        with pytest.raises(Unavailable, match="used up the time limit"):
            view.request("GET", "/version")
        assert whole.requests == 1


def test_only_status_objects_are_quoted_in_errors() -> None:
    status = {"kind": "Status", "message": "admission says no", "code": 400}
    page = answering(b"AccessKey: AKIA-internal", "400 Bad Request")
    status_object = answering(json.dumps(status).encode(), "400 Bad Request")
    shaped = answering(b'{"message": "AKIA-internal"}', "503 Service Unavailable", "Retry-After: 99999999")
    odd = answering(b"", "503 Service Unavailable", "Retry-After: \u00b2")
    with HostileServer(
        paths({"/page": page, "/status_object": status_object, "/shaped": shaped, "/odd": odd}, hanging)
    ) as server:
        for path in ("/page", "/shaped", "/status_object", "/odd"):
            with pytest.raises(Exception, match=r"HTTP [45]|admission says no") as caught:
                client(server, ResponseLimits(30.0, 1 << 20)).request("POST", path, body={})
            assert "AKIA" not in str(caught.value)
            assert getattr(caught.value, "retry_after", 0.0) in (None, 0.0, 60.0)


def test_server_without_server_side_apply_is_named() -> None:
    with (
        HostileServer(answering(b"", "415 Unsupported Media Type")) as server,
        pytest.raises(ApiError, match="ConfigMap n/a: HTTP 415: the API server has no server-side apply"),
    ):
        client(server).apply(CONFIG_MAP, config_map("a", namespace="n"), manager="test")


def test_redirects_are_not_followed() -> None:
    with HostileServer(answering(b"{}")) as inside, HostileServer(redirecting(f"{inside.url}/secret")) as server:
        with pytest.raises(Exception, match="HTTP 302"):
            client(server).request("GET", "/version")
        assert inside.seen == []
