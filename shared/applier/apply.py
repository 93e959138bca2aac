"""Applies one object by server-side apply, and handles each way in which an API server may reject it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from shared.api.resources import NAMESPACE
from shared.manifests import HOOK_CREATION, delete_policies, hooks_of, identity, is_hook_run

from ..clients import ClusterClients
from ..kube import ApiError, Conflict, Key, NotFound, NotServed, Object, Resource, deleting, dig, key_of
from ..kube.client import NO_VERSION
from .adoption import adopt
from .defaults import claimed_fields, may_be_excluded
from .fields import MAX_PATH, MAX_PATHS, without, without_nulls
from .owner import Owner
from .policy import PREFIX, RECREATE, Policy

R = TypeVar("R")

_SETTLES_WITHIN = 5.0
"""Seconds within which a newly established kind is served and a deletion completes."""

_ATTEMPTS = 4

_MAX_MANAGER = 128
"""Characters of the name of a field manager, as Kubernetes limits them."""
_MAX_LISTED = 10
"""Conflicts that a message lists."""
_CONFLICTING_MANAGER = re.compile(r'conflict with "([^"]*)"')
_IMMUTABLE = re.compile(
    r"immutable|cannot change|can(?:not|\snot) be changed|updates? to .{0,200}forbidden|may not change"
)
_HOLDS_DATA = ("Namespace", "CustomResourceDefinition", "PersistentVolumeClaim", "PersistentVolume")
"""Kinds that are recreated only if the object itself has the annotation, because their deletion loses data."""


class ApplyRejected(ApiError):
    """An object was deliberately not applied; the message gives the reason and the remedy."""


@dataclass(frozen=True)
class FieldConflict:
    """A field that another manager held during the apply.

    An empty `field` stands for the whole object, which existed without an owner's mark, and which `manager` had
    written.
    """

    manager: str
    field: str

    def __str__(self) -> str:
        return f"{self.field} ({self.manager})"


@dataclass(frozen=True)
class ApplyResult:
    """The object as the server stores it now, and the conflicts that the policy has resolved."""

    live: Object
    conflicts: tuple[FieldConflict, ...] = ()


def apply(
    cluster: ClusterClients, resource: Resource, obj: Object, policy: Policy, *, new: bool = False
) -> ApplyResult:
    """Applies an object by server-side apply, and resolves conflicts as the policy says.

    Null fields that the server rejects are left out, as the helm program's creations leave them to the server. Does not
    wait until the kind that an applied CRD defines is served.

    Args:
        cluster: The cluster to apply to.
        resource: The kind of `obj`.
        obj: The object without fields that the server sets.
        policy: The treatment of conflicts and immutable fields, and the owner of the object.
        new: The inventory does not have the object yet. If it exists with another owner's mark, it is rejected.

    Raises:
        ApplyRejected: The policy forbids to apply the object.
        ApiError: The API server failed or rejected the object.
        TimeoutError: Finalizers keep an object that has to be deleted first.
    """
    return leaving_out_nulls(lambda each: _apply_whole(cluster, resource, each, policy, new=new), obj)


def leaving_out_nulls(write: Callable[[Object], R], obj: Object) -> R:
    """Writes an object, and once more without the null fields if the server rejects these."""
    try:
        return write(obj)
    except ApiError as error:
        lighter = without_nulls(obj, error.body) if error.status == 422 else None
        if lighter is None:
            raise
    return write(lighter)


def _apply_whole(cluster: ClusterClients, resource: Resource, obj: Object, policy: Policy, *, new: bool) -> ApplyResult:
    """Applies the object with all its fields; see `apply`."""
    owner = policy.owner
    try:
        applied = (_apply_new if new and owner.mark else _apply)(cluster, resource, obj, policy)
    except ApiError as error:
        if error.status != 422 or without_nulls(obj, error.body):
            raise
        cleared = _apply_without_defaults(cluster, resource, obj, policy, error)
        if cleared is None and not _IMMUTABLE.search(str(error)):
            raise
        applied = cleared or ApplyResult(_recreate(cluster, resource, obj, policy, error))
    if deleting(applied.live):
        # Changes to an object that is being deleted are lost with it.
        _await_gone(cluster, resource, obj, "is being deleted")
        applied = replace(applied, live=_apply_once(cluster, resource, obj, owner, force=True))
    if owner.mark and policy.conflicts == "force" and adopt(cluster.client, resource, applied.live, owner):
        applied = replace(applied, live=_apply_once(cluster, resource, obj, owner, force=True))
    return applied


def reject_other_owners(cluster: ClusterClients, live: Object, policy: Policy) -> None:
    """Raises `ApplyRejected` if another owner has marked the live object and still needs it.

    Also raises it if the owner is exclusive, and the object is not its own.
    """
    owner = policy.owner
    if refusal := owner.refusal(live):
        raise ApplyRejected(refusal, status=409)
    mark = owner.mark.of(live)
    if mark in ("", str(owner.mark)):
        return
    if holder := owner.claim(cluster.client, mark, identity(live)):
        raise ApplyRejected(
            f"it belongs to {holder}, and an object has one owner only: delete that owner, "
            "or have only one of them apply the object",
            status=409,
        )


def _apply_new(cluster: ClusterClients, resource: Resource, obj: Object, policy: Policy) -> ApplyResult:
    """Creates the object in one request. If it exists, applies it only if its owner's mark allows that."""
    try:
        created = {**obj, "metadata": {**obj["metadata"], "resourceVersion": NO_VERSION}}
        return ApplyResult(_apply_once(cluster, resource, created, policy.owner, force=False))
    except Conflict:
        live = cluster.client.find(resource, _key(resource, obj))
    found: tuple[FieldConflict, ...] = ()
    if live is not None and _is_former_run(obj, live, policy.owner):
        cluster.client.delete(resource, _key(resource, obj), uid=live["metadata"]["uid"])
        _await_gone(cluster, resource, obj, "is being deleted to run again")
    elif live is not None:
        reject_other_owners(cluster, live, policy)
        found = () if policy.owner.mark.of(live) else _creators(live, policy.owner)
    applied = _apply(cluster, resource, obj, policy)
    return replace(applied, conflicts=(*found, *applied.conflicts))


