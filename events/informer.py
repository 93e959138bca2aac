"""Lists and watches one kind in a thread, and reports what changes.

After an interruption a new list is compared with the known objects, so that no change is missed. Of each object the
informer keeps its version, a hash of the fields that each function watches, and the metadata for the event of its
deletion.
"""

from __future__ import annotations

import json
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from shared import metrics
from shared.event import Change, change_event
from shared.kube import ApiError, Client, Gone, Key, NotServed, Object, dig, key_of
from shared.kube.client import METADATA, METADATA_LIST
from shared.kube.crds import find_definition
from shared.kube.errors import Silent
from shared.triggers import Watch, record_failure

from .references import ReferenceIndex
from .rounds import NumberedRound, OnChange, Rounds
from .settling import Settling
from .specs import InformerSpec

log = logging.getLogger("capi-functions.events")

_WATCH_SECONDS = 300
_UNDEFINED_PAUSE = 300.0
"""Seconds between requests for a kind that is neither served nor defined. An aggregated API server may serve it later,
without a definition."""
_SERVING_PAUSE = 0.5
"""Seconds, doubled each time, between requests for a kind that was just defined and is not served yet."""
_DEFINITION_LAG = 0.2
"""Seconds after the early end of a watch in which a change of the kind's definition may show; also the minimum pause
between two watches."""
_BLIND_PAUSE = 2.0
"""Seconds, doubled each time, between requests for a kind where definitions cannot be watched."""
SILENCE = 120.0
"""Seconds without an event or a bookmark after which a watch is opened again. API servers send a bookmark a minute."""
_PATIENCE = 1.5
"""The part of `SILENCE` within which the API server must answer requests about a kind."""
_KEPT_METADATA = ("name", "namespace", "uid", "labels", "ownerReferences")


@dataclass
class _Known:
    """The state that an informer keeps for an object; `hashes` has one hash for each watch of the spec."""

    version: str
    uid: str
    hashes: tuple[int, ...]
    metadata: Object


