"""Parses YAML as Kubernetes' tools do (sigs.k8s.io/yaml), within limits. All YAML from outside is parsed here.

PyYAML's own rules differ. It parses dates, takes `10:30` for a base-60 number, leaves `1e3` and `0o644` strings, keeps
keys that are not strings, and has no limits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from .memory_budget import BUDGET, MAX_INPUT

YAMLError = yaml.YAMLError

MAX_NODES: Final = 1_000_000
"""The maximum number of values in texts that are used together, with aliases expanded. Few aliases can stand for
billions."""

MAX_COMPOSED: Final = 200_000
"""The maximum number of values in one document as it is written."""

MAX_EVENTS: Final = 4_000_000
"""The maximum number of events in a document that is read without being built. Each takes about two microseconds."""

_COMPOSED: Final = 750
"""The number of bytes that one such event needs until its document is parsed."""

MAX_NESTING: Final = 200
"""The maximum depth of a document. libyaml's composer recurses in C, where a stack overflow ends the process."""

MAX_MERGED: Final = 100_000
"""The maximum number of keys in a mapping before duplicates are removed, because `<<` can multiply them."""

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UntypedBase: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

_TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_INT = re.compile(
    r"^[-+]?(?:0[bB][01_]+|0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[0-7_]*|[1-9][0-9_]*)$",
)
_FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)


class _Bounded:
    """A mixin for loaders: raises an error for a document that is nested too deeply or has too many values."""

    most = MAX_COMPOSED
    _level = 0
    _composed = 0

    def descend_resolver(self, parent: yaml.Node | None, index: object) -> None:
        """Counts a value before it is built."""
        self._composed = self._composed + 1 if self._level else 1
        if self._composed > self.most:
            raise YAMLError(f"a document has more than {self.most} values")
        self._level += 1
        if self._level > MAX_NESTING:
            raise YAMLError(f"the document is nested more than {MAX_NESTING} levels deep")
        super().descend_resolver(parent, index)  # type: ignore[misc]

    def ascend_resolver(self) -> None:
        self._level -= 1
        super().ascend_resolver()  # type: ignore[misc]


class _UntypedLoader(_Bounded, _UntypedBase):  # type: ignore[misc]
    """Parses every scalar as a string: 1.30 does not become 1.3."""


