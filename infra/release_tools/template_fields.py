"""Finds fields that a Go template uses and that no sample of its data has, such as misspelled ones.

Follows the paths of the template through the samples, block by block. A path through an unknown value (the result of a
function, an empty list) counts as existing. The dot in a `define` counts as the whole data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

ANY: Final = object()
"""Stands for a value in a sample that has any field."""

# An unclosed action extends to the end of the text, so that the text is read once.
_ACTION = re.compile(r"\{\{-?(.*?)(?:-?\}\}|\Z)", re.DOTALL)
_COMMENT = re.compile(r"\{\{-?\s*/\*.*?(?:\*/\s*-?\}\}|\Z)", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<text>"(?:\\.?|[^"\\])*(?:"|\Z)|`[^`]*(?:`|\Z)|'(?:\\.?|[^'\\])*(?:'|\Z))
    |(?P<of>\)(?:\.\w+)*)  # also a field of an expression in parentheses
    |(?P<path>(?:\$\w*)?(?:\.[A-Za-z_]\w*)+|\$\w*|\.(?!\w))
    |(?P<word>\w+)
    |(?P<sign>:=|\S)""",
    re.VERBOSE,
)
_FORGIVING: Final = {"default", "coalesce", "empty", "hasKey", "and", "or", "not", "ternary", "dig", "get"}
"""Template functions whose arguments may be missing fields."""


class MissingField(NamedTuple):
    """A field that samples lack; `optional` if the template handles its absence."""

    path: str
    line: int
    optional: bool


class _Token(NamedTuple):
    """A token of an action: `kind` is a group of `_TOKEN`, `at` the offset in the action."""

    kind: str
    text: str
    at: int


Values = Sequence[Any] | None
"""The value of an expression in each sample that has it; None if it is unknown."""


@dataclass
class _Block:
    """A block that the template has entered: its keyword, its dot, and the variables defined in it."""

    word: str
    dot: Values
    optional: frozenset[str] = frozenset()
    skipped: bool = False
    """Whether no sample enters the block, because a path of its condition is false or empty."""
    variables: dict[str, Values] = field(default_factory=dict)


def missing_fields(text: str, samples: Sequence[Mapping[str, Any]]) -> Iterator[MissingField]:
    """Yields the fields of a template that samples lack.

    `samples` are data of the template. Paths whose root no sample has are left out.
    """
    # Comments are replaced by their line breaks, so that line numbers stay.
    bare = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
    template = _Template(samples)
    for action in _ACTION.finditer(bare):
        tokens = [_Token(str(each.lastgroup), each[0], each.start()) for each in _TOKEN.finditer(action[1])]
        for path, at, optional in template.action(tokens):
            yield MissingField(path, bare.count("\n", 0, action.start(1) + at) + 1, optional)


