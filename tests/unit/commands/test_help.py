"""Every command shows examples that it accepts, and options with one meaning have one name."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from infra.cli.main import app
from infra.cli.terminal.option_groups import PROGRAM

SHORT_OF_SEVERAL = {
    "-f": {"--follow", "--filename"},  # as of kubectl
    "-i": {"--infrastructure", "--installed-only"},  # as of clusterctl and setup-envtest
}
"""Options whose short name has several meanings, as in the programs that users know it from."""


def leaves(group: Any, *path: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, *path, name)
        elif not command.hidden:
            yield " ".join([*path, name]), command


COMMANDS = dict(leaves(get_command(app)))


def examples(command: Any) -> list[str]:
    head, *lines = command.epilog.splitlines()
    assert head == "Examples:"
    return [line.replace("\\[", "[") for line in lines]


@pytest.mark.parametrize("path", COMMANDS)
def test_command_accepts_its_examples(path: str) -> None:
    command = COMMANDS[path]
    assert examples(command)
    for example in examples(command):
        line = example.removeprefix('eval "$(').removesuffix(')"')
        words = shlex.split(line.partition(" > ")[0].partition(" | ")[0])
        prefix = [PROGRAM, *path.split()]
        assert words[: len(prefix)] == prefix
        with command.context_class(command) as context:
            command.make_parser(context).parse_args(words[len(prefix) :])


def options() -> Iterator[tuple[str, Any]]:
    for path, command in COMMANDS.items():
        yield from ((path, option) for option in command.params if option.param_type_name == "option")


def test_short_option_has_one_meaning() -> None:
    long: dict[str, set[str]] = defaultdict(set)
    for _, option in options():
        for short in (name for name in option.opts if not name.startswith("--")):
            long[short].add(next(name for name in option.opts if name.startswith("--")))
    assert {short: names for short, names in long.items() if len(names) > 1} == SHORT_OF_SEVERAL


def test_option_has_its_short_name_in_every_command() -> None:
    short: dict[str, dict[bool, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, option in options():
        has_short = any(not name.startswith("--") for name in option.opts)
        short[next(name for name in option.opts if name.startswith("--"))][has_short].append(path)
    # The control plane of `render` is a file, of clusterctl's options a provider.
    assert {name: found[False] for name, found in short.items() if len(found) > 1} == {"--control-plane": ["render"]}
