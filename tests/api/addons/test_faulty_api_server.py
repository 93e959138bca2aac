"""addon_apply with a faulty workload API server: each fault is reported in a condition and ends with the fault.

The server is a real one; a proxy in front of it causes the faults.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from events.delivery import InProcessDelivery
from functions import catalog
from shared.api.resources import CLUSTER, CONFIG_MAP, EVENT, SECRET
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Client, Object, discovery
from shared.kube.crds import CRD
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support.api_proxy import (
    Cut,
    Exchange,
    Fault,
    Proxy,
    Request,
    answering,
    changing,
    cut_after,
    cut_before,
    half_body,
    hanging,
    replacing,
    slow,
)
from tests.support.event_receiver import EventReceiver
from tests.support.releases import config_map, write_release
from tests.support.swept_addons import SweptAddons, owned

SECRETS = {"password": "hunter2-of-the-addons", "token": "tok-5f4dcc3b5aa7"}
LONGEST_WAIT = 60.0
LONGEST_MESSAGE = 4096


@pytest.fixture
def addons(
    management: Client,
    clients: Clients,
    namespace: str,
    proxy: Proxy,
    object_store: ObjectStore,  # sets the environment
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> SweptAddons:
    monkeypatch.setenv("RELEASE_SOURCE", str(tmp_path))
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(logging.getLogger("capi-functions"), "propagate", True)
    return SweptAddons(management, namespace, proxy.kubeconfig, InProcessDelivery(catalog.handler, clients))


def chart(namespace: str, value: str = "1") -> list[Object]:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "login", "namespace": namespace},
        "stringData": SECRETS,
    }
    return [*(config_map(f"m{number}", value, namespace) for number in range(12)), secret]


def complete(addons: SweptAddons, value: str = "1") -> None:
    """Asserts that all objects exist with this value and are in the inventory."""
    maps = owned(addons.client, CONFIG_MAP, addons.namespace)
    assert {name: obj["data"]["k"] for name, obj in maps.items()} == {f"m{number}": value for number in range(12)}
    live = {("ConfigMap", name): obj for name, obj in maps.items()} | {
        ("Secret", name): obj for name, obj in owned(addons.client, SECRET, addons.namespace).items()
    }
    uids = {who: obj["metadata"]["uid"] for who, obj in live.items()}
    assert {who: entry["uid"] for who, entry in addons.inventory().items()} == uids
    assert {entry["status"] for entry in addons.inventory().values()} == {"synced"}


def waiting(addons: SweptAddons, answer: Answer | None) -> str:
    """Asserts that the addon is requeued and that `Ready` says why; returns the message."""
    assert answer is not None
    assert answer.status in (202, 503)
    assert answer.retry_after is not None
    assert 0 < answer.retry_after <= LONGEST_WAIT
    problem = addons.condition("Ready")
    assert problem["status"] == "False"
    assert problem["reason"] not in ("ObjectsApplyingOngoing", "ReleaseAssetsNotDownloadedYet")
    assert 20 < len(problem["message"]) < LONGEST_MESSAGE
    return str(problem["message"])


def assert_no_secret_reported(addons: SweptAddons, log: str) -> None:
    events = list(addons.client.list(EVENT, addons.namespace))
    reported = "\n".join([log, json.dumps([addons.addon(), events]), *(answer.message for answer in addons.answers)])
    for value in SECRETS.values():
        for form in (value, base64.b64encode(value.encode()).decode()):
            assert form not in reported


# -- faults, and when they occur ------------------------------------------------------------------------------

STATUS: Object = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
HTML = b"<html><body><h1>Please sign in</h1></body></html>"


def quoting(status: int, words: Callable[[bytes], bytes | Object]) -> Fault:
    return lambda exchange: answering(status, words(exchange.request.body))(exchange)


FAULTS: dict[str, Fault] = {
    "throttles": answering(429, STATUS | {"message": "too many requests"}, Retry_After="1"),
    "throttles for an hour": answering(429, STATUS | {"message": "too many requests"}, Retry_After="3600"),
    "throttles for nonsense": answering(429, b"slow down", Retry_After="soon"),
    "fails inside": answering(500, STATUS | {"message": "etcdserver: request timed out"}),
    "is down behind a load balancer": answering(503, b"no healthy upstream", Content_Type="text/plain"),
    "quotes what it was sent": quoting(500, lambda body: b"cannot take " + body[-150:]),
    "quotes in a refusal": quoting(400, lambda body: STATUS | {"message": f"cannot take {body!r}"}),
    "quotes in a failure": quoting(500, lambda body: STATUS | {"message": f"cannot take {body!r}"}),
    "goes on for ever": answering(500, STATUS | {"message": "x" * 3_000_000}),
    "hangs": hanging(Flag()),
    "hangs up": cut_before,
    "hangs up when done": cut_after,
    "sends half an answer": half_body,
    "sends bytes": replacing(b"\x00\xff\xfe"),
    "sends a sign-in page": replacing(HTML, "text/html"),
    "sends half a document": replacing(b'{"kind": "ConfigMap", "metadata": {"na'),
    "sends a list": replacing(b"[]"),
    "sends null": replacing(b"null"),
    "sends an empty object": replacing(b"{}"),
    "sends nothing": replacing(b""),
    "forbids": answering(403, STATUS | {"message": "user proxy cannot do this", "reason": "Forbidden"}),
    "no longer knows us": answering(401, STATUS | {"message": "Unauthorized", "reason": "Unauthorized"}),
    "knows nothing": answering(404, b"404 page not found\n", Content_Type="text/plain"),
}

PHASES: dict[str, Callable[[Request], bool]] = {
    "from the start": lambda _request: True,
    "when asked for kinds": lambda request: request.path in ("/api", "/apis"),
    "when written to": lambda request: request.writes,
    "for some objects": lambda request: request.writes and request.path.endswith(("1", "3", "6", "/login")),
}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_reported_and_the_addon_recovers(
    addons: SweptAddons,
    proxy: Proxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: str,
    phase: str,
) -> None:
    if fault == "hangs":  # a tenth of the default timeouts, so that requests fail sooner
        monkeypatch.setitem(Client.__init__.__kwdefaults__ or {}, "timeout", (0.5, 1.0))
    name = write_release(tmp_path, "v1", chart(addons.namespace))
    proxy.fail(FAULTS[fault], PHASES[phase])
    addons.apply_class(name)
    answer = addons.deliver_change(CLUSTER, addons.cluster_key)
    assert not addons.ready(name)
    assert answer is not None
    assert len(proxy.seen) <= 4 * len(chart(addons.namespace))
    waiting(addons, answer)
    assert_no_secret_reported(addons, caplog.text)
    proxy.heal()
    addons.until(lambda: addons.ready(name), "Ready")
    complete(addons)
    assert_no_secret_reported(addons, caplog.text)


# -- answers that have another shape -----------------------------------------------------------------------------


def everywhere(change: Callable[[Object], Object]) -> Callable[[Any], Any]:
    """Returns a function that changes a document and all maps in it."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return change({name: changed(each) for name, each in value.items()})
        return [changed(each) for each in value] if isinstance(value, list) else value

    return changed


