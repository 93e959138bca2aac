"""Resources and their URL paths, the keys of objects, and helpers for metadata. Plain data, no I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from .errors import NOT_FOUND_BODY, NotFound

# Neither slash nor percent sign (Kubernetes' rule for path segments), nor other characters with a meaning in URLs.
_PATH_SEGMENT = re.compile(r"[A-Za-z0-9._:@-]*")

BUILT_IN_GROUPS = frozenset(
    (
        *("", "apps", "autoscaling", "batch", "extensions", "policy"),
        *(
            f"{name}.k8s.io"
            for name in (
                *("admissionregistration", "apiextensions", "apiregistration", "auditregistration", "authentication"),
                *("authorization", "certificates", "coordination", "discovery", "events", "flowcontrol.apiserver"),
                *("imagepolicy", "internal.apiserver", "networking", "node", "rbac.authorization", "resource"),
                *("scheduling", "settings", "storage", "storagemigration"),
            )
        ),
    )
)
"""The API groups that some release of Kubernetes serves itself. The suffix `.k8s.io` does not identify them, because
groups of CRDs have it, too (gateway.networking.k8s.io)."""

Object = dict[str, Any]
"""One Kubernetes object, decoded from JSON and otherwise untouched."""


class Key(NamedTuple):
    """The namespace and name of an object; `namespace` is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True)
class OlderVersion:
    """An older version of a kind, in which its objects are read and written if the newer version is not served.

    Attributes:
        version: The name of the version.
        upgrade: Returns an object in the shape of the newer version; an upgraded one is returned as it is.
        downgrade: `downgrade(obj, patch)` converts a merge patch for the status of an upgraded object.
        dropped: `dropped(stored, patch)` returns a second patch with the part of the first that the server has not
            stored.
    """

    version: str
    upgrade: Callable[[Object], Object]
    downgrade: Callable[[Mapping[str, Any], Object], Object]
    dropped: Callable[[Mapping[str, Any], Object], Object]


@dataclass(frozen=True)
class Resource:
    """One served kind: `group` is empty for the core group."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    needs: str = field(default="", compare=False)
    """The software to install for this kind, for messages."""
    older: OlderVersion | None = field(default=None, compare=False, repr=False)
    """The version that replaces this version on API servers that do not serve it."""

    @property
    def api_version(self) -> str:
        """`group/version`, or `version` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def in_older_version(self) -> Resource | None:
        """The kind in its older version, if it has one."""
        return replace(self, version=self.older.version) if self.older else None

    def is_read_in(self, api_version: str) -> bool:
        """Returns whether objects of the kind are read in this version, so that an event's object needs no read."""
        return api_version == self.api_version or self.is_older({"apiVersion": api_version})

    def is_older(self, obj: Mapping[str, Any]) -> bool:
        """Returns whether an object of the kind was read in the older version."""
        return self.older is not None and obj.get("apiVersion") == f"{self.group}/{self.older.version}"

    def upgraded(self, obj: Object) -> Object:
        """Returns the object in the shape of this version, from either version."""
        return self.older.upgrade(obj) if self.older and self.is_older(obj) else obj

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Returns the URL path of the collection, or of one object if `name` is given.

        Raises `NotFound` for an invalid name: names come from events and from untrusted objects, and must not lead to
        another path.
        """
        for segment in (namespace, name):
            if segment in (".", "..") or not _PATH_SEGMENT.fullmatch(segment):
                raise NotFound(f"{segment!r} is not a valid name of a {self.kind}", status=404, body=NOT_FOUND_BODY)
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


def resource_of(path: str) -> str:
    """Returns the resource in the path of a request as `clusters.cluster.x-k8s.io/status`; for other paths the path.

    The rule comes from the API server (`k8s.io/apiserver/pkg/endpoints/request.RequestInfo`).
    """
    api, *parts = path.strip("/").split("/")
    if api not in ("api", "apis") or len(parts) < (3 if api == "apis" else 2):
        return path
    group, parts = (f".{parts[0]}", parts[2:]) if api == "apis" else ("", parts[1:])
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    return f"{parts[0]}{group}" + (f"/{parts[2]}" if len(parts) > 2 else "")


def split_api_version(api_version: str) -> tuple[str, str]:
    """Splits an apiVersion into group and version: `apps/v1` -> (`apps`, `v1`); `v1` -> (``, `v1`)."""
    group, _, version = api_version.rpartition("/")
    return group, version


def group_of(reference: Mapping[str, Any]) -> str:
    """Returns the API group of a reference with apiGroup or apiVersion."""
    return reference.get("apiGroup") or split_api_version(reference.get("apiVersion") or "")[0]


def conventional_plural(kind: str) -> str:
    """Returns the plural that Cluster API and Knative derive from a kind by English rules, without discovery."""
    word = kind.lower()
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def key_of(obj: Mapping[str, Any]) -> Key:
    """Returns the key of an object; missing fields become empty."""
    metadata = obj.get("metadata") or {}
    return Key(metadata.get("namespace") or "", metadata.get("name") or "")


def dig(obj: Any, path: str | Iterable[str], default: Any = None) -> Any:
    """Returns the value at a path, or `default` if a step is missing, null or not a mapping.

    Also returns a `default` that is a map or a list if the value has another type. `path` is dotted, or a sequence of
    steps for keys that contain dots.
    """
    for step in path.split(".") if isinstance(path, str) else path:
        if not isinstance(obj, Mapping) or obj.get(step) is None:
            return default
        obj = obj[step]
    if isinstance(default, dict):
        return obj if isinstance(obj, Mapping) else default
    return default if isinstance(default, list) and not isinstance(obj, (list, tuple)) else obj


def owner_references(obj: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the owner references of an object; entries of another shape are left out."""
    return [each for each in dig(obj, "metadata.ownerReferences", []) if isinstance(each, Mapping)]