class Informer:
    """Lists, watches and compares the objects of one spec, in a thread."""

    def __init__(
        self,
        client: Client,
        spec: InformerSpec,
        on_change: OnChange,
        stop: threading.Event,
        rounds: Rounds,
        namespace: str,
        references: ReferenceIndex,
        settling: Settling,
        on_not_served: Callable[[], bool] = lambda: False,
        silence: float = SILENCE,
    ) -> None:
        self.resource = spec.resource
        self.thread = threading.Thread(target=self._run, name=f"watch-{spec.resource.plural}", daemon=True)
        self.synced = threading.Event()
        self.tried = threading.Event()
        """Set when the first list has succeeded or failed."""
        self.spec = spec
        self.settles = False
        """Whether the first list waits until definitions have settled."""
        self._client = client
        self._on_change = on_change
        self._stop = stop
        self._rounds = rounds
        self._round = 0
        """The number of the round that the last complete list belongs to."""
        self._namespace = namespace
        self._references = references
        self._settling = settling
        self._known: dict[Key, _Known] = {}
        self._failures = 0
        self._served = True
        self._defined = False
        """Whether the definition of the kind was created or changed, before the first list or since the kind was not
        served."""
        self._undefined = False
        self._absences = 0
        """The number of attempts that found the kind not served, since it was last served or defined."""
        self._on_not_served = on_not_served
        self._silence = silence
        self.expected_by = math.inf
        """The time (`time.monotonic()`) at which the API server must have answered again; see `events.health`."""
        self._awake = threading.Event()
        self._interrupted = False
        self._end: Callable[[], None] | None = None

    @property
    def listed(self) -> bool:
        """Whether a list succeeded since the last failure."""
        return self.synced.is_set() and self._served and not self._failures

    @property
    def sees_all(self) -> bool:
        """Whether every object of the kind is known, apart from changes of the last moment."""
        return bool(self._round) and self._served and not self.spec.selector

    def knows(self, key: Key) -> bool:
        """Returns whether the object was listed or watched, and not deleted since."""
        return key in self._known

    def wake(self, *, defined: bool = True) -> None:
        """Ends the wait for the kind to be served, because its definition was created, changed or deleted."""
        self._defined, self._absences = defined, 0
        self._awake.set()

    def interrupt(self) -> None:
        """Ends the open watch, or the wait before the next."""
        self._interrupted = True
        self._awake.set()
        if self._end is not None:
            with suppress(Exception):  # the watch may just have ended by itself
                self._end()

    def end(self, *, undefined: bool = False) -> None:
        """Ends the informer; its thread ends a moment later. Objects of an undefined kind are reported as deleted."""
        self._undefined = undefined
        self._stop.set()
        self.tried.set()
        self.interrupt()

    def _run(self) -> None:
        """Lists and watches until the informer is stopped."""
        self._heard()
        if self.settles:
            self._wait_settled()
        while not self._stop.is_set():
            self._interrupted = False
            self._awake.clear()  # before the list, so that a kind that is defined during the list ends the next wait
            try:
                self._watch(self._list())
                continue
            except NotServed as error:
                pause = self._not_served(error)
            except Exception as error:
                self._awake.clear()  # definitions that changed during the watch do not end this wait
                pause = self._failed(error)
            if not self._stop.is_set() and self._awake.wait(pause):
                self._wait_settled()
        if self._undefined:
            self._observe_missing(set(self._known))

    def _heard(self, pause: float = 0.0) -> None:
        """Notes that the API server has just answered, and that the next request follows in `pause` seconds."""
        self.expected_by = time.monotonic() + pause + self._silence * _PATIENCE

    def _wait_settled(self) -> None:
        """Waits until definitions have settled, for a kind whose definition was created or changed."""
        for seconds in self._settling.waits():
            if self._interrupted or self._stop.wait(seconds):
                return

    def _failed(self, error: Exception) -> float:
        """Logs a failed list or watch. Returns the seconds until the next attempt."""
        if self._stop.is_set() or self._interrupted:
            return 0.0
        self._failures += 1
        self.tried.set()
        metrics.WATCH_RESTARTS.labels("expired" if isinstance(error, Gone) else "failed").inc()
        pause = min(30.0, 0.1 * 2.0 ** min(self._failures, 20)) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        if isinstance(error, Gone):
            log.info("watch of %s fell behind, listing again: %s", self.spec, error)
        elif isinstance(error, ApiError):
            # The first failure is usual while a server starts, or for a kind that was just defined.
            level = logging.WARNING if self._failures > 1 else logging.INFO
            log.log(level, "watch of %s, attempt %d, again in %.1fs: %s", self.spec, self._failures, pause, error)
        else:
            log.exception("watch of %s failed, again in %.1fs", self.spec, pause)
        if isinstance(error, ApiError) and error.status:
            self._heard(pause)
        return pause

    def _not_served(self, error: NotServed) -> float:
        """Returns the seconds until a kind that is not served is listed again."""
        if self._served:
            log.info("%s is not served (yet): %s", self.spec, error)
            # A kind that was served is not new; any other kind may have been defined just before its first list.
            self._defined = self._defined and not self._round
            self._absences = 0
        self._served = False
        if self._known and self._is_undefined():
            self._observe_missing(set(self._known))
        self._rounds.current().round.end(self.spec)
        self.synced.set()
        self.tried.set()
        watched = self._on_not_served()
        pause = _UNDEFINED_PAUSE
        if self._defined or not watched:
            pause = min(pause, (_SERVING_PAUSE if watched else _BLIND_PAUSE) * 2.0 ** min(self._absences, 20))
        self._absences += 1
        pause *= random.uniform(0.8, 1.2)  # noqa: S311 - jitter
        self._heard(pause)
        return pause

    def _is_undefined(self) -> bool:
        """Returns whether the kind's definition and all its objects are gone.

        A kind that is not served in this version may be served in another version, and still have its objects.
        """
        with suppress(ApiError):
            return find_definition(self._client, self.resource) is None
        return False

    # -- list and watch ----------------------------------------------------------------------------------------

    def _list(self) -> str:
        """Reports the differences from the known objects, or in a new round all objects. Returns the version."""
        current = self._rounds.current()
        listing = current if current.number != self._round else None
        version, missing = "", set(self._known)
        accept = METADATA_LIST if self.spec.metadata_only else "application/json"
        for page in self._client.pages(self.spec.resource, self._namespace, selector=self.spec.selector, accept=accept):
            # The version of the first page: the watch repeats the changes made while the other pages are read.
            version = version or page["metadata"]["resourceVersion"]
            self._heard()
            for obj in page["items"]:
                missing.discard(key_of(obj))
                self._observe_guarded(obj, listing)
            if self._stop.is_set():
                return version
        self._observe_missing(missing)
        if not self._served:
            log.info("%s is served now", self.spec)
        self._served = True
        self._round = current.number
        if listing is not None:
            listing.round.end(self.spec)
        self.synced.set()
        self.tried.set()
        if listing is not None:
            self.expected_by = math.inf  # other kinds are waited for, which have expectations of their own
            listing.round.wait(self._stop)
            self._heard()
        return version

    def _watch(self, version: str) -> None:
        """Reports changes until the next round; opens the watch again each time the server ends it.

        After a change of the kind's definition all is listed instead, because the server would reject the version.
        """
        while not self._stop.is_set() and (left := self._rounds.seconds_left(self._round)) > 0:
            started, seconds = time.monotonic(), max(1, min(_WATCH_SECONDS, round(left)))
            try:
                for line in self._client.watch(
                    self.spec.resource,
                    self._namespace,
                    version=version,
                    selector=self.spec.selector,
                    seconds=seconds,
                    silence=self._silence,
                    accept=METADATA if self.spec.metadata_only else "application/json",
                    on_open=self._opened,
                ):
                    self._failures = 0
                    self._heard()
                    version = line["object"]["metadata"]["resourceVersion"]
                    self._observe_line(line)
            except Silent as error:  # the connection may be dead, or the server may send no bookmarks
                log.info("%s: opened again", error)
                metrics.WATCH_RESTARTS.labels("silent").inc()
                continue
            if time.monotonic() - started > seconds - 0.5 or self._stop.is_set() or self._is_round_due():
                continue
            metrics.WATCH_RESTARTS.labels("ended").inc()
            if self._awake.wait(_DEFINITION_LAG):
                return

    def _opened(self, end: Callable[[], None]) -> None:
        self._end = end
        self._heard()
        if self._stop.is_set() or self._is_round_due():
            self.interrupt()

    def _is_round_due(self) -> bool:
        """Returns whether another round has begun, or is to begin, since the last complete list."""
        return bool(self._round) and self._rounds.seconds_left(self._round) <= 0

    # -- what to report ----------------------------------------------------------------------------------------

    def _observe_line(self, line: Object) -> None:
        """Reports the change in a line of a watch."""
        obj = line["object"]
        if line["type"] == "DELETED":
            self._observe_deletion(obj)
        elif line["type"] != "BOOKMARK":
            self._observe_guarded(obj, creator=_only_writer(obj) if line["type"] == "ADDED" else "")

    def _observe_guarded(self, obj: Object, listing: NumberedRound | None = None, *, creator: str = "") -> None:
        """Calls `_observe`; an object that cannot be observed must not end the work on the others."""
        try:
            self._observe(obj, listing, creator=creator)
        except Exception:
            record_failure("forwarder", f"{self.spec} {key_of(obj)}", "observing it")

    def _observe(self, obj: Object, listing: NumberedRound | None = None, *, creator: str = "") -> None:
        """Reports what has changed in an object of a list or a watch event.

        `listing` is the round of a list, `creator` the field manager that has just created the object.
        """
        self._set_kind(obj)
        key = key_of(obj)
        self._references.update(self.spec, obj)
        known, new = self._known.get(key), self._digest(obj)
        if known is not None and known.uid != new.uid:  # deleted and created again between two watches
            self._observe_missing({key})
            known = None
        self._known[key] = new
        changed = self._changed(known, new) if known is not None else set()
        if listing is not None and (known is not None or not self._round):
            # A resync concerns reconciled objects; a later change counts like a watched change.
            news = changed if listing.resync else set()
            self._emit("update", obj, [name for name in self._interested("update", key) if name in news])
            self._report(obj, listing, without=news)
        elif known is None:
            self._emit("add", obj, self._interested("add", key, creator))
        else:
            self._emit("update", obj, [name for name in self._interested("update", key) if name in changed])

    def _changed(self, known: _Known, new: _Known) -> set[str]:
        """Returns the functions that watch a part of the object that has changed."""
        if known.version == new.version:
            return set()
        return {
            name
            for (name, _), before, after in zip(self.spec.watches, known.hashes, new.hashes, strict=True)
            if before != after
        }

    def _report(self, obj: Object, listing: NumberedRound, without: Collection[str]) -> None:
        """Reports an object to a round, for all functions except those in `without`.

        An object that appeared after an earlier round is reported as a change instead.
        """
        listing.round.see(self.spec, obj)
        updates = [name for name, watch in self.spec.watches if "update" in watch.changes and name not in without]
        if listing.resync:
            self._emit("update", obj, updates, listing)
            return
        adds = [name for name, watch in self.spec.watches if "add" in watch.changes]
        self._emit("add", obj, adds, listing)
        # After a start, a watch of updates cannot know the changes that it missed.
        self._emit("update", obj, [name for name in updates if name not in adds], listing)

    def _observe_deletion(self, obj: Object) -> None:
        """Reports the deletion of an object."""
        self._set_kind(obj)
        key = key_of(obj)
        self._known.pop(key, None)
        self._references.forget(self.spec, key)
        self._emit("delete", obj, self._interested("delete", key))

    def _observe_missing(self, keys: Collection[Key]) -> None:
        """Reports deletions that were missed, with the metadata that was kept."""
        for key in keys:
            self._observe_deletion({"metadata": self._known[key].metadata})

    def _interested(self, change: Change, key: Key, creator: str = "") -> list[str]:
        """Returns the names of the functions whose watches match the change, except the function that caused it."""
        return [
            name
            for name, watch in self.spec.watches
            if change in watch.changes
            and not (creator and watch.creator == creator)
            and self._references.is_referenced(watch, key)
        ]

    def _emit(
        self, change: Change, obj: Object, functions: Sequence[str], listing: NumberedRound | None = None
    ) -> None:
        if not functions:
            return
        resync = listing is not None and listing.resync
        event = change_event(obj, change, source=self._client.host, reference=self.spec.reference, resync=resync)
        try:
            if listing is None:
                self._on_change(event, functions)
            else:
                listing.round.report(event, functions)
        except Exception:  # a callback that fails on one event must not end the watch
            log.exception("the callback for %s %s of %s failed", self.spec, change, event.key)

    def _set_kind(self, obj: Object) -> None:
        # Metadata-only responses have the kind PartialObjectMetadata. Others may have an older version.
        if obj.get("kind") != self.spec.resource.kind:
            obj["apiVersion"], obj["kind"] = self.spec.resource.api_version, self.spec.resource.kind

    def _digest(self, obj: Object) -> _Known:
        """Returns the state that the informer keeps for an object."""
        metadata = obj["metadata"]
        hashes = tuple(self._hash(name, watch, obj) for name, watch in self.spec.watches)
        kept = {name: metadata[name] for name in _KEPT_METADATA if metadata.get(name)}
        return _Known(str(metadata["resourceVersion"]), str(dig(obj, "metadata.uid", "")), hashes, kept)

    def _hash(self, function: str, watch: Watch, obj: Object) -> int:
        """Returns a hash of the fields that the watch compares; if that fails, each version counts as a change."""
        try:
            relevant = watch.relevant(obj)
        except Exception:
            record_failure(function, f"{self.spec} {key_of(obj)}", "the digest of the watch")
            relevant = dig(obj, "metadata.resourceVersion")
        return hash(json.dumps(relevant, sort_keys=True, default=str))


def _only_writer(obj: Object) -> str:
    """Returns the field manager that has written all of a new object; empty if there are several."""
    managers = {str(entry.get("manager")) for entry in dig(obj, "metadata.managedFields", [])}
    return managers.pop() if len(managers) == 1 else ""