def with_field(name: str, wrong: Any) -> Callable[[Any], Any]:
    """Returns a function that replaces the field wherever a document has it."""
    return everywhere(lambda found: {**found, name: wrong} if name in found else found)


def _texts(found: Object) -> Object:
    return {name: str(value) if isinstance(value, int) else value for name, value in found.items()}


SHAPES: dict[str, Callable[[Any], Any]] = {
    "objects without uid": everywhere(lambda found: {name: found[name] for name in found if name != "uid"}),
    "objects without name": everywhere(lambda found: {name: found[name] for name in found if name != "name"}),
    "texts in place of numbers": everywhere(_texts),
    "names of the wrong type": with_field("name", {"a": 1}),
    "versions of the wrong type": with_field("resourceVersion", [7]),
    "a list as status": with_field("status", ["x"]),
    "a text as status": with_field("status", "x"),
    "a list as spec": with_field("spec", [1]),
    "a list as metadata": with_field("metadata", ["x"]),
    "a map as items": with_field("items", {"a": {}}),
    "numbers as items": with_field("items", [1, 2]),
    "a text as managedFields": with_field("managedFields", "x"),
    "numbers as managedFields": with_field("managedFields", [1]),
    "a text as labels": with_field("labels", "x"),
    "numbers as annotations": with_field("annotations", [1]),
    "a text as owners": with_field("ownerReferences", "x"),
    "numbers as conditions": with_field("conditions", [1]),
    "a text as versions": with_field("versions", "x"),
    "numbers as versions": with_field("versions", [1]),
    "a text as names": with_field("names", "x"),
    "a text as resources": with_field("resources", "x"),
    "maps as kinds": with_field("responseKind", {"kind": {"a": 1}}),
    "a number as group": with_field("group", 7),
}


