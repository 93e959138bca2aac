"""What a plan tells of one field: of long texts and lists what differs, not how both begin."""

from __future__ import annotations

from typing import Any

import pytest

from infra.operations.differences import lines
from shared.applier.diff import ABSENT, REDACTED, FieldDiff

LONG = "x" * 200
GATES = "--feature-gates=MachinePool=true,ClusterTopology=true,RuntimeSDK=false,MachineSetPreflightChecks=true"
LEAST = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
MORE = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "delete"]}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (1, 2, ["a: 1 -> 2"]),
        ("b", "c", ['a: "b" -> "c"']),
        (ABSENT, {"b": 1}, ['a: + {"b": 1}']),
        ([1], ABSENT, ["a: - [1]"]),
        (REDACTED, REDACTED, ["a: (a Secret's: not shown)"]),
        (LONG + "old", LONG + "new", [f'a: "…{"x" * 20}old" -> "…{"x" * 20}new"']),
        (LONG, "y", [f'a: "{"x" * 98}… -> "y"']),
        (
            ["--v=1", "--leader-elect", "--x"],
            ["--v=2", "--leader-elect"],
            ["a:", '  ~ "--v=1" -> "--v=2"', '  - "--x"'],
        ),
        (
            ["--leader-elect", GATES],
            ["--leader-elect", GATES.replace("RuntimeSDK=false", "RuntimeSDK=true") + ",New=true"],
            ["a:", "  ~ --feature-gates= - RuntimeSDK=false, + RuntimeSDK=true, + New=true"],
        ),
        (
            [LEAST],
            [MORE],
            [
                "a:",
                '  - {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}',
                '  + {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "delete"]}',
            ],
        ),
        ([1, 2], [2, 1], ["a: the same items in another order, or another number of times"]),
        (["--a=1,2"], ["--a=2,1"], ["a:", "  ~ --a= the same in another order"]),
        ([], ["\x1b[31m"], ["a:", '  + "\\u001b[31m"']),
    ],
)
def test_difference_of_one_field(old: Any, new: Any, expected: list[str]) -> None:
    assert list(lines(FieldDiff("a", old, new))) == expected


def test_difference_of_a_long_list_is_cut() -> None:
    expected = list(lines(FieldDiff("a", [], list(range(100)))))
    assert len(expected) == 22
    assert expected[-1] == "  and 80 more"
