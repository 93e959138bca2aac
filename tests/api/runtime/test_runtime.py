"""The four steps of a function on a real API server: which objects, statuses and events are written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pytest

from shared.api.resources import EVENT, KIND_CLUSTER, SECRET
from shared.clients import Clients
from shared.effects import Create, Patch, Results
from shared.event import Change, Event, change_event
from shared.kube import (
    MANAGER,
    ApiError,
    Client,
    Conflict,
    Key,
    Object,
    Unauthorized,
    Unavailable,
    dig,
    key_of,
)
from shared.runtime import Decision, Function, Request
from shared.runtime.recorder import KubernetesEvent
from shared.triggers import Triggers, Watch

TRIGGERS = Triggers("test", (Watch(KIND_CLUSTER),))
LABEL: Object = {"metadata": {"labels": {"done": "1"}}}


@dataclass(frozen=True)
class Fails:
    error: Exception

    def execute(self, _clients: Clients) -> None:
        raise self.error


def function(
    *effects: Any, status: Object | None = None, kubernetes_events: tuple[KubernetesEvent, ...] = ()
) -> Function[None]:
    def decide(_observed: None, _now: datetime, _results: Results | None = None) -> Decision:
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
    messages = [event["message"] for event in management.list(EVENT, primary["metadata"]["namespace"])]
    assert messages == ([str(error)] if recorded else [])


PROCEEDS = Decision(proceed=True)
CONFLICTS = Decision((Fails(Conflict("moved on", status=409)),))
MORE_STEPS = "not finished in time: the event must be delivered again"


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

    def decide(_observed: None, now: datetime, results: Results | None = None) -> Decision:
        if results is None:
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
    return [(event["message"], event["count"]) for event in client.list(EVENT, namespace)]


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
    events = [event["message"] for event in management.list(EVENT, primary["metadata"]["namespace"])]
    if not reported:
        assert (answer.status, status, events) == (503, None, [])
        return
    assert (answer.status, answer.retry_after, status) == (202, 60.0, {"ready": False})
    # The sensitive values are known only once observe has succeeded.
    message = str(error) if where == "observe" else "no such name: …"
    assert (answer.message, events) == (message, [message])


# -- the object in an event --------------------------------------------------------------------------------------


def labelled(obj: Object) -> bool:
    return dig(obj, "metadata.labels.done") == "1"


def observe_primary(_clients: Clients, request: Request) -> Object | None:
    return request.primary


def decide_label(obj: Object | None, _now: datetime, _results: Results | None = None) -> Decision:
    """Decides to label the object, in one guarded write."""
    return (
        Decision() if obj is None or labelled(obj) else Decision((Patch(KIND_CLUSTER, obj, LABEL),), message="labelled")
    )


LABELS = Function(
    replace(TRIGGERS, is_reconciled=lambda obj, _event, _now: labelled(obj)), observe_primary, decide_label
)


def cost(clients: Clients, tested: Function[Any], event: Event) -> tuple[int, str]:
    """Returns the requests that a delivery costs, and the message of its answer."""
    before = clients.management.requests
    answer = tested.handle(clients, event)
    assert answer.status == 204, answer
    return clients.management.requests - before, answer.message


def relabel(management: Client, obj: Object, value: str | None) -> Object:
    return management.patch(KIND_CLUSTER, key_of(obj), {"metadata": {"labels": {"done": value}}})


@pytest.mark.parametrize("change", ["add", "update"])
def test_event_with_a_reconciled_object_costs_no_request(clients: Clients, primary: Object, change: Change) -> None:
    outdated = {**primary, "metadata": {**primary["metadata"], "labels": {"done": "1"}}}
    assert cost(clients, LABELS, change_event(outdated, change, source="/test")) == (0, "already reconciled")


def test_resync_and_reference_read_a_reconciled_object(clients: Clients, management: Client, primary: Object) -> None:
    done = {**relabel(management, primary, "1"), "apiVersion": KIND_CLUSTER.api_version, "kind": "KINDCluster"}
    assert cost(clients, LABELS, change_event(done, "update", source="/test", resync=True)) == (1, "")
    reference = change_event(done, "update", source="/test", reference=True)
    assert cost(clients, LABELS, reference) == (1, "already reconciled")


def changed(primary: Object, change: Change, *managers: str) -> Event:
    """Returns the event of a change; `managers` wrote the object one after the other, by default a user did."""
    writes = [
        {"manager": manager, "time": f"2026-01-01T00:00:0{second}Z"}
        for second, manager in enumerate(managers or [MANAGER, "kubectl"])
    ]
    metadata = {**primary["metadata"], "managedFields": writes}
    return change_event({**primary, "metadata": metadata}, change, source="/test")


@pytest.mark.parametrize("change", ["add", "update"])
def test_object_needs_no_read_before_a_guarded_write(
    clients: Clients, management: Client, primary: Object, change: Change
) -> None:
    assert cost(clients, LABELS, changed(primary, change)) == (1, "labelled")
    assert labelled(management.get(KIND_CLUSTER, key_of(primary)))


def test_object_is_read_after_a_write_of_our_own(clients: Clients, primary: Object) -> None:
    """Another write may have followed: what was observed and decided on this object would be for nothing."""
    assert cost(clients, LABELS, changed(primary, "update", "kubectl", MANAGER)) == (2, "labelled")


@pytest.mark.parametrize("change", ["add", "update"])
def test_function_that_trusts_no_event_reads_what_it_decides_on(
    clients: Clients, management: Client, primary: Object, change: Change
) -> None:
    """The event is made up, but for the object's version."""
    seen: list[Object | None] = []

    def decide(obj: Object | None, now: datetime, results: Results | None = None) -> Decision:
        if results is None:
            seen.append(obj)
        return LABELS.decide(obj, now, None)

    made_up = changed({**primary, "spec": {**primary["spec"], "clusterName": "made-up"}}, change)
    assert cost(clients, replace(LABELS, decide=decide, trusts_events=False), made_up) == (2, "labelled")
    assert [dig(obj, "spec") for obj in seen] == [primary["spec"]]


