"""Watches the kinds that functions declare, and calls back with each change and the functions that it is for.

It is level-triggered: the first round of lists and each resync (`events.rounds`) report all objects, so that a restart
resumes from the present state. Each kind has an informer (`events.informer`).

The watcher rarely lists a kind that is not served: a watch of CustomResourceDefinitions shows when it is defined. That
watch also finds contract-selected kinds (`shared.triggers.DefinedKinds`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from shared.event import Event
from shared.kube import ApiError, Client, Key, Object, Resource
from shared.kube.crds import CRD
from shared.triggers import Triggers, Watch

from .health import KindHealth
from .informer import SILENCE, Informer
from .references import ReferenceIndex
from .rounds import OnChange, PlainRound, Round, Rounds
from .settling import Settling
from .specs import InformerSpec, informer_specs, spec_for_crd

log = logging.getLogger("capi-functions.events")

BeginRound = Callable[[Sequence[InformerSpec]], Round]
"""Returns a new round; called with the kinds that are about to be listed."""

_DEFINITIONS_PATIENCE = 5.0
"""Seconds for which the first round waits until definitions are listed."""
_DEFINITION_PAUSE = 30.0
"""The maximum number of seconds until an unreadable definition is read again."""
_SERVED, _KINDS = "served", "kinds"
_OF_DEFINITIONS = (
    (_SERVED, Watch(CRD, reference=True)),
    (_KINDS, Watch(CRD, reference=True, fields=("metadata.generation", "metadata.labels"))),
)
"""The reasons to watch definitions. The status of a definition may show that its kind is served now. Spec and label
changes select kinds by contract."""


class Watcher:
    """Watches the kinds that `triggers` declare, with one thread per informer.

    Args:
        client: The cluster to watch.
        triggers: The functions by name.
        on_change: Called with each change, in the threads of the informers.
        resync: Seconds between reports of all objects, as updates with `resync` set; varied by up to a tenth.
        namespace: Watches only these namespaces, separated by commas; empty: all.
        begin_round: Returns the receiver of the events of the first list and of each resync; by default `on_change`.
        silence: See `events.informer.SILENCE`.
    """

    def __init__(
        self,
        client: Client,
        triggers: Mapping[str, Triggers],
        on_change: OnChange,
        *,
        resync: float = 600.0,
        namespace: str = "",
        begin_round: BeginRound | None = None,
        silence: float = SILENCE,
    ) -> None:
        self._stop = threading.Event()
        self._namespaces = namespace.split(",")
        watched = [each for spec in informer_specs(triggers.values()) for each in self._in_namespaces(spec)]
        self._client = client
        self._triggers = triggers
        self._on_change = on_change
        self._silence = silence
        self._references = ReferenceIndex(watched)
        self._begin_round = begin_round or (lambda _specs: PlainRound(on_change, self.is_referenced))
        self._rounds = Rounds(resync, self._begin)
        self._patterns = [each.defined_kinds for each in triggers.values() if each.defined_kinds is not None]
        self._settling = Settling()
        definitions = InformerSpec(CRD, "", True, _OF_DEFINITIONS)
        of_definitions = Rounds(resync, lambda _resync: PlainRound(self._on_defined, lambda _function, _event: True))
        self._definitions = Informer(
            client,
            definitions,
            self._on_defined,
            self._stop,
            of_definitions,
            "",
            self._references,
            self._settling,
            silence=silence,
        )
        self._named = [self._informer(spec, self._stop) for spec in watched]
        self._defined: dict[str, list[Informer]] = {}
        """The informers of contract-selected kinds, by the name of the CRD."""
        self._ended: list[Informer] = []
        """The informers whose kind or version is not watched now, and whose threads may still run."""
        self._starting = threading.Lock()

    def _in_namespaces(self, spec: InformerSpec) -> list[InformerSpec]:
        return [replace(spec, namespace=namespace) for namespace in self._namespaces]

    def _informer(self, spec: InformerSpec, stop: threading.Event) -> Informer:
        return Informer(
            self._client,
            spec,
            self._on_change,
            stop,
            self._rounds,
            spec.namespace,
            self._references,
            self._settling,
            self._on_not_served,
            self._silence,
        )

    @property
    def _informers(self) -> list[Informer]:
        return [*self._named, *(informer for each in self._defined.copy().values() for informer in each)]

    def kinds(self) -> list[KindHealth]:
        """Returns the activity of each watched kind."""
        watching = [*self._informers, *([self._definitions] if self._definitions.thread.ident else [])]
        return [KindHealth(str(one.spec), one.synced.is_set(), one.expected_by) for one in watching]

    def start(self) -> None:
        """Starts the informers."""
        if self._patterns:
            self._watch_definitions()
        for informer in self._named:
            informer.thread.start()

    def restart(self) -> None:
        """Lists all kinds and reports all objects again, as after a start."""
        self._rounds.restart()
        for informer in self._informers:
            informer.interrupt()

    def knows(self, resource: Resource, key: Key) -> bool | None:
        """Returns whether the object exists, from the informer's cache; None if the cache is incomplete."""
        for informer in self._informers:
            if informer.resource == resource and informer.spec.namespace in ("", key.namespace) and informer.sees_all:
                return informer.knows(key)
        return None

    def is_referenced(self, function: str, event: Event) -> bool:
        """Returns whether the event's object is, or may be, referenced as the function's watch requires."""
        watch = self._triggers[function].watch(event)
        return watch is None or self._references.is_referenced(watch, event.key)

    def _begin(self, resync: bool) -> Round:
        """Begins a round without the kinds that are not served or cannot be listed."""
        if self._patterns:
            self._definitions.tried.wait(_DEFINITIONS_PATIENCE)  # contract-selected kinds are known then, too
        waiting = [informer for informer in self._informers if not resync or informer.listed]
        return self._begin_round([informer.spec for informer in waiting])

    def _on_not_served(self) -> bool:
        """Starts the watch of CRDs for an informer whose kind is not served; returns whether that watch works."""
        self._watch_definitions()
        return self._definitions.listed

    def _watch_definitions(self) -> None:
        with self._starting:
            if self._definitions.thread.ident is None and not self._stop.is_set():
                self._definitions.thread.start()

    def _on_defined(self, event: Event, purposes: Collection[str]) -> None:
        if self._definitions.tried.is_set():  # what the first list shows is older
            self._settling.note()
        for informer in self._informers:
            if event.name == f"{informer.resource.plural}.{informer.resource.group}":
                informer.wake(defined=event.change != "delete")
        if _KINDS in purposes and any(pattern.may_define(event.name) for pattern in self._patterns):
            self._watch_defined(event.name)

    def _watch_defined(self, name: str) -> None:
        """Watches the kind of a CRD, in the version that its labels name now; ends the watch of another version."""
        crd = self._find_definition(name)
        spec = spec_for_crd(self._triggers.values(), crd) if crd is not None else None
        specs = self._in_namespaces(spec) if spec is not None else []
        present = self._defined.get(name, [])
        if [informer.spec for informer in present] == specs:
            return
        with self._starting:
            self._defined.pop(name, None)
            for informer in present:
                log.info("%s is no longer watched in version %s", informer.spec, informer.resource.version)
                informer.end(undefined=crd is None and not self._stop.is_set())
            self._ended = [informer for informer in (*self._ended, *present) if informer.thread.is_alive()]
            if specs and not self._stop.is_set():
                self._defined[name] = [self._informer(each, threading.Event()) for each in specs]
            for informer in self._defined.get(name, []):
                log.info(
                    "%s is watched in version %s, as its definition says", informer.spec, informer.resource.version
                )
                informer.wake()
                informer.settles = not present  # another version is mostly served, and objects may exist
                informer.thread.start()

    def _find_definition(self, name: str) -> Object | None:
        """Returns the CRD. Retries until the API server answers or the watcher stops, because no event repeats this."""
        pause = 0.5
        while True:
            try:
                return self._client.find(CRD, Key("", name))
            except ApiError as error:
                log.warning("the definition %s cannot be read: %s; trying again", name, error)
            if self._stop.wait(pause):
                return None
            pause = min(2 * pause, _DEFINITION_PAUSE)

    def wait_synced(self, timeout: float) -> bool:
        """Returns whether every kind was listed within `timeout` seconds; kinds that are not served count as listed."""
        deadline = time.monotonic() + timeout
        if self._patterns and not self._definitions.tried.wait(timeout):
            return False
        return all(informer.synced.wait(max(0.0, deadline - time.monotonic())) for informer in self._informers)

    def stop(self, timeout: float = 5.0) -> None:
        """Ends the watches and waits for the threads, for at most `timeout` seconds."""
        self._stop.set()
        deadline = time.monotonic() + timeout
        with self._starting:
            informers = [*self._informers, *self._ended, self._definitions]
        for informer in informers:
            informer.end()
        for informer in informers:
            if informer.thread.is_alive():
                informer.thread.join(max(0.0, deadline - time.monotonic()))
