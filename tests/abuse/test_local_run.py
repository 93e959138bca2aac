"""Attacks on the servers of a local run: by a web page in the user's browser, by another program of the machine."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from events.delivery import HttpDelivery, read_answer
from events.ingress import Ingress
from events.replay import replay_to
from infra.local.services import Services
from infra.local_control_plane.processes import Process
from infra.operations.local_runs import token_for
from shared.event import Event, change_event, from_http
from shared.kube import Client
from shared.runtime import callers, sink
from tests.support.ports import free_port
from tests.support.served import HTTP, Served
from tests.support.until import HANGS, until

EVENT = change_event(
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "one"}}, "add", source="test"
)
STRUCTURED = {"content-type": "application/cloudevents+json; charset=utf-8"}


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("run") / "token"
    file.write_text("s3cret\n")
    return file


@contextmanager
def open_ingress(token: Path | None) -> Iterator[str]:
    ingress = Ingress(lambda _event: None, token=token)
    ingress.start()
    try:
        yield ingress.url
    finally:
        ingress.stop()


@pytest.fixture(scope="module", params=["functions", "ingress"])
def with_token(request: pytest.FixtureRequest, token: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that wants the token."""
    if request.param == "ingress":
        with open_ingress(token) as url:
            yield url
    else:
        served = Served(tmp_path_factory.mktemp("served"), CAPI_FUNCTIONS_TOKEN_FILE=str(token))
        yield served.url
        served.close()


