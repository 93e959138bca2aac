"""Turns rendered objects into desired objects, with their namespace and their owner's marks, without status.

The scope is resolved before identities are compared. Otherwise a cluster-scoped object with a stray namespace would
look like another object, and be pruned.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from copy import deepcopy

from ..kube import Object, Resource
from ..kube.crds import CRD
from .owner import Owner

WORKLOAD, MANAGEMENT = "the workload cluster", "the management cluster"


class UnknownKinds(Exception):
    """The cluster does not serve these kinds, and no CRD among the objects defines them. `where` names the cluster."""

    def __init__(self, kinds: Iterable[str], where: str) -> None:
        self.kinds = tuple(sorted(set(kinds)))
        self.where = where
        super().__init__(f"{where} does not serve {', '.join(self.kinds)}")


def kinds_defined_by(objects: Iterable[Object]) -> dict[tuple[str, str], Resource]:
    """Returns the kinds that CRDs among `objects` define, by (apiVersion, kind)."""
    defined = {}
    for crd in objects:
        if crd["kind"] != CRD.kind:
            continue
        spec = crd.get("spec") or {}
        group, names = spec.get("group", ""), spec.get("names") or {}
        for version in spec.get("versions") or []:
            resource = Resource(
                group,
                version["name"],
                names.get("kind", ""),
                names.get("plural", ""),
                spec["scope"] == "Namespaced",
            )
            if version.get("served"):
                defined[resource.api_version, resource.kind] = resource
    return defined


def desired(
    objects: Iterable[Object],
    served: Mapping[tuple[str, str], Resource],
    owner: Owner,
    *,
    default_namespace: str,
    where: str = WORKLOAD,
) -> list[Object]:
    """Returns copies of the objects as they are to be applied.

    Args:
        objects: The rendered objects.
        served: The kinds that the cluster serves, by (apiVersion, kind).
        owner: The owner of the objects.
        default_namespace: The namespace of namespaced objects that name none.
        where: The cluster's name in error messages.

    Raises:
        UnknownKinds: A kind is neither served nor defined by a CRD among the objects.
    """
    objects = list(objects)
    known = {**served, **kinds_defined_by(objects)}
    unknown = [
        f"{obj['kind']} ({obj['apiVersion']})" for obj in objects if (obj["apiVersion"], obj["kind"]) not in known
    ]
    if unknown:
        raise UnknownKinds(unknown, where)
    result = []
    for rendered in objects:
        obj = deepcopy(rendered)
        metadata = obj["metadata"]
        if known[obj["apiVersion"], obj["kind"]].namespaced:
            metadata["namespace"] = metadata.get("namespace") or default_namespace
        else:
            metadata.pop("namespace", None)
        obj.pop("status", None)
        result.append(_as_stored(owner.marked(obj)))
    return result


def _as_stored(obj: Object) -> Object:
    """Returns a Secret with `stringData` as `data`, as the server stores it, so that equal objects compare as equal."""
    texts = obj.get("stringData")
    if obj["kind"] == "Secret" and isinstance(texts, Mapping) and all(isinstance(text, str) for text in texts.values()):
        del obj["stringData"]
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}
    return obj
