"""Traces of OpenTelemetry, off by default: from the change of an object to functions, their API requests, next steps.

The standard variables configure them: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
Unless one of `ENDPOINTS` is set, nothing of opentelemetry is imported, and all functions here do nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .recorder import Recorder

log = logging.getLogger("capi-functions")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""The variables that turn traces on."""

SECRET = "OTEL_EXPORTER_OTLP_HEADERS"  # noqa: S105 - a name
"""The variable with headers for the receiver, such as a token."""

HEADER = "traceparent"
"""The header of HTTP, and attribute of CloudEvents, that names a span and its trace: `VERSION-TRACE-SPAN-FLAGS`.

https://www.w3.org/TR/trace-context/,
https://github.com/cloudevents/spec/blob/main/cloudevents/extensions/distributed-tracing.md
"""
_TRACE = slice(3, 35)

Kind = Literal["producer", "consumer", "client", "server"]
"""The subject of a span: the sending or the handling of an event; the sending or the handling of a request."""

Value = str | int
_NONE: Mapping[str, Value] = {}

_recorder: Recorder | None = None


class Span:
    """A step of a trace. This one records nothing."""

    def set(self, attributes: Mapping[str, Value]) -> None:
        """Sets attributes, except empty ones. They hold no secrets."""

    def fail(self, reason: str) -> None:
        """Marks the step as failed."""


NOTHING: AbstractContextManager[Span] = nullcontext(Span())
"""A block without a record."""


def set_up(environment: Mapping[str, str] = os.environ) -> None:
    """Turns traces on if the environment names a receiver. Later calls do nothing."""
    global _recorder
    if _recorder is not None or not is_wanted(environment):
        return
    try:
        from .recorder import Recorder
    except ImportError as error:
        log.warning("traces need capi-functions[tracing], so there are none: %s", error)
        return
    _recorder = Recorder()


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Returns whether the environment names a receiver of traces, and does not turn them off."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(environment.get(name) for name in ENDPOINTS)


def span(
    name: str, kind: Kind, attributes: Mapping[str, Value] = _NONE, *, parent: str = ""
) -> AbstractContextManager[Span]:
    """Records a block as a span; an exception fails it.

    Args:
        name: The name of the work, one of few.
        kind: See `Kind`.
        attributes: The first ones; see `Span.set`.
        parent: The `traceparent` of its cause; by default it begins a trace.
    """
    return _recorder.span(name, kind, attributes, parent) if _recorder else NOTHING


def current() -> str:
    """Returns the `traceparent` of the present span, for its consequences; empty without a span."""
    return _recorder.current() if _recorder else ""


def headers() -> dict[str, str]:
    """Returns the headers of a request that the present span sends."""
    return {HEADER: here} if (here := current()) else {}


def trace_id(traceparent: str) -> str:
    """Returns the trace that a `traceparent` names; empty without one."""
    return traceparent[_TRACE]


def parent(received: Mapping[str, str], of_event: str) -> str:
    """Returns the `traceparent` of an event's cause.

    The header comes from the last hop, so its span is nearer. But an intermediary may have begun another trace.

    Args:
        received: The headers of its request, with names in lower case.
        of_event: Its attribute, which stays the same on the way.
    """
    of_hop = received.get(HEADER, "")
    return of_hop if not of_event or trace_id(of_hop) == trace_id(of_event) else of_event


def in_threads() -> Callable[[], object] | None:
    """Returns the initializer of a pool's threads that work for the present span; None without one."""
    return _recorder.attacher() if _recorder else None
