"""The declaration of a function: what starts it and what it needs, stated once.

The forwarder derives its watches and filters from the declaration. `infra.generate` derives the Knative Triggers,
ApiServerSources and SinkBindings, the RBAC rules, the mounted settings and the tables in the docs from it. This module
imports little, because both read the declarations without loading the functions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from . import watch_filter
from .event import PING, Change, Event, change_event
from .kube.resources import Key, Object, Resource, conventional_plural, deleting, dig, key_of
from .settings import Group

log = logging.getLogger("capi-functions")


class PrimaryRef(NamedTuple):
    """A reference to a primary object, that is, an object that a function reconciles.

    `resource` is None for functions without a primary kind, such as the sweep.
    """

    resource: Resource | None
    key: Key

    def __str__(self) -> str:
        return str(self.key)


KeyOf = Callable[[Mapping[str, Any]], Key | PrimaryRef | None]

SPEC = ("metadata.generation", "metadata.deletionTimestamp", "metadata.finalizers")
"""The fields that express what the user wants; a write of the status changes none of them."""

ANNOTATIONS = "metadata.annotations"


def annotation(name: str) -> str:
    """Returns the path of one annotation for `Watch.fields`."""
    return f"{ANNOTATIONS}[{name}]"


def label(name: str) -> str:
    """Returns the path of one label for `Watch.fields`."""
    return f"metadata.labels[{name}]"


@dataclass(frozen=True)
class Referrer:
    """A kind whose objects refer to objects of another kind.

    `references` returns the keys of the referenced objects; an empty name stands for all objects of the namespace.
    """

    resource: Resource
    references: Callable[[Mapping[str, Any]], Iterable[Key]]


@dataclass(frozen=True)
class Watch:
    """A kind whose changes start a function.

    Attributes:
        resource: The kind.
        key: Maps a changed object to the primary object of the function, or to None if the change is not for the
            function. Returns a `PrimaryRef` if the function has several primary kinds, but not this kind. With
            `reference` it gets an object with kind and name only.
        fields: Dotted paths, or paths from `annotation` and `label`; an update that changes none of them is not
            forwarded. Empty: every update is.
        changes: The changes that are forwarded.
        reference: Events contain a reference only, so that the values of Secrets stay in the API server.
        selector: A label selector for the objects to watch.
        digest: Returns what an update must change to be forwarded, in place of `fields`.
        referenced_by: Only objects are forwarded that an object of these kinds refers to. The forwarder filters by
            this, and leaves out kinds that none of its functions watch; a broker cannot filter. A change that is
            filtered before its referrer is seen is not lost: the event of the referrer makes the function read the
            object.
        needs_primary: Whether the function ignores a change while the primary object does not exist, because the `add`
            event of that object makes the function read everything. The forwarder then delivers no such change.
            False for a function that creates its primary object, and if the key does not belong to a primary object.
        creates_primary: Whether the function creates the primary object for each object of this kind that `key` maps.
            Then that object is not reconciled while its primary object does not exist, and a new one has none yet.
        creator: The field manager with which the function itself, and nobody else, creates objects of this kind. The
            forwarder does not send it these objects, because it continues after it has created one. A broker cannot
            filter them.
        filtered: Whether the installation's watch filter selects objects of this kind (`shared.watch_filter`).
    """

    resource: Resource
    key: KeyOf = key_of
    fields: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ("add", "update", "delete")
    reference: bool = False
    selector: str = ""
    digest: Callable[[Mapping[str, Any]], object] | None = None
    referenced_by: tuple[Referrer, ...] = ()
    needs_primary: bool = False
    creates_primary: bool = False
    creator: str = ""
    filtered: bool = False

    def relevant(self, obj: Mapping[str, Any]) -> object:
        """Returns what an update of `obj` must change to be forwarded; comparable with ==."""
        relevant = self._relevant(obj)
        return [relevant, watch_filter.admits(obj)] if self.filtered else relevant

    def _relevant(self, obj: Mapping[str, Any]) -> object:
        if self.digest is not None:
            return self.digest(obj)
        if not self.fields:
            return dig(obj, "metadata.resourceVersion")
        return [_value(obj, path) for path in self.fields]


def _value(obj: Mapping[str, Any], path: str) -> Any:
    """Returns the value at a dotted path, which may end with the name of a label or an annotation in brackets."""
    parent, _, name = path.partition("[")
    return dig(obj, (*parent.split("."), name.removesuffix("]")) if name else path)


@dataclass(frozen=True)
class DefinedKinds:
    """Contract-selected kinds: a function watches them by the CRDs that define them, not by name.

    Name and group of a kind decide whether an event is for the function, so that a Trigger can select it. The CRDs
    decide which of these kinds are watched.

    Attributes:
        like: The watch of each kind; its `resource` stands for them all.
        endings: The endings of the names of the kinds.
        without_group: The API group whose kinds do not belong.
        groups: The API groups that such kinds usually have, for the rights of event sources.
        role_label: The label of ClusterRoles that grant the function what it needs of such kinds in other groups.
        definition: Returns the kind that a CRD defines, in the version to watch; None if it does not belong.
    """

    like: Watch
    endings: tuple[str, ...]
    without_group: str
    groups: tuple[str, ...]
    role_label: str
    definition: Callable[[Object], Resource | None]

    def includes(self, group: str, kind: str) -> bool:
        """Returns whether a kind of this name belongs."""
        return kind.endswith(self.endings) and group != self.without_group

    def may_define(self, crd: str) -> bool:
        """Returns whether the CRD of this name may define such a kind. Saves reading the others, which can be large."""
        plural, _, group = crd.partition(".")
        plurals = tuple(conventional_plural(ending) for ending in self.endings)
        return plural.endswith(plurals) and group != self.without_group

    def defined(self, crd: Object) -> Resource | None:
        """Returns the kind that a CRD defines, in the version to watch, if it belongs."""
        found = self.definition(crd)
        return found if found is not None and self.includes(found.group, found.kind) else None

    def watch(self, resource: Resource) -> Watch:
        """Returns the watch of one of the kinds."""
        return replace(self.like, resource=resource)


@dataclass(frozen=True)
class Subscription:
    """A type of event that is not a change of an object: the reply of another function, or a timer.

    `key` maps such an event to the primary object, or to None if the event is not for the function. By default the
    event is for the function if it is about one of its primary kinds.
    """

    type: str
    key: Callable[[Event], Key | None] | None = None


def _key_of_full_resync(event: Event) -> Key | None:
    """Returns one fixed key for the timer that requests a full resync."""
    return Key("", "everything") if event.data.get("everything") is True else None


EVERY_HOUR = Subscription(PING, _key_of_full_resync)
"""The timer that requests a full resync, which also starts clean-ups."""


@dataclass(frozen=True)
class Rule:
    """An RBAC rule for requests beyond the watches, status writes and events of a function.

    `everywhere`: an installation for some namespaces grants the rule in the whole cluster, because the objects have no
    namespace or are in others.
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    everywhere: bool = False


