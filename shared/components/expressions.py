"""Parses texts with `${NAME}` expressions, by the grammar of clusterctl's engine (drone/envsubst)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from .errors import ComponentsError

MAX_NESTING: Final = 50

_SPACED = re.compile(r"\$\{[\t\n\f\r ]*+([A-Za-z0-9_$]++)[\t\n\f\r ]*+\}")
"""Blanks around the name, which clusterctl removes before the engine parses; blanks as Go defines them."""

_NAME = re.compile(r"\w+")
# Nothing follows the repeated groups, so nothing is tried twice. The quantifiers are not possessive, because Python
# before 3.11.5 gets possessive groups wrong.
_PLAIN = re.compile(r"(?:[^$]+|\$\$|\$(?!\{))+")
_DEFAULT = re.compile(r":?=|:[-?+]")
_COLONS = re.compile(r":++")
_SLASHES = re.compile(r"/++")
_CASE = re.compile(r"[\^,]{1,2}")
_STRIP = re.compile(r"##?|%%?")
_REPLACE = re.compile(r"/[/#%]?")

# Arguments are one text or one expression; arguments of defaults are any number of them.
_TEXT = re.compile(r"(?:[^$}]+|\$(?!\{))+")
_OFFSET = re.compile(r"(?![^\0-\x7f])(?:[^$}:]+|\$(?!\{))+")
_SOUGHT = re.compile(r"(?:[^$/\\]+|\\[/\\]|\\|\$\$|\$(?!\{))+")
_REPLACEMENT = re.compile(r"(?:[^$}\\]+|\\[/\\]|\\|\$\$|\$(?!\{))+")
_ESCAPED = re.compile(r"\\([/\\])|\$(\$)")


class SubstitutionError(ComponentsError):
    """An expression in the components is invalid, or a variable has no value."""


@dataclass(frozen=True)
class Expression:
    """One expression; `operator` is empty for the plain value, and `=` for all operators with a default."""

    name: str
    operator: str = ""
    arguments: tuple[str | Expression, ...] = ()

    @property
    def default(self) -> str:
        """The text of all arguments; an expression with arguments counts as one with a default, as in clusterctl."""
        return "".join(part if isinstance(part, str) else f"${{{part.name}}}" for part in self.arguments)


Part = str | Expression


def parse(text: str) -> list[Part]:
    """Returns texts and expressions in their order. Raises `SubstitutionError`, which names the line."""
    return list(_Reader(_SPACED.sub(r"${\1}", text).partition("\0")[0]).parts())


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[int] = []
        """The positions at which the unfinished expressions begin."""

    def parts(self) -> Iterator[Part]:
        while self._at < len(self._text):
            if plain := self._take(_PLAIN):
                yield plain.replace("$$", "$")
            else:
                yield self._expression()

    def _expression(self) -> Expression:
        self._open.append(self._at)
        if len(self._open) > MAX_NESTING:
            raise self._error(f"expressions are nested more than {MAX_NESTING} deep")
        self._at += len("${")
        length = self._skip("#")
        name = self._take(_NAME)
        if not name:
            raise self._error("unable to parse variable name")
        expression = Expression(name, "#length") if length else Expression(name, *self._operation())
        if not self._skip("}"):
            raise self._error("missing closing brace")
        self._open.pop()
        return expression

    def _operation(self) -> tuple[str, tuple[Part, ...]]:
        if self._take(_DEFAULT):
            return "=", tuple(self._default())
        if self._skip(":"):
            offset = self._argument(_OFFSET)
            return ":", (offset, self._argument(_TEXT)) if self._take(_COLONS) else (offset,)
        if operator := self._take(_CASE):
            return operator, ()
        if operator := self._take(_STRIP):
            return operator, (self._argument(_TEXT),)
        if operator := self._take(_REPLACE):
            sought = self._argument(_SOUGHT, escapes=True)
            if not self._take(_SLASHES):
                raise self._error("missing the second of two slashes")
            ends = self._text.startswith("}", self._at)
            return operator, (sought,) if ends else (sought, self._argument(_REPLACEMENT, escapes=True))
        return "", ()

    def _default(self) -> Iterator[Part]:
        while self._at < len(self._text) and self._text[self._at] != "}":
            yield self._argument(_TEXT)

    def _argument(self, pattern: re.Pattern[str], *, escapes: bool = False) -> Part:
        if self._text.startswith("${", self._at):
            return self._expression()
        if not (found := self._take(pattern)):
            raise self._error("missing an argument")
        return _ESCAPED.sub(r"\1\2", found) if escapes else found

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Returns and skips the match at the current position; empty if there is none."""
        if match := pattern.match(self._text, self._at):
            self._at = match.end()
            return match[0]
        return ""

    def _skip(self, mark: str) -> bool:
        """Skips `mark` if it follows at the current position. Returns whether it does."""
        found = self._text.startswith(mark, self._at)
        self._at += found
        return found

    def _error(self, what: str) -> SubstitutionError:
        """Returns an error about the innermost unfinished expression."""
        begin = self._open[-1]
        line = self._text.count("\n", 0, begin) + 1
        shown = self._text[begin : begin + 40].partition("\n")[0]
        return SubstitutionError(f"line {line} of the components: {what}: {shown}")
