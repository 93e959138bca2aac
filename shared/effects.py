"""What a decision may ask for, and how it is carried out.

Each effect is idempotent and carries its own precondition, so that a repeated, late or interrupted decision does no
harm. A function adds effects of its own by giving them the same `execute`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from .clients import Clients
from .kube import ApiError, Conflict, NotFound, Object, Resource, dig, has_finalizer, key_of

MANAGER = "capi-functions"
"""The field manager of everything written."""


class Effect(Protocol):
    """One write. Returns the object as the server has it now where there is one, or what the effect found out."""

    def execute(self, clients: Clients) -> Any: ...


@dataclass(frozen=True)
class Create:
    """Creates an object of the management cluster; an existing one with the same owner is as good."""

    resource: Resource
    body: Object

    def execute(self, clients: Clients) -> Object:
        try:
            return clients.management.create(self.resource, self.body)
        except Conflict as error:
            if not error.already_exists:
                raise
            existing = clients.management.get(self.resource, key_of(self.body))
            wanted = {reference["uid"] for reference in dig(self.body, "metadata.ownerReferences", [])}
            found = {reference.get("uid") for reference in dig(existing, "metadata.ownerReferences", [])}
            if wanted and not wanted & found:
                # No race, hence no `Conflict`: trying again does not help until a person decides.
                raise ApiError(
                    f"{self.resource.kind} {key_of(self.body)} exists and belongs to somebody else",
                    status=409,
                ) from error
            return existing


@dataclass(frozen=True)
class Patch:
    """Merge-patches an object of the management cluster, only in the version that the decision was made on."""

    resource: Resource
    obj: Mapping[str, Any]
    patch: Object
    subresource: str = ""

    def execute(self, clients: Clients) -> Object:
        metadata = dict(self.patch.get("metadata") or {}) | {"resourceVersion": self.obj["metadata"]["resourceVersion"]}
        return clients.management.patch(
            self.resource,
            key_of(self.obj),
            dict(self.patch) | {"metadata": metadata},
            subresource=self.subresource,
            manager=MANAGER,
        )


@dataclass(frozen=True)
class Delete:
    """Deletes this very object (by uid) from the management cluster; absent or replaced is fine."""

    resource: Resource
    obj: Mapping[str, Any]

    def execute(self, clients: Clients) -> None:
        try:
            clients.management.delete(self.resource, key_of(self.obj), uid=self.obj["metadata"]["uid"])
        except Conflict:
            return  # another object has taken the name


@dataclass(frozen=True)
class RemoveFinalizer:
    """The last write on an object that is being deleted; it may be gone already."""

    resource: Resource
    obj: Mapping[str, Any]
    finalizer: str

    def execute(self, clients: Clients) -> Object | None:
        left = [name for name in dig(self.obj, "metadata.finalizers", []) if name != self.finalizer]
        try:
            return Patch(self.resource, self.obj, {"metadata": {"finalizers": left}}).execute(clients)
        except NotFound:
            return None


def ensure_finalizer(resource: Resource, obj: Mapping[str, Any], finalizer: str) -> tuple[Patch, ...]:
    """What gives it the finalizer; nothing where it has it."""
    if has_finalizer(obj, finalizer):
        return ()
    finalizers = [*dig(obj, "metadata.finalizers", []), finalizer]
    return (Patch(resource, obj, {"metadata": {"finalizers": finalizers}}),)


def write_ahead(resource: Resource, obj: Mapping[str, Any], status: Object) -> tuple[Patch, ...]:
    """The status before the work that it announces, so that no crash in between leaves anything that nobody knows of.

    Nothing where the object says so already.
    """
    if not would_change(dig(obj, "status", {}), status):
        return ()
    return (Patch(resource, obj, {"status": status}, subresource="status"),)


def would_change(current: Any, patch: Any) -> bool:
    """True if the merge patch would alter `current`."""
    if not isinstance(patch, dict) or not isinstance(current, dict):
        return bool(current != patch)
    return any(
        (name in current) if value is None else would_change(current.get(name), value) for name, value in patch.items()
    )


@dataclass
class Results:
    """What became of a decision's effects, in order; `error` is what stopped the rest."""

    values: list[Any] = field(default_factory=list)
    error: Exception | None = None


def perform(effects: Sequence[Effect], clients: Clients) -> Results:
    """Executes in order and stops at the first failure, which is kept, not raised: the status is written first.

    An effect on an object that an earlier one changed goes on from what that one left.
    """
    results = Results()
    for effect in effects:
        try:
            if isinstance(effect, (Patch, RemoveFinalizer)):
                effect = replace(effect, obj=latest(effect.obj, results))
            results.values.append(effect.execute(clients))
        except Exception as error:  # reported in the status, then raised again by the runtime
            results.error = error
            break
    return results


def latest(obj: Mapping[str, Any], results: Results) -> Mapping[str, Any]:
    """The newest form of `obj` among what the effects returned."""
    uid = dig(obj, "metadata.uid")
    for value in reversed(results.values):
        if isinstance(value, dict) and dig(value, "metadata.uid") == uid:
            return value
    return obj