READ_CRDS = Rule("apiextensions.k8s.io", ("customresourcedefinitions",), ("get",), everywhere=True)
"""The rule for reading CRDs, which shows whether a kind that is not served is undefined, and so has no objects."""

FIND_CONTROLLERS = (
    Rule("apps", ("deployments",), ("list",), everywhere=True),
    Rule("admissionregistration.k8s.io", ("validatingwebhookconfigurations",), ("list",), everywhere=True),
)
"""The rules for finding controllers of other projects that run, see `running_core.py`."""

RECORD_EVENTS = Rule("", ("events",), ("create", "get", "patch"))
"""The rule for recording Kubernetes events."""

MEMORY_TO_RENDER = "1536Mi"
"""The memory limit of functions that render. The processes that they render in have limits too (`shared.sandbox`).

About 150 MiB are for the function itself. Beside it two processes run at a time. They are workers, with 150 MiB of
libraries and at most 320 of work each, or runs of the helm program, with 384 MiB each, while a worker of at most 214
MiB is idle.
"""


@dataclass(frozen=True)
class Triggers:
    """The declaration of one function. The first watch has its primary kind, unless `primary_kinds` is set."""

    name: str
    watches: tuple[Watch, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    rules: tuple[Rule, ...] = ()
    primary_kinds: tuple[Resource, ...] | None = None
    """The primary kinds of a function that has several, or none. None: the kind of the first watch."""
    profiles: tuple[str, ...] = ()
    """The profiles of an installation in which the function runs (`shared.profiles`), beside `all`."""
    emits: tuple[str, ...] = ()
    """The types of the events that it sends to the URL in K_SINK; such a function gets a SinkBinding. Replies are not
    among them: the caller delivers those."""
    reports: bool = True
    """Whether it writes the status of its primary kinds, and Kubernetes Events about them."""
    settings: tuple[Group, ...] = ()
    """The groups of settings that it reads."""
    is_reconciled: Callable[[Object, Event, datetime], bool] | None = None
    """`is_reconciled(primary, event, now)` returns whether the primary object and the object in the event alone show
    that there is nothing to do at that time. It reads no cluster. The runtime calls it before it reads anything, except
    for a resync and a repetition; sweep and forwarder call `is_reconciled_as_listed`, with `add` events of the listed
    objects. It must be false if the spec is newer than the status, and for an update while the function waits for
    something, because a newer event ends a wait, and nothing else repeats it. None: the function always reads, and
    leaves the sweep to the other functions of the kind."""
    finalizer: str = ""
    """The finalizer that it removes from its primary objects: their deletion waits until the function runs."""
    memory: str = "512Mi"
    """The memory limit of its pods."""
    local: bool = False
    """Whether it runs in local runs only, because it needs the machine that it runs on."""
    defined_kinds: DefinedKinds | None = None
    """The contract-selected kinds that it watches. They exclude kinds in `watches`."""

    def is_reconciled_as_listed(self, primary: Object, event: Event, now: datetime) -> bool:
        """Returns whether the primary object and the event's object, seen for the first time, show no work.

        The sweep and the forwarder judge listed objects by this. In doubt an object is not reconciled: if it is being
        deleted, if its status is about an earlier generation, or if `is_reconciled` fails or is not declared.
        """
        observed = dig(primary, "status.observedGeneration")
        outdated = observed is not None and observed != dig(primary, "metadata.generation")
        if self.is_reconciled is None or outdated or deleting(primary) or deleting(event.as_object):
            return False
        try:
            return self.is_reconciled(primary, _as_first_seen(event, primary), now)
        except Exception:  # the function itself will show the error
            record_failure(self.name, f"{event.kind} {event.key}", "is_reconciled")
            return False

    @property
    def primaries(self) -> tuple[Resource, ...]:
        """The primary kinds."""
        if self.primary_kinds is not None:
            return self.primary_kinds
        return tuple(watch.resource for watch in self.watches[:1])

    def require_admitted(self, primary: Object) -> None:
        """Raises `watch_filter.Filtered` if the label of the primary object decides, and the filter excludes it."""
        if any(watch.filtered and watch.resource in self.primaries for watch in self.watches):
            watch_filter.require(primary)

    @property
    def needed_rules(self) -> tuple[Rule, ...]:
        """All rights of the function: to read its primary objects, write their status, record events, and `rules`.

        It needs no right to watch, because the event sources watch for it.
        """
        rules = [Rule(kind.group, (kind.plural,), ("get",)) for kind in self.primaries]
        if self.reports and self.primaries:
            rules += [Rule(kind.group, (f"{kind.plural}/status",), ("patch",)) for kind in self.primaries]
            rules.append(RECORD_EVENTS)
        return (*rules, *self.rules)

    def watch(self, event: Event) -> Watch | None:
        """Returns the watch for the kind of an event in any version; None if the kind is not watched."""
        for watch in self.watches:
            if watch.resource.kind == event.kind and watch.resource.group == event.group:
                return watch
        if self.defined_kinds is not None and self.defined_kinds.includes(event.group, event.kind):
            return self.defined_kinds.like
        return None

    def names(self, resource: Resource) -> bool:
        """Returns whether the kind, in any version, is one of `watches`."""
        return any((w.resource.group, w.resource.kind) == (resource.group, resource.kind) for w in self.watches)

    def upgraded(self, event: Event) -> Event:
        """Returns the event with its object in the shape of the watched version; see `Resource.upgraded`."""
        watch = self.watch(event)
        return replace(event, data=watch.resource.upgraded(event.data)) if watch and event.object else event

    def key(self, event: Event) -> Key | None:
        """Returns the key of the primary object that an event is about; None if the event is not for this function."""
        ref = self.primary_ref(event)
        return ref.key if ref else None

    def primary_ref(self, event: Event) -> PrimaryRef | None:
        """Returns kind and key of the primary object that an event is about; None as for `key`."""
        found = self._mapped(event)
        if found is None or isinstance(found, PrimaryRef):
            return found
        of_kind = [
            resource for resource in self.primaries if (resource.group, resource.kind) == (event.group, event.kind)
        ]
        return PrimaryRef(next(iter(of_kind or self.primaries), None), found)

    def find_ref(self, event: Event) -> PrimaryRef | None:
        """Like `primary_ref`, but returns None if the mapping fails on the object, and logs and counts the failure.

        For callers with many objects, because one object must not end the work on the others.
        """
        try:
            return self.primary_ref(event)
        except Exception:
            record_failure(self.name, f"{event.kind or event.type} {event.key}", "mapping it to a primary object")
            return None

    def _mapped(self, event: Event) -> Key | PrimaryRef | None:
        """Returns the primary object to which a watch or subscription maps the event; None if none does."""
        if event.change:
            watch = self.watch(event)
            if watch is None or event.change not in watch.changes:
                return None
            if watch.filtered and event.object is not None and not watch_filter.admits(event.object):
                return None
            return watch.key(event.as_object)
        for subscription in self.subscriptions:
            if subscription.type == event.type and subscription.key is not None:
                return subscription.key(event)
            if subscription.type == event.type:
                return event.key if event.kind in [kind.kind for kind in self.primaries] else None
        return None


_MAX_LOGGED = 1000
"""Failures whose tracebacks are logged."""
_logged: set[tuple[str, str, str]] = set()


def record_failure(function: str, subject: str, attempt: str) -> None:
    """Counts the present exception, which a function's declaration raised on an object, and logs it once.

    Args:
        function: The function.
        subject: Kind and key of the object.
        attempt: What failed, such as `mapping it to a primary object`.
    """
    from . import metrics

    metrics.OBJECT_FAILURES.labels(function).inc()
    failure = (function, subject, attempt)
    if failure not in _logged and len(_logged) < _MAX_LOGGED:
        _logged.add(failure)
        log.exception("%s: %s failed for the function %s", subject, attempt, function)


def _as_first_seen(event: Event, primary: Object) -> Event:
    """Returns the event for an existing object whose change is unknown.

    The object is the primary one if the event contains none.
    """
    if event.object is None:
        return change_event(primary, "add", source=event.source)
    return replace(event, type=event.type.rpartition(".")[0] + ".add", resync=False, repeated=False)
