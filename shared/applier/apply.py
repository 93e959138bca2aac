"""Server-side apply of one object, and what to do about each way in which an API server may refuse it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from shared.manifests import hooks_of, identity

from ..clients import ClusterClients
from ..effects import MANAGER
from ..kube import ApiError, Conflict, Key, NotFound, NotServed, Object, Resource, deleting, dig, key_of
from .fields import without
from .policy import PREFIX, RECREATE, Policy
from .takeover import take_over

_NAMESPACE = Resource("", "v1", "Namespace", "namespaces", namespaced=False)

_SETTLES_WITHIN = 5.0
"""Seconds that a freshly established kind, or a deletion in the background, may take."""

_ATTEMPTS = 4

_OF_NONE = "1"
"""A resourceVersion that no object has: applied with it, one that is not there is created, and one that is there is a
conflict."""

_HOLDER = re.compile(r'conflict with "([^"]*)"')
_IMMUTABLE = re.compile(r"immutable|cannot change|can(?:not|\snot) be changed|updates? to .*forbidden|may not change")
_HOLDS_DATA = ("Namespace", "CustomResourceDefinition", "PersistentVolumeClaim", "PersistentVolume")
"""Kinds that are made anew only where the object itself is annotated so."""


class Refused(ApiError):
    """An object is left as it is on purpose; the message says why, and how to have it otherwise."""


@dataclass(frozen=True)
class Held:
    """A field that another manager had, or has; with an empty field the object, which was nobody's by its marks."""

    manager: str
    field: str

    def __str__(self) -> str:
        return f"{self.field} ({self.manager})"


@dataclass(frozen=True)
class Applied:
    """The object as the server has it now; `held` are the fields that were others', dealt with by the policy."""

    live: Object
    held: tuple[Held, ...] = ()


def apply(workload: ClusterClients, resource: Resource, obj: Object, policy: Policy, *, new: bool = False) -> Applied:
    """Applies `obj`; a CRD need not be served yet when this returns. Raises `ApiError` or `TimeoutError`.

    A `new` one is not taken from other owners, as far as owners are told apart.
    """
    try:
        applied = (_apply_new if new and policy.owner.label else _apply)(workload, resource, obj, policy)
    except ApiError as error:
        if error.status != 422 or not _IMMUTABLE.search(str(error)):
            raise
        applied = Applied(_make_anew(workload, resource, obj, policy, error))
    if deleting(applied.live):
        # What is on its way out takes every change with it.
        _await_gone(workload, resource, obj, "is being deleted")
        applied = replace(applied, live=_served(workload, resource, obj, force=True))
    label = policy.owner.label if policy.conflicts == "force" else ""
    if label and take_over(workload.client, resource, applied.live, label):
        applied = replace(applied, live=_served(workload, resource, obj, force=True))
    return applied


def refuse_anothers(workload: ClusterClients, live: Object, policy: Policy) -> None:
    """Raises `Refused` where `live` is marked as another owner's that needs it."""
    owner = policy.owner
    mark = owner.mark_of(live)
    if mark in ("", owner.mark):
        return
    if holder := owner.claim(workload.client, mark, identity(live)):
        raise Refused(
            f"it belongs to {holder}, and no two can have it: delete that one, or have only one of them bring it",
            status=409,
        )


def _apply_new(workload: ClusterClients, resource: Resource, obj: Object, policy: Policy) -> Applied:
    """Creates the object, in one request; one that is there is looked at before it is taken."""
    try:
        created = {**obj, "metadata": {**obj["metadata"], "resourceVersion": _OF_NONE}}
        return Applied(_served(workload, resource, created, force=False))
    except Conflict:
        live = workload.client.find(resource, _key(resource, obj))
    found: tuple[Held, ...] = ()
    if live is not None:
        refuse_anothers(workload, live, policy)
        found = () if policy.owner.mark_of(live) else _made_by(live)
    applied = _apply(workload, resource, obj, policy)
    return replace(applied, held=(*found, *applied.held))


def _made_by(live: Object) -> tuple[Held, ...]:
    managers = {entry.get("manager", "") for entry in dig(live, "metadata.managedFields", [])} or {"unknown"}
    return tuple(Held(manager, "") for manager in sorted(managers - {MANAGER}))


