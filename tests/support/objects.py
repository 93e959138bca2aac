"""Builds, reads and deletes objects in tests."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator
from typing import Any

from shared.api.conditions import get_condition
from shared.api.provider import PROVIDER_LABEL
from shared.api.resources import CLUSTER, KIND_CLUSTER, SECRET, VALIDATING_WEBHOOKS
from shared.kube import MANAGER, Client, Key, NotServed, Object, Resource, dig, is_ours
from shared.kube.client import METADATA_LIST

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_AGE = "Age"


def manifest(resource: Resource, name: str, namespace: str = "", **content: Any) -> Object:
    """Returns an object; `metadata` can have more than name and namespace."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **content.pop("metadata", {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}


def secret(name: str, namespace: str, **values: str | bytes) -> Object:
    plain = {key: value.encode() if isinstance(value, str) else value for key, value in values.items()}
    data = {key: base64.b64encode(value).decode() for key, value in plain.items()}
    return manifest(SECRET, name, namespace, data=data)


def webhooks_of(provider: str, namespace: str) -> Object:
    """Returns the webhook configuration of a provider in a namespace, which matches no kind."""
    webhook = {
        "name": "webhook.example.test",
        "clientConfig": {"service": {"name": "webhook", "namespace": namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    labels = {PROVIDER_LABEL: provider}
    return manifest(VALIDATING_WEBHOOKS, provider, metadata={"labels": labels}, webhooks=[webhook])


def written_by_core(type_: str = "Available", time: str = "2026-01-01T00:00:00Z") -> Object:
    """Returns the entry of `managedFields` that shows that Cluster API core wrote a condition last."""
    fields: Object = {f'k:{{"type":"{type_}"}}': {"f:observedGeneration": {}}}
    return {"manager": "manager", "time": time, "fieldsV1": {"f:status": {"f:conditions": fields}}}


def create_local_cluster(client: Client, name: str, namespace: str, *, kind_name: str = "", **spec: Any) -> None:
    """Returns a Cluster of the local runtime and its KINDCluster, which can have another `clusterName`."""
    client.create(KIND_CLUSTER, manifest(KIND_CLUSTER, name, namespace, spec={"clusterName": kind_name or name}))
    reference = {"apiGroup": KIND_CLUSTER.group, "kind": KIND_CLUSTER.kind, "name": name}
    client.create(CLUSTER, manifest(CLUSTER, name, namespace, spec={"infrastructureRef": reference, **spec}))


def metadata_of(client: Client, resource: Resource, selector: str = "") -> Iterator[Object]:
    """Yields the metadata of all objects of a kind: listing whole CRDs is slow."""
    for page in client.pages(resource, selector=selector, accept=f"{METADATA_LIST},application/json"):
        yield from page["items"]


def condition(obj: Object, type_: str, details: object = "") -> Object:
    """Returns the condition; fails with `details` if it is missing."""
    found = get_condition(dig(obj, "status.conditions"), type_)
    assert found is not None, f"{type_} is not among {dig(obj, 'status.conditions')} {details}".rstrip()
    return found


def printed_rows(client: Client, resource: Resource, namespace: str) -> list[dict[str, Any]]:
    """Returns the rows of `kubectl get` by column name, without the age."""
    table = client.request("GET", resource.path(namespace), accept=_TABLE)
    columns = [column["name"] for column in table["columnDefinitions"]]
    rows = [dict(zip(columns, row["cells"], strict=True)) for row in table["rows"]]
    assert all(row.pop(_AGE) for row in rows)
    return rows


def remove(client: Client, resource: Resource, key: Key) -> None:
    """Deletes the object and removes its finalizers."""
    if client.find(resource, key):
        client.patch(resource, key, {"metadata": {"finalizers": None}})
        client.delete(resource, key)


def widgets_crd(group: str) -> Object:
    """Returns the CRD of the namespaced kind Widget, served in v1 without a schema."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [version],
        },
    }


def is_served(client: Client, resource: Resource) -> bool:
    """Returns whether the API server serves the kind in this version."""
    try:
        list(client.list(resource))
    except NotServed:
        return False
    return True


def give_to_older_version(client: Client, resource: Resource, key: Key) -> None:
    """Gives the fields of all our field managers to `MANAGER`, which older versions used for all writes."""
    live = client.get(resource, key)
    entries = copy.deepcopy(live["metadata"]["managedFields"])
    ours = [entry for entry in entries if is_ours(entry["manager"])]
    assert ours, f"none of our field managers has written {resource.kind} {key}"
    for entry in ours:
        entry["manager"] = MANAGER
    metadata = {"resourceVersion": live["metadata"]["resourceVersion"], "managedFields": entries}
    client.patch(resource, key, {"metadata": metadata})
    after = client.get(resource, key)["metadata"]["managedFields"]
    assert {entry["manager"] for entry in after if is_ours(entry["manager"])} == {MANAGER}
