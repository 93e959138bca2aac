"""docs/providers.md describes all commands for providers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from infra.cli.main import app

DOCS = (Path(__file__).parents[3] / "docs/providers.md").read_text()
COMMANDS = get_command(app).commands["provider"].commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_is_documented(command: str) -> None:
    assert re.search(rf"`{command}\b|provider {command}\b", DOCS)