class _Template:
    """Follows the actions of one template in order."""

    def __init__(self, samples: Sequence[Mapping[str, Any]]) -> None:
        self._top: Values = samples
        self._names = {name for sample in samples for name in sample}
        self._blocks = [_Block("", self._top)]

    def action(self, tokens: list[_Token]) -> Iterator[tuple[str, int, bool]]:
        if not tokens:
            return
        word, rest = tokens[0].text, tokens[1:]
        if word == "end" and len(self._blocks) > 1:
            self._blocks.pop()
        elif word == "else":
            closed = self._blocks.pop() if len(self._blocks) > 1 else self._blocks[0]
            self._open(rest[0].text if rest else closed.word, rest[1:], empty=not rest)
            yield from self._absent(rest, optional=bool(rest))
        elif word in ("if", "with", "range", "block", "define"):
            absent = list(self._absent(rest, optional=word in ("if", "with", "range")))
            self._open(word, rest)
            yield from absent
        else:
            yield from self._absent(tokens, optional=False)
            self._assign(tokens)

    # -- blocks --------------------------------------------------------------------------------------------------

    def _open(self, word: str, tokens: list[_Token], *, empty: bool = False) -> None:
        """Enters a block. `empty`: it is an `else` without a condition, with the dot of the outer block."""
        outer = self._blocks[-1]
        names, expression = _assigned(tokens)
        block = _Block(word, outer.dot)
        if word == "define":
            block.dot = self._top
        elif word == "block":
            block.dot = None
        elif word in ("with", "range") and not empty:
            found = self._value(expression)
            block.dot = _items(found) if word == "range" else found
            block.variables = dict.fromkeys(names[:-1], None) | dict.fromkeys(names[-1:], block.dot)
        elif names:
            block.variables = {names[0]: self._value(expression)}
        if word in ("if", "with"):
            block.optional = frozenset(token.text for token in expression if token.kind == "path")
            block.skipped = self._is_false(expression)
        self._blocks.append(block)

    def _assign(self, tokens: list[_Token]) -> None:
        names, expression = _assigned(tokens)
        if names:
            self._blocks[-1].variables[names[0]] = self._value(expression)
        elif len(tokens) > 1 and tokens[1].text == "=":
            for block in self._blocks:
                block.variables[tokens[0].text] = None

    # -- expressions ---------------------------------------------------------------------------------------------

    def _absent(self, tokens: list[_Token], *, optional: bool) -> Iterator[tuple[str, int, bool]]:
        _, tokens = _assigned(tokens)
        forgiving = optional or any(token.kind == "word" and token.text in _FORGIVING for token in tokens)
        for place, token in enumerate(tokens):
            if token.kind != "path":
                continue
            shown, found = self._operand(tokens, place)
            if found is not None and not found:
                guarded = any(
                    block.skipped or any(_within(token.text, path) for path in block.optional) for block in self._blocks
                )
                yield shown, token.at, forgiving or guarded

    def _is_false(self, tokens: list[_Token]) -> bool:
        """Returns whether a condition is false in each sample: a path, or an `and` of paths, of which one is false."""
        paths = tokens[1:] if tokens and tokens[0].text == "and" else tokens
        if not paths or any(token.kind != "path" for token in paths) or (paths is tokens and len(paths) > 1):
            return False
        found = (self._path(token.text) for token in paths)
        return any(values and not any(values) for values in found)

    def _value(self, tokens: list[_Token]) -> Values:
        """Returns the values of a path, alone or in `index`; other expressions are unknown."""
        kinds = [token.kind for token in tokens]
        if kinds == ["path"]:
            return self._operand(tokens, 0)[1] or None
        if kinds[:2] == ["word", "path"] and tokens[0].text == "index" and set(kinds[2:]) <= {"text"}:
            return self._operand(tokens, 1)[1] or None
        return None

    def _operand(self, tokens: list[_Token], place: int) -> tuple[str, Values]:
        """Returns the path at a token as text, with the keys of `index` after it, and its values."""
        shown = tokens[place].text
        found = self._path(shown)
        if place and tokens[place - 1].text == "index":
            shown = f"index {shown}"
            for token in tokens[place + 1 :]:
                if token.kind != "text":
                    break
                shown, found = f"{shown} {token.text}", _field(found, token.text[1:-1])
        return shown, found

    def _path(self, path: str) -> Values:
        variable, *fields = path.split(".")
        found = self._variable(variable) if variable else self._blocks[-1].dot
        fields = [name for name in fields if name]
        if found is self._top and fields and fields[0] not in self._names:
            return None
        for name in fields:
            found = _field(found, name)
        return found

    def _variable(self, name: str) -> Values:
        if name == "$":
            return self._top
        return next((block.variables[name] for block in reversed(self._blocks) if name in block.variables), None)


def _assigned(tokens: list[_Token]) -> tuple[list[str], list[_Token]]:
    """Returns the names before `:=`, and the tokens after it."""
    place = next((n for n, token in enumerate(tokens) if token.text == ":="), None)
    if place is None:
        return [], tokens
    return [token.text for token in tokens[:place] if token.kind == "path"], tokens[place + 1 :]


def _within(path: str, other: str) -> bool:
    """Returns whether `path` is `other` or a path below it."""
    return path == other or (len(other) > 1 and path.startswith(f"{other}."))


def _field(values: Values, name: str) -> Values:
    if values is None or any(value is ANY for value in values):
        return None
    return [value[name] for value in values if isinstance(value, Mapping) and name in value]


def _items(values: Values) -> Values:
    """Returns the items of a range; unknown if there are none."""
    found: list[Any] = []
    for value in values or ():
        if isinstance(value, Mapping):
            found += value.values()
        elif isinstance(value, list):
            found += value
    return found or None