@pytest.mark.parametrize("seconds", [30.0, None])
def test_new_object_that_only_waits_costs_no_request(clients: Clients, primary: Object, seconds: float | None) -> None:
    waits = Function(
        TRIGGERS,
        observe_primary,
        lambda *_args: Decision(requeue_after=seconds, message="waiting for others"),
    )
    before = clients.management.requests
    answer = waits.handle(clients, change_event(primary, "add", source="/test"))
    assert (answer.retry_after, answer.message) == (seconds, "waiting for others")
    assert clients.management.requests == before


def test_new_object_is_read_before_an_event_is_recorded(clients: Clients, management: Client, primary: Object) -> None:
    event = KubernetesEvent("Late", "too late", "Warning")
    tested = Function(TRIGGERS, observe_primary, lambda _obj, _now, _results: Decision(kubernetes_events=(event,)))
    management.delete(KIND_CLUSTER, key_of(primary))
    assert cost(clients, tested, change_event(primary, "add", source="/test")) == (1, "")


@pytest.mark.parametrize("change", ["add", "update"])
@pytest.mark.parametrize(("value", "expected"), [("1", (2, "already reconciled")), ("other", (3, "labelled"))])
def test_outdated_object_is_read_after_a_conflict(
    clients: Clients, management: Client, primary: Object, change: Change, value: str, expected: tuple[int, str]
) -> None:
    version = relabel(management, primary, value)["metadata"]["resourceVersion"]
    assert cost(clients, LABELS, changed(primary, change)) == expected
    written = management.get(KIND_CLUSTER, key_of(primary))["metadata"]["resourceVersion"] != version
    assert written == (expected[1] == "labelled")


@pytest.mark.parametrize("change", ["add", "update"])
def test_object_of_another_cluster_is_read_though_it_has_the_same_version(
    clients: Clients, management: Client, primary: Object, change: Change
) -> None:
    """Events are replayed from other clusters, and from times before a backup was restored."""
    foreign = changed({**primary, "metadata": {**primary["metadata"], "uid": "another"}}, change)
    assert cost(clients, LABELS, foreign) == (3, "labelled")

    def decide(obj: Object | None, _now: datetime, _results: Results | None = None) -> Decision:
        return Decision(status={"failureMessage": dig(obj, "metadata.uid")})

    primary = management.get(KIND_CLUSTER, key_of(primary))
    foreign = changed({**primary, "metadata": {**primary["metadata"], "uid": "another"}}, change)
    assert cost(clients, Function(TRIGGERS, observe_primary, decide), foreign) == (3, "")
    assert dig(management.get(KIND_CLUSTER, key_of(primary)), "status.failureMessage") == primary["metadata"]["uid"]


@pytest.mark.parametrize("change", ["add", "update"])
def test_deleted_object_is_not_written(clients: Clients, management: Client, primary: Object, change: Change) -> None:
    management.delete(KIND_CLUSTER, key_of(primary))
    assert cost(clients, LABELS, changed(primary, change)) == (2, "")


def test_new_object_is_read_before_a_write_that_nothing_guards(
    clients: Clients, management: Client, namespace: str, primary: Object
) -> None:
    """The object was deleted since: nothing is created for it."""

    def decide(obj: Object | None, _now: datetime, _results: Results | None = None) -> Decision:
        metadata = {"name": "for-the-object", "namespace": namespace}
        secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        return Decision((Create(SECRET, secret),) if obj else ())

    management.delete(KIND_CLUSTER, key_of(primary))
    tested = Function(TRIGGERS, observe_primary, decide)
    assert cost(clients, tested, change_event(primary, "add", source="/test")) == (1, "")
    assert management.find(SECRET, Key(namespace, "for-the-object")) is None


def test_object_in_another_version_is_read(clients: Clients, primary: Object) -> None:
    other = {**primary, "apiVersion": "infrastructure.cluster-k8s.io/v2"}
    assert cost(clients, LABELS, change_event(other, "add", source="/test")) == (2, "labelled")


# -- an object that this process wrote last -----------------------------------------------------------------------


