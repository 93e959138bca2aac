"""Values that must not be read in what is told, such as passwords that a server cites."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ..redaction import without
from .recorder import KubernetesEvent

_WORDS = ("message", "error")
"""Fields of a status that are for people."""


def in_status(status: Any, values: Collection[str]) -> Any:
    """Without them wherever the status has words."""
    if isinstance(status, list):
        return [in_status(entry, values) for entry in status]
    if not isinstance(status, dict):
        return status
    return {
        name: without(value, values) if name in _WORDS and isinstance(value, str) else in_status(value, values)
        for name, value in status.items()
    }


def in_notice(event: KubernetesEvent, values: Collection[str]) -> KubernetesEvent:
    return replace(event, message=without(event.message, values))
