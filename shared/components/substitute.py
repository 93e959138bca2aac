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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .errors import ComponentsError
from .globs import prefixes

_SPACED = re.compile(r"\$\{[ \t]*([A-Za-z0-9_$]+)[ \t]*\}")
_NAME = re.compile(r"\w+")
_DEEPEST = 50
_MOST = 20 * 2**20
"""Characters of a result: replacements can make much of little."""

_DEFAULTS = (":=", ":-", ":?", ":+", "=")
_CASES = ("^^", "^", ",,", ",")
_STRIPS = ("##", "#", "%%", "%")
_REPLACEMENTS = ("//", "/#", "/%", "/")


class SubstitutionError(ComponentsError):
    """The components cannot be read as a template, or a variable has no value."""


@dataclass(frozen=True)
class Expression:
    """`arguments` are what follows the operator, each a sequence of texts and expressions; `raw` is all of it."""

    name: str
    operator: str = ""
    arguments: tuple[tuple[str | Expression, ...], ...] = ()
    raw: str = field(default="", compare=False)

    @property
    def default(self) -> str:
        """What stands in for a value: whatever operator has an argument counts as having a default."""
        return "".join(part if isinstance(part, str) else part.raw for argument in self.arguments for part in argument)


def variables(text: str) -> dict[str, str | None]:
    """Each name with the default of its first occurrence; None for one that has none. Raises `SubstitutionError`."""
    found: dict[str, str | None] = {}
    for part in _parse(text):
        if isinstance(part, Expression):
            found.setdefault(part.name, part.default or None)
    return found


def missing(text: str, values: Mapping[str, str]) -> list[str]:
    """The names that need a value and have none, sorted. A value that is empty is one."""
    return sorted(name for name, default in variables(text).items() if default is None and name not in values)


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Raises `SubstitutionError`, naming all variables without a value at once."""
    if names := missing(text, values):
        hint = "add them to the Secret of spec.configSecret"
        raise SubstitutionError(f"value for variables [{', '.join(names)}] is not set: {hint}")
    result: list[str] = []
    size = 0
    for part in _parse(text):
        piece = part if isinstance(part, str) else _evaluate(part, values)
        size += len(piece)
        if size > _MOST:
            raise SubstitutionError(f"the components grow beyond {_MOST} characters")
        result.append(piece)
    return "".join(result)


# -- reading -------------------------------------------------------------------------------------------------------


def _parse(text: str) -> Iterator[str | Expression]:
    text = _SPACED.sub(r"${\1}", text).partition("\0")[0]
    reader = _Reader(text)
    position = 0
    while (found := text.find("$", position)) >= 0:
        yield text[position:found]
        if text.startswith("$$", found):
            yield "$"
            position = found + 2
        elif text.startswith("${", found):
            reader.position = found
            yield reader.expression()
            position = reader.position
        else:
            yield "$"
            position = found + 1
    yield text[position:]


class _Reader:
    """Reads one expression after the other from where `position` is."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self.position = 0

    def expression(self) -> Expression:
        start = self.position
        self.position += 2
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(start, f"expressions are nested more than {_DEEPEST} deep")
        length = self._take("#")
        match = _NAME.match(self._text, self.position)
        if match is None:
            raise self._error(start, "unable to parse variable name")
        self.position = match.end()
        operator, arguments = ("length", ()) if length else self._operation(start)
        if not self._take("}"):
            raise self._error(start, "missing closing brace")
        self._depth -= 1
        return Expression(match[0], operator, arguments, self._text[start : self.position])

    def _operation(self, start: int) -> tuple[str, tuple[tuple[str | Expression, ...], ...]]:
        if operator := self._take(*_DEFAULTS):
            return "=", (self._argument(start, "}"),)
        if operator := self._take(*_CASES):
            return operator, ()
        if self._take(":"):
            offset = self._argument(start, ":}")
            return ":", (offset, self._argument(start, "}")) if self._take(":") else (offset,)
        if operator := self._take(*_STRIPS):
            return operator, (self._argument(start, "}"),)
        if operator := self._take(*_REPLACEMENTS):
            sought = self._argument(start, "/", escapes=True)
            self._take("/")
            return operator, (sought, self._argument(start, "}", escapes=True))
        return "", ()

    def _argument(self, start: int, ends: str, *, escapes: bool = False) -> tuple[str | Expression, ...]:
        """Texts and expressions up to one of `ends`, which is left where it is."""
        parts: list[str | Expression] = []
        text = self._text
        begin = self.position
        while self.position < len(text) and text[self.position] not in ends:
            if text.startswith("${", self.position):
                parts += [text[begin : self.position], self.expression()]
                begin = self.position
            elif escapes and text.startswith(("\\/", "\\\\"), self.position):
                parts.append(text[begin : self.position])
                begin = self.position + 1
                self.position += 2
            elif escapes and text[self.position] == "}":
                break
            else:
                self.position += 1
        if self.position >= len(text) or text[self.position] not in ends:
            raise self._error(start, "missing closing brace")
        return (*parts, text[begin : self.position])

    def _take(self, *options: str) -> str:
        for option in options:
            if self._text.startswith(option, self.position):
                self.position += len(option)
                return option
        return ""

    def _error(self, at: int, what: str) -> SubstitutionError:
        line = self._text.count("\n", 0, at) + 1
        shown = self._text[at : at + 40].partition("\n")[0]
        return SubstitutionError(f"line {line} of the components: {what}: {shown}")


# -- evaluation ----------------------------------------------------------------------------------------------------


def _evaluate(expression: Expression, values: Mapping[str, str]) -> str:
    value = values.get(expression.name, "")
    arguments = [_joined(argument, values) for argument in expression.arguments]
    match expression.operator:
        case "length":
            return str(len(value.encode()))
        case "=":
            return value or arguments[0]
        case "^":
            return value[:1].upper() + value[1:]
        case "^^":
            return value.upper()
        case ",":
            return value[:1].lower() + value[1:]
        case ",,":
            return value.lower()
        case ":":
            return _part(value, arguments)
        case "#" | "##" | "%" | "%%" as operator:
            return _stripped(value, operator, arguments[0])
        case "/" | "//" | "/#" | "/%" as operator:
            return _replaced(value, operator, *arguments)
    return value


def _joined(parts: Sequence[str | Expression], values: Mapping[str, str]) -> str:
    return "".join(part if isinstance(part, str) else _evaluate(part, values) for part in parts)


def _part(value: str, arguments: Sequence[str]) -> str:
    if not all(re.fullmatch(r"[0-9]{1,9}", argument) for argument in arguments):
        return value
    start, *length = (int(argument) for argument in arguments)
    data = value.encode()[start:]
    return (data[: length[0]] if length else data).decode(errors="replace")


def _stripped(value: str, operator: str, pattern: str) -> str:
    """A suffix is a prefix of the reversed text, for the reversed pattern."""
    step = -1 if operator.startswith("%") else 1
    lengths = prefixes(pattern[::step], value[::step])
    if not lengths:
        return value
    return value[::step][lengths[-1 if len(operator) == 2 else 0] :][::step]


def _replaced(value: str, operator: str, sought: str, replacement: str) -> str:
    match operator:
        case "//":
            return value.replace(sought, replacement) if sought else value
        case "/#":
            return replacement + value.removeprefix(sought) if value.startswith(sought) else value
        case "/%":
            return value.removesuffix(sought) + replacement if value.endswith(sought) else value
    return value.replace(sought, replacement, 1)
