"""Changes JSON documents in place: by a merge patch (RFC 7396), or by the operations of a JSON patch (RFC 6902)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, Final

MAX_NESTING: Final = 200
"""Levels of a document, because copying and comparing are recursive."""

MAX_VALUES: Final = 200_000


class Budget:
    """The number of values that patches may add in all: without a limit, copies of copies fill the memory."""

    def __init__(self, values: int = MAX_VALUES) -> None:
        self._left = values

    def spend(self, value: Any, level: int) -> None:
        """Counts the values in `value`, whose place is `level` levels below the root.

        Raises `ValueError` if there are too many, or if they nest too deep.
        """
        for nesting in _levels(value):
            self._left -= 1
            if self._left < 0:
                raise ValueError("the patches add too many values")
            if level + nesting > MAX_NESTING:
                raise ValueError(f"more than {MAX_NESTING} levels deep")


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
        budget.spend(patch, level)
        return deepcopy(patch)
    budget.spend(None, level)
    result = document if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value, budget, level + 1)
    return result


def apply_operations(document: Any, operations: Sequence[Any], budget: Budget) -> Any:
    """Returns the document with the operations applied (RFC 6902); changes the document, even if an operation fails.

    Raises:
        ValueError: An operation is invalid or fails; the message names the operation, and no value.
    """
    from jsonpatch import JsonPatch, JsonPatchException, JsonPatchTestFailed
    from jsonpointer import JsonPointerException

    for number, operation in enumerate(operations):
        try:
            _spend(document, operation, budget)
            document = JsonPatch([operation]).apply(document, in_place=True)
        except (ValueError, JsonPatchException, JsonPointerException) as error:
            # Values may be secret. jsonpatch quotes them after a failed test, and where a member is not found.
            failed_test = isinstance(error, JsonPatchTestFailed)
            problem = "the value is missing or differs" if failed_test else str(error).partition(" found in ")[0][:200]
            raise ValueError(f"operation {number}{_describe(operation)}: {problem}") from None
    return document


def _describe(operation: Any) -> str:
    """Returns op and path of an operation, for messages; its value may be secret."""
    words = [operation.get(name) for name in ("op", "path")] if isinstance(operation, dict) else []
    return f" ({' '.join(map(str, words))[:200]})" if all(words) and words else ""


def _spend(document: Any, operation: Any, budget: Budget) -> None:
    """Counts what an operation adds to the document. Raises `ValueError` or `JsonPointerException`."""
    from jsonpointer import resolve_pointer

    match operation:
        case {"op": "add" | "replace", "path": str(path), "value": value}:
            budget.spend(value, path.count("/"))
        case {"op": "move" | "copy", "path": str(path), "from": str(source)}:
            budget.spend(resolve_pointer(document, source), path.count("/"))
        case {"op": "remove", "path": str(path)} | {"op": "test", "path": str(path), "value": _}:
            if path.count("/") > MAX_NESTING:
                raise ValueError(f"more than {MAX_NESTING} levels deep")
        case _:
            raise ValueError("needs op (add, remove, replace, move, copy, test), path, and its value or from")
