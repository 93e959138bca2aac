"""The function `dead_letters`: keeps an event that will not be redelivered, and records a Kubernetes event.

It gets the event as Knative sends it to a dead-letter sink, with the attributes `knativeerror*`; the forwarder does the
same. A letter that cannot be stored is only counted, because a retry would delay others, and the Kubernetes event also
reports it.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import lru_cache
from threading import Lock

from shared import metrics
from shared.clients import Clients
from shared.dead_letters import DeadLetter, DeadLetters, dead_letter
from shared.event import Event
from shared.kube import ApiError, Object, Unavailable
from shared.locks import acquired
from shared.runtime import Answer, KubernetesEvent, Task, done, record_event
from shared.runtime.keyed_lock import TIMEOUT
from shared.storage import ObjectStore, StorageError

from .triggers import FUNCTIONS, KINDS, TRIGGERS

log = logging.getLogger("capi-functions")

_ANSWERS = {0: "did not answer", 4: "rejected", 5: "failed on"}
_LOCK = Lock()
"""One letter at a time, so that a flood of them, or a slow object store, leaves threads for others."""


def run(clients: Clients, event: Event) -> Answer:
    """Keeps an event that was given up."""
    letter = dead_letter(event, datetime.now(UTC))
    outcome = _keep(letter)
    metrics.DEAD_LETTERS.labels(outcome=outcome).inc()
    obj = _find(clients, letter.event)
    if obj is not None:
        record_event(clients, obj, kubernetes_event(letter))
    return done(f"{outcome}: {letter.id} of {letter.function or 'an unknown function'}")


def kubernetes_event(letter: DeadLetter) -> KubernetesEvent:
    """Returns the Kubernetes event, with one of a few texts, because any pod can send the content of a letter."""
    who = letter.function if letter.function in FUNCTIONS else "A receiver"
    what = _ANSWERS.get(letter.status // 100, "did not accept")
    message = f"{who} {what} an event about this object: see `capi-functions dead-letter list`"
    return KubernetesEvent("EventNotHandled", message, "Warning")


@lru_cache(maxsize=1)
def _letters(objects: ObjectStore) -> DeadLetters:
    """Returns the letters of a store, cached while the settings name the same store."""
    return DeadLetters(objects)


def _keep(letter: DeadLetter) -> str:
    try:
        with acquired(_LOCK, TIMEOUT, Unavailable("other letters are being stored")):
            _letters(ObjectStore.from_env()).keep(letter)
    except (StorageError, Unavailable) as error:
        log.warning("dead letter %s is lost: %s", letter.id, error)
        return "lost"
    return "kept"


def _find(clients: Clients, event: Event) -> Object | None:
    """Returns the object that an event is about; None if it does not exist, or functions do not reconcile its kind."""
    for kind in KINDS:
        if (kind.group, kind.kind) == (event.group, event.kind):
            try:
                return clients.management.find(kind, event.key)
            except ApiError as error:
                log.warning("no Kubernetes event about %s %s: %s", event.kind, event.key, error)
    return None


handle = Task(TRIGGERS, run).handle
