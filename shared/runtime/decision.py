"""The decision of a function about an object, and its remaining part that the object does not reflect yet.

A function has one `decide`. The runtime calls it before the effects, and once more with their results. An object is
reconciled if `decide` requests nothing for the recorded state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from ..api.conditions import get_condition
from ..effects import Effect, Results, would_change
from ..event import Event
from ..kube import Object, dig
from ..redaction import redact_status, redactor
from .recorder import KubernetesEvent

O = TypeVar("O")  # noqa: E741 - what a function observes


@dataclass(frozen=True)
class Decision:
    """The actions for an object, and the report about it.

    Attributes:
        effects: Writes, executed in order until one fails.
        status: A merge patch for the status of the primary object, with only the fields that this function owns.
        kubernetes_events: Kubernetes Events to record about the primary object.
        requeue_after: Seconds until the object is to be reconciled again; None: at its next event.
        reply: The CloudEvent that starts the next step, in another function.
        message: For logs and answers.
        proceed: Whether another round of the four steps of this function follows at once.
        context: More fields for the log line, without secrets.
        reports: The failure of an effect that the status reports. The runtime raises any other failure.
    """

    effects: tuple[Effect, ...] = ()
    status: Object | None = None
    kubernetes_events: tuple[KubernetesEvent, ...] = ()
    requeue_after: float | None = None
    reply: Event | None = None
    message: str = ""
    proceed: bool = False
    context: Mapping[str, str] = field(default_factory=dict)
    reports: Exception | None = None

    def asks_for_nothing(self, primary: Object) -> bool:
        """Returns whether `primary` is reconciled: nothing is to be written, recorded or sent, now or later."""
        return self.requeue_after is None and self.writes_nothing(primary)

    def writes_nothing(self, primary: Object) -> bool:
        """Returns whether the decision only waits or does nothing."""
        return not (
            self.effects or self.proceed or self.reply or self.changes_status(primary) or self.new_events(primary)
        )

    def changes_status(self, primary: Mapping[str, Any]) -> bool:
        """Returns whether the status of `primary` differs from the decision's."""
        return bool(self.status) and would_change(primary.get("status") or {}, self.status)

    def new_events(self, primary: Mapping[str, Any]) -> tuple[KubernetesEvent, ...]:
        """Returns the Kubernetes events, except events of conditions that `primary` already has.

        Status, reason and message are compared after redaction, as they are written to the API server.
        """
        before, after = dig(primary, "status.conditions", []), dig(self.status, "conditions", [])

        def is_unchanged(event: KubernetesEvent) -> bool:
            pair = [get_condition(conditions, event.condition) for conditions in (before, after)]
            old, new = ([(one or {}).get(name) for name in ("status", "reason", "message")] for one in pair)
            return bool(event.condition) and pair[1] is not None and old == new

        return tuple(event for event in self.kubernetes_events if not is_unchanged(event))

    def redacted(self, values: Collection[str]) -> Decision:
        """Returns the decision without the values in status, events and message."""
        if not values:
            return self
        redacted = redactor(values)
        return replace(
            self,
            status=redact_status(self.status, redacted),
            kubernetes_events=tuple(
                replace(event, message=redacted(event.message)) for event in self.kubernetes_events
            ),
            message=redacted(self.message),
        )


Decide = Callable[[O, datetime, Results | None], Decision]
"""`decide(observed, now, results)`, see `Function`."""


def reconciled_by(
    decide: Decide[O], recorded: Callable[[Object, Event, datetime], O | None]
) -> Callable[[Object, Event, datetime], bool]:
    """Returns the predicate `Triggers.is_reconciled` that follows from `decide`.

    Args:
        decide: The decision of the function.
        recorded: `recorded(primary, event, now)` returns the inputs of the decision from the primary object and the
            event, without a request; None if a read is needed.
    """

    def is_reconciled(primary: Object, event: Event, now: datetime) -> bool:
        """Returns whether `decide` requests nothing for the recorded state."""
        observed = recorded(primary, event, now)
        return observed is not None and decide(observed, now, None).asks_for_nothing(primary)

    return is_reconciled
