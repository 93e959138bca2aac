"""Policies of a cluster's owner: conflicts, drift, recreation, pruning of CRDs, waiting, and rollback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, DEPLOYMENT, NAMESPACE, SECRET
from shared.clients import Clients
from shared.kube import Client, Key, NotServed, Object, Resource, dig
from shared.kube.crds import CRD, await_established
from tests.support.api_proxy import Proxy, answering, api_server
from tests.support.objects import widgets_crd
from tests.support.releases import config_map, write_release
from tests.support.until import until
from tests.support.world import JOB, World

# -- conflicts ---------------------------------------------------------------------------------------------------


def held_by_somebody(world: World, conflicts: str) -> Any:
    world.client.apply(CONFIG_MAP, {**world.map("a", "theirs")}, manager="somebody")
    name = write_release(world.releases, "v1", [{**world.map("a", "ours"), "data": {"k": "ours", "more": "1"}}])
    world.cluster(name, policy={"conflicts": conflicts} if conflicts else None)
    world.secret()
    return world.settle()


@pytest.mark.parametrize("conflicts", ["", "force"])
def test_force_takes_a_conflicting_field_and_records_an_event(world: World, conflicts: str) -> None:
    assert held_by_somebody(world, conflicts).retry_after is None
    assert world.read("a")["data"] == {"k": "ours", "more": "1"}
    assert "ConfigMap" in world.event_messages()["FieldConflicts"]
    assert ".data.k (somebody)" in world.event_messages()["FieldConflicts"]


def test_fail_rejects_a_conflict_and_names_the_manager(world: World) -> None:
    assert held_by_somebody(world, "fail").retry_after == 20.0
    assert world.read("a")["data"] == {"k": "theirs"}
    message = world.condition("HelmChartApplied")["message"]
    assert ".data.k (somebody)" in message
    assert "conflicts: force or yield" in message


def test_yield_leaves_a_conflicting_field_and_applies_the_rest(world: World) -> None:
    assert held_by_somebody(world, "yield").retry_after is None
    assert world.read("a")["data"] == {"k": "theirs", "more": "1"}
    assert dig(world.addon(), "status.ready") is True


def test_unknown_policy_annotation_is_reported(world: World) -> None:
    assert held_by_somebody(world, "perhaps").retry_after == 60.0
    found = world.condition("ClusterAddonConfigValidated")
    assert found["reason"] == "InvalidAnnotation"
    assert "force, fail, yield" in found["message"]


# -- immutable fields --------------------------------------------------------------------------------------------


def test_immutable_change_fails_and_names_the_recreate_annotation(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.immutable_map("frozen", "1")]))
    world.secret()
    world.settle()
    world.cluster(write_release(world.releases, "v2", [world.immutable_map("frozen", "2")]))
    assert world.settle().retry_after == 20.0
    assert "capi-functions.dev/recreate: true" in world.condition("HelmChartApplied")["message"]
    assert world.read("frozen")["data"] == {"k": "1"}


@pytest.mark.parametrize("where", ["cluster", "object"])
def test_immutable_object_is_recreated_if_annotated(world: World, where: str) -> None:
    policy = {"recreate": "true"} if where == "cluster" else None
    annotations = {"capi-functions.dev/recreate": "true"} if where == "object" else {}
    world.cluster(
        write_release(world.releases, "v1", [world.immutable_map("frozen", "1", **annotations)]), policy=policy
    )
    world.secret()
    world.settle()
    uid = world.read("frozen")["metadata"]["uid"]
    world.cluster(
        write_release(world.releases, "v2", [world.immutable_map("frozen", "2", **annotations)]), policy=policy
    )
    assert world.settle().retry_after is None
    assert world.read("frozen")["data"] == {"k": "2"}
    assert world.read("frozen")["metadata"]["uid"] != uid


def test_object_of_another_owner_is_not_recreated(world: World) -> None:
    world.client.create(CONFIG_MAP, world.immutable_map("frozen", "theirs"))
    world.cluster(
        write_release(world.releases, "v1", [world.immutable_map("frozen", "ours")]), policy={"recreate": "true"}
    )
    world.secret()
    assert world.settle().retry_after == 20.0
    assert world.read("frozen")["data"] == {"k": "theirs"}
    assert "it belongs to another owner, so it is kept" in world.condition("HelmChartApplied")["message"]


# -- pruning -----------------------------------------------------------------------------------------------------


def test_crd_with_foreign_objects_is_not_pruned(world: World) -> None:
    group = f"{world.namespace}.example.com"
    widgets = Resource(group, "v1", "Widget", "widgets")
    ours = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": world.namespace}}
    world.cluster(write_release(world.releases, "v1", [widgets_crd(group), ours]))
    world.secret()
    assert world.settle().retry_after is None
    theirs = {**ours, "metadata": {"name": "theirs", "namespace": world.namespace}}
    world.client.create(widgets, theirs)
    world.cluster(write_release(world.releases, "v2", [world.map("a")]))
    assert world.settle().retry_after is None
    name = Key("", f"widgets.{group}")
    assert world.client.find(CRD, name) is not None
    assert world.client.find(widgets, Key(world.namespace, "w")) is None
    kept = next(entry for entry in dig(world.addon(), "status.resources") if entry["status"] == "kept")
    assert f"Widget {world.namespace}/theirs" in kept["error"]
    assert dig(world.addon(), "status.ready") is True
    # The CRD is pruned with consent, or once the other objects are deleted.
    world.cluster(write_release(world.releases, "v3", [world.map("b")]), policy={"prune-crds": "true"})
    world.settle()
    assert world.client.find(CRD, name) is None or dig(world.client.get(CRD, name), "metadata.deletionTimestamp")


def test_prune_waits_for_the_finalizer_of_a_custom_resource(world: World) -> None:
    group = f"{world.namespace}.example.com"
    widgets = Resource(group, "v1", "Widget", "widgets")
    metadata = {"name": "w", "namespace": world.namespace, "finalizers": ["example.com/hold"]}
    ours = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": metadata}
    world.cluster(write_release(world.releases, "v1", [widgets_crd(group), ours, world.map("controller")]))
    world.secret()
    world.settle()
    world.cluster(write_release(world.releases, "v2", [world.map("a")]))
    assert world.settle().retry_after == 20.0
    assert "its finalizers delay the deletion: example.com/hold" in world.condition("HelmChartApplied")["message"]
    assert world.names() == ["a", "controller"]  # the controller that removes the finalizer still exists
    world.client.patch(widgets, Key(world.namespace, "w"), {"metadata": {"finalizers": None}})
    assert world.settle().retry_after is None
    assert world.names() == ["a"]


def is_served(client: Client, resource: Resource) -> bool:
    try:
        client.find(resource, Key("default", "any"))
    except NotServed:
        return False
    return True


@pytest.mark.parametrize("fresh", [True, False])
def test_object_is_pruned_after_its_version_is_not_served_any_more(world: World, *, fresh: bool) -> None:
    """Also by a process whose cached discovery has the version."""
    group = f"{world.namespace}.example.com"
    widgets = Resource(group, "v2", "Widget", "widgets")
    definition = widgets_crd(group)
    [version] = definition["spec"]["versions"]
    old, new = {**version, "storage": False}, {**version, "name": "v2"}
    definition["spec"]["versions"] = [old, new]
    world.client.create(CRD, definition)
    await_established(world.client, f"widgets.{group}")
    ours = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": world.namespace}}
    world.cluster(write_release(world.releases, "v1", [ours, world.map("a")]))
    world.secret()
    world.settle()
    assert dig(world.addon(), "status.ready") is True
    world.client.patch(CRD, Key("", f"widgets.{group}"), {"spec": {"versions": [{**old, "served": False}, new]}})
    until(lambda: not is_served(world.client, Resource(group, "v1", "Widget", "widgets")))
    if fresh:
        world.clients = Clients(world.client)
    assert world.client.find(widgets, Key(world.namespace, "w")) is not None
    world.cluster(write_release(world.releases, "v2", [world.map("a")]))
    world.settle()
    assert world.client.find(widgets, Key(world.namespace, "w")) is None


KEEP = {"helm.sh/resource-policy": "keep"}


@pytest.mark.parametrize("consent", [None, {"prune-crds": "true"}])
def test_object_annotated_to_be_kept_blocks_the_deletion_of_its_crd(
    world: World, consent: dict[str, str] | None
) -> None:
    group = f"{world.namespace}.example.com"
    widgets = Resource(group, "v1", "Widget", "widgets")
    metadata = {"name": "w", "namespace": world.namespace, "annotations": KEEP}
    ours = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": metadata}
    world.cluster(write_release(world.releases, "v1", [widgets_crd(group), ours]), policy=consent)
    world.secret()
    world.settle()
    for version in ("v2", "v3"):
        world.cluster(write_release(world.releases, version, [world.map(version)]), policy=consent)
        assert world.settle().retry_after is None
        assert not dig(world.client.get(CRD, Key("", f"widgets.{group}")), "metadata.deletionTimestamp")
        assert world.client.find(widgets, Key(world.namespace, "w")) is not None
        [kept] = [entry for entry in dig(world.addon(), "status.resources") if entry["status"] == "kept"]
        assert f"a deletion would also delete Widget {world.namespace}/w" in kept["error"]
        assert dig(world.addon(), "status.ready") is True


def test_object_annotated_to_be_kept_blocks_the_deletion_of_its_namespace(world: World) -> None:
    own, key = f"{world.namespace}-own", Key("", f"{world.namespace}-own")
    marked = config_map("k", namespace=own)
    marked["metadata"] |= {"annotations": KEEP}
    namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own}}
    world.cluster(write_release(world.releases, "v1", [namespace, marked, config_map("goes", namespace=own)]))
    world.secret()
    world.settle()
    for version in ("v2", "v3"):
        world.cluster(write_release(world.releases, version, [world.map(version)]))
        assert world.settle().retry_after is None
        assert not dig(world.client.get(NAMESPACE, key), "metadata.deletionTimestamp")
        assert world.client.find(CONFIG_MAP, Key(own, "k")) is not None
        assert world.client.find(CONFIG_MAP, Key(own, "goes")) is None
        [kept] = [entry for entry in dig(world.addon(), "status.resources") if entry["status"] == "kept"]
        assert f"a deletion would also delete ConfigMap {own}/k" in kept["error"]
    world.client.patch(CONFIG_MAP, Key(own, "k"), {"metadata": {"annotations": None}})
    world.cluster(write_release(world.releases, "v4", [world.map("v4")]))
    world.settle()
    assert dig(world.client.get(NAMESPACE, key), "metadata.deletionTimestamp")


@pytest.mark.parametrize("status", [403, 503], ids=["forbidden", "aggregated API away"])
def test_deletion_of_a_namespace_waits_until_all_its_objects_can_be_listed(
    world: World, kubeconfig: Path, status: int
) -> None:
    """Among those that cannot be listed may be one to keep; all other objects are pruned."""
    group, own = f"{world.namespace}.example.com", f"{world.namespace}-own"
    world.client.create(CRD, widgets_crd(group))
    await_established(world.client, f"widgets.{group}")
    namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own}}
    with Proxy(api_server(kubeconfig)) as proxy:
        world.secret(proxy.kubeconfig)
        world.cluster(write_release(world.releases, "v1", [namespace, world.map("a"), world.map("b")]))
        world.settle()
        proxy.fail(answering(status, b"no"), lambda request: request.path.startswith(f"/apis/{group}/v1/namespaces"))
        world.cluster(write_release(world.releases, "v2", [world.map("a")]))
        assert world.settle().retry_after == 20.0
        assert (
            f"cannot list the objects of {group} that are annotated to be kept"
            in world.condition("HelmChartApplied")["message"]
        )
        assert world.names() == ["a"]
        assert not dig(world.client.get(NAMESPACE, Key("", own)), "metadata.deletionTimestamp")
        proxy.heal()
        assert world.settle().retry_after is None
        assert dig(world.client.get(NAMESPACE, Key("", own)), "metadata.deletionTimestamp")


# -- drift -------------------------------------------------------------------------------------------------------


def drifted(world: World, **policy: str) -> None:
    """Applies three objects; then one is changed, one deleted, and another manager adds a field."""
    objects = [{**world.map(name), "data": {"k": "1", "other": "1"}} for name in ("a", "b", "c")]
    world.cluster(write_release(world.releases, "v1", objects), policy=policy)
    world.secret()
    world.settle()
    world.client.patch(CONFIG_MAP, Key(world.namespace, "a"), {"data": {"k": "changed"}})
    world.client.delete(CONFIG_MAP, Key(world.namespace, "b"))
    world.client.patch(CONFIG_MAP, Key(world.namespace, "c"), {"data": {"theirs": "x"}})


def test_drift_is_ignored_by_default(world: World) -> None:
    drifted(world)
    requests = world.client.requests
    world.resync()
    assert world.client.requests - requests == 1 + 2  # the test's own request, then the addon and its Cluster
    assert world.names() == ["a", "c"]


def test_drift_is_repaired_within_one_resync(world: World) -> None:
    drifted(world, drift="repair")
    assert world.resync().retry_after is None
    assert world.read("a")["data"] == {"k": "1", "other": "1"}
    assert world.names() == ["a", "b", "c"]
    assert world.read("c")["data"]["theirs"] == "x"
    assert dig(world.addon(), "status.ready") is True
    message = world.event_messages()["DriftFound"]
    assert f"ConfigMap {world.namespace}/a (data.k)" in message
    assert f"ConfigMap {world.namespace}/b (missing)" in message
    assert "/c" not in message
    uid = next(entry["uid"] for entry in dig(world.addon(), "status.resources") if entry["name"] == "b")
    assert uid == world.read("b")["metadata"]["uid"]
    # A drift check without drift writes nothing.
    before = world.addon()["metadata"]["resourceVersion"]
    world.resync()
    assert world.addon()["metadata"]["resourceVersion"] == before


def test_drift_is_reported(world: World) -> None:
    drifted(world, drift="report")
    world.resync()
    assert world.read("a")["data"]["k"] == "changed"
    assert world.names() == ["a", "c"]
    assert len(dig(world.addon(), "status.drift")) == 2
    assert dig(world.addon(), "status.ready") is True
    world.client.patch(CONFIG_MAP, Key(world.namespace, "a"), {"data": {"k": "1"}})
    world.client.create(CONFIG_MAP, {**world.map("b"), "data": {"k": "1", "other": "1"}})
    world.resync()
    assert dig(world.addon(), "status.drift") == [f"ConfigMap {world.namespace}/b (metadata.labels)"]


def test_ignored_field_keeps_its_live_value(world: World) -> None:
    path = f"ConfigMap/{world.namespace}/a:data.k"
    drifted(world, drift="repair", **{"drift-ignore": path})
    world.client.patch(CONFIG_MAP, Key(world.namespace, "a"), {"data": {"other": "changed"}})
    world.resync()
    assert world.read("a")["data"] == {"k": "changed", "other": "1"}
    assert world.names() == ["a", "b", "c"]


def test_upgrade_repairs_drift_in_objects_of_both_releases(world: World) -> None:
    drifted(world)
    objects = [{**world.map(name), "data": {"k": "1", "other": "1"}} for name in ("a", "b", "c")]
    world.cluster(write_release(world.releases, "v2", objects))
    assert world.settle().retry_after is None
    assert world.read("a")["data"]["k"] == "1"
    assert world.names() == ["a", "b", "c"]


# -- readiness ---------------------------------------------------------------------------------------------------


def become(world: World, resource: Resource, name: str, status: Object) -> None:
    """Writes the status as the controller does."""
    world.client.patch(resource, Key(world.namespace, name), {"status": status}, subresource="status")


AVAILABLE = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}


def test_addon_is_ready_only_when_its_objects_are(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.deployment(), world.map("a")]))
    world.secret()
    assert world.settle().retry_after == 5.0
    found = world.condition("ObjectsReady")
    assert (found["status"], found["reason"]) == ("False", "WaitingForObjects")
    assert f"Deployment {world.namespace}/web not observed by its controller yet" in found["message"]
    assert dig(world.addon(), "spec.clusterStack") == "test-stack-1-36-v1"
    assert dig(world.addon(), "status.ready") is False
    become(world, DEPLOYMENT, "web", {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1})
    assert world.settle().retry_after == 5.0
    assert "0 of 1 replicas available" in world.condition("ObjectsReady")["message"]
    become(world, DEPLOYMENT, "web", AVAILABLE)
    assert world.settle().retry_after is None
    assert dig(world.addon(), "status.ready") is True
    assert "AddonsReady" in world.event_messages()


def test_objects_that_stay_unready_are_reported_after_the_timeout(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.deployment()]), policy={"wait-timeout": "1"})
    world.secret()
    world.settle()
    conditions = dig(world.addon(), "status.conditions")
    for condition in conditions:
        condition["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    patch = {"status": {"conditions": conditions}}
    world.client.patch(CLUSTER_ADDON, world.addon_key, patch, subresource="status")
    assert world.settle().retry_after == 60.0
    assert world.condition("ObjectsReady")["reason"] == "ObjectsNotReady"
    assert "not ready after 1 s" in world.event_messages()["ObjectsNotReady"]
    become(world, DEPLOYMENT, "web", AVAILABLE)
    assert world.settle().retry_after is None


def test_addon_is_ready_once_applied_without_wait(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.deployment()]), policy={"wait": "false"})
    world.secret()
    assert world.settle().retry_after is None
    assert dig(world.addon(), "status.ready") is True


def test_hook_jobs_complete_before_the_next_wave(world: World) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "example.com/image:1"}]}}
    metadata = {
        "name": "before",
        "namespace": world.namespace,
        "annotations": {"helm.sh/hook": "pre-install,pre-upgrade"},
    }
    job: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
    world.cluster(write_release(world.releases, "v1", [world.map("a"), job]))
    world.secret()
    assert world.settle().retry_after == 5.0
    assert world.names() == []
    assert f"waiting for Job {world.namespace}/before" in world.condition("HelmChartApplied")["message"]
    stamp = "2026-01-01T00:00:00Z"
    conditions = [{"type": name, "status": "True"} for name in ("SuccessCriteriaMet", "Complete")]
    done = {"conditions": conditions, "startTime": stamp, "completionTime": stamp, "succeeded": 1}
    become(world, JOB, "before", done)
    assert world.settle().retry_after is None
    assert world.names() == ["a"]
    # A Job cannot be changed into another one: hooks are recreated.
    uid = world.client.get(JOB, Key(world.namespace, "before"))["metadata"]["uid"]
    job["spec"] = {"template": {"spec": {**template["spec"], "terminationGracePeriodSeconds": 5}}}
    world.cluster(write_release(world.releases, "v2", [world.map("a"), job]))
    assert world.settle().retry_after == 5.0
    assert world.client.get(JOB, Key(world.namespace, "before"))["metadata"]["uid"] != uid


def test_objects_of_hooks_are_applied_in_their_operations_and_stay(world: World) -> None:
    """Objects of install hooks, such as keys, are not pruned at an upgrade."""

    def hooked(name: str, **annotations: str) -> Object:
        annotations = {f"helm.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
        return {**world.map(name), "metadata": {**world.map(name)["metadata"], "annotations": annotations}}

    hooks = [
        hooked("install", hook="pre-install"),
        hooked("upgrade", hook="post-upgrade"),
        hooked("often", hook="pre-install,pre-upgrade", hook_delete_policy="before-hook-creation,hook-succeeded"),
        hooked("test", hook="test"),
        hooked("delete", hook="pre-delete"),
    ]
    world.secret()
    uids = []
    for version, names in (("v1", ["a", "install"]), ("v2", ["a", "install", "upgrade"])):
        world.cluster(write_release(world.releases, version, [world.map("a", version), *hooks]))
        assert world.settle().retry_after is None
        assert world.names() == names
        uids.append([world.read(name)["metadata"]["uid"] for name in ("a", "install")])
    assert uids[0] == uids[1]
    world.cluster(write_release(world.releases, "v3", [world.map("a")]))
    world.settle()
    assert world.names() == ["a"]


def test_object_deleted_while_waiting_is_recreated_if_drift_is_repaired(world: World) -> None:
    objects = [world.deployment(), world.map("a")]
    world.cluster(write_release(world.releases, "v1", objects), policy={"drift": "repair"})
    world.secret()
    world.settle()
    assert world.condition("ObjectsReady")["status"] == "False"
    world.client.delete(CONFIG_MAP, Key(world.namespace, "a"))
    world.client.delete(DEPLOYMENT, Key(world.namespace, "web"))
    world.settle()
    assert world.names() == []
    world.resync(repeated=True)
    assert world.names() == [], "a look is over once it waits: it does not apply everything at each repetition"
    world.resync()
    assert world.names() == ["a"]
    assert world.client.find(DEPLOYMENT, Key(world.namespace, "web")) is not None


def test_job_deleted_by_its_ttl_is_not_waited_for(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a"), world.job("j", ttlSecondsAfterFinished=0)]))
    world.secret()
    world.settle()
    assert world.condition("ObjectsReady")["status"] == "False"
    world.client.delete(JOB, Key(world.namespace, "j"))  # as its TTL does
    world.settle()
    assert dig(world.addon(), "status.ready") is True


def test_hooks_that_do_not_complete_are_reported_after_the_timeout(world: World) -> None:
    hook = world.job("before", annotations={"helm.sh/hook": "pre-install,pre-upgrade"})
    name = write_release(world.releases, "v1", [world.map("a"), hook])
    world.cluster(name, policy={"wait-timeout": "1"})
    world.secret()
    assert world.settle().retry_after == 5.0
    assert world.condition("HelmChartApplied")["reason"] == "ObjectsApplyingOngoing"
    conditions = dig(world.addon(), "status.conditions")
    for condition in conditions:
        condition["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    status = {"status": {"conditions": conditions}}
    world.client.patch(CLUSTER_ADDON, world.addon_key, status, subresource="status")
    assert world.settle().retry_after == 60.0
    condition = world.condition("HelmChartApplied")
    assert (condition["reason"], condition["severity"]) == ("ObjectsNotReady", "Warning")
    assert "Job" in condition["message"]


# -- rollback ----------------------------------------------------------------------------------------------------


def test_rollback_needs_no_release(world: World) -> None:
    secret: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": world.namespace},
        "stringData": {"password": "hunter2"},
    }
    good = write_release(world.releases, "v1", [world.map("a"), world.map("b"), secret])
    world.cluster(good)
    world.secret()
    world.settle()
    bad = write_release(world.releases, "v2", [world.map("a", "2"), world.map("c")])
    world.cluster(bad)
    world.settle()
    assert [entry["clusterStack"] for entry in dig(world.addon(), "status.history")] == [bad, good]
    world.clients.releases.delete(good)
    annotation = {"metadata": {"annotations": {"capi-functions.dev/rollback-from": bad}}}
    world.client.patch(CLUSTER_ADDON, world.addon_key, annotation)
    assert world.settle().retry_after is None
    assert world.names() == ["a", "b"]
    assert world.read("a")["data"]["k"] == "1"
    assert world.client.find(SECRET, Key(world.namespace, "s")) is not None
    assert dig(world.addon(), "spec.clusterStack") == good
    found = world.condition("HelmChartApplied")
    assert (found["status"], found["reason"]) == ("False", "RolledBack")
    assert "hunter2" not in str(world.addon())
    # The rollback lasts over all events, and ends with another class.
    before = world.addon()["metadata"]["resourceVersion"]
    world.settle()
    world.resync()
    assert world.addon()["metadata"]["resourceVersion"] == before
    world.cluster(write_release(world.releases, "v3", [world.map("d")]))
    world.settle()
    assert world.names() == ["d"]
    assert dig(world.addon(), "status.ready") is True


def test_rollback_without_a_stored_manifest_fails(world: World) -> None:
    name = write_release(world.releases, "v1", [world.map("a")])
    world.cluster(name)
    world.secret()
    world.settle()
    annotation = {"metadata": {"annotations": {"capi-functions.dev/rollback-from": name}}}
    world.client.patch(CLUSTER_ADDON, world.addon_key, annotation)
    assert world.settle().retry_after == 60.0
    assert world.condition("HelmChartApplied")["reason"] == "RollbackFailed"
    assert world.names() == ["a"]


# -- clusters that come and go -----------------------------------------------------------------------------------


def test_recreated_cluster_gets_a_new_addon(world: World) -> None:
    name = write_release(world.releases, "v1", [world.map("a")])
    world.cluster(name)
    world.secret()
    world.settle()
    old = world.addon()["metadata"]["uid"]
    world.client.delete(CLUSTER, Key(world.namespace, "demo"))
    world.client.delete(CONFIG_MAP, Key(world.namespace, "a"))
    world.cluster(name)
    for _ in range(3):  # the former addon is deleted, and a new one is created
        world.settle()
    assert world.addon()["metadata"]["uid"] != old
    assert world.names() == ["a"]
    assert dig(world.addon(), "status.ready") is True