def owners(obj: Mapping[str, Any], kind: str, group: str) -> Iterable[Mapping[str, Any]]:
    """Yields the owner references of `obj` to a `kind` of `group`, in any version."""
    for reference in owner_references(obj):
        if reference.get("kind") == kind and split_api_version(str(reference.get("apiVersion", "")))[0] == group:
            yield reference


def owned_by(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Returns whether an owner reference of `obj` has the uid of `owner`."""
    uid = dig(owner, "metadata.uid")
    return any(reference.get("uid") == uid for reference in owner_references(obj))


def owner_reference(owner: Mapping[str, Any], *, controller: bool | None = None) -> Object:
    """Returns an owner reference to `owner`; None leaves the field `controller` out."""
    reference: Object = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    if controller is not None:
        reference["controller"] = controller
    return reference


def with_owner(obj: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[Object] | None:
    """Returns the owner references of `obj` with `wanted` merged in; None if nothing has to change.

    References are compared by uid. A reference with the same uid keeps the fields that others have set in it: version,
    `controller`, `blockOwnerDeletion`. A reference to an earlier object of the same name is replaced, because that
    object is gone. An object has at most one controller, so `controller` becomes false if another reference is the
    controller.
    """
    references = [dict(reference) for reference in owner_references(obj)]
    found = next((reference for reference in references if reference.get("uid") == wanted["uid"]), None)
    if found is not None and (not wanted.get("controller") or "controller" in found):
        return None
    controlled = any(reference.get("controller") is True for reference in references)
    if found is not None:
        return None if controlled else [{**one, "controller": True} if one is found else one for one in references]
    group, _ = split_api_version(wanted["apiVersion"])
    earlier = list(owners(obj, wanted["kind"], group))
    kept = [one for one in references if not (one in earlier and one.get("name") == wanted["name"])]
    controlled = any(reference.get("controller") is True for reference in kept)
    return [*kept, {**wanted, "controller": False} if wanted.get("controller") and controlled else dict(wanted)]


def deleting(obj: Mapping[str, Any]) -> bool:
    """Returns whether the object has a deletion timestamp."""
    return dig(obj, "metadata.deletionTimestamp") is not None


def has_finalizer(obj: Mapping[str, Any], finalizer: str) -> bool:
    """Returns whether the object has the finalizer."""
    return finalizer in dig(obj, "metadata.finalizers", [])
