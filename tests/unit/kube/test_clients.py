"""The clients of many workload clusters share memory, and few of them keep connections."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared import clients
from shared.clients import Clients
from shared.kube import Object, discovery
from tests.support.hostile import kubeconfig
from tests.support.http_server import HttpServer, Request, Response

TIMEOUT = 300.0


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Clients:
    """Clients that keep the connections of one workload cluster."""
    monkeypatch.setattr(clients, "_MAX_CONNECTED", 1)
    return Clients()


def kinds(*names: str) -> Object:
    resources = [{"name": f"{name.lower()}s", "kind": name, "namespaced": True} for name in names]
    return {"kind": "APIResourceList", "resources": resources}


def serving(answers: dict[str, Object]) -> HttpServer:
    return HttpServer(lambda request: Response(body=json.dumps(answers.get(request.path, {})).encode()))


def test_clusters_that_serve_the_same_kinds_share_one_map() -> None:
    core = {"/api": {"versions": ["v1"]}, "/api/v1": kinds("Pod", "Secret")}
    more = core | {"/apis": {"groups": [{"name": "x.io", "versions": [{"version": "v1"}]}]}}
    with serving(core) as one, serving(core) as other, serving(more | {"/apis/x.io/v1": kinds("Widget")}) as third:
        discoveries = [Clients().workload(kubeconfig(server.url)).discovery for server in (one, other, third)]
        assert discoveries[0].served() is discoveries[1].served()
        assert {kind for _, kind in discoveries[0].served()} == {"Pod", "Secret"}
        assert {kind for _, kind in discoveries[2].served()} == {"Pod", "Secret", "Widget"}


@pytest.mark.parametrize(("seconds", "probes"), [(0.0, 2), (3600.0, 0)])
def test_server_that_has_just_answered_is_not_probed(
    monkeypatch: pytest.MonkeyPatch, seconds: float, probes: int
) -> None:
    monkeypatch.setattr(discovery, "_ANSWERED_SECONDS", seconds)
    with serving({"/api": {"versions": ["v1"]}, "/api/v1": kinds("Pod")}) as server:
        workload = Clients().workload(kubeconfig(server.url))
        for _ in range(3):
            workload.discovery.probe(workload.client)
        paths = [request.path for request in server.requests]
        assert (paths.count("/api"), paths.count("/readyz")) == (1, probes)


def test_connection_is_closed_once_enough_other_clusters_were_used(few: Clients) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        first = few.workload(kubeconfig(f"http://127.0.0.1:{listener.getsockname()[1]}"))

        def serve() -> bytes:
            """Answers one request, and returns what follows it."""
            connection, _ = listener.accept()
            connection.settimeout(TIMEOUT)
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                return connection.recv(65536)

        served = pool.submit(serve)
        assert first.client.text("/readyz") == "ok"
        assert not served.done()
        few.workload(kubeconfig("http://127.0.0.1:9"))
        assert served.result(TIMEOUT) == b""


def test_request_in_progress_is_answered_although_the_connections_are_closed(few: Clients) -> None:
    arrived, answered = threading.Event(), threading.Event()

    def answer(_request: Request) -> Response:
        arrived.set()
        answered.wait(TIMEOUT)
        return Response(body=b"ok")

    with HttpServer(answer) as server, ThreadPoolExecutor(1) as pool:
        first = few.workload(kubeconfig(server.url))
        text = pool.submit(first.client.text, "/readyz", timeout=TIMEOUT)
        assert arrived.wait(TIMEOUT)
        few.workload(kubeconfig("http://127.0.0.1:9"))
        answered.set()
        assert text.result(TIMEOUT) == "ok"
        assert few.workload(kubeconfig(server.url)) is first
        assert first.client.text("/readyz") == "ok"
