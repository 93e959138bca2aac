"""The change to preview: another class, version or variables of a Cluster's topology, or changed manifests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shared import bounded_yaml
from shared.api.resources import CLUSTER
from shared.kube import Key, Object, dig, key_of
from shared.kube.resources import split_api_version

from ..failure import Failure


@dataclass(frozen=True)
class Change:
    """A change that a user plans.

    Attributes:
        class_name: The name of the new ClusterClass; empty for the present one.
        version: The new Kubernetes version; empty for the present one.
        variables: New values of variables by name.
        manifests: The changed objects: the Cluster, ClusterClasses and their templates.
    """

    class_name: str = ""
    version: str = ""
    variables: Mapping[str, Any] = field(default_factory=dict)
    manifests: tuple[Object, ...] = ()

    def classes(self, cluster: Object) -> set[Key]:
        """Returns the ClusterClasses of a Cluster before and after the change."""
        topologies = [
            dig(cluster, "spec.topology", {}),
            *(dig(obj, "spec.topology", {}) for obj in self._given(cluster)),
        ]
        found = {_class_of(topology, key_of(cluster).namespace) for topology in topologies}
        if self.class_name:
            found |= {Key(key.namespace, self.class_name) for key in found}
        return {key for key in found if key.name}

    def within(self, namespace: str) -> Change:
        """Returns the change with this namespace for the manifests that name none."""
        manifests = tuple({**obj, "metadata": {"namespace": namespace, **obj["metadata"]}} for obj in self.manifests)
        return replace(self, manifests=manifests)

    def topology(self, cluster: Object) -> Object:
        """Returns `spec.topology` of the Cluster after the change."""
        given = self._given(cluster)
        topology = dict(dig(given[-1] if given else cluster, "spec.topology", {}))
        if self.class_name:
            topology.pop("class", None)
            topology["classRef"] = {**dig(topology, "classRef", {}), "name": self.class_name}
        if self.version:
            topology["version"] = self.version
        if self.variables:
            kept = [one for one in topology.get("variables") or [] if one.get("name") not in self.variables]
            changed = [{"name": name, "value": value} for name, value in self.variables.items()]
            topology["variables"] = [*kept, *changed]
        return topology

    def patch(self, cluster: Object) -> Object:
        """Returns the JSON merge patch of the Cluster; empty if nothing changes. Fields that no manifest has stay."""
        patch = {"topology": merge_patch(dig(cluster, "spec.topology", {}), self.topology(cluster))}
        wanted: Object = {"spec": {name: value for name, value in patch.items() if value}}
        for given in self._given(cluster):
            others = {name: value for name, value in dig(given, "spec", {}).items() if name != "topology"}
            wanted["spec"] |= _changed(dig(cluster, "spec", {}), others)
            kept = {name: dig(given, ("metadata", name), {}) for name in ("labels", "annotations")}
            wanted["metadata"] = _changed(cluster["metadata"], {name: value for name, value in kept.items() if value})
        return {name: value for name, value in wanted.items() if value}

    def _given(self, cluster: Object) -> list[Object]:
        return [obj for obj in self.manifests if is_cluster(obj) and key_of(obj).name == key_of(cluster).name]


def is_cluster(obj: Object) -> bool:
    """Returns whether an object is a Cluster of Cluster API."""
    return (split_api_version(obj.get("apiVersion", ""))[0], obj.get("kind")) == (CLUSTER.group, CLUSTER.kind)


def parse_variable(text: str) -> tuple[str, Any]:
    """Parses `NAME=VALUE`; the value is JSON, or else a string. Raises `Failure` for another form."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise Failure(f"--set-variable {text!r} must be NAME=VALUE, such as workers=3 or region=fsn1")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def parse_manifests(text: str) -> tuple[Object, ...]:
    """Returns the objects in YAML text. Raises `YAMLError`, or `Failure` for a document that is no object."""
    found = [document for document in bounded_yaml.load_all(text) if document is not None]
    for document in found:
        if not isinstance(document, dict) or not key_of(document).name or not isinstance(document.get("kind"), str):
            raise Failure("a document of the file is not an object with apiVersion, kind and metadata.name")
    return tuple(found)


def merge_patch(old: Object, new: Object) -> Object:
    """Returns the JSON merge patch (RFC 7396) that turns one object into the other."""
    patch: Object = {name: None for name in old if name not in new}
    for name, value in new.items():
        former = old.get(name)
        if isinstance(value, dict) and isinstance(former, dict):
            if below := merge_patch(former, value):
                patch[name] = below
        elif name not in old or former != value:
            patch[name] = value
    return patch


def _changed(old: Object, new: Object) -> Object:
    """Returns the merge patch that sets the fields of `new`, and removes none."""
    return {name: value for name, value in merge_patch(old, new).items() if name in new}


def _class_of(topology: Object, namespace: str) -> Key:
    reference = dig(topology, "classRef", {})
    name = reference.get("name") or topology.get("class") or ""
    return Key(reference.get("namespace") or topology.get("classNamespace") or namespace, name)
