"""The four steps of a function on a real API server: which objects, statuses and events are written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pytest

from shared.api.resources import KIND_CLUSTER, SECRET
from shared.clients import Clients
from shared.effects import Create, Patch
from shared.event import change_event
from shared.kube import ApiError, Client, Conflict, Key, Object, Resource, Unauthorized, Unavailable
from shared.runtime import Decision, Function, Request
from shared.runtime.recorder import KubernetesEvent
from shared.triggers import Triggers, Watch

EVENTS = Resource("", "v1", "Event", "events")
TRIGGERS = Triggers("test", (Watch(KIND_CLUSTER),))


@dataclass(frozen=True)
class Fails:
    error: Exception

    def execute(self, _clients: Clients) -> None:
        raise self.error


def function(
    *effects: Any, status: Object | None = None, kubernetes_events: tuple[KubernetesEvent, ...] = ()
) -> Function[None]:
    def decide(_observed: None, _now: datetime) -> Decision:
        return Decision(tuple(effects), status or {"ready": True}, kubernetes_events)

    return Function(TRIGGERS, lambda _clients, _request: None, decide)


@pytest.fixture
def primary(management: Client, namespace: str) -> Object:
    body: Object = {
        "apiVersion": KIND_CLUSTER.api_version,
        "kind": "KINDCluster",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"clusterName": "p"},
    }
    return management.create(KIND_CLUSTER, body)


@pytest.mark.parametrize(
    ("error", "recorded"),
    [
        (ApiError("forbidden to touch it", status=403), True),
        (Unavailable("down"), False),
        (Conflict("moved on", status=409), False),
    ],
)
def test_failed_effect_leaves_the_status_unchanged(
    clients: Clients, management: Client, primary: Object, error: Exception, recorded: bool
) -> None:
    answer = function(Fails(error)).handle(clients, change_event(primary, "update", source="/test"))
    assert answer.status == 503
    assert str(error) in answer.message
    assert "status" not in management.get(KIND_CLUSTER, Key(primary["metadata"]["namespace"], "p"))
    messages = [event["message"] for event in management.list(EVENTS, primary["metadata"]["namespace"])]
    assert messages == ([str(error)] if recorded else [])


PROCEEDS = Decision(proceed=True)
CONFLICTS = Decision((Fails(Conflict("moved on", status=409)),))
MORE_STEPS = "more steps to do: they need another delivery"


@pytest.mark.parametrize(
    ("decision", "seconds", "rounds", "expected"),
    [
        pytest.param(PROCEEDS, 1000.0, 100, (202, 0.0, MORE_STEPS), id="proceeds, limit of rounds"),
        pytest.param(PROCEEDS, 0.0, 1, (202, 0.0, MORE_STEPS), id="proceeds, limit of time"),
        pytest.param(CONFLICTS, 1000.0, 4, (503, 1.0, "moved on"), id="conflicts, limit of rounds"),
        pytest.param(CONFLICTS, 0.0, 1, (503, 1.0, "moved on"), id="conflicts, limit of time"),
    ],
)
def test_rounds_of_a_delivery_are_limited(
    clients: Clients,
    primary: Object,
    monkeypatch: pytest.MonkeyPatch,
    decision: Decision,
    seconds: float,
    rounds: int,
    expected: tuple[int, float, str],
) -> None:
    monkeypatch.setattr("shared.runtime.function._MAX_SECONDS", seconds)
    begun: list[datetime] = []

    def decide(_observed: None, now: datetime) -> Decision:
        begun.append(now)
        return decision

    repeated = Function(TRIGGERS, lambda _clients, _request: None, decide)
    answer = repeated.handle(clients, change_event(primary, "update", source="/test"))
    assert (answer.status, answer.retry_after, answer.message) == expected
    assert len(begun) == rounds


def test_unchanged_status_is_not_written(clients: Clients, management: Client, primary: Object) -> None:
    event = change_event(primary, "update", source="/test")
    key = Key(primary["metadata"]["namespace"], "p")
    assert function().handle(clients, event).status == 204
    first = management.get(KIND_CLUSTER, key)
    assert first["status"]["ready"] is True
    assert function().handle(clients, event).status == 204
    assert management.get(KIND_CLUSTER, key)["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def recorded(client: Client, namespace: str) -> list[tuple[str, int]]:
    """Returns message and count of each event."""
    return [(event["message"], event["count"]) for event in client.list(EVENTS, namespace)]


def test_kubernetes_event_is_recorded_with_an_unchanged_status(
    clients: Clients, management: Client, primary: Object
) -> None:
    namespace, event = primary["metadata"]["namespace"], change_event(primary, "update", source="/test")
    for _ in range(2):
        assert function().handle(clients, event).status == 204
    assert (
        function(kubernetes_events=(KubernetesEvent("Drift", "it was changed"),)).handle(clients, event).status == 204
    )
    assert recorded(management, namespace) == [("it was changed", 1)]


def test_repeated_kubernetes_event_increments_its_count(clients: Clients, management: Client, primary: Object) -> None:
    namespace, event = primary["metadata"]["namespace"], change_event(primary, "update", source="/test")
    for _ in range(3):
        function(
            kubernetes_events=(KubernetesEvent("Drift", "it was changed"), KubernetesEvent("Drift", "changed again"))
        ).handle(clients, event)
    assert sorted(recorded(management, namespace)) == [("changed again", 3), ("it was changed", 3)]


@pytest.mark.parametrize("name", ["x" * 253, f"{'x' * 235}.{'y' * 17}"])
def test_kubernetes_event_name_is_valid_for_long_object_names(
    clients: Clients, management: Client, namespace: str, name: str
) -> None:
    body = {
        "apiVersion": KIND_CLUSTER.api_version,
        "kind": "KINDCluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterName": "p"},
    }
    event = change_event(management.create(KIND_CLUSTER, body), "update", source="/test")
    assert function(kubernetes_events=(KubernetesEvent("Seen", "there"),)).handle(clients, event).status == 204
    assert recorded(management, namespace) == [("there", 1)]


def test_second_patch_of_an_object_uses_the_version_of_the_first(
    clients: Clients, management: Client, primary: Object
) -> None:
    patches = [Patch(KIND_CLUSTER, primary, {"metadata": {"labels": {name: "1"}}}) for name in ("a", "b")]
    event = change_event(primary, "update", source="/test")
    assert function(*patches).handle(clients, event).status == 204
    live = management.get(KIND_CLUSTER, Key(primary["metadata"]["namespace"], "p"))
    assert live["metadata"]["labels"] == {"a": "1", "b": "1"}
    assert live["status"]["ready"] is True


def test_patch_of_an_old_version_raises_conflict(clients: Clients, management: Client, primary: Object) -> None:
    management.patch(KIND_CLUSTER, Key(primary["metadata"]["namespace"], "p"), {"metadata": {"labels": {"x": "1"}}})
    with pytest.raises(Conflict):
        Patch(KIND_CLUSTER, primary, {"metadata": {"labels": {"a": "1"}}}).execute(clients)


@pytest.mark.parametrize(("owner", "accepted"), [("u", True), ("other", False), (None, False)])
def test_create_accepts_an_existing_object_of_the_same_owner_only(
    clients: Clients, management: Client, namespace: str, owner: str | None, accepted: bool
) -> None:
    def secret(uid: str | None) -> Object:
        reference = {"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": uid}
        references = {"ownerReferences": [reference]} if uid else {}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace, **references}}

    management.create(SECRET, secret(owner))
    create = Create(SECRET, secret("u"))
    if accepted:
        assert create.execute(clients)["metadata"]["name"] == "s"
        return
    with pytest.raises(ApiError, match="already exists with another owner") as caught:
        create.execute(clients)
    assert not isinstance(caught.value, Conflict)


@pytest.mark.parametrize("where", ["observe", "act"])
@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (ApiError("no such name: hunter2", status=422), True),
        (Unauthorized("who are you", status=401), False),
        (Conflict("moved on", status=409), False),
        (Unavailable("down"), False),
    ],
)
def test_on_rejected_reports_a_rejected_request_in_the_status(
    clients: Clients, management: Client, primary: Object, where: str, error: Exception, reported: bool
) -> None:
    def observe(_clients: Clients, _request: Request) -> None:
        if where == "observe":
            raise error

    def refused(_primary: Object, error: ApiError, _now: datetime) -> Decision:
        event = KubernetesEvent("Refused", str(error))
        return Decision(status={"ready": False}, kubernetes_events=(event,), requeue_after=60.0, message=str(error))

    tested = replace(
        function(Fails(error)), observe=observe, on_rejected=refused, sensitive_values=lambda _observed: ["hunter2"]
    )
    answer = tested.handle(clients, change_event(primary, "update", source="/test"))
    status = management.get(KIND_CLUSTER, Key(primary["metadata"]["namespace"], "p")).get("status")
    events = [event["message"] for event in management.list(EVENTS, primary["metadata"]["namespace"])]
    if not reported:
        assert (answer.status, status, events) == (503, None, [])
        return
    assert (answer.status, answer.retry_after, status) == (202, 60.0, {"ready": False})
    # The sensitive values are known only once observe has succeeded.
    message = str(error) if where == "observe" else "no such name: …"
    assert (answer.message, events) == (message, [message])
