"""The pages of docs/reference: the generated ones, and tables that have to name what is in the code."""

from __future__ import annotations

import importlib
import pkgutil
import re
from types import ModuleType
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import typer
from pydantic import Field

import functions
import shared
from infra.cli.main import app
from infra.generate.crds import schema
from infra.operations.reasons import REASONS
from infra.reference import commands, crds, metrics, plots, reasons
from infra.reference.markdown import table
from shared.api.models import CUSTOM_RESOURCES, Model
from shared.applier import policy
from shared.metrics import exposition
from tests.support.condition_reasons import ROOT, given_texts


class Item(Model):
    name: str = Field(max_length=3)
    """A name | a text of <angle> brackets."""


class Sample(Model):
    items_here: list[Item] | None = None
    by_name: dict[str, Item] | None = None
    port: int = Field(default=80, ge=1, le=9)
    on: bool = True


FIELDS = [
    ("`itemsHere`", "list of object", "", ""),
    ("`itemsHere[].name`", "string, at most 3 characters", "", "*Required.* A name | a text of <angle> brackets."),
    ("`byName`", "map of object", "", ""),
    ("`byName.*.name`", "string, at most 3 characters", "", "*Required.* A name | a text of <angle> brackets."),
    ("`port`", "integer, 1 to 9", "`80`", ""),
    ("`on`", "boolean", "`true`", ""),
]


def test_fields_of_a_kind() -> None:
    assert list(crds._fields(schema(Sample))) == FIELDS


def test_cells_of_a_table_are_one_line_without_markup() -> None:
    assert table(["a", "b"], [("x\ny", "`<z>` | <w>")]) == "| a | b |\n|---|---|\n| x y | `<z>` \\| &lt;w> |\n"


def test_each_kind_has_a_section() -> None:
    headings = [line for line in crds.page().splitlines() if line.startswith("## ")]
    listed = ", ".join(heading.removeprefix("## ") for heading in headings).split(", ")
    assert sorted(listed) == sorted(custom.resource.kind for custom in CUSTOM_RESOURCES)


def _paths(command: Any, path: str = "") -> list[str]:
    if command.hidden:
        return []
    inner = getattr(command, "commands", {}).items()
    return [path.strip()] * bool(path) + [found for name, each in inner for found in _paths(each, f"{path} {name}")]


@pytest.mark.parametrize("path", _paths(typer.main.get_command(app)))
def test_each_command_has_a_section(path: str) -> None:
    headings = [line for line in commands.page().splitlines() if line.startswith("##")]
    assert sum(f"`{path}`" in heading for heading in headings) == 1


def test_each_reason_is_in_the_section_of_its_kind() -> None:
    sections = dict(part.split("\n", 1) for part in reasons.page().split("\n## ")[1:])
    assert {reason.kind for reason in REASONS} == {*sections} - {"Providers"} | {"provider"}
    for reason in REASONS:
        section = sections["Providers" if reason.kind == "provider" else reason.kind]
        assert ", ".join(f"`{name}`" for name in reason.names) in section


def test_links_of_reasons_are_relative_to_the_page() -> None:
    assert "](../releases.md#storage)" in reasons.page()


_MARK = re.compile(r"capi-functions\.dev/[a-z-]+")


def _constants(package: ModuleType) -> set[str]:
    """Returns the texts that modules of a package have as constants."""
    names = [found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith((".main", ".worker"))]
    return {value for module in modules for value in vars(module).values() if isinstance(value, str)}


def _rows(page: str) -> dict[str, list[str]]:
    """Returns the cells of the tables of a page, by the name in the first cell."""
    lines = (ROOT / "docs" / "reference" / f"{page}.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| `")]
    return {name.strip("`"): rest for name, *rest in cells}


def test_each_annotation_of_ours_is_listed() -> None:
    known = {value for package in (shared, functions) for value in _constants(package)}
    policies = {f"{policy.PREFIX}{name}" for name in policy._KNOWN}
    ours = {value for value in known if _MARK.fullmatch(value)} | policies
    listed = _rows("annotations").keys()
    assert len(ours) > 15
    assert ours - listed == set()
    assert listed - known - policies == set()


@pytest.mark.parametrize("name", policy.CHOICES)
def test_values_of_an_annotation_are_listed_with_the_default_first(name: str) -> None:
    default, *others = policy.CHOICES[name]
    values = ", ".join([f"`{default}` (default)", *(f"`{value}`" for value in others)])
    assert _rows("annotations")[f"{policy.PREFIX}{name}"][1] == values


def test_each_metric_is_listed() -> None:
    found = re.findall(r"^# TYPE (capi_functions_\w+)", exposition().decode(), re.MULTILINE)
    assert len(found) > 15
    assert [name for name in found if f"| `{name}` |" not in metrics.page()] == []


def test_each_event_without_a_condition_is_listed() -> None:
    found = given_texts({"add_event", "KubernetesEvent"}, [ROOT / "functions", ROOT / "shared"])
    assert {"DriftFound", "ManagedByClusterAPI", "EventNotHandled"} <= found
    assert found - _rows("events").keys() == set()


def test_bars_have_the_proportions_of_the_figures() -> None:
    root = ET.fromstring(plots.plot("figure,unit,here,there\nfirst,s,2,4\nsecond,<b>,0,0\n"))
    bars = [float(each.attrib["width"]) for each in root.findall(".//{*}rect")][3:]
    assert bars == [150, 300, 0, 0]
    texts = [each.text for each in root.findall(".//{*}text")]
    assert texts == ["here", "there", "first", "2 s", "4 s", "second", "0 <b>", "0 <b>"]


@pytest.mark.parametrize("path", plots.pages())
def test_a_page_shows_each_plot(path: str) -> None:
    name = path.removeprefix("docs/")
    assert any(f"]({name})" in page.read_text() for page in (ROOT / "docs").glob("*.md"))
