"""What the API server calls things: kinds, their paths, and the keys of their objects.

Plain data and string rules, no I/O; every layer above speaks in these terms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .errors import NO_OBJECT, NotFound

# No slash and no percent sign (Kubernetes' rule for path segments), nor what else has a meaning in URLs.
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
"""Those that an API server of any release of Kubernetes serves itself; `.k8s.io` alone does not tell: CRDs have it, too
(gateway.networking.k8s.io)."""

Object = dict[str, Any]
"""One Kubernetes object, decoded from JSON and otherwise untouched."""


class Key(NamedTuple):
    """Names one object of a kind that is known from elsewhere; `namespace` is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True)
class Resource:
    """One served kind: `group` is empty for the core group."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    needs: str = field(default="", compare=False)
    """What serves it, for messages."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, or of one object when `name` is given.

        Raises `NotFound` for what no object can be called: names come from events and from other people's objects, and
        must not lead to another path.
        """
        for segment in (namespace, name):
            if segment in (".", "..") or not _PATH_SEGMENT.fullmatch(segment):
                raise NotFound(f"{segment!r} is no name that a {self.kind} can have", status=404, body=NO_OBJECT)
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


def split_api_version(api_version: str) -> tuple[str, str]:
    """`apps/v1` -> (`apps`, `v1`); `v1` -> (``, `v1`)."""
    group, _, version = api_version.rpartition("/")
    return group, version


def conventional_plural(kind: str) -> str:
    """The plural that Cluster API and Knative derive from a kind by English rules, without discovery."""
    word = kind.lower()
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def key_of(obj: Mapping[str, Any]) -> Key:
    metadata = obj.get("metadata") or {}
    return Key(metadata.get("namespace") or "", metadata.get("name") or "")


def dig(obj: Any, path: str | Iterable[str], default: Any = None) -> Any:
    """The value at a dotted path, or `default` where any step is missing, null or not a mapping."""
    for step in path.split(".") if isinstance(path, str) else path:
        if not isinstance(obj, Mapping) or obj.get(step) is None:
            return default
        obj = obj[step]
    return obj


def owners(obj: Mapping[str, Any], kind: str, group: str) -> Iterable[Mapping[str, Any]]:
    """The owner references of `obj` that name a `kind` of `group`, whatever its version."""
    for reference in dig(obj, "metadata.ownerReferences", []):
        if reference.get("kind") == kind and split_api_version(reference.get("apiVersion", ""))[0] == group:
            yield reference


def owned_by(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """True if an owner reference of `obj` carries the uid of `owner`."""
    uid = dig(owner, "metadata.uid")
    return any(reference.get("uid") == uid for reference in dig(obj, "metadata.ownerReferences", []))


def owner_reference(owner: Mapping[str, Any], *, controller: bool | None = None) -> Object:
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
    """The owner references of `obj` with `wanted` among them; None where it is there already.

    References are the same if their uid is. What others have set on that one stays: its version, `controller`,
    `blockOwnerDeletion`. One of an earlier object of the same name is replaced: that object is gone. An object has one
    controller at most, so `controller: true` is left out where there is another.
    """
    references = [dict(reference) for reference in dig(obj, "metadata.ownerReferences", [])]
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
    return dig(obj, "metadata.deletionTimestamp") is not None


def has_finalizer(obj: Mapping[str, Any], finalizer: str) -> bool:
    return finalizer in dig(obj, "metadata.finalizers", [])
