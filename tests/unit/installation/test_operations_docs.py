"""docs/operations.md and docs/reference/reasons.md document every condition and reason of addons."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.operations.reasons import REASONS, Reason
from infra.reference import reasons
from shared.applier import preview
from tests.support.condition_reasons import reasons_in

ROOT = Path(__file__).parents[3]
PAGES = {path.name: path.read_text() for path in (ROOT / "docs").glob("*.md")}
DOCS = PAGES["operations.md"]
REASONS_PAGE = reasons.page()
CODE = "\n".join(path.read_text() for path in sorted((ROOT / "functions" / "addon_apply").glob("*.py")))
SAID = re.compile(r"""\w+\.(?:set_false|set_true)\(\s*"(\w+)"(?:,\s*f?"(\w+)")?""")


def spoken_of() -> list[str]:
    found = SAID.findall(CODE)
    return sorted({name for names in found for name in names if name})


def test_search_finds_known_names() -> None:
    assert {"ClusterReady", "InvalidAnnotation", "FailedToApplyObjects"} <= set(spoken_of())


@pytest.mark.parametrize("name", spoken_of())
def test_pages_document_every_condition_and_reason(name: str) -> None:
    assert f"`{name}`" in DOCS + REASONS_PAGE


@pytest.mark.parametrize("action", sorted(set(preview.Action.__args__) - {"unchanged"}))  # type: ignore[attr-defined]
def test_operations_page_documents_every_plan_mark(action: str) -> None:
    assert re.search(rf"^\| `. {action}` \|", DOCS, re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "kind", "condition"),
    [("kind-clusters.md", "KINDCluster", "Ready"), ("kubeconfig.md", "Cluster", "KubeconfigAvailable")],
)
def test_command_and_page_explain_a_reason_alike(page: str, kind: str, condition: str) -> None:
    rows = [line for line in PAGES[page].splitlines() if line.startswith("|")]
    same = [
        reason for reason in REASONS if (reason.kind, reason.condition) == (kind, condition) and _is_in(reason, rows)
    ]
    assert len(same) >= 8


def _is_in(reason: Reason, rows: list[str]) -> bool:
    """Returns whether a table has the reason. Fails if the table explains it in another way."""
    names = ", ".join(f"`{name}`" for name in reason.names)
    ours = [row for row in rows if names in row]
    assert not ours or any(f"| {reason.meaning} | {reason.remedy}" in row for row in ours), names
    return bool(ours)


GOOD = {"NotDeleting", "NotPaused", "NotRemediating"}
"""Reasons of conditions that are False as wanted."""
OTHERS = {"InfrastructureReady", "HelmChartApplied", "HelmChartTemplated", "ClusterAddonConfigValidated"}
"""Types of conditions that the search takes for reasons."""


@pytest.mark.parametrize("function", sorted(path.parent.name for path in (ROOT / "functions").glob("*/triggers.py")))
def test_command_explains_every_reason_of_a_function(function: str) -> None:
    explained = {name for reason in REASONS for name in reason.names}
    assert reasons_in(ROOT / "functions" / function) - explained - GOOD - OTHERS == set()


def test_search_finds_reasons_in_all_forms() -> None:
    assert "WaitingForCA" in reasons_in(ROOT / "functions" / "kubeconfig")  # an argument
    assert "RolloutPaused" in reasons_in(ROOT / "functions" / "helm_chart_proxy")  # an assignment
    assert "InvalidKubeconfig" in reasons_in(ROOT / "functions" / "kubeconfig")  # a constant
    assert "MoreThanOneExists" in reasons_in(ROOT / "functions" / "provider_preflight")  # a field
    assert "ComponentsPatchError" in reasons_in(ROOT / "shared" / "components")  # an attribute of a class


def test_command_explains_every_error_of_components() -> None:
    assert reasons_in(ROOT / "shared" / "components") - {name for reason in REASONS for name in reason.names} == set()
