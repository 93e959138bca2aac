"""A function: four steps around one pure decision.

    observe   reads what the decision needs
    decide    pure: what to do, and what to say about it
    act       carries out the effects, in order
    report    one status patch, restricted to what this function owns

The event is only a hint that names a key. Everything is read afresh, so that a doubled, late or reordered event
finds either work still to be done or nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeGuard, TypeVar

from ..api.conditions import get_condition
from ..clients import Clients
from ..effects import Effect, Patch, Results, changes, latest, perform
from ..event import Event
from ..kube import ApiError, Conflict, Gone, Key, NotFound, Object, Resource, Unauthorized, Unavailable, dig
from ..redaction import without
from ..storage import StorageUnavailable
from ..triggers import Triggers
from . import waits, withheld
from .answer import Answer, done
from .recorder import KubernetesEvent, record_event

O = TypeVar("O")  # noqa: E741 - what a function observes

_RACES = 4
_STEPS = 100
_SECONDS = 20.0
"""After which a delivery begins no other round: the last one's requests to a workload cluster may take 90 s more, and a
forwarder waits for 120 s."""


@dataclass(frozen=True)
class Decision:
    """What follows from an observation.

    `status` is a merge patch for the primary object's status (only the fields this function owns), `requeue_after` the
    seconds after which to look again, `reply` the next step for another function. With `proceed` the next step is this
    function's own: it looks again at once. `context` is what the log is to tell beside the message (names, nothing
    secret).
    """

    effects: tuple[Effect, ...] = ()
    status: Object | None = None
    kubernetes_events: tuple[KubernetesEvent, ...] = ()
    requeue_after: float | None = None
    reply: Event | None = None
    message: str = ""
    proceed: bool = False
    context: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Function(Generic[O]):
    """The parts of one function; `handle` runs them for one event.

    `observe(clients, key, primary)`: primary is None where the object is not there.
    `settled(primary, event)`: True where the event brings nothing new, so that nothing more need be read.
    `report(observed, decision, results, now)`: what remains to be decided once the effects have happened or failed. It
    may take a failure over, as a state of the object, by setting `results.error` to None; any other failure is told in
    an event and left to the retry, and the status stays as it was.
    `overtaken(clients, observed, decision, results)`: somebody else has written or removed the object while effects
    happened; what these did to the world may be out of date, and nobody else knows of it.
    `refused(primary, error, now)`: what the object says of a request that the API server does not take, whenever it is
    sent; without it, it is told in an event.
    `withheld(observed)`: values that nobody may read in what is told.
    """

    triggers: Triggers
    observe: Callable[[Clients, Key, Object | None], O]
    decide: Callable[[O, datetime], Decision]
    settled: Callable[[Object, Event], bool] = field(default=lambda _primary, _event: False)
    report: Callable[[O, Decision, Results, datetime], Decision] | None = None
    overtaken: Callable[[Clients, O, Decision, Results], None] | None = None
    refused: Callable[[Object, ApiError, datetime], Decision] | None = None
    withheld: Callable[[O], Collection[str]] = field(default=lambda _observed: ())

    @property
    def name(self) -> str:
        return self.triggers.name

    def handle(self, clients: Clients, event: Event) -> Answer:
        """Brings the object that `event` is about one step nearer to what is wanted. Raises only on a bug."""
        subject = self.triggers.subject(event)
        if subject is None or subject.resource is None:
            return done("no concern of this function")
        races = steps = 0
        end = time.monotonic() + _SECONDS
        while True:
            try:
                answer = self._reconcile(clients, subject.resource, subject.key, event)
                steps += 1
                if answer is not None:
                    return answer
                if steps >= _STEPS or time.monotonic() >= end:
                    return done("many steps done, more to come", again=0.0)
            except Conflict as error:
                races += 1
                if races >= _RACES or time.monotonic() >= end:
                    return Answer(503, str(error), retry_after=1.0)
                time.sleep(random.uniform(0.005, 0.025) * 2**races)  # noqa: S311 - jitter
            except (Unavailable, StorageUnavailable) as error:
                return Answer(503, str(error), retry_after=getattr(error, "retry_after", None) or 2.0)
            except NotFound as error:
                # Something vanished between being read and being written: look again.
                return Answer(503, str(error), retry_after=1.0)
            except ApiError as error:
                return Answer(503, str(error), retry_after=10.0)

    def _reconcile(self, clients: Clients, resource: Resource, key: Key, event: Event) -> Answer | None:
        """One round of the four steps; None where another follows at once."""
        primary = clients.management.find(resource, key)
        if primary is not None and not event.resync and self.settled(primary, event):
            return Answer(204, "settled", settled=True)
        try:
            observed = self.observe(clients, key, primary)
        except ApiError as error:
            if primary is None or self.refused is None or not _is_refusal(error):
                raise
            return self._told(clients, resource, primary, self.refused(primary, error, datetime.now(UTC)))
        now = datetime.now(UTC)
        decision = self.decide(observed, now)
        results = perform(decision.effects, clients)
        try:
            return self._conclude(clients, resource, primary, observed, decision, results, now)
        except (Conflict, NotFound):
            if self.overtaken is not None:
                self.overtaken(clients, observed, decision, results)
            raise

    def _conclude(
        self,
        clients: Clients,
        resource: Resource,
        primary: Object | None,
        observed: O,
        decision: Decision,
        results: Results,
        now: datetime,
    ) -> Answer | None:
        if self.report is not None:
            decision = self.report(observed, decision, results, now)
        error = results.error
        if primary is not None and _is_refusal(error):
            if self.refused is None:
                # The decision did not come true, so its status would be a lie; but somebody should hear why.
                record_event(clients, primary, KubernetesEvent("ReconcileFailed", str(error), "Warning"))
                raise error
            decision, results.error = self.refused(dict(latest(primary, results)), error, now), None
        if results.error is not None:
            raise results.error
        decision = _without(self.withheld(observed), decision)
        if primary is None or _gone(primary, results):
            return self._answer(decision)
        decision = replace(decision, kubernetes_events=news(decision, primary))
        answer = self._told(clients, resource, latest(primary, results), decision)
        waits.observe(self.name, primary, decision.status, now)
        return answer

    def _told(
        self, clients: Clients, resource: Resource, primary: Mapping[str, Any], decision: Decision
    ) -> Answer | None:
        self._write_status(clients, resource, primary, decision)
        return self._answer(decision)

    def _answer(self, decision: Decision) -> Answer | None:
        if decision.proceed:
            return None
        return done(decision.message, reply=decision.reply, again=decision.requeue_after, context=decision.context)

    def _write_status(
        self, clients: Clients, resource: Resource, primary: Mapping[str, Any], decision: Decision
    ) -> None:
        if decision.status and changes(primary.get("status") or {}, decision.status):
            Patch(resource, primary, {"status": decision.status}, "status").execute(clients)
        for event in decision.kubernetes_events:
            record_event(clients, primary, event)


def news(decision: Decision, primary: Mapping[str, Any]) -> tuple[KubernetesEvent, ...]:
    """The decision's events without those whose condition stays, word for word, as `primary` says already.

    Compared as they are written: values may have been withheld since the decision was made.
    """
    before, after = dig(primary, "status.conditions", []), dig(decision.status, "conditions", [])

    def unchanged(event: KubernetesEvent) -> bool:
        told = [get_condition(conditions, event.condition) for conditions in (before, after)]
        old, new = ([(one or {}).get(name) for name in ("status", "reason", "message")] for one in told)
        return bool(event.condition) and told[1] is not None and old == new

    return tuple(event for event in decision.kubernetes_events if not unchanged(event))


def _is_refusal(error: Exception | None) -> TypeGuard[ApiError]:
    """Whether it is about what was asked for: neither the server, nor a race, nor who we are."""
    passing = (Unavailable, Conflict, NotFound, Unauthorized, Gone)
    return isinstance(error, ApiError) and not isinstance(error, passing)


def _without(values: Collection[str], decision: Decision) -> Decision:
    if not values:
        return decision
    return replace(
        decision,
        status=withheld.in_status(decision.status, values),
        kubernetes_events=tuple(withheld.in_notice(event, values) for event in decision.kubernetes_events),
        message=without(decision.message, values),
    )


def _gone(primary: Object, results: Results) -> bool:
    """True once the last finalizer of a deleted object was taken away: there is no status to write any more."""
    newest = latest(primary, results)
    return dig(newest, "metadata.deletionTimestamp") is not None and not dig(newest, "metadata.finalizers")
