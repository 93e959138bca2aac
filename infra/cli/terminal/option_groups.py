"""Commands with groups of options, which are dataclasses whose fields are options, and with examples in their help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

import typer
from rich.markup import escape
from typer.models import CommandFunctionType

PROGRAM = "capi-functions"


class App(typer.Typer):
    """An app whose commands have examples, and may have groups of options, which typer lacks."""

    def command(
        self, *args: Any, examples: Sequence[str] = (), **kwargs: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Returns a decorator that adds a command, each group as the options in it.

        Args:
            args: As for typer.
            examples: Command lines at the end of the help; the name of the program is added unless they contain it.
            kwargs: As for typer.
        """
        lines = [each if PROGRAM in each else f"{PROGRAM} {each}" for each in examples]
        add = super().command(*args, epilog="\n".join(["Examples:", *map(escape, lines)]), **kwargs)
        return lambda command: add(_without_groups(command))

    def add_for_kind(
        self, kind: str, command: Callable[..., None], summary: str, examples: Sequence[str], *, of_one: bool = False
    ) -> None:
        """Adds a command under the plural `kind` and its singular, as kubectl takes both.

        The help lists the plural, or the singular for a command about one object.
        """
        command.__doc__ = summary
        shown, hidden = sorted((kind, kind.removesuffix("s")), key=len, reverse=not of_one)
        self.command(shown, examples=examples)(command)
        self.command(hidden, examples=examples, hidden=True)(command)


def _without_groups(command: Any) -> Any:
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    options = []
    for name, option in inspect.signature(command).parameters.items():
        option = option.replace(kind=option.KEYWORD_ONLY, annotation=hints[name])
        if name not in groups:
            options.append(option)
            continue
        types = get_type_hints(groups[name], include_extras=True)
        for one in fields(groups[name]):
            options.append(option.replace(name=one.name, default=one.default, annotation=types[one.name]))

    @wraps(command)
    def called(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{one.name: given.pop(one.name) for one in fields(group)})
        return command(**given)

    called.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return called
