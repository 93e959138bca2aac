"""The writes that a decision can contain, and their execution.

Each effect is idempotent and has its own precondition, so that a repeated, late or interrupted decision does no harm.
A function defines further effects as classes with the same `execute`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from .clients import Clients
from .kube import MANAGER, ApiError, Conflict, NotFound, Object, Resource, dig, has_finalizer, key_of

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class Effect(Protocol):
    """A write that a decision can contain."""

    def execute(self, clients: Clients) -> Any:
        """Executes the write. Returns the object as the server stored it, or another result that the effect defines."""
        ...


@dataclass(frozen=True)
class Create:
    """Creates an object in the management cluster; an existing one with the same owner counts as created."""

    resource: Resource
    body: Object
    manager: str = MANAGER

    def execute(self, clients: Clients) -> Object:
        """Returns the new or existing object. Raises `ApiError` (409) for one with another owner."""
        try:
            return clients.management.create(self.resource, self.body, manager=self.manager)
        except Conflict as error:
            if not error.already_exists:
                raise
            existing = clients.management.get(self.resource, key_of(self.body))
            wanted = {reference["uid"] for reference in dig(self.body, "metadata.ownerReferences", [])}
            found = {reference.get("uid") for reference in dig(existing, "metadata.ownerReferences", [])}
            if wanted and not wanted & found:
                # Not a `Conflict`, because a retry cannot help. A user has to delete or rename one of the two.
                raise ApiError(
                    f"{self.resource.kind} {key_of(self.body)} already exists with another owner: delete or rename it",
                    status=409,
                ) from error
            return existing


@dataclass(frozen=True)
class Patch:
    """Merge-patches `obj` in the management cluster, if it still has the `resourceVersion` of the decision.

    The uid counts, too, because an event may come from another cluster, or from before a restored backup of etcd, where
    an object of the same name can have had the same version.
    """

    resource: Resource
    obj: Mapping[str, Any]
    patch: Object
    subresource: str = ""
    manager: str = MANAGER

    def execute(self, clients: Clients) -> Object:
        """Returns the patched object. Raises `Conflict` if the object was changed, `NotFound` if it was deleted."""
        older, status = self.resource.older, self.patch.get("status")
        if older is None or not self.resource.is_older(self.obj):
            return self._send(clients, self.resource, self.obj, self.patch)
        resource = replace(self.resource, version=older.version)
        if status is None:
            return self._send(clients, resource, self.obj, self.patch)
        stored = self._send(clients, resource, self.obj, {**self.patch, "status": older.downgrade(self.obj, status)})
        if rest := older.dropped(stored, status):
            stored = self._send(clients, resource, stored, {"status": rest})
        return stored

    def _send(self, clients: Clients, resource: Resource, obj: Mapping[str, Any], patch: Object) -> Object:
        decided_on = {name: obj["metadata"][name] for name in ("uid", "resourceVersion") if name in obj["metadata"]}
        metadata = dict(patch.get("metadata") or {}) | decided_on
        stored = clients.management.patch(
            resource, key_of(obj), {**patch, "metadata": metadata}, subresource=self.subresource, manager=self.manager
        )
        # A write of the status ignores the uid. The decision that follows a conflict corrects its writes.
        if "uid" in decided_on and stored["metadata"].get("uid") not in (None, decided_on["uid"]):
            raise Conflict(f"{resource.kind} {key_of(obj)} has the same version as another object with this name")
        return stored


@dataclass(frozen=True)
class Delete:
    """Deletes `obj` from the management cluster, by uid; an absent or replaced object counts as deleted.

    With `unchanged` the object must have the resourceVersion of the decision, because others write to it.
    """

    resource: Resource
    obj: Mapping[str, Any]
    unchanged: bool = False

    def execute(self, clients: Clients) -> None:
        """Sends the deletion; finalizers may keep the object for longer.

        Raises `ApiError` (409) if it is refused, and `Conflict` if an object that must be unchanged was changed.
        """
        key, metadata = key_of(self.obj), self.obj["metadata"]
        version = metadata["resourceVersion"] if self.unchanged else ""
        try:
            clients.management.delete(self.resource, key, uid=metadata["uid"], version=version)
        except Conflict as error:
            if self.unchanged:
                raise
            error.raise_if_refused(self.obj, clients.management.find(self.resource, key), "uid")


@dataclass(frozen=True)
class RemoveFinalizer:
    """Removes a finalizer from `obj`, which is being deleted; does nothing if it is gone."""

    resource: Resource
    obj: Mapping[str, Any]
    finalizer: str

    def execute(self, clients: Clients) -> Object | None:
        """Returns the patched object, None if it is absent. Raises `Conflict` if it was changed."""
        left = [name for name in dig(self.obj, "metadata.finalizers", []) if name != self.finalizer]
        try:
            return Patch(self.resource, self.obj, {"metadata": {"finalizers": left}}).execute(clients)
        except NotFound:
            return None


def ensure_finalizer(resource: Resource, obj: Mapping[str, Any], finalizer: str) -> tuple[Patch, ...]:
    """Returns the patch that adds the finalizer; none if `obj` has it."""
    if has_finalizer(obj, finalizer):
        return ()
    finalizers = [*dig(obj, "metadata.finalizers", []), finalizer]
    return (Patch(resource, obj, {"metadata": {"finalizers": finalizers}}),)


def write_ahead(resource: Resource, obj: Mapping[str, Any], status: Object) -> tuple[Patch, ...]:
    """Returns the patch that records intended work in the status before the work begins, in case the process crashes.

    Returns no patch if `obj` has this status.
    """
    if not would_change(dig(obj, "status", {}), status):
        return ()
    return (Patch(resource, obj, {"status": status}, subresource="status"),)


def would_change(current: Any, patch: Any) -> bool:
    """Returns whether the merge patch would change `current`."""
    if not isinstance(patch, dict) or not isinstance(current, dict):
        return bool(current != patch)
    return any(
        (name in current) if value is None else would_change(current.get(name), value) for name, value in patch.items()
    )


class _Returning(Protocol[R_co]):
    def execute(self, clients: Clients) -> R_co: ...


@dataclass
class Results:
    """The effects that were executed, in order, each with its result; `error` is the failure that stopped the rest."""

    executed: list[tuple[Effect, Any]] = field(default_factory=list)
    error: Exception | None = None

    def of(self, kind: type[_Returning[R]]) -> list[R]:
        """Returns the results of the executed effects of this class, in order."""
        return [result for effect, result in self.executed if isinstance(effect, kind)]


def perform(effects: Sequence[Effect], clients: Clients) -> Results:
    """Executes the effects in order, up to the first failure.

    The failure is returned, not raised, so that the status can report it. An effect on an object that an earlier effect
    wrote starts from the object that the earlier effect returned.
    """
    results = Results()
    for effect in effects:
        try:
            if isinstance(effect, (Patch, RemoveFinalizer)):
                effect = replace(effect, obj=latest(effect.obj, results))
            results.executed.append((effect, effect.execute(clients)))
        except Exception as error:  # the runtime raises it, unless the status reports it
            results.error = error
            break
    return results


def latest(obj: Mapping[str, Any], results: Results) -> Mapping[str, Any]:
    """Returns the newest version of `obj` among the results, else `obj` itself."""
    uid = dig(obj, "metadata.uid")
    for _, value in reversed(results.executed):
        if isinstance(value, dict) and dig(value, "metadata.uid") == uid:
            return value
    return obj
