"""Functions served by real functions-framework servers: requests and responses."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import flask
import pytest
import urllib3

from functions import catalog
from infra import version
from infra.local.functions_server import FunctionsServer
from shared.api.resources import CLUSTER
from shared.event import change_event
from shared.kube import Client, Key, Object
from shared.runtime import Answer, http
from shared.runtime.http import target
from tests.support import processes
from tests.support.until import HANGS, until

HTTP = urllib3.PoolManager(retries=urllib3.Retry(0, read=0))


@pytest.fixture(scope="module")
def server(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FunctionsServer]:
    folder = tmp_path_factory.mktemp("functions")
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "CAPI_FUNCTIONS_DATA": str(folder)}
    server = FunctionsServer(environment, folder / "functions.log")
    server.start()
    yield server
    server.close()


def post(url: str, headers: Mapping[str, str], body: bytes) -> urllib3.BaseHTTPResponse:
    return HTTP.request("POST", url, headers=headers, body=body, timeout=HANGS)


def cluster(namespace: str, name: str = "demo", **spec: object) -> Object:
    return {
        "apiVersion": CLUSTER.api_version,
        "kind": "Cluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


GOOD = {
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-type": "dev.knative.apiserver.resource.update",
    "ce-source": "/test",
    "ce-kind": "Cluster",
    "ce-apiversion": "cluster.x-k8s.io/v1beta2",
    "ce-name": "gone",
    "ce-namespace": "default",
    "content-type": "application/json",
}


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in GOOD.items() if key != name}


@pytest.mark.parametrize(
    ("headers", "body", "words"),
    [
        pytest.param(without("ce-id"), b"{}", "id", id="no id"),
        pytest.param({**GOOD, "ce-specversion": "0.3"}, b"{}", "specversion", id="wrong specversion"),
        pytest.param(GOOD, b"{not json", "not a valid CloudEvent", id="body not JSON"),
        pytest.param(GOOD, b"[1, 2]", "list", id="array body"),
        pytest.param({"content-type": "application/json"}, b"{}", "not a CloudEvent", id="no event at all"),
        pytest.param({}, b"", "not a CloudEvent", id="nothing"),
        pytest.param(without("ce-name"), b"{}", "name", id="no name"),
    ],
)
def test_invalid_event_is_answered_with_400_and_the_reason(
    server: FunctionsServer, headers: dict[str, str], body: bytes, words: str
) -> None:
    answer = post(f"{server.url}/cluster", headers, body)
    assert answer.status == 400
    assert words in answer.data.decode()
    # The process still answers.
    assert post(f"{server.url}/cluster", GOOD, b"{}").status == 204


def test_204_has_no_body_and_no_content_type(server: FunctionsServer) -> None:
    answer = post(f"{server.url}/cluster", GOOD, b"{}")
    assert (answer.status, answer.data) == (204, b"")
    assert "content-type" not in answer.headers


def test_structured_event_is_accepted(server: FunctionsServer) -> None:
    document: dict[str, object] = {
        name.removeprefix("ce-"): value for name, value in GOOD.items() if name.startswith("ce-")
    } | {"data": {}}
    headers = {"content-type": "application/cloudevents+json"}
    assert post(f"{server.url}/cluster", headers, json.dumps(document).encode()).status == 204


def test_event_of_a_cluster_scoped_object_is_accepted(server: FunctionsServer) -> None:
    headers = {**GOOD, "ce-namespace": "", "ce-kind": "Node", "ce-apiversion": "v1"}
    assert post(f"{server.url}/cluster", headers, b"{}").status == 204


@pytest.mark.parametrize("change", ["add", "update", "delete"])
@pytest.mark.parametrize("name", catalog.names())
def test_event_about_a_deleted_object_is_accepted_by_every_function(
    server: FunctionsServer, name: str, change: str
) -> None:
    gone = cluster("default", "gone", topology=None)
    headers, body = change_event(gone, change, source="/test").to_http()
    answer = post(f"{server.url}/{name}", headers, body)
    assert answer.status == 204


def test_event_reconciles_its_object(server: FunctionsServer, management: Client, namespace: str) -> None:
    created = management.create(
        CLUSTER, cluster(namespace, infrastructureRef={"apiGroup": "x", "kind": "Y", "name": "z"})
    )
    answer = post(f"{server.url}/cluster", *change_event(created, "add", source="/test").to_http())
    assert answer.status == 202
    assert int(answer.headers["Retry-After"]) == 30
    live = management.get(CLUSTER, Key(namespace, "demo"))
    assert live["metadata"]["finalizers"] == ["cluster.cluster.x-k8s.io"]
    [found] = [c for c in live["status"]["conditions"] if c["type"] == "InfrastructureReady"]
    assert "is its CRD installed?" in found["message"]


def test_duplicate_and_reordered_events_change_nothing(
    server: FunctionsServer, management: Client, namespace: str
) -> None:
    created = management.create(CLUSTER, cluster(namespace))
    events = [change_event(created, change, source="/test") for change in ("add", "update", "delete", "update")]
    for event in events:
        post(f"{server.url}/cluster", *event.to_http())
    before = management.get(CLUSTER, Key(namespace, "demo"))["metadata"]["resourceVersion"]
    for event in [*reversed(events), *events]:
        assert post(f"{server.url}/cluster", *event.to_http()).status == 204
    assert management.get(CLUSTER, Key(namespace, "demo"))["metadata"]["resourceVersion"] == before


def test_unknown_function_and_unsupported_method_are_rejected(server: FunctionsServer) -> None:
    answer = post(f"{server.url}/nope", GOOD, b"{}")
    assert answer.status == 404
    assert "addon_apply" in answer.data.decode()
    assert HTTP.request("PUT", f"{server.url}/cluster", body=b"").status == 405
    assert HTTP.request("GET", f"{server.url}/cluster").status == 200


def test_unreachable_api_server_is_answered_with_503(tmp_path: Path, kubeconfig: Path) -> None:
    away = tmp_path / "away.kubeconfig"
    lines = kubeconfig.read_text().splitlines()
    away.write_text(
        "\n".join(
            f"{line.split('server:')[0]}server: https://127.0.0.1:1" if "server:" in line else line for line in lines
        )
    )
    server = FunctionsServer({**os.environ, "KUBECONFIG": str(away)}, tmp_path / "log")
    server.start()
    try:
        answer = post(f"{server.url}/cluster", GOOD, b"{}")
        assert answer.status == 503
        assert int(answer.headers["Retry-After"]) >= 1
        assert "https://127.0.0.1:1" in answer.data.decode()
    finally:
        server.close()


def test_function_without_a_manifest_is_served_alone(kubeconfig: Path, tmp_path: Path) -> None:
    """The pods of all others: knative/test_pods."""
    server = FunctionsServer({**os.environ, "KUBECONFIG": str(kubeconfig)}, tmp_path / "log", function="kind_cluster")
    server.start()
    try:
        assert post(server.url, GOOD, b"{}").status == 204, (tmp_path / "log").read_text()
    finally:
        server.close()


def test_killed_server_restarts_on_the_same_socket(kubeconfig: Path, tmp_path: Path) -> None:
    server = FunctionsServer({**os.environ, "KUBECONFIG": str(kubeconfig)}, tmp_path / "log")
    server.start()
    try:
        assert post(f"{server.url}/cluster", GOOD, b"{}").status == 204
        server.kill()
        server.start()
        # A call that the killed process had accepted is lost; the next ones wait in the socket's queue.
        again = urllib3.PoolManager(retries=urllib3.Retry(2, allowed_methods=None))
        headers = {**GOOD, "connection": "close"}
        assert again.request("POST", f"{server.url}/cluster", headers=headers, body=b"{}", timeout=HANGS).status == 204
    finally:
        server.close()


def test_server_ends_with_its_parent(tmp_path: Path) -> None:
    """The kernel signals the arbiter when the parent is killed, and the arbiter ends its worker."""
    import subprocess
    import sys

    program = (
        "import os, sys, time; from pathlib import Path; from infra.local.functions_server import FunctionsServer\n"
        "s = FunctionsServer(os.environ, Path(sys.argv[1])); s.start()\n"
        "print(s.process.pid, s.url, flush=True); time.sleep(600)"
    )
    parent = processes.start([sys.executable, "-c", program, str(tmp_path / "log")], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child, url = parent.stdout.readline().decode().split()
    try:
        assert HTTP.request("GET", url, timeout=60.0).status, "the worker answers"
        parent.kill()
        parent.wait()
        until(lambda: not Path(f"/proc/{child}").exists(), "the end of functions-framework")
    finally:
        parent.stdout.close()
        if Path(f"/proc/{child}").exists():
            os.killpg(int(child), signal.SIGKILL)


def test_server_ends_whose_parent_was_killed_while_it_started(tmp_path: Path) -> None:
    import subprocess
    import sys

    program = (
        "import os, sys; from pathlib import Path; from infra.local.functions_server import FunctionsServer\n"
        "s = FunctionsServer(os.environ, Path(sys.argv[1])); s.start()\n"
        "print(s.process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    parent = processes.run([sys.executable, "-c", program, str(tmp_path / "log")], stdout=subprocess.PIPE)
    child = Path("/proc", parent.stdout.decode().strip())
    try:
        until(lambda: not child.exists(), "the end of functions-framework", within=60)
    finally:
        if child.exists():
            os.killpg(int(child.name), signal.SIGKILL)


def test_body_that_is_too_large_is_not_read(server: FunctionsServer) -> None:
    """With Content-Length as well as chunked; the process survives both."""
    for length in ({"Content-Length": str(100 << 20)}, {"Transfer-Encoding": "chunked"}):
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=60) as sender:
            headers = {"Host": "x", **GOOD, **length}
            head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            sender.sendall(f"POST /cluster HTTP/1.1\r\n{head}\r\n".encode())
            piece = b"10000\r\n" + bytes(65536) + b"\r\n" if "Transfer-Encoding" in length else bytes(65536)
            sent = 0
            with suppress(OSError):  # the server closed the connection
                while sent < 9 << 20:
                    sender.sendall(piece)
                    sent += 65536
            answer = b""
            with suppress(OSError):
                answer = sender.recv(1000)
            assert (
                answer.startswith(b"HTTP/1.1 413") or not answer
            )  # the connection may be closed before the response is read
    assert post(f"{server.url}/cluster", GOOD, b"{}").status == 204


def test_line_break_in_a_structured_name_is_rejected(server: FunctionsServer) -> None:
    document = {name.removeprefix("ce-"): value for name, value in GOOD.items() if name.startswith("ce-")}
    body = json.dumps(document | {"name": "a\r\nx-evil: 1", "data": {}}).encode()
    for name in catalog.names():
        answer = post(f"{server.url}/{name}", {"content-type": "application/cloudevents+json"}, body)
        assert (answer.status, b"control characters" in answer.data) == (400, True), name


def test_server_and_function_tell_their_version(server: FunctionsServer) -> None:
    app = flask.Flask("test")
    one = target("sweep", lambda *_: Answer(204))
    app.add_url_rule("/version", view_func=lambda: one(flask.request))
    expected = {"version": version.current()}
    assert app.test_client().get("/version").json == expected
    assert urllib3.request("GET", f"{server.url}/version").json() == expected


def test_liveness_probe_fails_during_a_stuck_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = threading.Event(), threading.Event()

    def stuck(_clients: object, _event: object) -> Answer:
        entered.set()
        leave.wait(HANGS)
        return Answer(204)

    app = flask.Flask("test")
    serve = target("sweep", stuck)
    app.add_url_rule("/<path:path>", view_func=lambda **_: serve(flask.request), methods=["GET", "POST"])
    thread = threading.Thread(target=lambda: app.test_client().post("/", headers=GOOD, data=b"{}"))
    app.add_url_rule("/", "root", view_func=lambda: serve(flask.request), methods=["POST"])
    probe = app.test_client()
    assert probe.get("/healthz").status_code == 200
    thread.start()
    try:
        assert entered.wait(HANGS)
        assert probe.get("/healthz").status_code == 200  # it is not stuck yet
        monkeypatch.setattr(http, "_STUCK_AFTER", 0.0)
        assert probe.get("/healthz").status_code == 503
        assert probe.get("/ready").status_code == 200
    finally:
        leave.set()
        thread.join()
    assert probe.get("/healthz").status_code == 200
