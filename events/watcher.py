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

Sink = Callable[[Event, Collection[str]], object]
"""Takes a change and the names of the functions that it concerns."""

_WATCH_SECONDS = 300
_UNDEFINED_PAUSE = 300.0
"""Seconds until a kind that is not served is asked for again although no definition of it came: what an aggregated
API server serves has none."""
_DEFINED_PAUSE = 0.1
"""Seconds until a kind is asked for again that was just defined: it is served a moment later."""
_BLIND_PAUSE = 2.0
"""Seconds, doubled each time, where definitions cannot be watched."""
_KEPT = ("name", "namespace", "uid", "labels", "ownerReferences")


@dataclass(frozen=True)
class Feed:
    """One list and watch, and the functions that it serves."""

    resource: Resource
    selector: str
    reference: bool
    wanted: tuple[tuple[str, Watch], ...]

    @property
    def metadata_only(self) -> bool:
        """True where the content need not even be fetched, as for every Secret."""
        paths = [path for _, watch in self.wanted for path in watch.fields]
        return is_secret(self.resource) or (self.reference and all(path.startswith("metadata.") for path in paths))

    def __str__(self) -> str:
        group = f".{self.resource.group}" if self.resource.group else ""
        return f"{self.resource.kind}{group}" + (f" ({self.selector})" if self.selector else "")


def is_secret(resource: Resource) -> bool:
    return resource.group == "" and resource.kind == "Secret"


def feeds(triggers: Iterable[Triggers]) -> list[Feed]:
    """One feed for each kind, selector and form of event, whatever the number of functions.

    Raises ValueError for a declaration that would have the values of Secrets travel.
    """
    wanted: dict[tuple[Resource, str, bool], list[tuple[str, Watch]]] = {}
    for declared in triggers:
        for watch in declared.watches:
            if is_secret(watch.resource) and not watch.reference:
                raise ValueError(f"{declared.name}: Secrets are watched by reference only, set reference=True")
            wanted.setdefault((watch.resource, watch.selector, watch.reference), []).append((declared.name, watch))
    return [Feed(*what, tuple(functions)) for what, functions in wanted.items()]


