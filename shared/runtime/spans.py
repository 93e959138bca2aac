"""The content of spans of events and answers: names and outcomes, never content."""

from __future__ import annotations

from ..event import Event
from ..tracing import Span
from .answer import Answer


def describe_event(span: Span, event: Event) -> None:
    """Sets OpenTelemetry's attributes of CloudEvents, and the object of the event."""
    span.set(
        {
            "cloudevents.event_id": event.id,
            "cloudevents.event_type": event.type,
            "cloudevents.event_source": event.source,
            "cloudevents.event_subject": event.subject,
            "capi_functions.kind": event.kind,
            "capi_functions.key": str(event.key) if event.name else "",
        }
    )


def describe_delivery(span: Span, function: str, event: Event | None, answer: Answer) -> None:
    """Sets the function, the event and the outcome; fails the span if the answer is 500 or above."""
    if event is not None:
        describe_event(span, event)
    span.set({"capi_functions.function": function, "capi_functions.outcome": answer.outcome})
    span.set({"http.response.status_code": answer.status})
    if answer.status >= 500:
        span.fail(answer.outcome)
