"""Watches the kinds that functions declare, and calls back with each change and the functions that it is for.

Level-triggered: the first list yields `add` events, so that a restart resumes from the present objects. After an
interruption a new list is compared with the known objects, so that no change is missed. Of each object the watcher
keeps its version, a hash of the fields that each function watches, and the metadata for the event of its deletion.

The watcher rarely lists a kind that is not served: a watch of CustomResourceDefinitions shows when it is defined.
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
"""Called with each change and the names of the functions that it is for."""

_WATCH_SECONDS = 300
_UNDEFINED_PAUSE = 300.0
"""Seconds between requests for a kind that is neither served nor defined. An aggregated API server may serve it later,
without a definition."""
_DEFINED_PAUSE = 0.1
"""Seconds until a kind is requested again that was just defined: it is served a moment later."""
_BLIND_PAUSE = 2.0
"""Seconds, doubled each time, between requests for a kind where definitions cannot be watched."""
_KEPT_METADATA = ("name", "namespace", "uid", "labels", "ownerReferences")


@dataclass(frozen=True)
class InformerSpec:
    """One list and watch of a kind, and the declared watches that share it, each with the name of its function.

    With `reference` the events contain a reference to the object instead of the object.
    """

    resource: Resource
    selector: str
    reference: bool
    watches: tuple[tuple[str, Watch], ...]

    @property
    def metadata_only(self) -> bool:
        """Whether only metadata is requested: for Secrets, and where no watch needs more."""
        paths = [path for _, watch in self.watches for path in watch.fields]
        return is_secret(self.resource) or (self.reference and all(path.startswith("metadata.") for path in paths))

    def __str__(self) -> str:
        group = f".{self.resource.group}" if self.resource.group else ""
        return f"{self.resource.kind}{group}" + (f" ({self.selector})" if self.selector else "")


def is_secret(resource: Resource) -> bool:
    """Returns whether this is the kind Secret."""
    return resource.group == "" and resource.kind == "Secret"


def informer_specs(triggers: Iterable[Triggers]) -> list[InformerSpec]:
    """Returns one spec for each kind, selector and form of event, shared by all functions that watch it.

    Raises `ValueError` for a watch of Secrets with their values.
    """
    watches: dict[tuple[Resource, str, bool], list[tuple[str, Watch]]] = {}
    for declared in triggers:
        for watch in declared.watches:
            if is_secret(watch.resource) and not watch.reference:
                raise ValueError(f"{declared.name}: Secrets are watched by reference only, set reference=True")
            watches.setdefault((watch.resource, watch.selector, watch.reference), []).append((declared.name, watch))
    return [InformerSpec(*shared, tuple(functions)) for shared, functions in watches.items()]


class _ReferenceIndex:
    """Which objects the watched objects refer to, for watches with `referenced_by`. Shared by all informers."""

    def __init__(self, watched: Iterable[InformerSpec]) -> None:
        watched = list(watched)
        self._lock = threading.Lock()
        self._referenced: dict[Referrer, dict[Key, frozenset[Key] | None]] = {}
        """The references of each object; None if they could not be determined."""
        complete = {spec.resource for spec in watched if self._is_complete(spec)}
        for _, watch in (named for spec in watched for named in spec.watches):
            self._referenced |= {referrer: {} for referrer in watch.referenced_by if referrer.resource in complete}

    @staticmethod
    def _is_complete(spec: InformerSpec) -> bool:
        """Returns whether the informer sees every object of the kind, with its content."""
        return not spec.selector and not spec.metadata_only

    def update(self, spec: InformerSpec, obj: Object) -> None:
        """Updates the references of an object; called before the change is reported."""
        for referrer, referenced in self._referenced.items():
            if referrer.resource != spec.resource or not self._is_complete(spec):
                continue
            try:
                references = frozenset(referrer.references(obj))
            except Exception:  # a declaration that fails on an object must not end the watch
                log.exception("the references of %s %s could not be determined", spec, key_of(obj))
                references = None
            with self._lock:
                referenced[key_of(obj)] = references

    def forget(self, spec: InformerSpec, key: Key) -> None:
        """Removes the references of a deleted object."""
        with self._lock:
            for referrer, referenced in self._referenced.items():
                if referrer.resource == spec.resource:
                    referenced.pop(key, None)

    def is_referenced(self, watch: Watch, key: Key) -> bool:
        """Returns whether the object is referenced, or may be. True for a watch without referrers."""
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
    """Watches the kinds that `triggers` declare, with one thread per informer.

    Args:
        client: The cluster to watch.
        triggers: The functions by name.
        on_change: Called with each change, in the threads of the informers.
        resync: Seconds between reports of all objects, as updates with `resync` set; varied by up to a tenth.
        namespace: Watches only this namespace; empty: all.
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
        """Starts the informers."""
        for informer in self._informers:
            informer.thread.start()

    def _on_not_served(self) -> bool:
        """Starts the watch of CRDs for an informer whose kind is not served; returns whether that watch works."""
        with self._starting:
            if self._definitions.thread.ident is None and not self._stop.is_set():
                self._definitions.thread.start()
        return self._definitions.listed

    def _on_defined(self, event: Event, _functions: Collection[str]) -> None:
        for informer in self._informers:
            if event.name == f"{informer.resource.plural}.{informer.resource.group}":
                informer.wake()

    def wait_synced(self, timeout: float) -> bool:
        """Returns whether every kind was listed within `timeout` seconds; kinds that are not served count as listed."""
        deadline = time.monotonic() + timeout
        return all(informer.synced.wait(max(0.0, deadline - time.monotonic())) for informer in self._informers)

    def stop(self, timeout: float = 5.0) -> None:
        """Ends the watches and waits for the threads, for at most `timeout` seconds."""
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
    """What an informer remembers of an object; `hashes` has one hash for each watch of the spec."""

    version: str
    uid: str
    hashes: tuple[int, ...]
    metadata: Object


