"""Conditions in CEL, the Common Expression Language: one expression over named objects, true or false.

Expressions come from releases, and an evaluation can neither be interrupted nor shared with other threads. So they run
in a worker process with limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import sandbox
from .sandbox import LimitExceeded, Limits

MAX_LENGTH = 8192
"""Characters of one expression."""

LIMITS = Limits(cpu=1, wall=10.0, memory=128)


class ExpressionError(ValueError):
    """An expression that can never be evaluated: its text, or a variable that nothing is bound to, is wrong."""


class NotYet(Exception):
    """The objects lack what the expression asks for: a field that may still come."""


def variables(expression: str) -> list[str]:
    """The names that an expression needs bound. Raises `ExpressionError` for one that does not compile."""
    names: list[str] = _call("variables", expression)
    return names


def evaluate(expression: str, objects: Mapping[str, Any]) -> bool:
    """The truth of an expression. Raises `ExpressionError`, or `NotYet` for a field or list item that is missing."""
    return bool(_call("evaluate", expression, dict(objects)))


def _call(function: str, expression: str, *more: Any) -> Any:
    if len(expression) > MAX_LENGTH:
        raise ExpressionError(f"an expression of {len(expression)} characters, {MAX_LENGTH} are allowed")
    try:
        return sandbox.call(
            f"shared.cel_library:{function}", expression, *more, limits=LIMITS, raises=(ExpressionError, NotYet)
        )
    except LimitExceeded as error:
        raise ExpressionError(f"{expression!r} {error}, and was ended") from error
