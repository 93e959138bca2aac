"""The pages about providers name existing commands, options and annotations; docs/providers.md names all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from functions.provider_delete.observe import FORCE
from infra.cli.main import app
from shared.applier.policy import PREFIX
from shared.providers.annotations import CERTIFICATES, KEEP_DOWNLOAD

ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs/providers.md").read_text()
COMMANDS = get_command(app).commands["provider"].commands  # type: ignore[attr-defined]
BOTH = DOCS + (ROOT / "docs/migrating-from-clusterctl.md").read_text()
GIVEN = re.findall(r"^    capi-functions provider (upgrade \w+|\w+)((?:[^#\n]|\\\n)*)", BOTH, re.MULTILINE)


def test_examples_are_found() -> None:
    assert {"init", "plan", "export", "adopt", "upgrade apply", "delete"} <= {command for command, _ in GIVEN}


@pytest.mark.parametrize(("command", "arguments"), GIVEN)
def test_examples_use_existing_options(command: str, arguments: str) -> None:
    group, _, name = command.partition(" ")
    found = COMMANDS[group].commands[name] if name else COMMANDS[group]
    options = {option for parameter in found.params for option in parameter.opts}
    assert set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", arguments)) <= options


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_is_documented(command: str) -> None:
    assert re.search(rf"`{command}\b|provider {command}\b", DOCS)


@pytest.mark.parametrize("name", [PREFIX + "wait", PREFIX + "wait-timeout", FORCE[-1], KEEP_DOWNLOAD, CERTIFICATES])
def test_every_annotation_is_documented(name: str) -> None:
    assert f"| `{name}" in DOCS


@pytest.mark.parametrize("anchor", re.findall(r"\]\(#([^)]+)\)", DOCS))
def test_links_lead_to_headings(anchor: str) -> None:
    headings = re.findall(r"^#+ (.+)$", DOCS, re.MULTILINE)
    assert anchor in {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
