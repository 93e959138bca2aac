"""clusterctl's variables in components: `${NAME}`, with the operators that a shell has, as its engine reads them.

    ${V}                       the value, empty where there is none
    ${#V}                      its length in bytes
    ${V^} ${V^^} ${V,} ${V,,}  first letter, or all, in upper or lower case
    ${V:n} ${V:n:len}          a part of it, in bytes
    ${V#p} ${V##p}             without the shortest, longest prefix that the glob p matches
    ${V%p} ${V%%p}             likewise a suffix
    ${V/a/b} ${V//a/b}         with the first, each `a` replaced by `b` (no glob); `/#a/b`, `/%a/b` at its ends
    ${V=d} ${V:=d} ${V:-d}     `d` where the value is empty; `:?` and `:+` mean the same here

The whole text counts, comments included. `$$` stands for `$`, outside of expressions. Values are not expanded again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from .expressions import Expression, Part, SubstitutionError, parse
from .globs import prefixes

MAX_WORK: Final = 2**24
"""Characters that are looked at or made, in all: a few lines can ask for very many."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def variables(text: str) -> dict[str, str | None]:
    """Each name with the default of its first occurrence; None for one that has none. Raises `SubstitutionError`."""
    return _variables(parse(text))


def missing(text: str, values: Mapping[str, str]) -> list[str]:
    """The names that need a value and have none, sorted. A value that is empty is one."""
    return _missing(parse(text), values)


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Raises `SubstitutionError`, naming all variables without a value at once."""
    parts = parse(text)
    if names := _missing(parts, values):
        hint = "add them to the Secret of spec.configSecret"
        raise SubstitutionError(f"value for variables [{', '.join(names)}] is not set: {hint}")
    return _Evaluation(values).of(parts)


def _variables(parts: Iterable[Part]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for part in parts:
        if isinstance(part, Expression):
            found.setdefault(part.name, part.default or None)
    return found


def _missing(parts: Iterable[Part], values: Mapping[str, str]) -> list[str]:
    return sorted(name for name, default in _variables(parts).items() if default is None and name not in values)


class _Evaluation:
    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self._left = MAX_WORK

    def of(self, parts: Iterable[Part]) -> str:
        return "".join(part if isinstance(part, str) else self._expanded(part) for part in parts)

    def _expanded(self, expression: Expression) -> str:
        value = self._values.get(expression.name, "")
        self._spend(len(value), expression)
        if expression.operator == "=":
            result = value or self.of(expression.arguments)
        else:
            arguments = [self.of([argument]) for argument in expression.arguments]
            self._spend(_work(expression.operator, value, arguments), expression)
            result = _operated(expression, value, arguments)
        self._spend(len(result), expression)
        return result

    def _spend(self, characters: int, expression: Expression) -> None:
        self._left -= characters
        if self._left < 0:
            raise SubstitutionError(f"the components grow beyond all measure, at variable {expression.name}")


def _work(operator: str, value: str, arguments: Sequence[str]) -> int:
    """How much is done, or made, at most."""
    match operator, arguments:
        case (("#" | "##" | "%" | "%%"), [pattern]):
            return len(value) * len(pattern)
        case ["//", [sought, replacement]]:
            return value.count(sought) * len(replacement)
    return 0


def _operated(expression: Expression, value: str, arguments: Sequence[str]) -> str:
    match expression.operator, arguments:
        case ["#length", _]:
            return str(len(value.encode()))
        case ["^", _]:
            return _simple(value[:1], str.upper) + value[1:]
        case ["^^", _]:
            return _simple(value, str.upper)
        case [",", _]:
            return _simple(value[:1], str.lower) + value[1:]
        case [",,", _]:
            return _simple(value, str.lower)
        case [":", _]:
            return _part(expression, value, arguments)
        case [("#" | "##" | "%" | "%%") as operator, [pattern]]:
            return _stripped(value, operator, pattern)
        case [("/" | "//" | "/#" | "/%") as operator, _]:
            return _replaced(value, operator, *arguments)
    return value


def _simple(text: str, case: Callable[[str], str]) -> str:
    """Letter by letter: one that would become several stays."""
    changed = ((letter, case(letter)) for letter in text)
    return "".join(other if len(other) == 1 else letter for letter, other in changed)


def _part(expression: Expression, value: str, arguments: Sequence[str]) -> str:
    """What is no number, or too many bytes from the end, changes nothing."""
    if not all(_INTEGER.fullmatch(argument) for argument in arguments):
        return value
    start, *length = map(int, arguments)
    data = value.encode()
    if start < -len(data):
        return value
    if length and length[0] < 0:
        raise SubstitutionError(f"variable {expression.name}: a part of it cannot have a negative length")
    data = data[start:]
    return (data[: length[0]] if length else data).decode(errors="replace")


def _stripped(value: str, operator: str, pattern: str) -> str:
    """A suffix is a prefix of the reversed text, for the reversed pattern."""
    step = -1 if operator.startswith("%") else 1
    lengths = prefixes(pattern[::step], value[::step])
    if not lengths:
        return value
    return value[::step][lengths[-1 if len(operator) == 2 else 0] :][::step]


def _replaced(value: str, operator: str, sought: str, replacement: str | None = None) -> str:
    """At an end nothing is replaced by nothing: the engine wants both arguments there."""
    match operator:
        case "//":
            return value.replace(sought, replacement or "")
        case "/":
            return value.replace(sought, replacement or "", 1)
        case "/#" if replacement is not None and value.startswith(sought):
            return replacement + value.removeprefix(sought)
        case "/%" if replacement is not None and value.endswith(sought):
            return value.removesuffix(sought) + replacement
    return value
