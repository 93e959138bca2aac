"""One malformed object must not end the work on the others.

The API server permits what the CRD of a kind permits, and CRDs of other versions and projects permit nearly anything.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.cluster.decide import decide
from functions.cluster.observed import Observed
from functions.provider_wake.decide import affected_providers, may_reference
from shared.api.conditions import get_condition, rfc3339
from shared.api.provider import CORE, INFRASTRUCTURE
from shared.api.resources import (
    CLUSTER,
    CLUSTER_ADDON,
    CLUSTER_STACK,
    CLUSTER_STACK_RELEASE,
    CONFIG_MAP,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_POOL,
    MACHINE_SET,
    SECRET,
)
from shared.components.bundles import digests_in_use
from shared.components.versions import upgrade_refusal
from shared.kube import Key, Object, Resource, dig, key_of
from shared.releases.garbage_collection import references
from shared.releases.usage import users_by_release
from tests.support.provider_objects import provider

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TAG = "docker-ferrol-1-27-v1"
WRONG: tuple[Any, ...] = (None, [], {}, "x", 7, True, ["x"], [None], [[]], {"x": 1}, {"name": []}, -1, 1.5, "\ud800")
KEPT = {("apiVersion",), ("kind",), ("metadata",)} | {("metadata", name) for name in ("name", "namespace", "uid")}
"""The paths that say which object it is: each API server answers them well."""


def malformed(obj: Object) -> Iterator[Object]:
    """Yields the object with one value missing or of another type, for each value in it."""
    for path in _paths(obj):
        if path in KEPT:
            continue
        for value in WRONG:
            changed = copy.deepcopy(obj)
            parent: Any = changed
            for step in path[:-1]:
                parent = parent[step]
            parent[path[-1]] = value
            yield changed
        del parent[path[-1]]
        yield changed


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in children:
        yield (*path, step)
        yield from _paths(child, (*path, step))


def obj(resource: Resource, name: str, namespace: str = "ns", **content: Any) -> Object:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": name,
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": rfc3339(NOW - timedelta(hours=1)),
        "labels": {"cluster.x-k8s.io/cluster-name": "demo"},
        "annotations": {"a": "b"},
        "ownerReferences": [{"apiVersion": CLUSTER.api_version, "kind": "Cluster", "name": "demo", "uid": "demo"}],
        "finalizers": ["example.com/held"],
    }
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}


REFERRING = (
    obj(CLUSTER_STACK, "s", spec={
        "provider": "docker", "name": "other", "kubernetesVersion": "1.27", "versions": ["v7"],
        "sources": [{"url": "https://host/x", "secretRef": {"name": "access"}}],
    }),
    obj(CLUSTER_STACK_RELEASE, "docker-other-1-27-v8"),
    obj(CLUSTER, "c", spec={"topology": {"classRef": {"name": "docker-other-1-27-v9", "namespace": "classes"}}}),
    obj(CLUSTER, "d", spec={"topology": {"class": "docker-other-1-27-v9", "classNamespace": "classes"}}),
    obj(CLUSTER_ADDON, "a", spec={"clusterStack": "docker-other-1-27-v9"}),
)  # fmt: skip
GOOD_CLUSTER = obj(CLUSTER, "good", spec={"topology": {"classRef": {"name": TAG}}})


@pytest.mark.parametrize("foreign", REFERRING, ids=lambda each: each["kind"])
def test_release_stays_referenced(foreign: Object) -> None:
    for bad in malformed(foreign):
        assert TAG in references([bad, GOOD_CLUSTER, bad]).tags, bad


@pytest.mark.parametrize("foreign", [each for each in REFERRING if each["kind"] == "Cluster"])
def test_users_of_releases_are_found(foreign: Object) -> None:
    for bad in malformed(foreign):
        assert users_by_release([bad, GOOD_CLUSTER])[Key("ns", TAG)] == (Key("ns", "good"),), bad


def _provider(name: str, **more: Any) -> Object:
    return provider(
        INFRASTRUCTURE,
        name,
        installed="v1.1.0",
        conditions=[{"type": "Ready", "status": "True"}, {"type": "PreflightCheckPassed", "status": "False"}],
        metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}},
        status={"target": {"digest": "0" * 64}, "contract": "v1beta2", **more},
        version="v1.1.0",
        configSecret={"name": "variables", "namespace": "capi-system"},
        additionalManifests={"name": "more", "namespace": "capi-system"},
        fetchConfig={"selector": {
            "matchLabels": {"wakes": "some"},
            "matchExpressions": [{"key": "x", "operator": "In", "values": ["y"]}],
        }},
    )  # fmt: skip


CORE_PROVIDER = provider(CORE, installed="v1.1.0", conditions=[{"type": "Ready", "status": "True"}])
LABELLED = obj(CONFIG_MAP, "more", "capi-system")
LABELLED["metadata"]["labels"] = {"wakes": "some", "x": "y"}


@pytest.mark.parametrize("changed", [obj(SECRET, "variables", "capi-system"), LABELLED, CORE_PROVIDER])
def test_other_providers_wake(changed: Object) -> None:
    good = _provider("good")
    for bad in malformed(_provider("bad")):
        assert good in affected_providers(changed, [bad, good, bad]), bad
        may_reference(bad, key_of(changed))


def test_components_of_other_providers_stay() -> None:
    good = _provider("good", target={"digest": "1" * 64})
    for bad in malformed(_provider("bad")):
        assert "1" * 64 in digests_in_use([bad, good]), bad


def test_other_providers_are_upgraded() -> None:
    for bad in malformed(_provider("bad")):
        upgrade_refusal(CORE_PROVIDER, "v1.2.0", "v1beta2", [bad])


def _member(kind: Resource, name: str, **labels: str) -> Object:
    conditions = [
        {"type": type_, "status": "True", "reason": "R", "message": "* a: b"}
        for type_ in ("Ready", "Available", "UpToDate", "RollingOut", "ScalingUp", "OwnerRemediated")
    ]
    made = obj(
        kind,
        name,
        spec={"replicas": 3, "version": "v1.30.0", "clusterName": "demo"},
        status={
            "conditions": [*conditions, {"type": "HealthCheckSucceeded", "status": "False"}],
            "v1beta2": {"readyReplicas": 1},
            "versions": [{"version": "v1.30.0", "replicas": 3}],
            "replicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
            "upToDateReplicas": 3,
            "unavailableReplicas": 0,
            "nodeInfo": {"kubeletVersion": "v1.30.0"},
        },
    )
    made["metadata"]["labels"] |= labels
    return made


@pytest.mark.parametrize("kind", [MACHINE, MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET], ids=lambda kind: kind.kind)
def test_cluster_with_a_malformed_machine_is_reported(kind: Resource) -> None:
    cluster = obj(CLUSTER, "demo", spec={"clusterNetwork": {}}, status={"conditions": []})
    good = _member(MACHINE_DEPLOYMENT, "good")
    for bad in malformed(_member(kind, "bad")):
        members: dict[Resource, tuple[Object, ...]] = {MACHINE_DEPLOYMENT: (good,)}
        members[kind] = (bad, *members.get(kind, ()))
        status = decide(Observed(cluster, descendants=members), NOW).status or {}
        assert get_condition(status.get("conditions"), "WorkersAvailable") is not None, bad
        assert isinstance(dig(status, "workers.replicas"), int), bad


@pytest.mark.parametrize("reference", ["infrastructure", "control_plane"])
def test_cluster_with_a_malformed_reference_is_reported(reference: str, found: Callable[..., Any]) -> None:
    field = {"infrastructure": "infrastructureRef", "control_plane": "controlPlaneRef"}[reference]
    cluster = obj(
        CLUSTER, "demo", spec={field: {"apiGroup": "g", "kind": "Made", "name": "demo"}}, status={"conditions": []}
    )
    whole = _member(Resource("g", "v1", "Made", "mades"), "demo")
    whole["spec"] |= {"controlPlaneEndpoint": {"host": "h", "port": 6443}, "paused": False}
    whole["status"] |= {
        "initialization": {"provisioned": True, "controlPlaneInitialized": True},
        "failureDomains": [{"name": "a", "controlPlane": True, "attributes": {"x": "y"}}],
        "ready": True,
        "initialized": True,
        "externalManagedControlPlane": True,
        "version": "v1.30.0",
        "failureReason": "R",
        "failureMessage": "m",
    }
    for bad in malformed(whole):
        status = decide(Observed(cluster, **{reference: found(bad)}), NOW).status or {}
        assert get_condition(status.get("conditions"), "Available") is not None, bad


@pytest.fixture
def found() -> Callable[[Object], Any]:
    from shared.references import LookupResult

    return lambda bad: LookupResult("present", "Made", bad, Resource("g", "v1", "Made", "mades"), contract="v1beta2")
