"""Substitutes `${NAME}` in components, with the shell's operators, as clusterctl's engine (drone/envsubst) does.

    ${V}                       the value; empty if it is not set
    ${#V}                      the length of the value in bytes
    ${V^} ${V^^} ${V,} ${V,,}  the value with the first letter, or all, in upper or lower case
    ${V:n} ${V:n:len}          a part of the value, in bytes
    ${V#p} ${V##p}             the value without the shortest or longest prefix that matches the glob p
    ${V%p} ${V%%p}             the value without the shortest or longest suffix that matches the glob p
    ${V/a/b} ${V//a/b}         the value with the first, or every, text `a` replaced; `/#a/b`, `/%a/b` only at an end
    ${V=d} ${V:=d} ${V:-d}     `d` if the value is empty; `:?` and `:+` have the same effect

Variables in comments count, too. `$$` outside of expressions gives `$`. Values are not expanded again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from .expressions import Expression, Part, SubstitutionError, parse
from .globs import prefix_lengths

MAX_WORK: Final = 2**24
"""The limit of characters that all expressions together read and write. Nested expressions multiply a short text."""

_GLOB_STEP: Final = 16
"""The cost of one step of a glob, in copied characters."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def variables(text: str) -> dict[str, str | None]:
    """Returns the names with the default of their first occurrence, None without a default.

    Raises `SubstitutionError`.
    """
    return _variables(parse(text))


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Returns the text with all expressions replaced.

    Raises `SubstitutionError`, which names all variables without a value.
    """
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
            result = _apply_operator(expression, value, arguments)
        self._spend(len(result), expression)
        return result

    def _spend(self, characters: int, expression: Expression) -> None:
        self._left -= characters
        if self._left < 0:
            raise SubstitutionError(f"the components become too large at variable {expression.name}")


def _work(operator: str, value: str, arguments: Sequence[str]) -> int:
    """Returns an upper bound of the characters that the operation reads and writes."""
    match operator, arguments:
        case (("#" | "##" | "%" | "%%"), [pattern]):
            return _GLOB_STEP * len(value) * len(pattern)
        case ["//", [sought, replacement]]:
            return value.count(sought) * len(replacement)
    return 0


def _apply_operator(expression: Expression, value: str, arguments: Sequence[str]) -> str:
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
    """Changes the case letter by letter, except letters that would become several, as Go does."""
    changed = ((letter, case(letter)) for letter in text)
    return "".join(other if len(other) == 1 else letter for letter, other in changed)


def _part(expression: Expression, value: str, arguments: Sequence[str]) -> str:
    """Returns a part of the value; the whole value if an argument is not a number or lies before the start."""
    if not all(_INTEGER.fullmatch(argument) for argument in arguments):
        return value
    start, *length = map(int, arguments)
    data = value.encode()
    if start < -len(data):
        return value
    if length and length[0] < 0:
        raise SubstitutionError(f"variable {expression.name}: the length of a part cannot be negative")
    data = data[start:]
    return (data[: length[0]] if length else data).decode(errors="replace")


def _stripped(value: str, operator: str, pattern: str) -> str:
    """Removes a prefix or suffix: a suffix is a prefix of the reversed text, with the reversed pattern."""
    step = -1 if operator.startswith("%") else 1
    lengths = prefix_lengths(pattern[::step], value[::step])
    if not lengths:
        return value
    return value[::step][lengths[-1 if len(operator) == 2 else 0] :][::step]


def _replaced(value: str, operator: str, sought: str, replacement: str | None = None) -> str:
    """Replaces a text in the value. `/#` and `/%` need a replacement, as in clusterctl's engine."""
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