class _Names:
    """Which objects the objects of some kinds name, as far as these kinds are watched. Shared by all streams."""

    def __init__(self, watched: Iterable[Feed]) -> None:
        watched = list(watched)
        self._lock = threading.Lock()
        self._named: dict[Referrer, dict[Key, frozenset[Key] | None]] = {}
        """For each naming object what it names; None where that cannot be told."""
        whole = {feed.resource for feed in watched if self._is_whole(feed)}
        for _, watch in (wanted for feed in watched for wanted in feed.wanted):
            self._named |= {naming: {} for naming in watch.referenced_by if naming.resource in whole}

    @staticmethod
    def _is_whole(feed: Feed) -> bool:
        """Whether it brings every object of the kind, with its content."""
        return not feed.selector and not feed.metadata_only

    def learn(self, feed: Feed, obj: Object) -> None:
        """Called with each state of an object before anybody is told of it."""
        for naming, named in self._named.items():
            if naming.resource != feed.resource or not self._is_whole(feed):
                continue
            try:
                names = frozenset(naming.names(obj))
            except Exception:  # an object that the declaration cannot take must not end the watch
                log.exception("what %s %s names cannot be told", feed, key_of(obj))
                names = None
            with self._lock:
                named[key_of(obj)] = names

    def forget(self, feed: Feed, key: Key) -> None:
        with self._lock:
            for naming, named in self._named.items():
                if naming.resource == feed.resource:
                    named.pop(key, None)

    def concerns(self, watch: Watch, key: Key) -> bool:
        """Whether something names this object, or may."""
        if not watch.referenced_by:
            return True
        either = {key, Key(key.namespace, "")}
        with self._lock:
            return any(
                naming not in self._named
                or any(names is None or not names.isdisjoint(either) for names in self._named[naming].values())
                for naming in watch.referenced_by
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
        sink: Sink,
        *,
        resync: float = 600.0,
        namespace: str = "",
    ) -> None:
        self._stop = threading.Event()
        watched = feeds(triggers.values())
        names = _Names(watched)
        definitions = Feed(CRD, "", True, (("", Watch(CRD, changes=("add", "update"), reference=True)),))
        self._definitions = _Stream(client, definitions, self._defined, self._stop, resync, "", names)
        self._streams = [
            _Stream(client, feed, sink, self._stop, resync, namespace, names, self._undefined) for feed in watched
        ]
        self._starting = threading.Lock()

    def start(self) -> None:
        for stream in self._streams:
            stream.thread.start()

    def _undefined(self) -> bool:
        """Called by each stream whose kind is not served: whether it will be woken when that is defined."""
        with self._starting:
            if self._definitions.thread.ident is None and not self._stop.is_set():
                self._definitions.thread.start()
        return self._definitions.listed

    def _defined(self, event: Event, _functions: Collection[str]) -> None:
        for stream in self._streams:
            if event.name == f"{stream.resource.plural}.{stream.resource.group}":
                stream.wake()

    def wait_synced(self, timeout: float) -> bool:
        """Waits until every kind was listed once; a kind that is not served (yet) does not hold this up."""
        deadline = time.monotonic() + timeout
        return all(stream.synced.wait(max(0.0, deadline - time.monotonic())) for stream in self._streams)

    def stop(self, timeout: float = 5.0) -> None:
        self._stop.set()
        deadline = time.monotonic() + timeout
        with self._starting:
            streams = [*self._streams, self._definitions]
        for stream in streams:
            stream.interrupt()
        for stream in streams:
            if stream.thread.is_alive():
                stream.thread.join(max(0.0, deadline - time.monotonic()))


@dataclass
class _Seen:
    version: str
    uid: str
    hashes: tuple[int, ...]
    metadata: Object


