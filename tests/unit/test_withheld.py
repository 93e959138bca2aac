"""What is told without the values that nobody may read."""

from __future__ import annotations

import pytest

from functions.provider_preflight.observe import Observed
from shared.providers.inputs import Inputs
from shared.providers.telling import secrets
from shared.runtime.withheld import in_status, without


@pytest.mark.parametrize(
    ("text", "values", "left"),
    [
        ("Value: 4815162342, want text", ["4815162342"], "Value: …, want text"),
        ("a pass, a password", ["pass", "password"], "a …, a …"),
        ("too short: abc", ["abc"], "too short: abc"),
        ("nothing: ", [""], "nothing: "),
        ("cut off: hunt…", ["hunter2"], "cut off: …"),
        ("cut off: hun…", ["hunter2"], "cut off: hun…"),
        ("not cut off: hunt", ["hunter2"], "not cut off: hunt"),
        ("ends: hunter2", ["hunter2"], "ends: …"),
    ],
)
def test_words(text: str, values: list[str], left: str) -> None:
    assert without(text, values) == left


def test_a_status_without_them_keeps_all_else() -> None:
    condition = {"type": "Ready", "status": "True", "reason": "docker", "message": "of docker"}
    status = {"conditions": [condition], "resources": [{"name": "docker", "error": "no docker"}], "version": 1}
    found = in_status(status, ["docker"])
    assert found["conditions"] == [{**condition, "message": "of …"}]
    assert found["resources"] == [{"name": "docker", "error": "no …"}]
    assert found["version"] == 1


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("PASSWORD", "hunter2", {"hunter2"}),
        ("KEY", "-- begin\nabcd\n-- end\n", {"-- begin\nabcd\n-- end\n", "-- begin", "abcd", "-- end"}),
        ("PIN", "0123456", {"0123456", "42798"}),
        ("PIN", "0x1F", {"0x1F", "31"}),
        ("PIN", "1: [", {"1: ["}),
        ("images", "all: {repository: mirror}", set()),
        ("ca.crt", "-- begin", set()),
    ],
)
def test_forms_of_a_secret(name: str, value: str, known: set[str]) -> None:
    assert secrets(Observed(None, Inputs({name: value}))) == known
