"""Several CRDs are applied and deleted together; waiting for them watches or reads all of them with one request."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from shared.addons.owner import OWNER
from shared.api.names import OWNED, OWNED_LABEL
from shared.applier.inventory import KEPT, InventoryEntry
from shared.applier.policy import Policy
from shared.applier.prune import await_deletion, prune
from shared.clients import ClusterClients
from shared.kube import Client, Key, Object, Resource
from shared.kube.crds import CRD, await_all_established
from shared.manifests import Identity
from tests.support.accounts import with_rights


@pytest.fixture
def group(management: Client) -> Iterator[str]:
    """An API group for one test; its CRDs are deleted at the end."""
    name = f"g{uuid.uuid4().hex[:8]}.example.com"
    yield name
    for found in list(management.list(CRD, selector=f"group={name}")):
        management.delete(CRD, Key("", found["metadata"]["name"]))


def kind(group: str, number: int) -> Resource:
    return Resource(group, "v1", f"Kind{number}", f"kind{number}s")


def crd(resource: Resource, names: Mapping[str, str] | None = None) -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": CRD.api_version,
        "kind": CRD.kind,
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            "labels": {OWNED_LABEL: OWNED, "group": resource.group},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"kind": resource.kind, "plural": resource.plural, **(names or {})},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def applied(client: Client, *crds: Object) -> list[Object]:
    return [client.apply(CRD, each, manager="test") for each in crds]


def entry(obj: Object) -> InventoryEntry:
    group, version = obj["apiVersion"].split("/")
    metadata = obj["metadata"]
    return InventoryEntry(group, version, obj["kind"], metadata.get("namespace", ""), metadata["name"], metadata["uid"])


def instance(client: Client, resource: Resource, namespace: str, name: str, *finalizers: str) -> Object:
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": {OWNED_LABEL: OWNED},
        "finalizers": list(finalizers),
    }
    return client.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata})


def test_established_crds_are_served_after_fewer_requests_than_crds(
    management: Client, namespace: str, group: str
) -> None:
    kinds = [kind(group, number) for number in range(5)]
    crds = applied(management, *(crd(each) for each in kinds))
    before = management.requests
    assert await_all_established(management, crds) == {}
    assert management.requests - before < len(crds)
    for each in kinds:
        assert list(management.list(each, namespace)) == []


def test_crds_are_read_where_they_cannot_be_watched(
    management: Client, kubeconfig: Path, namespace: str, group: str
) -> None:
    reader = with_rights(management, kubeconfig, namespace, CRD.group, CRD.plural, "list")
    crds = applied(management, *(crd(kind(group, number)) for number in range(2)))
    assert await_all_established(reader, crds) == {}
    for number in range(2):
        assert list(management.list(kind(group, number), namespace)) == []


def test_unchanged_crds_need_no_request(management: Client, group: str) -> None:
    wanted = [crd(kind(group, number)) for number in range(2)]
    assert await_all_established(management, applied(management, *wanted)) == {}
    again = applied(management, *wanted)
    before = management.requests
    assert await_all_established(management, again) == {}
    assert management.requests == before


def test_crds_that_are_not_established_are_named(management: Client, group: str) -> None:
    first, second, third, fourth = (kind(group, number) for number in range(4))
    assert await_all_established(management, applied(management, crd(first))) == {}
    crds = applied(management, crd(second, {"kind": first.kind}), crd(third), crd(fourth))
    management.delete(CRD, Key("", crds[2]["metadata"]["name"]))
    problems = await_all_established(management, crds)
    assert set(problems) == {f"{each.plural}.{group}" for each in (second, fourth)}
    assert "is not accepted" in problems[f"{second.plural}.{group}"]
    assert "was deleted meanwhile" in problems[f"{fourth.plural}.{group}"]


def test_deletion_of_several_crds_is_awaited(management: Client, group: str) -> None:
    crds = applied(management, *(crd(kind(group, number)) for number in range(5)))
    assert await_all_established(management, crds) == {}
    workload = ClusterClients(management)
    entries = [entry(each) for each in crds]
    assert [prune(workload, each, Policy(OWNER)) for each in entries] == [None] * 5
    assert await_deletion(workload, entries, OWNER) == {}
    assert list(management.list(CRD, selector=f"group={group}")) == []


@pytest.mark.parametrize("others", [1, 4])
def test_crd_is_kept_while_objects_of_other_inventories_exist(
    management: Client, namespace: str, group: str, others: int
) -> None:
    """All objects have our label, which does not tell inventories apart."""
    resource = kind(group, 0)
    [live] = applied(management, crd(resource))
    assert await_all_established(management, [live]) == {}
    entries = [entry(instance(management, resource, namespace, f"w{number}")) for number in range(others + 1)]
    known = {each.identity for each in entries}
    workload = ClusterClients(management)
    left = prune(workload, entry(live), Policy(OWNER), known - {entries[-1].identity})
    assert left is not None
    assert left.status == KEPT
    assert f"a deletion would also delete {resource.kind} {namespace}/w{others}" in left.error
    assert "annotate the Cluster with capi-functions.dev/prune-crds: true" in left.error
    assert prune(workload, entry(live), Policy(OWNER), known) is None
    assert await_deletion(workload, [entry(live)], OWNER) == {}


@pytest.mark.parametrize("others", [0, 4])
def test_object_with_a_finalizer_is_named(management: Client, namespace: str, group: str, others: int) -> None:
    resource = kind(group, 0)
    assert await_all_established(management, applied(management, crd(resource))) == {}
    held = instance(management, resource, namespace, "held", "example.com/holds")
    free = [instance(management, resource, namespace, f"free{number}") for number in range(others)]
    workload = ClusterClients(management)
    entries = [entry(each) for each in (held, *free)]
    for each in entries:
        assert prune(workload, each, Policy(OWNER)) is None
    assert await_deletion(workload, entries, OWNER) == {
        Identity(group, resource.kind, namespace, "held"): "finalizers delay the deletion: example.com/holds"
    }
    management.patch(resource, Key(namespace, "held"), {"metadata": {"finalizers": None}})
    assert await_deletion(workload, entries, OWNER) == {}


def test_object_that_others_created_again_is_not_awaited(management: Client, namespace: str, group: str) -> None:
    resource = kind(group, 0)
    assert await_all_established(management, applied(management, crd(resource))) == {}
    entries = [entry(instance(management, resource, namespace, f"w{number}")) for number in range(3)]
    workload = ClusterClients(management)
    for each in entries:
        assert prune(workload, each, Policy(OWNER)) is None
    instance(management, resource, namespace, "w1")
    assert await_deletion(workload, entries, OWNER) == {}


def test_crd_without_served_version_is_kept(management: Client, namespace: str, group: str) -> None:
    resource = kind(group, 0)
    definition = crd(resource)
    [live] = applied(management, definition)
    assert await_all_established(management, [live]) == {}
    instance(management, resource, namespace, "w")
    [version] = definition["spec"]["versions"]
    definition["spec"]["versions"] = [{**version, "served": False}]
    [live] = applied(management, definition)
    kept = prune(ClusterClients(management), entry(live), Policy(OWNER))
    assert kept is not None
    assert kept.status == KEPT
    assert "Kind0 objects that would be deleted with it cannot be listed" in kept.error
    assert management.find(CRD, Key("", live["metadata"]["name"]))