class _Stream:
    """List, watch, compare, for one feed."""

    def __init__(
        self,
        client: Client,
        feed: Feed,
        sink: Sink,
        stop: threading.Event,
        resync: float,
        namespace: str,
        names: _Names,
        undefined: Callable[[], bool] = lambda: False,
    ) -> None:
        self.resource = feed.resource
        self.thread = threading.Thread(target=self._run, name=f"watch-{feed.resource.plural}", daemon=True)
        self.synced = threading.Event()
        self._client = client
        self._feed = feed
        self._sink = sink
        self._stop = stop
        self._resync = resync
        self._namespace = namespace
        self._names = names
        self._seen: dict[Key, _Seen] = {}
        self._next_resync = 0.0
        self._failures = 0
        self._served = True
        self._defined = False
        """Whether the kind's definition came or changed since it was found not to be served."""
        self._absences = 0
        """How often it was not served, since then."""
        self._undefined = undefined
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
            log.info("watch of %s fell behind, listing anew: %s", self._feed, error)
        elif isinstance(error, ApiError):
            # Once is nothing: a server that starts, or a kind that was just defined, refuses the first.
            level = logging.WARNING if self._failures > 1 else logging.INFO
            log.log(level, "watch of %s, attempt %d, again in %.1fs: %s", self._feed, self._failures, pause, error)
        else:
            log.exception("watch of %s failed, again in %.1fs", self._feed, pause)
        return pause

    def _not_served(self, error: NotServed) -> float:
        if self._served:
            log.info("%s is not served (yet): %s", self._feed, error)
            self._defined, self._absences = False, 0
        self._served = False
        # Objects of before are not told to be gone: the kind may be served in another version, and have them still.
        self.synced.set()
        watched = self._undefined()
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
        version, vanished = "", set(self._seen)
        accept = METADATA_LIST if self._feed.metadata_only else "application/json"
        for page in self._client.pages(
            self._feed.resource, self._namespace, selector=self._feed.selector, accept=accept
        ):
            # Of the first page: what changes while the others are read is told again by the watch.
            version = version or page["metadata"]["resourceVersion"]
            for obj in page["items"]:
                vanished.discard(key_of(obj))
                self._tell_state(obj, resync=resync)
            if self._stop.is_set():
                return version
        self._tell_vanished(vanished)
        if not self._served:
            log.info("%s is served now", self._feed)
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
                self._feed.resource,
                self._namespace,
                version=version,
                selector=self._feed.selector,
                seconds=max(1, min(_WATCH_SECONDS, round(left))),
                accept=METADATA if self._feed.metadata_only else "application/json",
                on_open=self._opened,
            ):
                self._failures = 0
                obj = line["object"]
                version = obj["metadata"]["resourceVersion"]
                if line["type"] == "DELETED":
                    self._tell_deletion(obj)
                elif line["type"] != "BOOKMARK":
                    self._tell_state(obj)
            if time.monotonic() - started < 0.5:
                self._stop.wait(0.2)

    def _opened(self, end: Callable[[], None]) -> None:
        self._end = end
        if self._stop.is_set():
            self.interrupt()

    # -- what to tell ------------------------------------------------------------------------------------------

    def _tell_state(self, obj: Object, *, resync: bool = False) -> None:
        self._name(obj)
        key = key_of(obj)
        self._names.learn(self._feed, obj)
        seen, new = self._seen.get(key), self._digest(obj)
        if seen is not None and seen.uid != new.uid:  # deleted and made again while nobody watched
            self._tell_vanished({key})
            seen = None
        if seen is None:
            self._seen[key] = new
            self._tell("add", obj, self._concerned("add", key))
        elif resync:
            self._seen[key] = new
            self._tell("update", obj, self._concerned("update", key), resync=True)
        elif seen.version != new.version:
            self._seen[key] = new
            changed = {
                name
                for (name, _), before, after in zip(self._feed.wanted, seen.hashes, new.hashes, strict=True)
                if before != after
            }
            self._tell("update", obj, [name for name in self._concerned("update", key) if name in changed])

    def _tell_deletion(self, obj: Object) -> None:
        self._name(obj)
        key = key_of(obj)
        self._seen.pop(key, None)
        self._names.forget(self._feed, key)
        self._tell("delete", obj, self._concerned("delete", key))

    def _tell_vanished(self, keys: Collection[Key]) -> None:
        """Tells of deletions that were not seen, with what is still known of the objects."""
        for key in keys:
            self._tell_deletion({"metadata": self._seen[key].metadata})

    def _concerned(self, change: Change, key: Key) -> list[str]:
        return [
            name for name, watch in self._feed.wanted if change in watch.changes and self._names.concerns(watch, key)
        ]

    def _tell(self, change: Change, obj: Object, functions: Collection[str], *, resync: bool = False) -> None:
        if not functions:
            return
        event = change_event(obj, change, source=self._client.host, reference=self._feed.reference, resync=resync)
        try:
            self._sink(event, functions)
        except Exception:  # one event that cannot be taken must not end the watch
            log.exception("%s %s of %s was not taken", self._feed, change, event.key)

    def _name(self, obj: Object) -> None:
        # Lists leave both out, and answers with metadata only carry a kind of their own.
        obj["apiVersion"], obj["kind"] = self._feed.resource.api_version, self._feed.resource.kind

    def _digest(self, obj: Object) -> _Seen:
        metadata = obj["metadata"]
        hashes = tuple(
            hash(json.dumps(watch.relevant(obj), sort_keys=True, default=str)) for _, watch in self._feed.wanted
        )
        kept = {name: metadata[name] for name in _KEPT if metadata.get(name)}
        return _Seen(str(metadata["resourceVersion"]), str(dig(obj, "metadata.uid", "")), hashes, kept)
