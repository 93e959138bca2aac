"""Checks whether stored objects are valid in the CRDs of another version of a provider.

The objects are copied into a throwaway control plane with the new CRDs and no webhooks. The real API server accepts
updates of an object that was invalid before, as long as its invalid fields stay, so that an invalid object still works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace

from infra.local_control_plane import ControlPlane
from shared.api.conditions import counted
from shared.api.resources import NAMESPACE
from shared.applier.diff import ABSENT, compare
from shared.kube import ApiError, Client, Object, Resource, Unavailable, connect, dig, key_of
from shared.kube.crds import CRD, await_all_established, stored_resource

from ..failure import Failure
from ..read_only import ReadOnlyClient

_AT_ONCE = 8
_MANAGER = "check"


@dataclass(frozen=True)
class StoredObject:
    """One stored object; `problem` is the reason why the new CRD rejects it, `lost` are the fields that it drops."""

    namespace: str
    name: str
    problem: str = ""
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoredKind:
    """The stored objects of one CRD.

    Attributes:
        crd: The name of the CRD.
        version: The version in which the objects were checked; empty if they were not.
        checked: The number of checked objects.
        found: The objects that are invalid, or that lose fields.
        remark: Why objects were not checked.
    """

    crd: str
    version: str = ""
    checked: int = 0
    found: tuple[StoredObject, ...] = ()
    remark: str = ""

    @property
    def invalid(self) -> int:
        """The number of invalid objects."""
        return sum(bool(one.problem) for one in self.found)

    def dump(self) -> Object:
        """Returns the result as JSON."""
        return {
            "crd": self.crd,
            "version": self.version,
            "checked": self.checked,
            "invalid": self.invalid,
            "remark": self.remark,
            "objects": [
                {"namespace": one.namespace, "name": one.name, "problem": one.problem, "lostFields": list(one.lost)}
                for one in self.found
            ],
        }


def check(management: Client, crds: Sequence[Object], progress: Callable[[str], None]) -> tuple[StoredKind, ...]:
    """Checks all objects of these kinds; the management cluster gets GET requests only.

    Args:
        management: The client of the management cluster.
        crds: The new CRDs.
        progress: Called with each line of progress.

    Raises `Failure` if a CRD is invalid itself, and `ApiError` if objects cannot be read.
    """
    with closing(ReadOnlyClient(management)) as reader:
        read = [_read(reader, crd) for crd in crds]
    if not any(objects for _, objects in read):
        return tuple(kind for kind, _ in read)
    with (
        ControlPlane(progress=progress, use_existing=False, attach_output=False) as plane,
        closing(connect.from_kubeconfig(str(plane.kubeconfig))) as client,
    ):
        definitions = [
            client.apply(CRD, _storing(crd, kind.version), manager=_MANAGER)
            for (kind, objects), crd in zip(read, crds, strict=True)
            if objects
        ]
        if problems := await_all_established(client, definitions):
            raise Failure("; ".join(problems.values()))
        for name in sorted({key_of(obj).namespace for _, objects in read for obj in objects} - {"", "default"}):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            client.apply(NAMESPACE, namespace, manager=_MANAGER)
        return tuple(_checked(client, kind, crd, objects) for (kind, objects), crd in zip(read, crds, strict=True))


def _read(reader: Client, crd: Object) -> tuple[StoredKind, list[Object]]:
    """Returns the stored objects in a version that both CRDs have."""
    kind = StoredKind(crd["metadata"]["name"])
    live = reader.find(CRD, key_of(crd))
    stored = stored_resource(live) if live is not None else None
    if live is None or stored is None:
        return kind, []
    served = {version["name"] for version in dig(live, "spec.versions", []) if version.get("served")}
    new = [version["name"] for version in dig(crd, "spec.versions", []) if version.get("served")]
    wanted = stored_resource(crd)
    preferred = (wanted.version if wanted else "", stored.version, *new)
    version = next((name for name in preferred if name in served and name in new), "")
    objects = list(reader.list(replace(stored, version=version or stored.version)))
    if not version and objects:
        return replace(
            kind, remark=f"{counted(len(objects), 'object')} not checked: both CRDs serve no common version"
        ), []
    return replace(kind, version=version if objects else ""), objects


def _storing(crd: Object, version: str) -> Object:
    """Returns the CRD that stores this version, because only the provider's webhook converts it."""
    versions = [{**one, "storage": one["name"] == version} for one in crd["spec"]["versions"]]
    return {
        "apiVersion": crd["apiVersion"],
        "kind": crd["kind"],
        "metadata": {"name": crd["metadata"]["name"]},
        "spec": {**crd["spec"], "versions": versions, "conversion": {"strategy": "None"}},
    }


def _checked(client: Client, kind: StoredKind, crd: Object, objects: Iterable[Object]) -> StoredKind:
    resource = stored_resource(crd)
    if resource is None or not kind.version:
        return kind
    resource = replace(resource, version=kind.version)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        results = list(threads.map(lambda obj: _copied(client, resource, obj), objects))
    return replace(kind, checked=len(results), found=tuple(one for one in results if one.problem or one.lost))


def _copied(client: Client, resource: Resource, obj: Object) -> StoredObject:
    """Creates a copy, and then its status, which is another request."""
    key = key_of(obj)
    kept = {name: dig(obj, ("metadata", name)) for name in ("name", "namespace", "labels", "annotations")}
    copy = {**obj, "metadata": {name: value for name, value in kept.items() if value}}
    try:
        created = client.create(resource, copy, manager=_MANAGER)
        if obj.get("status"):
            try:
                created = client.patch(resource, key, {"status": obj["status"]}, subresource="status", manager=_MANAGER)
            except ApiError as error:
                if error.status != 404:  # the kind has no such subresource
                    raise
    except Unavailable:
        raise
    except ApiError as error:
        return StoredObject(*key, problem=error.detail)
    lost = tuple(field.path for field in compare(created, copy, whole=False) if field.old is ABSENT)
    return StoredObject(*key, lost=lost)
