"""Conditions while a decision is made: what an API server would not take is not handed to it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shared.api.conditions import MOST, get_condition
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
