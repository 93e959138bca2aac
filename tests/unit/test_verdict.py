"""Conditions while a decision is made: what an API server would not take is not handed to it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shared.api.conditions import MOST, get_condition
from shared.kube import Object
from shared.runtime import Decision, Notice
from shared.runtime.function import news
from shared.runtime.verdict import Draft, Verdict

NOW = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("kind", [Draft, Verdict])
@pytest.mark.parametrize(("length", "ends"), [(MOST, "x"), (MOST + 1, "…")])
def test_messages_have_an_end(kind: type[Draft], length: int, ends: str) -> None:
    draft = kind({}, NOW)
    draft.false("Done", "TooMuch", "x" * length, tell="Warning")
    told = get_condition(draft.status()["conditions"], "Done") or {}
    assert len(told["message"]) == MOST
    assert told["message"].endswith(ends)
    assert [notice.message for notice in draft.notices] == [told["message"]]


def broken(message: str) -> Object:
    condition = {"type": "Done", "status": "False", "reason": "Broken", "message": message}
    return {"status": {"conditions": [{**condition, "lastTransitionTime": "2026-12-31T00:00:00Z"}]}}


@pytest.mark.parametrize("kind", [Draft, Verdict])
@pytest.mark.parametrize(
    ("reason", "message", "progress", "told"),
    [
        ("Broken", "the disk is full", False, False),
        ("Broken", "the disk is gone", False, True),
        ("Broken", "the disk is gone", True, False),
        ("Worse", "the disk is full", True, True),
    ],
)
def test_another_cause_for_the_same_reason_is_an_event(
    kind: type[Draft], reason: str, message: str, progress: bool, told: bool
) -> None:
    draft = kind(broken("the disk is full"), NOW)
    draft.false("Done", reason, message, tell="Warning", progress=progress)
    assert [notice.message for notice in draft.notices] == ([message] if told else [])


@pytest.mark.parametrize(("before", "told"), [("no such name: …", False), ("no such file: …", True)])
def test_an_event_of_a_condition_is_compared_as_it_is_written(before: str, told: bool) -> None:
    """The condition has a value withheld, which the decision did not know when it was made."""
    after = broken("no such name: …")
    notices = (Notice("Broken", "no such name: …", "Warning", "Done"), Notice("Seen", "there"))
    decision = Decision(status=after["status"], notices=notices)
    assert news(decision, broken(before)) == (notices if told else notices[1:])