def _is_former_run(obj: Object, live: Object, owner: Owner) -> bool:
    """Returns whether a live object is a hook that the helm program has left, which the new run of the hook replaces.

    Helm marks no hooks as its own.
    """
    unmarked = not owner.mark.of(live) and not owner.has_labels(live)
    return unmarked and bool(hooks_of(live)) and is_hook_run(obj) and HOOK_CREATION in delete_policies(obj)


def _creators(live: Object, owner: Owner) -> tuple[FieldConflict, ...]:
    """Returns a conflict over the whole object for each other manager that has written it."""
    managers = {entry.get("manager", "") for entry in dig(live, "metadata.managedFields", [])} or {"unknown"}
    return tuple(
        FieldConflict(manager[:_MAX_MANAGER], "") for manager in sorted(managers - {owner.manager})[:MAX_PATHS]
    )


def _apply(cluster: ClusterClients, resource: Resource, obj: Object, policy: Policy) -> ApplyResult:
    """Applies without force first, because the conflict names the managers whose fields force would take."""
    try:
        return ApplyResult(_apply_once(cluster, resource, obj, policy.owner, force=False))
    except Conflict as error:
        conflicts = tuple(_field_conflicts(error))
        if not conflicts:
            raise
        if policy.conflicts == "fail":
            fields = _listed(conflicts)
            annotate = f"annotate the {policy.owner.kind} with {PREFIX}conflicts: force or yield"
            hint = f"do not apply this object, or {annotate}"
            raise ApplyRejected(f"other field managers own {fields}; {hint}", status=409) from error
        if policy.conflicts == "yield":
            for one in conflicts:
                obj = without(obj, one.field)
            return ApplyResult(_apply_once(cluster, resource, obj, policy.owner, force=False), conflicts)
        return ApplyResult(_apply_once(cluster, resource, obj, policy.owner, force=True), conflicts)


def _field_conflicts(error: Conflict) -> list[FieldConflict]:
    """Returns the first conflicts that the server reports. A path longer than `MAX_PATH` leads to no field."""
    causes = dig(error.body, "details.causes", [])[:MAX_PATHS]
    managers = [_CONFLICTING_MANAGER.search(cause.get("message", "")) for cause in causes]
    return [
        FieldConflict(manager[1][:_MAX_MANAGER], str(cause.get("field") or "")[: MAX_PATH + 1])
        for cause, manager in zip(causes, managers, strict=True)
        if manager and cause.get("reason") == "FieldManagerConflict"
    ]


def _listed(conflicts: Sequence[FieldConflict]) -> str:
    """Returns the first conflicts as text."""
    listed = ", ".join(str(one) for one in conflicts[:_MAX_LISTED])
    more = len(conflicts) - _MAX_LISTED
    return f"{listed} and {more} more fields" if more > 0 else listed