def thing(namespace: str, value: int) -> list[Object]:
    """Returns a definition and an object of its kind."""
    group = f"{namespace}.example.com"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return [
        {
            "apiVersion": CRD.api_version,
            "kind": CRD.kind,
            "metadata": {"name": f"things.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": "Thing", "plural": "things"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "Thing",
            "metadata": {"name": "one", "namespace": namespace},
            "spec": {"value": value},
        },
    ]


@pytest.mark.parametrize("begun", [False, True], ids=["first rollout", "upgrades"])
def test_answers_of_another_shape_are_reported_and_the_addon_recovers(
    addons: SweptAddons, proxy: Proxy, tmp_path: Path, begun: bool
) -> None:
    """For each shape there is another release, which changes objects, adds a kind, or prunes it, and is looked at."""

    def release(number: int) -> str:
        kind = thing(addons.namespace, number) if number % 2 else []
        return write_release(tmp_path, f"v{number}", [*chart(addons.namespace, str(number))[:3], *kind])

    if begun:
        addons.apply_class(release(1))
        addons.until(lambda: addons.ready("test-stack-1-36-v1"), "Ready")
    for number, shape in enumerate(SHAPES, 2):
        proxy.fail(changing(SHAPES[shape]))
        addons.apply_class(release(number))
        addons.deliver_change(CLUSTER, addons.cluster_key)
        for resync in (False, True):
            event = change_event(addons.addon(), "update", source="/test", resync=resync)
            answer = addons.send("addon_apply", event)
            assert answer.status in (200, 202, 204, 503), f"{shape}: {answer}"
            assert addons.condition("Ready")["status"] in ("True", "False"), shape
    proxy.heal()
    last = release(len(SHAPES) + 2)
    addons.apply_class(last)
    addons.until(lambda: addons.ready(last), "Ready")
    found = owned(addons.client, CONFIG_MAP, addons.namespace)
    assert {name: obj["data"]["k"] for name, obj in found.items()} == dict.fromkeys(
        ("m0", "m1", "m2"), str(len(SHAPES) + 2)
    )


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(addons: SweptAddons, proxy: Proxy, tmp_path: Path, status: int) -> None:
    """A redirect could send credentials, or a Secret, to any server."""
    name = write_release(tmp_path, "v1", chart(addons.namespace))
    with EventReceiver() as elsewhere:
        proxy.fail(answering(status, b"", Location=elsewhere.url + "/api/v1/"))
        addons.apply_class(name)
        waiting(addons, addons.deliver_change(CLUSTER, addons.cluster_key))
        proxy.fail(answering(status, b"", Location=elsewhere.url + "/api/v1/"), PHASES["when written to"])
        waiting(addons, addons.deliver_change(CLUSTER, addons.cluster_key))
        assert elsewhere.received == []
    proxy.heal()
    addons.until(lambda: addons.ready(name), "Ready")
    complete(addons)


def test_slow_api_server_is_tolerated(addons: SweptAddons, proxy: Proxy, tmp_path: Path) -> None:
    name = write_release(tmp_path, "v1", chart(addons.namespace))
    proxy.fail(slow(0.3))
    addons.apply_class(name)
    addons.until(lambda: addons.ready(name), "Ready")
    complete(addons)


def test_next_release_prunes_what_a_failed_one_applied(addons: SweptAddons, proxy: Proxy, tmp_path: Path) -> None:
    """What the first release applied before its failure is pruned with the second, whether it was recorded or not."""
    extra = config_map("extra3", namespace=addons.namespace)
    first = write_release(tmp_path, "v1", [extra, *chart(addons.namespace)])  # the first that is applied
    proxy.fail(cut_after, PHASES["for some objects"])
    addons.apply_class(first)
    waiting(addons, addons.deliver_change(CLUSTER, addons.cluster_key))
    assert "extra3" in owned(addons.client, CONFIG_MAP, addons.namespace)
    proxy.heal()
    second = write_release(tmp_path, "v2", chart(addons.namespace, "2"))
    addons.apply_class(second)
    addons.until(lambda: addons.ready(second), "Ready")
    complete(addons, "2")


def test_only_the_namespace_of_the_objects_is_listed(addons: SweptAddons, proxy: Proxy, tmp_path: Path) -> None:
    for version in ("v1", "v2"):
        own = config_map("own", version, addons.namespace)
        addons.apply_class(write_release(tmp_path, version, [*chart(addons.namespace), own]))
        addons.until(lambda version=version: addons.ready(f"test-stack-1-36-{version}"), "Ready")  # type: ignore[misc]
    listed = {request.path for request in proxy.seen if request.path.endswith("/configmaps")}
    assert listed == {f"/api/v1/namespaces/{addons.namespace}/configmaps"}


@pytest.mark.parametrize("when", ["at rest", "in the middle of an upgrade"])
def test_addon_of_a_vanished_api_server_can_be_deleted(
    addons: SweptAddons, proxy: Proxy, tmp_path: Path, when: str
) -> None:
    """A Cluster whose API server is gone for good can still be deleted."""
    addons.apply_class(write_release(tmp_path, "v1", chart(addons.namespace)))
    addons.until(lambda: addons.ready("test-stack-1-36-v1"), "Ready")
    if when == "at rest":
        proxy.close()
    else:
        last = len(proxy.writes()) + 4
        proxy.fail(lambda exchange: vanish(exchange, proxy), lambda _request: len(proxy.writes()) >= last)
    addons.apply_class(write_release(tmp_path, "v2", chart(addons.namespace, "2")[3:]))
    message = waiting(addons, addons.deliver_change(CLUSTER, addons.cluster_key))
    assert "does not answer" in message
    assert f"127.0.0.1:{proxy.port}" in message
    addons.remove()
    addons.until(addons.gone, "the end of the addon")


def vanish(_exchange: Exchange, server: Proxy) -> None:
    server.close()
    raise Cut


def test_api_server_error_that_quotes_a_secret_is_not_reported(addons: SweptAddons, tmp_path: Path) -> None:
    """A number in place of a string is a common mistake, and the API server's answer quotes it."""
    number = 4815162342
    secret = chart(addons.namespace)[-1] | {"stringData": {"pin": number}}
    addons.apply_class(write_release(tmp_path, "v1", [config_map("m0", namespace=addons.namespace), secret]))
    message = waiting(addons, addons.deliver_change(CLUSTER, addons.cluster_key))
    assert f"Secret {addons.namespace}/login" in message
    events = list(addons.client.list(EVENT, addons.namespace))
    assert str(number) not in json.dumps([addons.addon(), events])
    assert not any(str(number) in answer.message for answer in addons.answers)


# -- the first contact, and later ones -------------------------------------------------------------------------


def test_first_roll_out_needs_two_requests_beside_its_objects(
    addons: SweptAddons, proxy: Proxy, tmp_path: Path
) -> None:
    addons.apply_class(write_release(tmp_path, "v1", chart(addons.namespace)))
    addons.until(lambda: addons.ready("test-stack-1-36-v1"), "Ready")
    assert [request.path for request in proxy.seen if request.method == "GET"] == ["/api", "/apis"]
    assert len(proxy.seen) == len(chart(addons.namespace)) + 2


@pytest.mark.parametrize(("when", "path"), [("first", "/apis"), ("later", "/readyz")])
def test_api_server_that_is_not_ready_is_waited_for(
    addons: SweptAddons, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, path: str
) -> None:
    monkeypatch.setattr(discovery, "_ANSWERED_SECONDS", 0.0)
    value = "1"
    if when == "later":
        addons.apply_class(write_release(tmp_path, "v1", chart(addons.namespace)))
        addons.until(lambda: addons.ready("test-stack-1-36-v1"), "Ready")
        value = "2"
    proxy.fail(answering(500, STATUS), lambda request: request.path == path)
    name = write_release(tmp_path, "v2", chart(addons.namespace, value))
    addons.apply_class(name)
    before = len(proxy.writes())
    message = waiting(addons, addons.deliver_change(CLUSTER, addons.cluster_key))
    assert "the workload API server is not ready" in message
    assert addons.condition("ClusterReady")["reason"] == "ControlPlaneNotReady"
    assert len(proxy.writes()) == before
    proxy.heal()
    addons.until(lambda: addons.ready(name), "Ready")
    complete(addons, value)


@pytest.mark.parametrize("status", [500, 401])
def test_api_server_that_has_just_answered_is_not_asked_whether_it_is_ready(
    addons: SweptAddons, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(discovery, "_ANSWERED_SECONDS", 3600.0)
    addons.apply_class(write_release(tmp_path, "v1", chart(addons.namespace)))
    addons.until(lambda: addons.ready("test-stack-1-36-v1"), "Ready")
    name = write_release(tmp_path, "v2", chart(addons.namespace, "2"))
    proxy.fail(answering(status, STATUS))
    addons.apply_class(name)
    waiting(addons, addons.deliver_change(CLUSTER, addons.cluster_key))
    assert addons.condition("HelmChartApplied")["reason"] == "FailedToApplyObjects"
    proxy.heal()
    addons.until(lambda: addons.ready(name), "Ready")
    complete(addons, "2")
    assert "/readyz" not in [request.path for request in proxy.seen]
