"""Changes JSON documents in place: by a merge patch (RFC 7396), or by the operations of a JSON patch (RFC 6902)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, Final

MAX_NESTING: Final = 200
"""Levels of a document: copying and comparing are recursive."""

MAX_VALUES: Final = 200_000

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_END: Final = "-"


class Budget:
    """The number of values that patches may add in all: without a limit, copies of copies fill the memory."""

    def __init__(self, values: int = MAX_VALUES) -> None:
        self._left = values

    def spend(self, values: int = 1) -> None:
        """Counts added values. Raises `ValueError` beyond the budget."""
        self._left -= values
        if self._left < 0:
            raise ValueError("the patches add too many values")

    def copy(self, value: Any, level: int) -> Any:
        """Returns a copy for a place `level` levels below the root. Raises `ValueError` if too large or too deep."""
        for nesting in _levels(value):
            self.spend()
            if level + nesting > MAX_NESTING:
                raise ValueError(f"more than {MAX_NESTING} levels deep")
        return deepcopy(value)


def _levels(value: Any) -> Iterator[int]:
    """Yields the level of each value within `value`, itself included; without recursion."""
    waiting = [(value, 0)]
    while waiting:
        current, level = waiting.pop()
        yield level
        children = current.values() if isinstance(current, dict) else current if isinstance(current, list) else ()
        waiting += [(child, level + 1) for child in children]


def merge(document: Any, patch: Any, budget: Budget, level: int = 0) -> Any:
    """Returns the document with a merge patch applied (RFC 7396); changes the document.

    Args:
        document: The value to patch.
        patch: The patch: mappings merge by key, null removes a key, other values replace.
        budget: The limit of added values.
        level: The level of the document within the whole.

    Raises:
        ValueError: The patch adds too much, or nests too deep.
    """
    if not isinstance(patch, dict):
        return budget.copy(patch, level)
    budget.spend()
    result = document if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value, budget, level + 1)
    return result


def apply_operations(document: Any, operations: Sequence[Any], budget: Budget) -> Any:
    """Returns the document with the operations applied (RFC 6902); changes the document, also if an operation fails.

    Raises:
        ValueError: An operation is invalid or fails; the message names it.
    """
    edited = _Edited(document, budget)
    for number, operation in enumerate(operations):
        try:
            edited.apply(operation)
        except ValueError as error:
            raise ValueError(f"operation {number}{_describe(operation)}: {error}") from error
    return edited.root


def _describe(operation: Any) -> str:
    """Returns op and path of an operation, for messages; its value may be secret."""
    words = [operation.get(name) for name in ("op", "path")] if isinstance(operation, dict) else []
    return f" ({' '.join(map(str, words))[:200]})" if all(words) and words else ""


class _Edited:
    """A document in a frame, so that pointers can address the whole document like its parts."""

    def __init__(self, document: Any, budget: Budget) -> None:
        self._frame = {"": document}
        self._budget = budget

    @property
    def root(self) -> Any:
        return self._frame[""]

    def apply(self, operation: Any) -> None:
        match operation:
            case {"op": "add", "path": path, "value": value}:
                self._add(_pointer(path), value)
            case {"op": "remove", "path": path}:
                self._remove(_pointer(path))
            case {"op": "replace", "path": path, "value": value}:
                self._replace(_pointer(path), value)
            case {"op": "move", "path": path, "from": source}:
                self._move(_pointer(source), _pointer(path))
            case {"op": "copy", "path": path, "from": source}:
                self._add(_pointer(path), self._value(_pointer(source)))
            case {"op": "test", "path": path, "value": value}:
                if not _equal_in_json(self._value(_pointer(path)), value):
                    raise ValueError("the value differs")
            case _:
                raise ValueError("needs op (add, remove, replace, move, copy, test), path, and its value or from")

    def _add(self, pointer: Sequence[str], value: Any) -> None:
        parent, name = self._parent(pointer), pointer[-1]
        copy = self._budget.copy(value, len(pointer) - 1)
        if isinstance(parent, list):
            parent.insert(len(parent) if name == _END else _index(name, len(parent)), copy)
        else:
            parent[name] = copy

    def _remove(self, pointer: Sequence[str]) -> None:
        if len(pointer) == 1:
            raise ValueError("the whole object cannot be removed")
        parent = self._parent(pointer)
        del parent[_existing(parent, pointer[-1])]

    def _replace(self, pointer: Sequence[str], value: Any) -> None:
        parent = self._parent(pointer)
        parent[_existing(parent, pointer[-1])] = self._budget.copy(value, len(pointer) - 1)

    def _move(self, source: Sequence[str], pointer: Sequence[str]) -> None:
        value = self._value(source)
        if source == pointer:
            return
        if source == pointer[: len(source)]:
            raise ValueError("cannot be moved into itself")
        self._remove(source)
        self._add(pointer, value)

    def _value(self, pointer: Sequence[str]) -> Any:
        parent = self._parent(pointer)
        return parent[_existing(parent, pointer[-1])]

    def _parent(self, pointer: Sequence[str]) -> Any:
        current: Any = self._frame
        for name in pointer[:-1]:
            current = current[_existing(current, name)]
        if not isinstance(current, dict | list):
            raise ValueError(f"{pointer[-1]!r} is not in a mapping or a list")
        return current


def _pointer(text: Any) -> list[str]:
    """Returns the steps of a JSON pointer (RFC 6901), after a first step into the frame."""
    if not isinstance(text, str) or (text and not text.startswith("/")) or re.search(r"~(?![01])", text):
        raise ValueError("path and from are JSON pointers such as /spec/replicas")
    steps = [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")]
    if len(steps) > MAX_NESTING:
        raise ValueError(f"more than {MAX_NESTING} levels deep")
    return steps


def _existing(container: Any, name: str) -> Any:
    """Returns the key or index of an existing value. Raises `ValueError` if there is none."""
    if isinstance(container, list):
        return _index(name, len(container) - 1)
    if not isinstance(container, dict) or name not in container:
        raise ValueError(f"{name[:100]!r} does not exist")
    return name


def _index(text: str, last: int) -> int:
    if not _INDEX.fullmatch(text) or int(text) > last:
        raise ValueError(f"{text[:100]!r} is not an index of this list; the last is {last}")
    return int(text)


def _equal_in_json(one: Any, other: Any) -> bool:
    """Returns whether values are equal in JSON: true is not 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