@pytest.fixture(scope="module", params=["functions", "ingress"])
def without_token(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that wants none."""
    if request.param == "ingress":
        with open_ingress(None) as url:
            yield url
    else:
        served = Served(tmp_path_factory.mktemp("served"))
        yield served.url
        served.close()


def post(url: str, headers: Mapping[str, str], body: bytes | str) -> int:
    return HTTP.request("POST", url, headers=headers, body=body, timeout=HANGS).status


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain; x=cloudevents",
        "text/plain; application/cloudevents+json",
        "text/plain, application/cloudevents+json",
        "application/x-www-form-urlencoded;cloudevents",
        "multipart/form-data; boundary=application/cloudevents+json",
        "application/cloudevents+jsonx",
        "application/cloudevents",
        "application/cloudevents-batch+json",
        "text/plain",
        "application/json",
        "",
    ],
)
def test_event_in_structured_mode_needs_the_exact_media_type(without_token: str, media_type: str) -> None:
    """A page may send the first five, and no media type at all, without asking the server (Fetch, safelisted)."""
    assert post(without_token, {"content-type": media_type} if media_type else {}, EVENT.to_json()) == 400
    assert post(without_token, STRUCTURED, EVENT.to_json()) < 300


def test_event_needs_all_headers_or_none(without_token: str) -> None:
    """With some of them only, the CloudEvents library reads the body as an event whatever its media type."""
    assert post(without_token, {"ce-id": "1", "content-type": "text/plain"}, EVENT.to_json()) == 400


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:8080", "file://"])
def test_requests_of_web_pages_are_refused(without_token: str, origin: str) -> None:
    headers, body = EVENT.to_http()
    assert post(without_token, {**headers, "origin": origin}, body) == 403
    asked = {"origin": origin, "access-control-request-method": "POST", "access-control-request-headers": "ce-id"}
    preflight = HTTP.request("OPTIONS", without_token, headers=asked, timeout=HANGS)
    assert preflight.status >= 400
    assert not [name for name in preflight.headers if name.lower().startswith("access-control-")]
    assert HTTP.request("GET", without_token, headers={"origin": origin}, timeout=HANGS).status == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "[::2]", "@"]
)
def test_name_that_resolves_to_this_machine_is_refused(without_token: str, host: str) -> None:
    headers, body = EVENT.to_http()
    assert post(without_token, {**headers, "host": host}, body) in (400, 403)
    assert HTTP.request("GET", without_token, headers={"host": host}, timeout=HANGS).status in (400, 403)


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1", "127.0.0.2:80", "[::1]:80", "a.localhost"])
def test_names_of_this_machine_are_accepted(without_token: str, host: str) -> None:
    headers, body = EVENT.to_http()
    assert post(without_token, {**headers, "host": host}, body) < 300


def test_in_a_pod_the_host_is_the_name_of_a_service() -> None:
    headers = {"host": "functions.capi-functions.svc"}
    assert callers.refusal("POST", headers, "0.0.0.0", None) is None
    assert callers.refusal("POST", headers, "10.1.2.3", None) is None
    refused = callers.refusal("POST", headers, "127.0.0.1", None)
    assert refused is not None
    assert refused.status == 403


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic s3cret", "s3cret", "Bearer s3cre", "Bearer ü"],
)
def test_events_without_the_token_are_refused(with_token: str, authorization: str | None) -> None:
    headers, body = EVENT.to_http()
    given = {} if authorization is None else {"authorization": authorization.encode("utf-8").decode("latin-1")}
    assert post(with_token, headers | given, body) == 401
    assert post(with_token, STRUCTURED | given, EVENT.to_json()) == 401
    assert post(with_token, headers | {"authorization": "bearer s3cret"}, body) < 300


def test_state_of_a_server_needs_no_token(with_token: str) -> None:
    """Probes have none."""
    assert HTTP.request("GET", with_token, timeout=HANGS).status == 200


@pytest.mark.parametrize("content", [None, "", "\n"])
def test_missing_token_opens_nothing(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    for given in ({}, {"authorization": "Bearer"}, {"authorization": "Bearer "}):
        refused = callers.refusal("POST", given, "127.0.0.1", file)
        assert refused is not None
        assert refused.status in (401, 503)


def test_senders_of_a_run_have_its_token(with_token: str, token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delivery = HttpDelivery(with_token, single=True, token=token)
    assert delivery("", EVENT).status < 300
    delivery.close()
    assert max(replay_to(with_token, [EVENT], token=token)) < 300
    environment = {"K_SINK": with_token, callers.TOKEN_FILE: str(token)}
    headers, body = EVENT.to_http()
    assert post(with_token, headers | sink.headers(with_token, EVENT, environment), body) < 300
    assert "authorization" not in sink.headers("http://elsewhere", EVENT, environment)


def test_replay_sends_the_token_to_the_servers_of_its_run_only(tmp_path: Path) -> None:
    me = Process.of(os.getpid())
    assert me is not None
    urls = {"functions": "http://127.0.0.1:1001", "ingress": "http://127.0.0.1:1002"}
    state = {"pid": me.pid, "started": me.started, "token": str(tmp_path / "token"), **urls}
    (tmp_path / "up.json").write_text(json.dumps(state))
    for url in ("http://127.0.0.1:1001/cluster", "http://localhost:1002", "http://127.0.0.1:1002/"):
        assert token_for(url, tmp_path) == tmp_path / "token", url
    for url in ("http://127.0.0.1:1003", "http://evil.example:1002", "http://127.0.0.1:1002.evil.example/", "http://x"):
        assert token_for(url, tmp_path) is None, url
    assert token_for(urls["ingress"], tmp_path / "other") is None


def test_reply_needs_the_exact_media_type() -> None:
    assert read_answer(200, {"content-type": "text/plain; x=cloudevents"}, EVENT.to_json().encode()).reply is None
    assert read_answer(200, STRUCTURED, EVENT.to_json().encode()).reply == from_http(*EVENT.to_http())


def test_local_run_wants_its_token_and_delivers(kubeconfig: Path, management: Client, tmp_path: Path) -> None:
    token = tmp_path / "token"
    services = Services(tmp_path / "functions.log", token)
    try:
        services.start_functions({"KUBECONFIG": str(kubeconfig), "S3_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}"})
        services.start_forwarder(management)
        assert services.functions is not None
        assert services.forwarder is not None
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert len(token.read_text()) >= 32
        gone = _gone("a")
        for url in (f"{services.functions.url}/cluster", services.ingress):
            assert replay_to(url, [gone], attempts=1) == {401: 1}
        assert replay_to(f"{services.functions.url}/cluster", [gone], token=token) == {204: 1}
        dispatcher = services.forwarder.dispatcher
        assert replay_to(services.ingress, [gone], token=token) == {202: 1}
        until(lambda: dispatcher.stats.by_status[204], "the delivery", details=lambda: dispatcher.stats.by_status)
        assert 401 not in dispatcher.stats.by_status
    finally:
        services.stop()
    assert not token.exists()


def _gone(name: str) -> Event:
    obj = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": name, "namespace": "none"}}
    return change_event(obj, "update", source="/test")


def test_tokens_of_runs_differ(kubeconfig: Path, tmp_path: Path) -> None:
    tokens = set()
    for _ in range(2):
        services = Services(tmp_path / "functions.log", tmp_path / "token")
        try:
            services.start_functions({"KUBECONFIG": str(kubeconfig)})
            tokens.add((tmp_path / "token").read_text())
        finally:
            services.stop()
    assert len(tokens) == 2
