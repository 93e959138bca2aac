"""From rendered objects to what is applied: the namespace that each belongs to, its path, and our label on it.

Scope is settled before identities are compared, or a cluster-scoped object with a stray namespace would look like
another one and be pruned.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from copy import deepcopy

from ..kube import Object, Resource, dig
from ..kube.crds import CRD
from .inventory import OWNED, OWNED_LABEL

WORKLOAD, MANAGEMENT = "the workload cluster", "the management cluster"


class UnknownKinds(Exception):
    """Some kinds are neither served, at the place `where`, nor defined by the chart itself."""

    def __init__(self, kinds: Iterable[str], where: str) -> None:
        self.kinds = tuple(sorted(set(kinds)))
        self.where = where
        super().__init__(f"{where} does not serve {', '.join(self.kinds)}")


def kinds_defined_by(objects: Iterable[Object]) -> dict[tuple[str, str], Resource]:
    """The resources that CRDs among `objects` will bring."""
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
    *,
    default_namespace: str,
    where: str = WORKLOAD,
) -> list[Object]:
    """The objects as they are applied `where` these kinds are served. Raises `UnknownKinds`."""
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
        metadata["labels"] = {**(dig(metadata, "labels") or {}), OWNED_LABEL: OWNED}
        obj.pop("status", None)
        result.append(_as_stored(obj))
    return result


def _as_stored(obj: Object) -> Object:
    """A Secret with its `stringData` as `data`: the form that it is read back in, so that equal reads as equal."""
    texts = obj.get("stringData")
    if obj["kind"] == "Secret" and isinstance(texts, Mapping) and all(isinstance(text, str) for text in texts.values()):
        del obj["stringData"]
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}
    return obj
