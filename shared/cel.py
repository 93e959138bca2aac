"""Evaluates conditions in CEL, the Common Expression Language: boolean expressions over named objects.

Expressions come from releases and cannot be interrupted, so they are evaluated in a worker process with limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import sandbox
from .sandbox import LimitExceeded, Limits

MAX_LENGTH = 8192
"""The characters that an expression may have."""

LIMITS = Limits(cpu=1, wall=10.0, memory=128)


class ExpressionError(ValueError):
    """The expression can never be evaluated, because it is invalid, or a variable is not bound to an object."""


class NotYet(Exception):
    """The expression uses a field that the objects do not have yet."""


def variables(expression: str) -> list[str]:
    """Returns the variables of an expression. Raises `ExpressionError` if it does not compile."""
    names: list[str] = _call("variables", expression)
    return names


def evaluate(expression: str, objects: Mapping[str, Any]) -> bool:
    """Returns the value of an expression. Each variable is the object of that name in `objects`.

    Raises `ExpressionError`, or `NotYet` if a field or list item is missing.
    """
    return bool(_call("evaluate", expression, dict(objects)))


def _call(function: str, expression: str, *arguments: Any) -> Any:
    if len(expression) > MAX_LENGTH:
        raise ExpressionError(f"the expression has {len(expression)} characters, {MAX_LENGTH} are allowed")
    try:
        return sandbox.call(
            f"shared.cel_library:{function}", expression, *arguments, limits=LIMITS, raises=(ExpressionError, NotYet)
        )
    except LimitExceeded as error:
        raise ExpressionError(f"{expression!r} {error}, and was ended") from error
