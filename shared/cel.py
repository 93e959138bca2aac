"""Conditions in CEL, the Common Expression Language: one expression over named objects, true or false."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MAX_LENGTH = 8192
"""Characters of one expression."""


_LOCAL = re.compile(r"\.(?:all|exists|exists_one|map|filter)\(\s*(\w+)\s*,")
"""Variables that a macro binds itself, `x` in `list.exists(x, ...)`; the library names them with the others."""


class ExpressionError(ValueError):
    """An expression that can never be evaluated: its text, or a variable that nothing is bound to, is wrong."""


class NotYet(Exception):
    """The objects lack what the expression asks for: a field that may still come."""


def variables(expression: str) -> list[str]:
    """The names that an expression needs bound. Raises `ExpressionError` for one that does not compile."""
    import cel

    if len(expression) > MAX_LENGTH:
        raise ExpressionError(f"an expression of {len(expression)} characters, {MAX_LENGTH} are allowed")
    try:
        named = set(cel.compile(expression).variables())
    except ValueError as error:
        raise ExpressionError(" ".join(str(error).split())) from error
    return sorted(named - set(_LOCAL.findall(expression)))


def evaluate(expression: str, objects: Mapping[str, Any]) -> bool:
    """The truth of an expression. Raises `ExpressionError`, or `NotYet` for a field or list item that is missing."""
    import cel

    unbound = [name for name in variables(expression) if name not in objects]
    if unbound:
        bound = ", ".join(objects) or "none"
        raise ExpressionError(f"{expression!r} uses {', '.join(unbound)}; the objects listed for it are: {bound}")
    try:
        result = cel.evaluate(expression, dict(objects))
    except (KeyError, IndexError) as error:
        raise NotYet(f"{expression!r}: nothing at {error}") from error
    except Exception as error:  # types that do not fit, unknown functions, division by zero
        raise ExpressionError(f"{expression!r}: {' '.join(str(error).split())}") from error
    if not isinstance(result, bool):
        raise ExpressionError(f"{expression!r} gives {type(result).__name__}, true or false is needed")
    return result
