"""The outcome of a sync as it is written to a status."""

from __future__ import annotations

import pytest

from shared.applier.apply import ApplyRejected, FieldConflict
from shared.applier.inventory import KEPT, InventoryEntry
from shared.applier.outcome import (
    NOT_TRIED,
    Drift,
    StepResult,
    SyncIncomplete,
    SyncOutcome,
    format_error,
    format_waiting,
    is_server_failure,
)
from shared.kube import ApiError, Unavailable


def entry(name: str, kind: str = "ConfigMap", **more: str) -> InventoryEntry:
    return InventoryEntry("", "v1", kind, "ns", name, **more)


def test_outcome_collects_the_results_of_steps() -> None:
    a, b, rest = entry("a"), entry("b"), entry("c")
    held, drift = FieldConflict("kubectl", "data.k"), Drift(b, ("data.k",))
    outcome = SyncOutcome.of([StepResult(a, written=True, conflicts=(held,)), StepResult(b, drift=drift)], [rest])
    assert outcome == SyncOutcome((a, b, rest), [a], conflicts=[(a, held)], drift=[drift])


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ((), "ConfigMap ns/a (missing)"),
        (("x",), "ConfigMap ns/a (x)"),
        (tuple("abcdef"), "ConfigMap ns/a (a, b, c, d, e)"),
    ],
    ids=["missing object", "one field", "at most five fields"],
)
def test_drift_names_the_object_and_its_fields(fields: tuple[str, ...], text: str) -> None:
    assert str(Drift(entry("a"), fields)) == text


def test_status_lists_at_most_twenty_drifted_objects() -> None:
    drift = [Drift(entry(str(number))) for number in range(25)]
    assert SyncOutcome(drift=drift).listed_drift == [str(each) for each in drift[:20]]


def test_objects_without_an_owner_before_are_listed_with_their_former_manager() -> None:
    conflicts = [(entry("a"), FieldConflict("helm", "")), (entry("b"), FieldConflict("kubectl", "data.k"))]
    assert SyncOutcome(conflicts=conflicts).adopted == ["ConfigMap ns/a (helm)"]


@pytest.mark.parametrize(
    ("found", "failed", "waiting"),
    [
        (entry("a"), False, False),
        (entry("a", error="refused"), True, False),
        (entry("a", error="not ours", status=KEPT), False, False),
        (entry("a", waiting="is starting"), False, True),
    ],
    ids=["done", "failed", "kept on purpose", "not ready"],
)
def test_entries_that_failed_or_wait(found: InventoryEntry, failed: bool, waiting: bool) -> None:
    outcome = SyncOutcome((found,))
    assert (outcome.failures, outcome.not_ready) == ([found] * failed, [found] * waiting)


FAILED = [entry(str(number), error="refused") for number in range(5)]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([FAILED[0], entry("a")], "1 of 2 objects failed: ConfigMap ns/0: refused"),
        (
            FAILED[:3],
            "3 of 3 objects failed: ConfigMap ns/0: refused; ConfigMap ns/1: refused; ConfigMap ns/2: refused",
        ),
        (
            FAILED,
            "5 of 5 objects failed: "
            "ConfigMap ns/0: refused; ConfigMap ns/1: refused; ConfigMap ns/2: refused; and 2 more",
        ),
        (
            FAILED[:4],
            "4 of 4 objects failed: "
            "ConfigMap ns/0: refused; ConfigMap ns/1: refused; ConfigMap ns/2: refused; and 1 more",
        ),
        ([entry("a", waiting="is starting"), entry("b")], "waiting for ConfigMap ns/a is starting"),
    ],
    ids=["one failed", "three are named", "two are counted", "one is counted", "one is not ready"],
)
def test_incomplete_rollout_names_up_to_three_objects(entries: list[InventoryEntry], message: str) -> None:
    incomplete = SyncIncomplete(SyncOutcome(tuple(entries)))
    assert str(incomplete) == message
    assert incomplete.waiting is message.startswith("waiting")
    assert incomplete.unavailable is False


@pytest.mark.parametrize(
    ("count", "more"), [(0, ""), (1, ""), (3, ""), (4, "; and 1 more")], ids=["none", "one", "three", "four"]
)
def test_up_to_three_objects_that_are_not_ready_are_named(count: int, more: str) -> None:
    named = "; ".join(f"ConfigMap ns/{number} waits" for number in range(min(count, 3)))
    assert format_waiting([entry(str(number), waiting="waits") for number in range(count)]) == named + more


QUOTING = ApiError("PATCH: value hunter2", status=422, body={"reason": "Invalid"}, detail="value hunter2")
REDACTED = "rejected with HTTP 422 Invalid; the message is redacted, because it can quote the Secret"


@pytest.mark.parametrize(
    ("kind", "error", "shown"),
    [
        ("ConfigMap", QUOTING, "value hunter2"),
        ("Secret", QUOTING, REDACTED),
        ("Secret", ApiError("no answer"), "no answer"),
        ("Secret", ValueError("no name"), "no name"),
        ("ConfigMap", ValueError("no name"), "no name"),
        ("Secret", ApplyRejected("another owner has it", status=409), "another owner has it"),
        ("Secret", ApplyRejected("value hunter2", status=422, body={"reason": "Invalid"}), REDACTED),
    ],
    ids=[
        "other kind",
        "Secret",
        "no answer",
        "not the server",
        "no Secret",
        "our own words",
        "our words with those of the server",
    ],
)
def test_error_about_a_secret_does_not_quote_the_server(kind: str, error: Exception, shown: str) -> None:
    assert format_error(entry("a", kind), error) == shown


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unavailable("no answer"), True),
        (Unavailable("busy", status=503), True),
        (Unavailable("wrong type", status=500), False),
        (ApiError("invalid", status=422), False),
        (ValueError("no name"), False),
    ],
    ids=["no answer", "busy", "one object", "rejected", "not the server"],
)
def test_server_fails_as_a_whole(error: Exception, expected: bool) -> None:
    assert is_server_failure(error) is expected


def test_objects_that_were_not_tried_come_after_the_cause() -> None:
    entries = [*(entry(name, error=NOT_TRIED) for name in "abc"), entry("d", error="refused"), entry("e")]
    outcome = SyncOutcome(tuple(entries), untried=1)
    assert [failed.name for failed in outcome.failures] == ["d", "a", "b", "c"]
    assert str(SyncIncomplete(outcome)) == "1 of 5 objects failed, 4 not tried: ConfigMap ns/d: refused"
