"""The page of the commands: usage, options and examples of each, as `--help` shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from rich.text import Text

from infra.cli import main

from .markdown import HEAD, plain, table

_HEAD = f"""{HEAD}# Commands

Each command has `--help` with the text of this page. Kinds can be in the singular, too, as in `get cluster`.

"""
_EXIT_CODES = (main.__doc__ or "").partition("\n\n")[2]


def page() -> str:
    """Returns the text of the page. Commands of a group with the same options share a section."""
    program = typer.main.get_command(main.app)
    context = _context(program, "capi-functions", None)
    return _HEAD + _EXIT_CODES + "".join(_sections(program, context))


def _context(command: Any, name: str, parent: Any) -> Any:
    return command.context_class(command, info_name=name, parent=parent, max_content_width=4000, terminal_width=4000)


def _sections(group: Any, context: Any) -> Iterator[str]:
    alike: dict[str, list[tuple[str, Any, Any]]] = {}
    for name, command in group.commands.items():
        if command.hidden:
            continue
        inner = _context(command, name, context)
        if hasattr(command, "commands"):
            alike[name] = [(name, command, inner)]
        else:
            alike.setdefault(_options(command, inner), []).append((name, command, inner))
    for options, members in alike.items():
        _, command, inner = members[0]
        if hasattr(command, "commands"):
            yield f"\n## `{_path(inner)}`\n\n{plain(command.help or '')}\n"
            yield from _sections(command, inner)
        else:
            level = "##" if context.parent is None else "###"
            titles = ", ".join(f"`{_path(inner)}`" for _, _, inner in members)
            yield f"\n{level} {titles}\n\n{''.join(_member(*member) for member in members)}{options}"


def _path(context: Any) -> str:
    return str(context.command_path).removeprefix("capi-functions ")


def _member(_name: str, command: Any, context: Any) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    help_text = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    examples = [Text.from_markup(line).plain for line in (command.epilog or "").splitlines()[1:]]
    shown = "".join(f"    {line}\n" for line in examples)
    return f"{plain(help_text)}\n\nUsage: `{usage}`\n\n{shown}\n"


def _options(command: Any, context: Any) -> str:
    rows = []
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record:
            rows.append((f"`{record[0].strip()}`", record[1]))
    return table(("option", "meaning"), rows)
