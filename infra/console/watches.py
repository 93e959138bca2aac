"""Follows kinds of the management cluster in memory: one watch per kind, for all browsers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, Self

from shared.api.names import ADDON_PREFIX
from shared.api.provider import KINDS as PROVIDERS
from shared.api.resources import (
    CLUSTER,
    CLUSTER_ADDON,
    CLUSTER_RESOURCE_SET,
    CLUSTER_RESOURCE_SET_BINDING,
    CLUSTER_STACK,
    HELM_CHART_PROXY,
    HELM_RELEASE_PROXY,
)
from shared.kube import ApiError, Client, Gone, Key, NotServed, Object, Resource, Unavailable, dig, key_of

PROVIDER_KINDS = tuple(kind.resource for kind in PROVIDERS)
CHART_KINDS = (HELM_CHART_PROXY, HELM_RELEASE_PROXY, CLUSTER_RESOURCE_SET, CLUSTER_RESOURCE_SET_BINDING)
KINDS = (CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, *PROVIDER_KINDS, *CHART_KINDS)

_WATCH_SECONDS = 300
_SILENCE = 120.0
"""Seconds without a bookmark after which a watch is opened again."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
"""Seconds between attempts: the first pause, doubled each time, and the longest."""
_DROPPED = {
    "metadata": ("managedFields",),
    "spec": ("values", "valuesTemplate", "bindings"),
    "status": ("resources", "history", "drift", "stages"),
}
"""Fields that an overview does not need. The inventory of a ClusterAddon can have hundreds of objects."""


@dataclass(frozen=True)
class Problem:
    """Why a kind is not followed at present.

    Attributes:
        resource: The kind.
        what: `absent`: the server does not serve the kind. `forbidden`: a right is missing. `unreachable`: the API
            server does not answer. `refused`: any other answer.
        message: The message of the client.
        since: The time of the first failure.
    """

    resource: Resource
    what: Literal["absent", "forbidden", "unreachable", "refused"]
    message: str
    since: datetime

    @classmethod
    def of(cls, resource: Resource, error: ApiError) -> Self:
        """Returns the problem that an error of a list or watch is."""
        if isinstance(error, NotServed):
            return cls(resource, "absent", str(error), datetime.now(UTC))
        if isinstance(error, Unavailable):
            return cls(resource, "unreachable", str(error), datetime.now(UTC))
        return cls(resource, "forbidden" if error.status == 403 else "refused", str(error), datetime.now(UTC))

    @property
    def rights(self) -> str:
        """The rights that a watch of the kind needs."""
        return f"list and watch {self.resource.plural}.{self.resource.group}"


class Watches:
    """The objects of some kinds in one namespace (by default in all), kept up to date within a `with` block."""

    def __init__(self, client: Client, namespace: str = "", kinds: Iterable[Resource] = KINDS) -> None:
        self._lock = threading.Lock()
        self._changes = self._problem_changes = 0
        self._changed: dict[Key, int] = {}
        """By Cluster, the number of the last change of it or its addons."""
        self._objects: dict[Resource, dict[Key, Object]] = {kind: {} for kind in kinds}
        self._problems: dict[Resource, Problem] = {}
        self._watches = [_Watch(client, kind, namespace, self) for kind in self._objects]

    def __enter__(self) -> Self:
        for watch in self._watches:
            watch.thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        for watch in self._watches:
            watch.end()
        for watch in self._watches:
            watch.thread.join(5)

    def wait_listed(self, seconds: float) -> None:
        """Waits until each kind was listed or has a problem, at most `seconds` for each."""
        for watch in self._watches:
            watch.tried.wait(seconds)

    def objects(self, *kinds: Resource) -> list[Object]:
        """Returns the objects of the kinds, in the order of the kinds."""
        with self._lock:
            return [obj for kind in kinds for obj in self._objects[kind].values()]

    def problems(self) -> list[Problem]:
        """Returns the problems of all kinds."""
        with self._lock:
            return list(self._problems.values())

    def version(self, cluster: Key | None = None) -> str:
        """Returns a text that is new after each change, of the Cluster or its addons if one is given."""
        with self._lock:
            latest = self._changes if cluster is None else self._changed.get(cluster, 0)
            return f"{self._problem_changes}.{latest}"

    # -- called by the threads ---------------------------------------------------------------------------------

    def set_all(self, kind: Resource, objects: Iterable[Object]) -> None:
        """Sets the objects of a kind after a list."""
        found = {key_of(obj): _kept(obj) for obj in objects}
        with self._lock:
            before, self._objects[kind] = self._objects[kind], found
            for key in before.keys() | found.keys():
                if before.get(key) != found.get(key):
                    self._count(found.get(key) or before[key])

    def set(self, kind: Resource, key: Key, obj: Object | None) -> None:
        """Sets one object after a change, None after its deletion."""
        with self._lock:
            before = self._objects[kind].pop(key, None)
            if obj is not None:
                self._objects[kind][key] = _kept(obj)
            if changed := obj or before:
                self._count(changed)

    def set_problem(self, kind: Resource, problem: Problem | None) -> None:
        """Sets the problem of a kind, None once the kind is followed again."""
        with self._lock:
            before = self._problems.pop(kind, None)
            if problem:
                same = before is not None and before.what == problem.what
                self._problems[kind] = replace(problem, since=before.since) if before and same else problem
            if (before and before.what) != (problem and problem.what):
                self._problem_changes += 1

    def _count(self, obj: Object) -> None:
        self._changes += 1
        if cluster := _cluster_of(obj):
            self._changed[cluster] = self._changes


