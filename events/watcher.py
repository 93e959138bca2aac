"""Watches every kind that a function declares and tells which functions each change concerns.

Level-triggered: a first list is told as `add`s, so that a restart resumes from what is there; after any interruption
a new list is compared with what was known, so that nothing missed stays missed. Of an object only a few words are
kept: its version, a hash of what matters to each function, and what is needed to tell of its deletion.

A kind that is not served costs next to nothing: one watch of CustomResourceDefinitions tells when it comes.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from shared.event import Change, Event, change_event
from shared.kube import ApiError, Client, Gone, Key, NotServed, Object, Resource, dig, key_of
from shared.kube.client import METADATA, METADATA_LIST
from shared.kube.crds import CRD
from shared.triggers import Referrer, Triggers, Watch

log = logging.getLogger("capi-functions.events")

OnChange = Callable[[Event, Collection[str]], object]
"""Takes a change and the names of the functions that it concerns."""

_WATCH_SECONDS = 300
_UNDEFINED_PAUSE = 300.0
"""Seconds until a kind that is not served is asked for again although no definition of it came: what an aggregated
API server serves has none."""
_DEFINED_PAUSE = 0.1
"""Seconds until a kind is asked for again that was just defined: it is served a moment later."""
_BLIND_PAUSE = 2.0
"""Seconds, doubled each time, where definitions cannot be watched."""
_KEPT_METADATA = ("name", "namespace", "uid", "labels", "ownerReferences")


@dataclass(frozen=True)
class InformerSpec:
    """One list and watch, and the functions that it serves."""

    resource: Resource
    selector: str
    reference: bool
    watches: tuple[tuple[str, Watch], ...]

    @property
    def metadata_only(self) -> bool:
        """True where the content need not even be fetched, as for every Secret."""
        paths = [path for _, watch in self.watches for path in watch.fields]
        return is_secret(self.resource) or (self.reference and all(path.startswith("metadata.") for path in paths))

    def __str__(self) -> str:
        group = f".{self.resource.group}" if self.resource.group else ""
        return f"{self.resource.kind}{group}" + (f" ({self.selector})" if self.selector else "")


def is_secret(resource: Resource) -> bool:
    return resource.group == "" and resource.kind == "Secret"


def informer_specs(triggers: Iterable[Triggers]) -> list[InformerSpec]:
    """One feed for each kind, selector and form of event, whatever the number of functions.

    Raises ValueError for a declaration that would have the values of Secrets travel.
    """
    watches: dict[tuple[Resource, str, bool], list[tuple[str, Watch]]] = {}
    for declared in triggers:
        for watch in declared.watches:
            if is_secret(watch.resource) and not watch.reference:
                raise ValueError(f"{declared.name}: Secrets are watched by reference only, set reference=True")
            watches.setdefault((watch.resource, watch.selector, watch.reference), []).append((declared.name, watch))
    return [InformerSpec(*what, tuple(functions)) for what, functions in watches.items()]


class _ReferenceIndex:
    """Which objects the objects of some kinds name, as far as these kinds are watched. Shared by all streams."""

    def __init__(self, watched: Iterable[InformerSpec]) -> None:
        watched = list(watched)
        self._lock = threading.Lock()
        self._referenced: dict[Referrer, dict[Key, frozenset[Key] | None]] = {}
        """For each naming object what it names; None where that cannot be told."""
        whole = {spec.resource for spec in watched if self._is_complete(spec)}
        for _, watch in (watches for spec in watched for watches in spec.watches):
            self._referenced |= {referrer: {} for referrer in watch.referenced_by if referrer.resource in whole}

    @staticmethod
    def _is_complete(spec: InformerSpec) -> bool:
        """Whether it brings every object of the kind, with its content."""
        return not spec.selector and not spec.metadata_only

    def update(self, spec: InformerSpec, obj: Object) -> None:
        """Called with each state of an object before anybody is told of it."""
        for referrer, referenced in self._referenced.items():
            if referrer.resource != spec.resource or not self._is_complete(spec):
                continue
            try:
                references = frozenset(referrer.names(obj))
            except Exception:  # an object that the declaration cannot take must not end the watch
                log.exception("what %s %s names cannot be told", spec, key_of(obj))
                references = None
            with self._lock:
                referenced[key_of(obj)] = references

    def forget(self, spec: InformerSpec, key: Key) -> None:
        with self._lock:
            for referrer, referenced in self._referenced.items():
                if referrer.resource == spec.resource:
                    referenced.pop(key, None)

    def is_referenced(self, watch: Watch, key: Key) -> bool:
        """Whether something names this object, or may."""
        if not watch.referenced_by:
            return True
        either = {key, Key(key.namespace, "")}
        with self._lock:
            return any(
                referrer not in self._referenced
                or any(
                    references is None or not references.isdisjoint(either)
                    for references in self._referenced[referrer].values()
                )
                for referrer in watch.referenced_by
            )


class Watcher:
    """Tells `sink` of the changes that `triggers` declare, from one thread per feed.

    `namespace` narrows it to one namespace (empty: all). Every `resync` seconds, give or take a tenth, each object is
    told again with `resync` set.
    """

    def __init__(
        self,
        client: Client,
        triggers: Mapping[str, Triggers],
        on_change: OnChange,
        *,
        resync: float = 600.0,
        namespace: str = "",
    ) -> None:
        self._stop = threading.Event()
        watched = informer_specs(triggers.values())
        references = _ReferenceIndex(watched)
        definitions = InformerSpec(CRD, "", True, (("", Watch(CRD, changes=("add", "update"), reference=True)),))
        self._definitions = _Informer(client, definitions, self._on_defined, self._stop, resync, "", references)
        self._informers = [
            _Informer(client, spec, on_change, self._stop, resync, namespace, references, self._on_not_served)
            for spec in watched
        ]
        self._starting = threading.Lock()

    def start(self) -> None:
        for informer in self._informers:
            informer.thread.start()

    def _on_not_served(self) -> bool:
        """Called by each stream whose kind is not served: whether it will be woken when that is defined."""
        with self._starting:
            if self._definitions.thread.ident is None and not self._stop.is_set():
                self._definitions.thread.start()
        return self._definitions.listed

    def _on_defined(self, event: Event, _functions: Collection[str]) -> None:
        for informer in self._informers:
            if event.name == f"{informer.resource.plural}.{informer.resource.group}":
                informer.wake()

    def wait_synced(self, timeout: float) -> bool:
        """Waits until every kind was listed once; a kind that is not served (yet) does not hold this up."""
        deadline = time.monotonic() + timeout
        return all(informer.synced.wait(max(0.0, deadline - time.monotonic())) for informer in self._informers)

    def stop(self, timeout: float = 5.0) -> None:
        self._stop.set()
        deadline = time.monotonic() + timeout
        with self._starting:
            informers = [*self._informers, self._definitions]
        for informer in informers:
            informer.interrupt()
        for informer in informers:
            if informer.thread.is_alive():
                informer.thread.join(max(0.0, deadline - time.monotonic()))


@dataclass
class _Known:
    version: str
    uid: str
    hashes: tuple[int, ...]
    metadata: Object


class _Informer:
    """List, watch, compare, for one feed."""

    def __init__(
        self,
        client: Client,
        spec: InformerSpec,
        on_change: OnChange,
        stop: threading.Event,
        resync: float,
        namespace: str,
        references: _ReferenceIndex,
        on_not_served: Callable[[], bool] = lambda: False,
    ) -> None:
        self.resource = spec.resource
        self.thread = threading.Thread(target=self._run, name=f"watch-{spec.resource.plural}", daemon=True)
        self.synced = threading.Event()
        self._client = client
        self._spec = spec
        self._on_change = on_change
        self._stop = stop
        self._resync = resync
        self._namespace = namespace
        self._references = references
        self._known: dict[Key, _Known] = {}
        self._next_resync = 0.0
        self._failures = 0
        self._served = True
        self._defined = False
        """Whether the kind's definition came or changed since it was found not to be served."""
        self._absences = 0
        """How often it was not served, since then."""
        self._on_not_served = on_not_served
        self._awake = threading.Event()
        self._end: Callable[[], None] | None = None

    @property
    def listed(self) -> bool:
        """Whether a list has been read since the last failure."""
        return self.synced.is_set() and self._served and not self._failures

    def wake(self) -> None:
        """Ends a wait for the kind to be served: its definition came, or changed."""
        self._defined, self._absences = True, 0
        self._awake.set()

    def interrupt(self) -> None:
        """Ends the open watch and the wait for the next, if any."""
        self._awake.set()
        if self._end is not None:
            with suppress(Exception):  # it may just have ended by itself
                self._end()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._awake.clear()  # before the list: what is defined from here on ends the wait after it
            try:
                self._watch(self._list())
                continue
            except NotServed as error:
                pause = self._not_served(error)
            except Exception as error:
                pause = self._failed(error)
            if not self._stop.is_set():
                self._awake.wait(pause)

    def _failed(self, error: Exception) -> float:
        if self._stop.is_set():
            return 0.0
        self._failures += 1
        pause = min(30.0, 0.1 * 2.0 ** min(self._failures, 20)) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        if isinstance(error, Gone):
            log.info("watch of %s fell behind, listing anew: %s", self._spec, error)
        elif isinstance(error, ApiError):
            # Once is nothing: a server that starts, or a kind that was just defined, refuses the first.
            level = logging.WARNING if self._failures > 1 else logging.INFO
            log.log(level, "watch of %s, attempt %d, again in %.1fs: %s", self._spec, self._failures, pause, error)
        else:
            log.exception("watch of %s failed, again in %.1fs", self._spec, pause)
        return pause

    def _not_served(self, error: NotServed) -> float:
        if self._served:
            log.info("%s is not served (yet): %s", self._spec, error)
            self._defined, self._absences = False, 0
        self._served = False
        # Objects of before are not told to be gone: the kind may be served in another version, and have them still.
        self.synced.set()
        watched = self._on_not_served()
        pause = _UNDEFINED_PAUSE
        if self._defined or not watched:
            pause = min(pause, (_DEFINED_PAUSE if watched else _BLIND_PAUSE) * 2.0 ** min(self._absences, 20))
        self._absences += 1
        return pause * random.uniform(0.8, 1.2)  # noqa: S311 - jitter

    # -- list and watch ----------------------------------------------------------------------------------------

    def _list(self) -> str:
        """Tells of what differs from what was known, or of everything when a resync is due; the list's version."""
        now = time.monotonic()
        resync = self.synced.is_set() and now >= self._next_resync and bool(self._next_resync)
        version, missing = "", set(self._known)
        accept = METADATA_LIST if self._spec.metadata_only else "application/json"
        for page in self._client.pages(
            self._spec.resource, self._namespace, selector=self._spec.selector, accept=accept
        ):
            # Of the first page: what changes while the others are read is told again by the watch.
            version = version or page["metadata"]["resourceVersion"]
            for obj in page["items"]:
                missing.discard(key_of(obj))
                self._observe(obj, resync=resync)
            if self._stop.is_set():
                return version
        self._observe_missing(missing)
        if not self._served:
            log.info("%s is served now", self._spec)
        self._served = True
        if resync or not self._next_resync:
            self._next_resync = now + self._resync * random.uniform(0.9, 1.1)  # noqa: S311 - jitter
        self.synced.set()
        return version

    def _watch(self, version: str) -> None:
        """Follows the changes until a resync is due; servers end a watch now and then, which is no interruption."""
        while not self._stop.is_set() and (left := self._next_resync - time.monotonic()) > 0:
            started = time.monotonic()
            for line in self._client.watch(
                self._spec.resource,
                self._namespace,
                version=version,
                selector=self._spec.selector,
                seconds=max(1, min(_WATCH_SECONDS, round(left))),
                accept=METADATA if self._spec.metadata_only else "application/json",
                on_open=self._opened,
            ):
                self._failures = 0
                obj = line["object"]
                version = obj["metadata"]["resourceVersion"]
                if line["type"] == "DELETED":
                    self._observe_deletion(obj)
                elif line["type"] != "BOOKMARK":
                    self._observe(obj)
            if time.monotonic() - started < 0.5:
                self._stop.wait(0.2)

    def _opened(self, end: Callable[[], None]) -> None:
        self._end = end
        if self._stop.is_set():
            self.interrupt()

    # -- what to tell ------------------------------------------------------------------------------------------

    def _observe(self, obj: Object, *, resync: bool = False) -> None:
        self._set_kind(obj)
        key = key_of(obj)
        self._references.update(self._spec, obj)
        known, new = self._known.get(key), self._digest(obj)
        if known is not None and known.uid != new.uid:  # deleted and made again while nobody watched
            self._observe_missing({key})
            known = None
        if known is None:
            self._known[key] = new
            self._emit("add", obj, self._interested("add", key))
        elif resync:
            self._known[key] = new
            self._emit("update", obj, self._interested("update", key), resync=True)
        elif known.version != new.version:
            self._known[key] = new
            changed = {
                name
                for (name, _), before, after in zip(self._spec.watches, known.hashes, new.hashes, strict=True)
                if before != after
            }
            self._emit("update", obj, [name for name in self._interested("update", key) if name in changed])

    def _observe_deletion(self, obj: Object) -> None:
        self._set_kind(obj)
        key = key_of(obj)
        self._known.pop(key, None)
        self._references.forget(self._spec, key)
        self._emit("delete", obj, self._interested("delete", key))

    def _observe_missing(self, keys: Collection[Key]) -> None:
        """Tells of deletions that were not seen, with what is still known of the objects."""
        for key in keys:
            self._observe_deletion({"metadata": self._known[key].metadata})

    def _interested(self, change: Change, key: Key) -> list[str]:
        return [
            name
            for name, watch in self._spec.watches
            if change in watch.changes and self._references.is_referenced(watch, key)
        ]

    def _emit(self, change: Change, obj: Object, functions: Collection[str], *, resync: bool = False) -> None:
        if not functions:
            return
        event = change_event(obj, change, source=self._client.host, reference=self._spec.reference, resync=resync)
        try:
            self._on_change(event, functions)
        except Exception:  # one event that cannot be taken must not end the watch
            log.exception("%s %s of %s was not taken", self._spec, change, event.key)

    def _set_kind(self, obj: Object) -> None:
        # Lists leave both out, and answers with metadata only carry a kind of their own.
        obj["apiVersion"], obj["kind"] = self._spec.resource.api_version, self._spec.resource.kind

    def _digest(self, obj: Object) -> _Known:
        metadata = obj["metadata"]
        hashes = tuple(
            hash(json.dumps(watch.relevant(obj), sort_keys=True, default=str)) for _, watch in self._spec.watches
        )
        kept = {name: metadata[name] for name in _KEPT_METADATA if metadata.get(name)}
        return _Known(str(metadata["resourceVersion"]), str(dig(obj, "metadata.uid", "")), hashes, kept)