def wish(primary: Object, message: str) -> Event:
    """Returns the event of a Secret that asks for this message in the status of the primary object."""
    name, namespace = key_of(primary).name, key_of(primary).namespace
    secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}
    return change_event({**secret, "data": {"message": message}}, "update", source="/test")


def has_message(obj: Object, event: Event, _now: datetime | None = None) -> bool:
    return bool(dig(obj, "status.failureMessage") == dig(event.object, "data.message"))


def decide_message(found: tuple[Object | None, Event], _now: datetime, _results: Results | None = None) -> Decision:
    obj, event = found
    return Decision() if obj is None else Decision(status={"failureMessage": dig(event.object, "data.message")})


MESSAGES = Function(
    Triggers("test", (Watch(KIND_CLUSTER), Watch(SECRET, key=key_of)), is_reconciled=has_message),
    lambda _clients, request: (request.primary, request.event),
    decide_message,
    is_sole_writer=True,
)


def message_of(management: Client, primary: Object) -> Any:
    return dig(management.get(KIND_CLUSTER, key_of(primary)), "status.failureMessage")


def test_object_that_was_written_last_needs_no_read(clients: Clients, management: Client, primary: Object) -> None:
    costs = [cost(clients, MESSAGES, wish(primary, message))[0] for message in ("a", "b", "c")]
    assert (costs, message_of(management, primary)) == ([2, 1, 1], "c")
    unasked = replace(MESSAGES, is_sole_writer=False)
    assert [cost(clients, unasked, wish(primary, message))[0] for message in ("d", "e")] == [2, 2]


def test_object_that_others_write_too_is_read(
    clients: Clients, management: Client, namespace: str, primary: Object
) -> None:
    other = management.create(KIND_CLUSTER, {**primary, "metadata": {"name": "q", "namespace": namespace}})
    for one in (primary, other):
        cost(clients, MESSAGES, wish(one, "a"))
    relabel(management, primary, "1")
    assert cost(clients, MESSAGES, wish(primary, "b"))[0] == 3  # the write is refused
    assert labelled(management.get(KIND_CLUSTER, key_of(primary)))
    # Whoever wrote the one may have written the other: no second write is refused.
    assert [cost(clients, MESSAGES, wish(other, message))[0] for message in ("b", "c")] == [2, 1]


def test_object_that_was_written_last_and_reset_by_others_is_read_before_nothing_is_done(
    clients: Clients, management: Client, primary: Object
) -> None:
    cost(clients, MESSAGES, wish(primary, "a"))
    reset: Object = {"status": {"failureMessage": "reset"}}
    management.patch(KIND_CLUSTER, key_of(primary), reset, subresource="status")
    assert cost(clients, MESSAGES, wish(primary, "a"))[0] == 2
    assert message_of(management, primary) == "a"
    assert cost(clients, MESSAGES, wish(primary, "a")) == (1, "already reconciled")
    assert cost(clients, MESSAGES, wish(primary, "b"))[0] == 1, "it is remembered still"


def test_object_that_was_written_last_and_deleted_is_not_written(
    clients: Clients, management: Client, primary: Object
) -> None:
    cost(clients, MESSAGES, wish(primary, "a"))
    management.delete(KIND_CLUSTER, key_of(primary))
    assert cost(clients, MESSAGES, wish(primary, "b")) == (2, "")


# -- failures ----------------------------------------------------------------------------------------------------


def test_decision_with_the_results_is_reported(clients: Clients, management: Client, primary: Object) -> None:
    """Its effects are not executed, and without effects there is only one decision."""
    seen: list[Results | None] = []

    def decide(obj: Object | None, _now: datetime, results: Results | None = None) -> Decision:
        seen.append(results)
        status = {"failureMessage": str(results and len(results.executed))}
        return Decision(() if labelled(obj or {}) else (Patch(KIND_CLUSTER, obj or {}, LABEL),), status)

    tested = Function(TRIGGERS, observe_primary, decide)
    tested.handle(clients, change_event(primary, "update", source="/test"))
    stored = management.get(KIND_CLUSTER, key_of(primary))
    assert (labelled(stored), dig(stored, "status.failureMessage"), len(seen)) == (True, "1", 2)
    tested.handle(clients, change_event(stored, "update", source="/test"))
    assert seen[2:] == [None]


def test_failure_is_reported_only_by_a_decision_that_names_it(
    clients: Clients, management: Client, primary: Object
) -> None:
    """A decision cannot hide a failure by ignoring it."""

    def decide(_observed: None, _now: datetime, results: Results | None = None) -> Decision:
        error = results.error if results else ApiError("full")
        decision = Decision((Fails(error or ApiError("full")),), {"ready": False}, requeue_after=7.0)
        return replace(decision, reports=error) if isinstance(error, ApiError) else decision

    event = change_event(primary, "update", source="/test")
    tested = replace(function(), decide=decide)
    answer = tested.handle(clients, event)
    assert (answer.status, answer.retry_after) == (202, 7.0)
    assert management.get(KIND_CLUSTER, key_of(primary))["status"] == {"ready": False}
    with pytest.raises(ValueError, match="a bug"):
        function(Fails(ValueError("a bug"))).handle(clients, event)
