"""The commands in README, docs and examples exist, with these options."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import typer
import yaml

from infra.cli.main import app
from tests.support.pages import PAGES, ROOT, Block, blocks, commands, spans

PROGRAM = typer.main.get_command(app)
TARGETS = {*re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE), ".venv/.installed"}
BLOCKS = [block for page in PAGES for block in blocks(page)]
SCRIPTS = [block for block in BLOCKS if block.is_shell]
PLACEHOLDER = re.compile(r"MissingParameter|does not exist|is a (?:file|directory)")
"""Errors of words that stand for something else, such as `FOLDER`, and of commands in sentences."""

_AT_ONCE = frozenset(["--help", "-h", "--version", "--install-completion", "--show-completion"])
"""Options that act while they are parsed."""


def problem(words: list[str], command: Any = PROGRAM, name: str = "capi-functions", parent: Any = None) -> str:
    """Returns how the command line refuses these arguments; empty if it accepts them. Runs nothing."""
    if _AT_ONCE.intersection(words) or (not words and hasattr(command, "commands")):
        return ""
    try:
        context = command.make_context(name, list(words), parent)
        if not hasattr(command, "commands"):
            return ""
        inner, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        return problem(rest, found, inner, context)
    except typer.Exit:
        return ""
    except Exception as error:
        text = error.format_message() if hasattr(error, "format_message") else f"{type(error).__name__}: {error}"
        return "" if PLACEHOLDER.search(f"{text} {type(error).__name__}") else text


def refused(words: list[str]) -> str:
    """Returns why a command of ours cannot be run; empty for other commands."""
    if words[0] == "capi-functions":
        return problem(words[1:])
    if words[0] == "make":
        targets = {word for word in words[1:] if "=" not in word and not word.startswith("-")}
        return ", ".join(f"no target {name}" for name in targets - TARGETS)
    return ""


def _name(block: Block) -> str:
    return f"{block.page}:{block.line}"


@pytest.mark.parametrize("block", SCRIPTS, ids=_name)
def test_commands_of_a_block_exist(block: Block) -> None:
    syntax = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert syntax.stderr == ""
    assert [f"{' '.join(words)}: {why}" for words in commands(block.text) if (why := refused(words))] == []


SENTENCES = [page for page in PAGES if page.parent.name != "reference"]
"""Pages with commands in sentences; the reference has usages instead."""


@pytest.mark.parametrize("page", SENTENCES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_sentences_exist(page: Any) -> None:
    found = [words for span in spans(page) for words in commands(span)]
    assert [f"{' '.join(words)}: {why}" for words in found if (why := refused(words))] == []


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.is_yaml], ids=_name)
def test_yaml_is_valid(block: Block) -> None:
    assert list(yaml.safe_load_all(block.text))


def test_blocks_are_found() -> None:
    found = [words for block in SCRIPTS for words in commands(block.text)]
    assert sum(words[0] == "capi-functions" for words in found) > 100
    assert sum(words[0] == "kubectl" for words in found) > 80
    assert sum(block.is_yaml for block in BLOCKS) > 10


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("a b | c >d # e", [["a", "b"], ["c"]]),
        ("X=1 a \\\n  -b 'c d'; e && f", [["a", "-b", "c d"], ["e"], ["f"]]),
        (
            'eval "$(capi-functions local env)"',
            [["capi-functions", "local", "env"], ["eval", "SUBSTITUTED"]],
        ),
    ],
)
def test_commands_of_a_script(script: str, expected: list[list[str]]) -> None:
    assert list(commands(script)) == expected


@pytest.mark.parametrize("words", ["up --detached", "get clouds", "plan addons demo --output xml", "down here"])
def test_wrong_commands_are_refused(words: str) -> None:
    assert problem(words.split())
    assert refused(["make", "tests"])