def _apply(workload: ClusterClients, resource: Resource, obj: Object, policy: Policy) -> Applied:
    """Without force first, so that it is known whose fields it would take."""
    try:
        return Applied(_served(workload, resource, obj, force=False))
    except Conflict as error:
        held = tuple(_held(error))
        if not held:
            raise
        if policy.conflicts == "fail":
            fields = ", ".join(map(str, held))
            annotate = f"annotate the {policy.owner.kind} with {PREFIX}conflicts: force or yield"
            hint = f"leave it out of what is applied, or {annotate}"
            raise Refused(f"other managers hold {fields}; {hint}", status=409) from error
        if policy.conflicts == "yield":
            for one in held:
                obj = without(obj, one.field)
            return Applied(_served(workload, resource, obj, force=False), held)
        return Applied(_served(workload, resource, obj, force=True), held)


def _held(error: Conflict) -> list[Held]:
    causes = dig(error.body, "details.causes", [])
    managers = [_HOLDER.search(cause.get("message", "")) for cause in causes]
    return [
        Held(manager[1], cause.get("field", ""))
        for cause, manager in zip(causes, managers, strict=True)
        if manager and cause.get("reason") == "FieldManagerConflict"
    ]


def _served(workload: ClusterClients, resource: Resource, obj: Object, *, force: bool) -> Object:
    def attempt() -> Object:
        return workload.client.apply(resource, obj, manager=MANAGER, force=force)

    try:
        return attempt()
    except NotFound as error:
        if dig(error.body, "details.kind") == "namespaces":
            # A namespace that the chart takes for granted: made, but not ours to delete.
            name = obj["metadata"]["namespace"]
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            workload.client.apply(_NAMESPACE, body, manager=MANAGER)
            return attempt()
        raise
    except NotServed as error:
        if (resource.api_version, resource.kind) in workload.discovery.served():
            raise
        # An established CRD can still be unknown to the server's request path for a moment.
        return _poll(attempt, error)


def _make_anew(workload: ClusterClients, resource: Resource, obj: Object, policy: Policy, refusal: ApiError) -> Object:
    """Deletes and applies an object whose change is refused, where that is allowed."""
    asked = dig(obj, ("metadata", "annotations", RECREATE)) == "true"
    allowed = asked or bool(hooks_of(obj)) or (policy.recreate and resource.kind not in _HOLDS_DATA)
    if not allowed:
        hint = f"annotate it, or the {policy.owner.kind}, with {RECREATE}: true to have it deleted and made anew"
        raise Refused(f"{refusal.detail}; {hint}", status=refusal.status, body=refusal.body)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _delete_ours(workload, resource, obj, policy, refusal)
            break
        except Conflict:  # it changed between the look and the deletion
            if attempt == _ATTEMPTS:
                raise
    _await_gone(workload, resource, obj, "is being deleted to be made anew")
    return _served(workload, resource, obj, force=True)


def _delete_ours(workload: ClusterClients, resource: Resource, obj: Object, policy: Policy, refusal: ApiError) -> None:
    """Deletes the object as it is looked at. Raises `Conflict` where it changes meanwhile."""
    key = _key(resource, obj)
    live = workload.client.find(resource, key)
    if live is None:
        return
    if not policy.owner.has(live):
        raise Refused(f"{refusal.detail}; and it is not ours to delete", status=refusal.status, body=refusal.body)
    metadata = live["metadata"]
    workload.client.delete(resource, key, uid=metadata["uid"], version=metadata["resourceVersion"])


def _await_gone(workload: ClusterClients, resource: Resource, obj: Object, state: str) -> None:
    key = _key(resource, obj)
    deadline = time.monotonic() + _SETTLES_WITHIN
    while workload.client.find(resource, key) is not None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{state}; its finalizers hold it")
        time.sleep(0.1)


def _key(resource: Resource, obj: Object) -> Key:
    return key_of(obj) if resource.namespaced else Key("", obj["metadata"]["name"])


def _poll(attempt: Callable[[], Object], failure: NotServed) -> Object:
    deadline = time.monotonic() + _SETTLES_WITHIN
    while time.monotonic() < deadline:
        time.sleep(0.1)
        try:
            return attempt()
        except NotServed as error:
            failure = error
    raise failure
