"""What starts a function and what it needs, declared once: from this come the forwarder's watches and filters, the
Knative Triggers, ApiServerSources and SinkBindings, the RBAC rules, the mounted settings and the tables in the docs.

Light on purpose: the forwarder and the generator read declarations without loading the functions themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .event import Change, Event
from .kube.resources import Key, Resource, dig, key_of
from .settings import Group


class PrimaryRef(NamedTuple):
    """One object that a function is to look at; `resource` is None for functions that are about no kind."""

    resource: Resource | None
    key: Key

    def __str__(self) -> str:
        return str(self.key)


KeyOf = Callable[[Mapping[str, Any]], Key | PrimaryRef | None]

SPEC = ("metadata.generation", "metadata.deletionTimestamp", "metadata.finalizers")
"""The fields that say what the user wants; a status write of our own touches none of them."""

ANNOTATIONS = "metadata.annotations"


@dataclass(frozen=True)
class Referrer:
    """A kind whose objects name objects of another kind: `names` returns which. An empty name stands for each object
    of the namespace."""

    resource: Resource
    names: Callable[[Mapping[str, Any]], Iterable[Key]]


@dataclass(frozen=True)
class Watch:
    """One kind whose changes concern a function.

    `key` maps a changed object to the function's primary object (None: no concern of ours); where a function has
    several primary kinds, and this is none of them, to a `Subject`. It must also work on a
    bare reference (apiVersion, kind, name, namespace) where `reference` is set: such events carry no content, which
    is how Secrets are watched without their values travelling. `fields` are the dotted paths that matter; an update
    that touches none of them is not forwarded (empty: every update is). Of annotations, those in `own` do not matter:
    the functions write them themselves. `digest` is what must differ where less matters than the whole `fields`.

    With `named_by`, only objects matter that some object of these kinds names. A forwarder that watches these kinds
    holds the others back. A broker cannot, and a change that comes before the naming object is known is held back too:
    the function whose object names it reads it when that object comes.
    """

    resource: Resource
    key: KeyOf = key_of
    fields: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ("add", "update", "delete")
    reference: bool = False
    selector: str = ""
    own_annotations: tuple[str, ...] = ()
    digest: Callable[[Mapping[str, Any]], object] | None = None
    referenced_by: tuple[Referrer, ...] = ()

    def relevant(self, obj: Mapping[str, Any]) -> object:
        """What must differ for an update to matter; comparable with ==."""
        if self.digest is not None:
            return self.digest(obj)
        if not self.fields:
            return dig(obj, "metadata.resourceVersion")
        return [self._others(dig(obj, path)) if path == ANNOTATIONS else dig(obj, path) for path in self.fields]

    def _others(self, annotations: Any) -> Any:
        if not isinstance(annotations, Mapping):
            return annotations
        return {name: value for name, value in annotations.items() if name not in self.own_annotations} or None


@dataclass(frozen=True)
class Subscription:
    """A type of event that is no object change: another function's reply, or a timer."""

    type: str
    key: Callable[[Event], Key | None]


@dataclass(frozen=True)
class Rule:
    """An RBAC rule for what a function touches beyond reading what it watches."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


READ_CRDS = Rule("apiextensions.k8s.io", ("customresourcedefinitions",), ("get",))
"""To tell a kind that is not defined, and so has no objects, from one that is not served (now, in this version)."""


MEMORY_TO_RENDER = "1536Mi"
"""The memory limit of functions that render: the processes that they render in have limits too (`shared.sandbox`).

About 150 MiB are for the function itself, and beside it run two at a time: workers with 150 MiB of libraries and at
most 320 of work, or runs of the helm program with 384 MiB each while a worker of at most 214 is idle.
"""


@dataclass(frozen=True)
class Triggers:
    """All that starts the function `name`. Its primary kind is that of the first watch, unless several are named."""

    name: str
    watches: tuple[Watch, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    rules: tuple[Rule, ...] = ()
    primary_kinds: tuple[Resource, ...] = ()
    """The primary kinds of a function that treats more than one alike."""
    emits: tuple[str, ...] = ()
    """Types of the events that it sends to the address in K_SINK; a function that emits any gets a SinkBinding. The one
    event that is its answer is not among them, for the caller takes that along."""
    reports: bool = True
    """Whether it writes the status of its primary kinds, and Kubernetes events about them."""
    settings: tuple[Group, ...] = ()
    """The settings of an installation that it reads."""
    is_reconciled: Callable[[Mapping[str, Any]], bool] | None = None
    """Whether an object of a primary kind needs nothing from this function, as far as its status tells. The sweep lists
    the kind and sends the objects that do need something: their events may have been lost. None: leaves that to the
    other functions of the kind."""
    memory: str = "512Mi"
    """The memory limit of its pods."""
    local: bool = False
    """Whether it needs the machine that it runs on: it is part of a local run, and of no cluster."""

    @property
    def primaries(self) -> tuple[Resource, ...]:
        return self.primary_kinds or tuple(watch.resource for watch in self.watches[:1])

    def watch(self, event: Event) -> Watch | None:
        """The declaration that an object change falls under; versions of a kind are not told apart."""
        for watch in self.watches:
            if watch.resource.kind == event.kind and watch.resource.group == event.group:
                return watch
        return None

    def key(self, event: Event) -> Key | None:
        """The primary object that `event` is about, or None where it is no concern of this function."""
        ref = self.primary_ref(event)
        return ref.key if ref else None

    def primary_ref(self, event: Event) -> PrimaryRef | None:
        """Like `key`, with the kind: what tells one primary object from all others."""
        found = self._mapped(event)
        if found is None or isinstance(found, PrimaryRef):
            return found
        of_kind = [
            resource for resource in self.primaries if (resource.group, resource.kind) == (event.group, event.kind)
        ]
        return PrimaryRef(next(iter(of_kind or self.primaries), None), found)

    def _mapped(self, event: Event) -> Key | PrimaryRef | None:
        if event.change:
            watch = self.watch(event)
            return watch.key(event.as_object) if watch and event.change in watch.changes else None
        for subscription in self.subscriptions:
            if subscription.type == event.type:
                return subscription.key(event)
        return None
