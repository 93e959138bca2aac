"""Runs a function for one event: four steps around one pure decision.

    observe   reads what the decision needs
    decide    pure: which effects, which status, which Kubernetes events
    act       executes the effects, in order
    report    decides once more with their results, and writes one status patch, restricted to the function's own fields

The event is only a hint. If the object in the event is reconciled already, the function ends without a request.
Otherwise it reads the object, or begins with a write that the API server rejects if the object has changed. So a
duplicate, late or reordered event does no harm. With an object that this process wrote last it may begin the same way
(`assumed`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from ..clients import Clients
from ..effects import Patch, Results, latest, perform
from ..event import OWN, Event
from ..kube import (
    MANAGER,
    ApiError,
    Conflict,
    Key,
    NotFound,
    Object,
    Resource,
    Unavailable,
    dig,
    is_rejection,
    key_of,
)
from ..storage import StorageError
from ..triggers import Triggers
from ..watch_filter import Filtered
from . import wait_times
from .answer import Answer, done, failed
from .assumed import Assumed, assume, forget, primary_in, remember
from .decision import Decide, Decision
from .keyed_lock import KeyedLock
from .recorder import KubernetesEvent, record_event

O = TypeVar("O")  # noqa: E741 - what a function observes

_MAX_CONFLICTS = 4
_MAX_ROUNDS = 100
_MAX_SECONDS = 20.0
"""The time from an event to the start of its last round. A round may take 90 s for requests to a workload cluster, and
the forwarder waits 120 s for the answer."""


@dataclass(frozen=True)
class Request:
    """The request to reconcile an object because of an event.

    Attributes:
        event: The event. It is a hint, because the object in it may be outdated.
        key: Namespace and name of the primary object.
        primary: The primary object; None if it does not exist.
    """

    event: Event
    key: Key
    primary: Object | None


@dataclass(frozen=True)
class Function(Generic[O]):
    """The parts of one function; `handle` runs them for one event.

    Attributes:
        triggers: The declaration of the function's events, and of when an object is reconciled.
        observe: `observe(clients, request)` reads the inputs.
        decide: `decide(observed, now, results)` is pure. `results` is None before the effects are executed. If there
            were any, `decide` is called again with their results, and this decision is reported; its effects are not
            executed. If an effect failed with `results.error`, the decision has to name the error in `reports`.
            Otherwise the status stays as it was, and the event is retried.
        on_conflict: `on_conflict(clients, observed, decision, results)` is called if another client changed or deleted
            the object while the effects were executed. It undoes their writes, or marks them for repair.
        on_rejected: `on_rejected(primary, error, now)` returns the decision to report if the API server rejects a
            request, so that a retry cannot help. By default the error is recorded as a Kubernetes Event.
        sensitive_values: `sensitive_values(observed)` returns the values to redact from status, events and messages.
        manager: The field manager of the status; a function that shares the status with another function has its own.
        trusts_events: Whether an object in an event may be decided on before it is read. It must be False if the
            content of the object gives access beyond its namespace, because any sender who knows the object's version
            can invent the content.
        lock: Serializes deliveries about one object within this process, so that the second finds the work done. Two
            processes may do the work at once, which is harmless.
        is_sole_writer: Whether hardly anyone else writes the object. Then, if an event does not contain the object, the
            function assumes the last write of this process.
    """

    triggers: Triggers
    observe: Callable[[Clients, Request], O]
    decide: Decide[O]
    on_conflict: Callable[[Clients, O, Decision, Results], None] | None = None
    on_rejected: Callable[[Object, ApiError, datetime], Decision] | None = None
    sensitive_values: Callable[[O], Collection[str]] = field(default=lambda _observed: ())
    manager: str = MANAGER
    trusts_events: bool = True
    is_sole_writer: bool = False
    lock: KeyedLock | None = None

    @property
    def name(self) -> str:
        """The name of the function's folder and target."""
        return self.triggers.name

    def handle(self, clients: Clients, event: Event) -> Answer:
        """Reconciles the object that `event` is about. Raises only on a bug: API errors become answers of 503."""
        ref = self.triggers.primary_ref(event)
        if ref is None or ref.resource is None:
            return done("the event is not for this function")
        if self.lock is None:
            return self._handle(clients, self.triggers.upgraded(event), ref.resource, ref.key)
        try:
            with self.lock.hold((id(clients), ref.key), event.namespace):
                return self._handle(clients, self.triggers.upgraded(event), ref.resource, ref.key)
        except Unavailable as error:
            return failed(error)

    def _handle(self, clients: Clients, event: Event, resource: Resource, key: Key) -> Answer:
        from_event = primary_in(event, resource, key)
        if from_event is not None and self._is_reconciled(from_event, event):
            return _RECONCILED
        assumed = assume(
            clients,
            self.triggers,
            event,
            resource,
            key,
            trusts_events=self.trusts_events,
            is_sole_writer=self.is_sole_writer,
        )
        conflicts = rounds = 0
        end = time.monotonic() + _MAX_SECONDS
        while True:
            try:
                answer = self._reconcile(clients, resource, key, event, assumed)
                assumed, rounds = None, rounds + 1
                if answer is not None:
                    return answer
                if rounds >= _MAX_ROUNDS or time.monotonic() >= end:
                    return done("not finished in time: the event must be delivered again", retry_after=0.0)
            except Filtered as reason:
                return done(str(reason))
            except (Conflict, NotFound) as error:
                # Another client changed or deleted an object after this function had read it.
                if assumed is not None:
                    if assumed.remembered and isinstance(error, Conflict):
                        forget(clients, resource)
                    assumed = None
                    continue
                conflicts += 1
                if isinstance(error, NotFound) or conflicts >= _MAX_CONFLICTS or time.monotonic() >= end:
                    return Answer(503, str(error), retry_after=1.0)
                time.sleep(random.uniform(0.005, 0.025) * 2**conflicts)  # noqa: S311 - jitter
            except (Unavailable, StorageError) as error:
                return failed(error)
            except ApiError as error:
                if assumed is not None and assumed.primary is None:
                    assumed = None  # the object may exist already, so it is read
                    continue
                return failed(error)

    def _is_reconciled(self, primary: Object, event: Event) -> bool:
        predicate = self.triggers.is_reconciled
        return predicate is not None and event.is_skippable and predicate(primary, event, datetime.now(UTC))

    def _reconcile(
        self, clients: Clients, resource: Resource, key: Key, event: Event, assumed: Assumed | None
    ) -> Answer | None:
        """Runs one round of the four steps; returns None if another round follows at once.

        An assumed object may be outdated. So a decision on it is executed only if it begins with a write that the API
        server rejects in that case, or if it writes nothing. Otherwise the object is read, and decided on again.
        """
        primary = assumed.primary if assumed else clients.management.find(resource, key)
        if primary is not None:
            self.triggers.require_admitted(primary)
        if primary is not None and self._is_reconciled(primary, event):
            is_certain = assumed is None or not assumed.remembered
            return _RECONCILED if is_certain else self._reconcile(clients, resource, key, event, None)
        try:
            observed = self.observe(clients, Request(event, key, primary))
        except ApiError as error:
            if assumed is not None:
                return self._reconcile(clients, resource, key, event, None)
            if primary is None or self.on_rejected is None or not is_rejection(error):
                raise
            return self._report(clients, resource, primary, self.on_rejected(primary, error, datetime.now(UTC)))
        now = datetime.now(UTC)
        decision = self.decide(observed, now, None)
        if assumed is not None and not assumed.tolerates(decision):
            return self._reconcile(clients, resource, key, event, None)
        results = perform(decision.effects, clients)
        try:
            return self._conclude(clients, resource, primary, observed, decision, results, now)
        except (Conflict, NotFound):
            if self.on_conflict is not None:
                self.on_conflict(clients, observed, decision, results)
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
        """Reports the results of the effects. Raises the error of a failed effect unless the decision reports it."""
        if results.error is not None:
            decision = self._reported_failure(clients, primary, observed, results, results.error, now)
        elif decision.effects:
            decision = self.decide(observed, now, results)
        decision = decision.redacted(self.sensitive_values(observed))
        if primary is None or _is_gone(primary, results):
            return self._answer(decision)
        decision = replace(decision, kubernetes_events=decision.new_events(primary))
        answer = self._report(clients, resource, latest(primary, results), decision)
        wait_times.observe(self.name, primary, decision.status, now)
        return answer

    def _reported_failure(
        self,
        clients: Clients,
        primary: Object | None,
        observed: O,
        results: Results,
        error: Exception,
        now: datetime,
    ) -> Decision:
        """Returns the decision that reports the failure of an effect. Raises the error if no decision reports it."""
        decision = self.decide(observed, now, results)
        if decision.reports is error:
            return decision
        if primary is not None and is_rejection(error):
            if self.on_rejected is not None:
                return self.on_rejected(dict(latest(primary, results)), error, now)
            record_event(clients, primary, KubernetesEvent("ReconcileFailed", str(error), "Warning"))
        raise error

    def _report(
        self, clients: Clients, resource: Resource, primary: Mapping[str, Any], decision: Decision
    ) -> Answer | None:
        """Writes the status if it differs, records the events, and returns the answer."""
        if decision.changes_status(primary):
            patch = Patch(resource, primary, {"status": decision.status}, "status", self.manager)
            written = patch.execute(clients)
            if self.is_sole_writer or _is_about(decision.reply, written):
                remember(clients, resource, written)
        for event in decision.kubernetes_events:
            record_event(clients, primary, event)
        return self._answer(decision)

    def _answer(self, decision: Decision) -> Answer | None:
        """Returns the answer of a decision; None if another round follows at once."""
        if decision.proceed:
            return None
        return done(
            decision.message, reply=decision.reply, retry_after=decision.requeue_after, context=decision.context
        )


_RECONCILED = Answer(204, "already reconciled", reconciled=True)


def _is_about(reply: Event | None, obj: Object) -> bool:
    """Returns whether the reply requests the next step of the object."""
    return reply is not None and reply.type.startswith(OWN) and (reply.kind, reply.key) == (obj["kind"], key_of(obj))


def _is_gone(primary: Object, results: Results) -> bool:
    """Returns whether the effects removed the last finalizer of a deleted object, so that its status is gone."""
    newest = latest(primary, results)
    return dig(newest, "metadata.deletionTimestamp") is not None and not dig(newest, "metadata.finalizers")