def _apply_once(cluster: ClusterClients, resource: Resource, obj: Object, owner: Owner, *, force: bool) -> Object:
    """Applies the object. Creates its namespace if it is missing, and waits for a kind that is about to be served."""

    def attempt() -> Object:
        return cluster.client.apply(resource, obj, manager=owner.manager, force=force)

    try:
        return attempt()
    except NotFound as error:
        if dig(error.body, "details.kind") == "namespaces":
            # The chart expects the namespace to exist. It is created here, and never pruned.
            name = obj["metadata"]["namespace"]
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            cluster.client.apply(NAMESPACE, body, manager=owner.manager)
            return attempt()
        raise
    except NotServed as error:
        if (resource.api_version, resource.kind) in cluster.discovery.served():
            raise
        # The API server may take a moment to serve the kind of an established CRD.
        return _poll(attempt, error)


def _apply_without_defaults(
    cluster: ClusterClients, resource: Resource, obj: Object, policy: Policy, refusal: ApiError
) -> ApplyResult | None:
    """Applies the object after claiming server-set fields that exclude it; None if that does not help."""
    if not may_be_excluded(obj, refusal.body):
        return None
    key = _key(resource, obj)
    for attempt in range(1, _ATTEMPTS + 1):
        live = cluster.client.find(resource, key)
        fields = claimed_fields(obj, live, refusal.body, policy.owner) if live else None
        if live is None or fields is None:
            return None
        metadata = {"resourceVersion": live["metadata"]["resourceVersion"], "managedFields": fields}
        try:
            cluster.client.patch(resource, key, {"metadata": metadata}, manager=policy.owner.manager)
            break
        except Conflict:  # the object changed between read and patch
            if attempt == _ATTEMPTS:
                raise
    try:
        return _apply(cluster, resource, obj, policy)
    except ApiError as error:
        if error.status != 422:
            raise
        return None  # the first message stands


def _recreate(cluster: ClusterClients, resource: Resource, obj: Object, policy: Policy, refusal: ApiError) -> Object:
    """Deletes and applies an object whose change the server rejects as immutable, if that is allowed."""
    annotated = dig(obj, ("metadata", "annotations", RECREATE)) == "true"
    allowed = annotated or bool(hooks_of(obj)) or (policy.recreate and resource.kind not in _HOLDS_DATA)
    if not allowed:
        hint = f"annotate it, or the {policy.owner.kind}, with {RECREATE}: true to have it deleted and recreated"
        raise ApplyRejected(f"{refusal.detail}; {hint}", status=refusal.status, body=refusal.body)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _delete_ours(cluster, resource, obj, policy, refusal)
            break
        except Conflict:  # the object changed between read and delete
            if attempt == _ATTEMPTS:
                raise
    _await_gone(cluster, resource, obj, "is being deleted to be recreated")
    return _apply_once(cluster, resource, obj, policy.owner, force=True)


def _delete_ours(cluster: ClusterClients, resource: Resource, obj: Object, policy: Policy, refusal: ApiError) -> None:
    """Deletes the object in the version that was read. Raises `Conflict` if it has changed since."""
    key = _key(resource, obj)
    live = cluster.client.find(resource, key)
    if live is None:
        return
    if not policy.owner.has(live):
        raise ApplyRejected(
            f"{refusal.detail}; it belongs to another owner, so it is kept", status=refusal.status, body=refusal.body
        )
    metadata = live["metadata"]
    cluster.client.delete(resource, key, uid=metadata["uid"], version=metadata["resourceVersion"])


def delete_former_run(cluster: ClusterClients, resource: Resource, obj: Object, policy: Policy, uid: str) -> None:
    """Deletes the Job or Pod with this uid, so that the hook runs again; keeps any other object of the same name.

    Raises:
        ApiError: The API server failed.
        TimeoutError: Finalizers keep the former object.
    """
    key = _key(resource, obj)
    live = cluster.client.find(resource, key)
    if live is None or live["metadata"]["uid"] != uid or not policy.owner.has(live):
        return
    with suppress(Conflict):  # another object has taken the name since
        cluster.client.delete(resource, key, uid=uid)
    _await_gone(cluster, resource, obj, "is being deleted to run again")


def _await_gone(cluster: ClusterClients, resource: Resource, obj: Object, state: str) -> None:
    """Waits until the object is deleted. Raises `TimeoutError`, whose message begins with `state`."""
    key = _key(resource, obj)
    deadline = time.monotonic() + _SETTLES_WITHIN
    while cluster.client.find(resource, key) is not None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{state}; its finalizers delay the deletion")
        time.sleep(0.1)


def _key(resource: Resource, obj: Object) -> Key:
    return key_of(obj) if resource.namespaced else Key("", obj["metadata"]["name"])


def _poll(attempt: Callable[[], Object], failure: NotServed) -> Object:
    """Repeats the attempt until the kind is served, and returns its result."""
    deadline = time.monotonic() + _SETTLES_WITHIN
    while time.monotonic() < deadline:
        time.sleep(0.1)
        try:
            return attempt()
        except NotServed as error:
            failure = error
    raise failure
