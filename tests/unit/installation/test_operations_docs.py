"""docs/operations.md documents every annotation, condition, reason and event of addons."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.operations.reasons import REASONS, Reason
from shared.api.names import ROLLBACK_ANNOTATION
from shared.applier import policy, preview

ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs" / "operations.md").read_text()
CODE = "\n".join(path.read_text() for path in sorted((ROOT / "functions" / "addon_apply").glob("*.py")))
SAID = re.compile(r"""\w+\.(?:set_false|set_true)\(\s*"(\w+)"(?:,\s*f?"(\w+)")?""")
TOLD = re.compile(r'\.add_event\(\s*"(\w+)"')


def spoken_of() -> list[str]:
    found = SAID.findall(CODE)
    return sorted({name for names in found for name in names if name} | set(TOLD.findall(CODE)))


def test_search_finds_known_names() -> None:
    assert {"ClusterReady", "InvalidAnnotation", "FailedToApplyObjects", "DriftFound"} <= set(spoken_of())


@pytest.mark.parametrize("name", spoken_of())
def test_operations_page_documents_every_condition_reason_and_event(name: str) -> None:
    assert f"`{name}`" in DOCS


@pytest.mark.parametrize("name", [*policy._KNOWN, ROLLBACK_ANNOTATION.removeprefix(policy.PREFIX)])
def test_operations_page_documents_every_annotation(name: str) -> None:
    assert f"| `{policy.PREFIX}{name}` |" in DOCS


@pytest.mark.parametrize("action", sorted(set(preview.Action.__args__) - {"unchanged"}))  # type: ignore[attr-defined]
def test_operations_page_documents_every_plan_mark(action: str) -> None:
    assert re.search(rf"^\| `. {action}` \|", DOCS, re.MULTILINE)


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: "-".join(reason.names))
def test_command_and_page_explain_a_reason_alike(reason: Reason) -> None:
    names = ", ".join(f"`{name}`" for name in reason.names)
    rows = [
        line for line in DOCS.splitlines() if line.startswith("|") and f"| {reason.meaning} | {reason.remedy}" in line
    ]
    assert any(names in row for row in rows)


def test_command_explains_every_reason_of_the_page() -> None:
    rows = re.findall(
        r"^\| (?:`\w+`)? ?\| ((?:`\w+`(?:, )?)+) \|", DOCS.split("## Events of a ClusterAddon")[0], re.MULTILINE
    )
    assert len(rows) > 20
    documented = {name for row in rows for name in re.findall(r"\w+", row)}
    assert documented - {name for reason in REASONS for name in reason.names} == set()
