"""Prepares copies of objects, with which managers in a new control plane continue the work of the real managers.

Owner references and managed fields refer to objects by uid, as `clusterctl move` maps them; statuses refer to
generations. The topology controller also compares its own managed fields, without which it misses rollouts.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from shared.api.cluster import CLUSTER_NAME_LABEL, PAUSED_ANNOTATION, TOPOLOGY_RECONCILED
from shared.api.names import kubeconfig_secret_of
from shared.api.resources import MACHINE, MACHINE_POOL, NODE, SECRET
from shared.kube import Key, Object, dig
from shared.kube.resources import owner_references

from .change import is_cluster
from .snapshot import kind_of

_SET_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")
_POOL = (MACHINE_POOL.group, MACHINE_POOL.kind)
_HELD_STILL = ((MACHINE.group, MACHINE.kind), (MACHINE.group, "MachineHealthCheck"), _POOL)
"""Kinds that are paused: their controllers delete Machines, or act on nodes."""

_VALUES = ("default", "enum", "example")
"""Fields of a schema that contain values, and no schema."""


def generations(objects: Iterable[Object]) -> Iterator[list[Object]]:
    """Yields the objects in lists; the owners of each object are in earlier lists."""
    left = {obj["metadata"]["uid"]: obj for obj in objects}
    while left:
        free = [uid for uid, obj in left.items() if not any(one.get("uid") in left for one in owner_references(obj))]
        # In a cycle of owners any object may be the first.
        yield [left.pop(uid) for uid in free or list(left)[:1]]


def new_object(obj: Object, uids: Mapping[str, str]) -> Object:
    """Returns the object to create, with the new uids of its owners. A Cluster is not paused, `_HELD_STILL` is."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _SET_BY_SERVER}
    annotations = dict(metadata.get("annotations") or {})
    created = {name: value for name, value in obj.items() if name != "metadata"}
    if kind_of(obj) in _HELD_STILL:
        annotations[PAUSED_ANNOTATION] = ""
    elif is_cluster(obj):
        annotations.pop(PAUSED_ANNOTATION, None)
        created["spec"] = {name: value for name, value in obj["spec"].items() if name != "paused"}
    if owners := metadata.get("ownerReferences"):
        metadata["ownerReferences"] = [{**owner, "uid": uids.get(owner["uid"], owner["uid"])} for owner in owners]
    return {**created, "metadata": {**metadata, "annotations": annotations}}


def new_managed_fields(obj: Object, uids: Mapping[str, str]) -> Any:
    """Returns the managed fields with the new uids of the owners, which their keys contain."""
    text = json.dumps(dig(obj, "metadata.managedFields", []))
    for owner in owner_references(obj):
        text = text.replace(owner["uid"], uids.get(owner["uid"], owner["uid"]))
    return json.loads(text)


def new_status(obj: Object) -> Object:
    """Returns the status for an object of generation 1; for a Cluster without `TopologyReconciled`."""
    status: Object = _aligned(dig(obj, "status", {}), obj["metadata"].get("generation", 1))
    if (node := node_of(obj)) is not None:
        status["nodeRefs"] = [{"name": node["metadata"]["name"]}]
    return without_topology_condition(status) if is_cluster(obj) else status


def node_of(obj: Object) -> Object | None:
    """Returns a Node that stands for all Nodes of a MachinePool; None for other objects, and for a pool without Nodes.

    Core compares its version with the version of the MachinePool. The Nodes themselves are in the workload cluster.
    """
    if kind_of(obj) != _POOL or not dig(obj, "status.nodeRefs"):
        return None
    return {
        "apiVersion": NODE.api_version,
        "kind": NODE.kind,
        "metadata": {"name": obj["metadata"]["uid"]},
        "status": {"nodeInfo": {"kubeletVersion": dig(obj, "spec.template.spec.version", "")}},
    }


def cluster_of_pool(obj: Object) -> Key | None:
    """Returns the Cluster of a MachinePool; None for another object."""
    if kind_of(obj) != _POOL:
        return None
    return Key(obj["metadata"]["namespace"], dig(obj, "spec.clusterName", ""))


def kubeconfig_secret(cluster: Key, kubeconfig: bytes) -> Object:
    """Returns the Secret by which core finds the workload cluster of a Cluster."""
    key = kubeconfig_secret_of(cluster)
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": {CLUSTER_NAME_LABEL: cluster.name}},
        "type": "cluster.x-k8s.io/secret",
        "data": {"value": base64.b64encode(kubeconfig).decode()},
    }


def _aligned(value: Any, generation: int) -> Any:
    """Sets each `observedGeneration` to 1, and removes earlier generations, because 0 would be invalid."""
    if isinstance(value, Mapping):
        return {
            name: 1 if name == "observedGeneration" else _aligned(below, generation)
            for name, below in value.items()
            if name != "observedGeneration" or below == generation
        }
    return [_aligned(below, generation) for below in value] if isinstance(value, list) else value


def without_topology_condition(status: Object) -> Object:
    """Returns the status of a Cluster without the condition `TopologyReconciled`, in each place that may have it."""

    def kept(conditions: Sequence[Object]) -> list[Object]:
        return [one for one in conditions if one.get("type") != TOPOLOGY_RECONCILED]

    result = {**status, "conditions": kept(dig(status, "conditions", []))}
    older = dig(status, "deprecated.v1beta1.conditions", [])
    if older:
        deprecated = dig(status, "deprecated")
        result["deprecated"] = {**deprecated, "v1beta1": {**deprecated["v1beta1"], "conditions": kept(older)}}
    return result


def new_definition(crd: Object) -> Object:
    """Returns the CRD to create, without the descriptions, which would cost the API server time.

    Objects are read in the version in which they are stored, so nothing is converted.
    """
    metadata = {name: crd["metadata"][name] for name in ("name", "labels", "annotations") if name in crd["metadata"]}
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {name: value for name, value in annotations.items() if "last-applied" not in name}
    return {
        "apiVersion": crd["apiVersion"],
        "kind": crd["kind"],
        "metadata": metadata,
        "spec": {**_without_descriptions(crd["spec"]), "conversion": {"strategy": "None"}},
    }


def _without_descriptions(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {
            name: below if name in _VALUES else _without_descriptions(below)
            for name, below in schema.items()
            if name != "description" or not isinstance(below, str)
        }
    return [_without_descriptions(below) for below in schema] if isinstance(schema, list) else schema


def new_webhooks(configuration: Object, url: str, ca: str) -> Object:
    """Returns the webhook configuration to create, with the server at `url` (scheme, host, port) for every webhook.

    `ca` is the PEM of the server's CA in base64.
    """
    webhooks = []
    for webhook in configuration.get("webhooks") or []:
        client = webhook.get("clientConfig") or {}
        path = urlsplit(client.get("url") or "").path or dig(client, "service.path", "")
        webhooks.append({**webhook, "clientConfig": {"url": f"{url}/{path.lstrip('/')}", "caBundle": ca}})
    metadata = {"name": configuration["metadata"]["name"]}
    return {**configuration, "metadata": metadata, "webhooks": webhooks}