class _Loader(_Bounded, _Base):  # type: ignore[misc]
    """Parses plain scalars by Go's rules instead of PyYAML's."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own interface

    _keys = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)  # calls this method again for each merged mapping
        if len(node.value) > MAX_MERGED:
            raise YAMLError(f"a mapping has more than {MAX_MERGED} keys, merged ones included")
        self._keys += len(node.value)
        if self._keys > MAX_NODES:
            raise YAMLError(f"the mappings have more than {MAX_NODES} keys, merged ones included")

    def integer(self, node: yaml.ScalarNode) -> int | float:
        text = str(node.value).replace("_", "")
        sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
        if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
            digits = "0o" + digits
        number = int(sign + digits, 0)
        return number if -(2**63) <= number < 2**64 else _plain(float(number))

    def number(self, node: yaml.ScalarNode) -> int | float | str:
        text = str(node.value).replace("_", "").lower()
        if text.endswith((".inf", ".nan")):
            raise yaml.constructor.ConstructorError(None, None, f"{node.value} is not valid in JSON", node.start_mark)
        number = float(text)
        return _plain(number) if math.isfinite(number) else str(node.value)

    def boolean(self, node: yaml.ScalarNode) -> bool:
        return node.value in _TRUE

    def text(self, node: yaml.ScalarNode) -> str:
        return str(node.value)


_STARTS = "-+.0123456789"
for _tag, _pattern, _first in (
    ("bool", re.compile(f"^(?:{'|'.join(_TRUE + _FALSE)})$"), "yYnNtTfFoO"),
    ("int", _INT, _STARTS),
    ("float", _FLOAT, _STARTS),
    ("null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("merge", re.compile(r"^(?:<<)$"), "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, list(_first))
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.number)
_Loader.add_constructor("tag:yaml.org,2002:bool", _Loader.boolean)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.text)


def load_all(
    text: str | bytes, *, untyped: bool = False, most: int = MAX_COMPOSED, copier: Copier | None = None
) -> Iterator[Any]:
    """Yields the documents of a stream as JSON values: mappings have string keys, and aliases are copies.

    Args:
        text: The stream.
        untyped: Every scalar is a string, as it is written in the stream.
        most: The maximum number of values of a document, as they are written; a lower one than the default also
            counts aliases.
        copier: The copier of all texts that are used together.

    Raises:
        YAMLError: A document is invalid or exceeds a limit; raised when the iteration reaches it.
        MemoryBusy: Other inputs use too much memory.
    """
    copier = copier or Copier(MAX_NODES if most == MAX_COMPOSED else most)
    try:
        with BUDGET.parsing(_weight(text, most)):
            loader = (_UntypedLoader if untyped else _Loader)(text)
            loader.most = most
            try:
                while loader.check_data():
                    yield copier.copy(loader.get_data())
            finally:
                loader.dispose()
    except RecursionError as error:
        raise YAMLError("the document contains itself") from error
    except (ValueError, OverflowError) as error:  # such as `!!int abc`, or a very long number
        raise YAMLError(str(error)) from error


def load(text: str | bytes, *, untyped: bool = False, most: int = MAX_COMPOSED, copier: Copier | None = None) -> Any:
    """Returns the only document of a text; None if it is empty. Raises `YAMLError`, also for a second document.

    Takes the arguments of `load_all`, and raises its other errors.
    """
    documents = [one for one in load_all(text, untyped=untyped, most=most, copier=copier) if one is not None]
    if len(documents) > 1:
        raise YAMLError(f"expected one YAML document, found {len(documents)}")
    return documents[0] if documents else None


def scalars(text: bytes, *, most: int = MAX_EVENTS) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yields place and text of each scalar of the first document, without building the document.

    A place has the keys of mappings and the positions in lists from the root on. Aliases are left out.

    Raises:
        YAMLError: The document is invalid, nested more than `MAX_NESTING` deep, or has more than `most` marks and
            values, or a key that is not a scalar; raised when the iteration reaches it.
    """
    parser = _UntypedBase(text)
    place: list[str | int | None] = []  # None: a key comes next
    try:
        for _ in range(most):
            event = parser.get_event()
            if event is None or isinstance(event, yaml.DocumentEndEvent):
                return
            if isinstance(event, yaml.CollectionEndEvent):
                place.pop()
            elif not isinstance(event, yaml.NodeEvent):
                continue
            elif place and place[-1] is None:
                if not isinstance(event, yaml.ScalarEvent):
                    raise YAMLError("a mapping has a key that is not a scalar")
                place[-1] = event.value
                continue
            elif isinstance(event, yaml.CollectionStartEvent):
                place.append(None if isinstance(event, yaml.MappingStartEvent) else 0)
                if len(place) > MAX_NESTING:
                    raise YAMLError(f"the document is nested more than {MAX_NESTING} levels deep")
                continue
            elif isinstance(event, yaml.ScalarEvent):
                yield tuple(part for part in place if part is not None), event.value
            if place:
                last = place[-1]
                place[-1] = last + 1 if isinstance(last, int) else None
        raise YAMLError(f"the document has more than {most} values")
    finally:
        parser.dispose()


def _weight(text: str | bytes, most: int) -> int:
    """Returns the bytes of memory that are set aside for a text, by the characters before its values."""
    marks = "\n:,[{" if isinstance(text, str) else (b"\n", b":", b",", b"[", b"{")
    values = sum(map(text.count, marks))  # type: ignore[arg-type] # both are of the type of the text
    return min(4 * len(text) + min(values, most) * _COMPOSED, MAX_INPUT)


def _plain(number: float) -> int | float:
    """Returns a float as JSON has it: whole numbers as integers, like Go's encoder."""
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


_SCALARS = (str, bool, int, float, type(None))


class Copier:
    """Copies documents into JSON values, at most so many in all."""

    def __init__(self, most: int = MAX_NODES) -> None:
        self._most, self._nodes = most, 0

    def copy(self, value: Any) -> Any:
        """Returns a copy of a document. Raises `YAMLError`."""
        self._count(1)
        return value if type(value) in _SCALARS else self._copy(value)

    def _copy(self, value: Any) -> Any:
        # Scalars, most of all values, are copied without a call.
        if isinstance(value, dict):
            self._count(len(value))
            return {_key(key): item if type(item) in _SCALARS else self._copy(item) for key, item in value.items()}
        if isinstance(value, list):
            self._count(len(value))
            return [item if type(item) in _SCALARS else self._copy(item) for item in value]
        raise YAMLError(f"the document contains a {type(value).__name__}, which JSON cannot represent")

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > self._most:
            raise YAMLError(f"the texts have more than {self._most} values together")


def _key(key: Any) -> str:
    """Returns the key of a mapping as text, as Kubernetes' tools convert it."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise YAMLError(f"a mapping has the key {key!r}, which JSON cannot represent")