class _Informer:
    """Lists, watches and compares the objects of one spec, in a thread."""

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
        """Whether the definition of the kind was created or changed since the kind was not served."""
        self._absences = 0
        """How often the kind was not served since it was last served or defined."""
        self._on_not_served = on_not_served
        self._awake = threading.Event()
        self._end: Callable[[], None] | None = None

    @property
    def listed(self) -> bool:
        """Whether a list succeeded since the last failure."""
        return self.synced.is_set() and self._served and not self._failures

    def wake(self) -> None:
        """Ends the wait for the kind to be served: its definition was created or changed."""
        self._defined, self._absences = True, 0
        self._awake.set()

    def interrupt(self) -> None:
        """Ends the open watch, or the wait before the next."""
        self._awake.set()
        if self._end is not None:
            with suppress(Exception):  # the watch may just have ended by itself
                self._end()

    def _run(self) -> None:
        """Lists and watches until the informer is stopped."""
        while not self._stop.is_set():
            self._awake.clear()  # before the list, so that a kind that is defined during the list ends the next wait
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
        """Logs a failed list or watch. Returns the seconds until the next attempt."""
        if self._stop.is_set():
            return 0.0
        self._failures += 1
        pause = min(30.0, 0.1 * 2.0 ** min(self._failures, 20)) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        if isinstance(error, Gone):
            log.info("watch of %s fell behind, listing again: %s", self._spec, error)
        elif isinstance(error, ApiError):
            # The first failure is usual while a server starts, or for a kind that was just defined.
            level = logging.WARNING if self._failures > 1 else logging.INFO
            log.log(level, "watch of %s, attempt %d, again in %.1fs: %s", self._spec, self._failures, pause, error)
        else:
            log.exception("watch of %s failed, again in %.1fs", self._spec, pause)
        return pause

    def _not_served(self, error: NotServed) -> float:
        """Returns the seconds until a kind that is not served is listed again."""
        if self._served:
            log.info("%s is not served (yet): %s", self._spec, error)
            self._defined, self._absences = False, 0
        self._served = False
        # Known objects are not reported as deleted: the kind may be served in another version and still have them.
        self.synced.set()
        watched = self._on_not_served()
        pause = _UNDEFINED_PAUSE
        if self._defined or not watched:
            pause = min(pause, (_DEFINED_PAUSE if watched else _BLIND_PAUSE) * 2.0 ** min(self._absences, 20))
        self._absences += 1
        return pause * random.uniform(0.8, 1.2)  # noqa: S311 - jitter

    # -- list and watch ----------------------------------------------------------------------------------------

    def _list(self) -> str:
        """Reports what differs from the known objects, or all objects when a resync is due; returns the version."""
        now = time.monotonic()
        resync = self.synced.is_set() and now >= self._next_resync and bool(self._next_resync)
        version, missing = "", set(self._known)
        accept = METADATA_LIST if self._spec.metadata_only else "application/json"
        for page in self._client.pages(
            self._spec.resource, self._namespace, selector=self._spec.selector, accept=accept
        ):
            # The version of the first page: the watch repeats the changes made while the other pages are read.
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
        """Reports changes until a resync is due; opens the watch again each time the server ends it."""
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

    # -- what to report ----------------------------------------------------------------------------------------

    def _observe(self, obj: Object, *, resync: bool = False) -> None:
        """Reports what has changed in an object of a list, a watch event or a resync."""
        self._set_kind(obj)
        key = key_of(obj)
        self._references.update(self._spec, obj)
        known, new = self._known.get(key), self._digest(obj)
        if known is not None and known.uid != new.uid:  # deleted and created again between two watches
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
        """Reports the deletion of an object."""
        self._set_kind(obj)
        key = key_of(obj)
        self._known.pop(key, None)
        self._references.forget(self._spec, key)
        self._emit("delete", obj, self._interested("delete", key))

    def _observe_missing(self, keys: Collection[Key]) -> None:
        """Reports deletions that were missed, with the metadata that was kept."""
        for key in keys:
            self._observe_deletion({"metadata": self._known[key].metadata})

    def _interested(self, change: Change, key: Key) -> list[str]:
        """Returns the names of the functions whose watches match the change."""
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
        except Exception:  # a callback that fails on one event must not end the watch
            log.exception("the callback for %s %s of %s failed", self._spec, change, event.key)

    def _set_kind(self, obj: Object) -> None:
        # Lists leave out both, and metadata-only responses have the kind PartialObjectMetadata.
        obj["apiVersion"], obj["kind"] = self._spec.resource.api_version, self._spec.resource.kind

    def _digest(self, obj: Object) -> _Known:
        """Returns what the informer remembers of an object."""
        metadata = obj["metadata"]
        hashes = tuple(
            hash(json.dumps(watch.relevant(obj), sort_keys=True, default=str)) for _, watch in self._spec.watches
        )
        kept = {name: metadata[name] for name in _KEPT_METADATA if metadata.get(name)}
        return _Known(str(metadata["resourceVersion"]), str(dig(obj, "metadata.uid", "")), hashes, kept)