class _Watch:
    """Lists and watches one kind in a thread, again after each interruption."""

    def __init__(self, client: Client, kind: Resource, namespace: str, watches: Watches) -> None:
        self.thread = threading.Thread(target=self._run, name=f"watch-{kind.plural}", daemon=True)
        self.tried = threading.Event()
        self._client, self._kind, self._namespace, self._watches = client, kind, namespace, watches
        self._ended = threading.Event()
        self._end_watch: Callable[[], None] = lambda: None
        self._pause = _SHORTEST_PAUSE

    def end(self) -> None:
        """Ends the thread soon."""
        self._ended.set()
        with suppress(Exception):  # the watch may have ended already
            self._end_watch()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._follow()
            except Gone:
                pass  # the watch fell behind: list again
            except ApiError as error:
                self._watches.set_problem(self._kind, Problem.of(self._kind, error))
                self.tried.set()
            self._ended.wait(self._pause)
            self._pause = min(_LONGEST_PAUSE, self._pause * 2)

    def _follow(self) -> None:
        """Lists the kind and watches it until an error."""
        version, objects = "", []
        for page in self._client.pages(self._kind, self._namespace):
            version = version or page["metadata"]["resourceVersion"]
            objects += page["items"]
        self._watches.set_all(self._kind, objects)
        del objects
        self._watches.set_problem(self._kind, None)
        self.tried.set()
        self._pause = _SHORTEST_PAUSE
        while not self._ended.is_set():
            for event in self._client.watch(
                self._kind,
                self._namespace,
                version=version,
                seconds=_WATCH_SECONDS,
                silence=_SILENCE,
                on_open=self._opened,
            ):
                obj = event["object"]
                version = obj["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self._watches.set(self._kind, key_of(obj), None if event["type"] == "DELETED" else obj)
            self._ended.wait(_SHORTEST_PAUSE)  # a server that ends watches at once is not asked all the time

    def _opened(self, end: Callable[[], None]) -> None:
        self._end_watch = end
        if self._ended.is_set():
            end()


def _kept(obj: Object) -> Object:
    """Returns the object without the fields that an overview does not need."""
    return {
        name: {field: each for field, each in part.items() if field not in _DROPPED[name]}
        if name in _DROPPED and isinstance(part, dict)
        else part
        for name, part in obj.items()
    }


def _cluster_of(obj: Object) -> Key | None:
    """Returns the Cluster whose page shows the object; None for an object of the overview only."""
    key = key_of(obj)
    match obj.get("kind"):
        case CLUSTER.kind | CLUSTER_RESOURCE_SET_BINDING.kind:
            return key
        case CLUSTER_ADDON.kind:
            return Key(key.namespace, key.name.removeprefix(ADDON_PREFIX))
        case HELM_RELEASE_PROXY.kind:
            return Key(key.namespace, str(dig(obj, "spec.clusterRef.name")))
    return None
