"""ClusterStacks and their releases on a real API server, with folders as release sources."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from functions.cluster_stack_release.decide import decide
from functions.cluster_stack_release.observe import observe
from infra.local import crds
from shared.api.conditions import get_condition
from shared.api.names import OWNED, OWNED_LABEL
from shared.api.resources import (
    CLUSTER,
    CLUSTER_ROLE,
    CLUSTER_STACK,
    CLUSTER_STACK_RELEASE,
    CONFIG_MAP,
    NAMESPACE,
    SECRET,
)
from shared.applier.inventory import entry_of
from shared.applier.sync import Sync
from shared.effects import perform
from shared.event import change_event
from shared.kube import ApiError, Key, Object, Resource, dig
from shared.kube.crds import CRD
from shared.runtime import Answer, Request
from tests.support.accounts import as_function
from tests.support.releases import STACK
from tests.support.stacks import CLASS, TEMPLATE, TOY, TOY_TEMPLATE, Stacks, classes, definition

LATE = Resource("infrastructure.cluster.x-k8s.io", "v1beta1", "LateTemplate", "latetemplates")
# -- subscribing -------------------------------------------------------------------------------------------------


def test_offered_release_becomes_a_cluster_class(stacks: Stacks) -> None:
    stacks.publish("v1")
    stacks.publish("v0-sha.abc1234")
    (stacks.folder / "something-else").mkdir()
    stacks.stack()
    stacks.settle()
    stack, release = stacks.get(CLUSTER_STACK, "stack"), stacks.release("v1")
    assert stacks.names(CLUSTER_STACK_RELEASE) == [f"{STACK}-v1"]
    assert [(o["kind"], o["name"], o["uid"]) for o in release["metadata"]["ownerReferences"]] == [
        ("ClusterStack", "stack", stack["metadata"]["uid"])
    ]
    assert stacks.names(CLASS) == [f"{STACK}-v1"]
    assert stacks.names(TEMPLATE) == [f"{STACK}-v1-worker"]
    assert stacks.get(CLASS, f"{STACK}-v1")["metadata"]["labels"] == {
        "clusterstack.x-k8s.io/instance": "owned",
        "clusterstack.x-k8s.io/cluster-stack": STACK,
    }
    assert release["status"]["ready"] is True
    assert release["status"]["kubernetesVersion"] == "v1.36.3"
    assert {r["kind"]: r["status"] for r in release["status"]["resources"]} == {
        "ClusterClass": "synced",
        "ToyMachineTemplate": "synced",
    }
    assert {c["type"]: c["status"] for c in release["status"]["conditions"]} == {
        "ClusterStackReleaseDownloaded": "True",
        "ProviderClusterStackReleaseReady": "True",
        "HelmChartApplied": "True",
        "Ready": "True",
    }
    assert stack["status"]["latestRelease"] == f"{STACK}-v1 | v1.36.3"
    assert stack["status"]["usableVersions"] == "v1"
    assert stack["status"]["summary"] == [{"name": "v1", "ready": True, "phase": "done"}]
    assert {c["type"]: c["status"] for c in stack["status"]["conditions"]} == {
        "AssetsClientAPIAvailable": "True",
        "ReleasesSynced": "True",
        "ClusterStackReleasesSynced": "True",
        "ClusterStackReleaseAvailable": "True",
        "Ready": "True",
    }


def test_source_is_listed_again_after_the_interval(stacks: Stacks, monkeypatch: pytest.MonkeyPatch) -> None:
    stacks.publish("v1")
    stacks.stack()
    stacks.settle()
    assert stacks.look_at_stack().retry_after == 300.0
    monkeypatch.setenv("RELEASE_POLL_SECONDS", "7")
    assert (stacks.look_at_stack().status, stacks.look_at_stack().retry_after) == (202, 7.0)


def test_reconciled_stack_costs_no_write(stacks: Stacks) -> None:
    stacks.publish("v1")
    stacks.stack()
    stacks.settle()
    before = stacks.versions()
    requests = stacks.client.requests
    assert stacks.look_at(stacks.release("v1")).message == "already reconciled"
    assert stacks.client.requests - requests == 1  # this test's own look
    requests = stacks.client.requests
    stacks.look_at_stack()
    assert stacks.client.requests - requests == 3
    stacks.look_at(stacks.release("v1"), resync=True)
    assert stacks.versions() == before


def test_new_release_replaces_the_old_one_once_ready(stacks: Stacks) -> None:
    stacks.publish("v9")
    stacks.stack()
    stacks.settle()
    stacks.publish("v10")
    stacks.look_at_stack()
    assert stacks.names(CLUSTER_STACK_RELEASE) == [f"{STACK}-v10", f"{STACK}-v9"]
    summary = {line["name"]: line["phase"] for line in stacks.get(CLUSTER_STACK, "stack")["status"]["summary"]}
    assert summary == {"v9": "done", "v10": ""}
    stacks.settle()
    assert stacks.names(CLUSTER_STACK_RELEASE) == [f"{STACK}-v10"]
    assert stacks.names(CLASS) == [f"{STACK}-v10"]
    assert stacks.names(TEMPLATE) == [f"{STACK}-v10-worker"]
    assert stacks.get(CLUSTER_STACK, "stack")["status"]["usableVersions"] == "v10"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_used_release_stays_until_its_last_cluster_leaves(stacks: Stacks, elsewhere: bool) -> None:
    stacks.publish("v0-sha.aaa", class_templates=classes("v0-sha.aaa"))
    stacks.stack(channel="custom")
    stacks.settle()
    where = stacks.namespace + "-other" if elsewhere else stacks.namespace
    if elsewhere:
        stacks.client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}})
    reference = {"name": f"{STACK}-v0-sha.aaa"} | ({"namespace": stacks.namespace} if elsewhere else {})
    stacks.apply(CLUSTER, "demo", where, spec={"topology": {"classRef": reference}})
    stacks.publish("v1-sha.bbb", class_templates=classes("v1-sha.bbb"))
    stacks.settle()
    assert stacks.names(CLUSTER_STACK_RELEASE) == [f"{STACK}-v0-sha-aaa", f"{STACK}-v1-sha-bbb"]
    assert stacks.get(CLUSTER_STACK, "stack")["status"]["usableVersions"] == "v0-sha.aaa, v1-sha.bbb"
    stacks.client.delete(CLUSTER, Key(where, "demo"))
    stacks.settle()
    assert stacks.names(CLASS) == [f"{STACK}-v1-sha.bbb"]


def test_cluster_with_a_class_of_the_same_name_in_another_namespace_is_not_a_user(stacks: Stacks) -> None:
    stacks.publish("v1")
    stacks.stack()
    stacks.settle()
    where = stacks.namespace + "-other"
    stacks.client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}})
    stacks.apply(CLUSTER, "demo", where, spec={"topology": {"class": f"{STACK}-v1"}})
    stacks.publish("v2")
    stacks.settle()
    assert stacks.names(CLASS) == [f"{STACK}-v2"]
    stacks.client.delete(CLUSTER, Key(where, "demo"))


def test_old_release_is_deleted_when_its_cluster_moves_to_the_new_one(stacks: Stacks) -> None:
    stacks.publish("v1")
    stacks.stack()
    stacks.settle()
    stacks.cluster(f"{STACK}-v1")
    stacks.publish("v2")
    stacks.settle()
    assert stacks.names(CLASS) == [f"{STACK}-v1", f"{STACK}-v2"]
    stacks.cluster(f"{STACK}-v2")
    stacks.look_at_stack()
    assert dig(stacks.find(CLUSTER_STACK_RELEASE, f"{STACK}-v1") or {}, "metadata.deletionTimestamp")
    stacks.settle()
    assert stacks.names(CLASS) == [f"{STACK}-v2"]


def test_listed_versions_are_provided(stacks: Stacks) -> None:
    for version in ("v1", "v2", "v3"):
        stacks.publish(version)
    stacks.stack(autoSubscribe=False, versions=["v1", "v2"])
    stacks.settle()
    assert stacks.names(CLASS) == [f"{STACK}-v1", f"{STACK}-v2"]
    assert get_condition(dig(stacks.get(CLUSTER_STACK, "stack"), "status.conditions"), "ReleasesSynced") is None
    stacks.stack(autoSubscribe=False, versions=["v3"])
    stacks.settle()
    assert stacks.names(CLASS) == [f"{STACK}-v3"]


# -- sources -----------------------------------------------------------------------------------------------------


def test_failing_source_deletes_no_release(stacks: Stacks, monkeypatch: pytest.MonkeyPatch) -> None:
    stacks.publish("v1")
    stacks.stack()
    stacks.settle()
    stacks.publish("v2")
    stacks.look_at_stack()  # v2 is on its way, not ready
    monkeypatch.setenv("RELEASE_SOURCE", "gopher://nowhere")
    answer = stacks.look_at_stack()
    assert (answer.status, answer.retry_after) == (202, 60.0)
    assert stacks.names(CLUSTER_STACK_RELEASE) == [f"{STACK}-v1", f"{STACK}-v2"]
    condition = stacks.of_stack("AssetsClientAPIAvailable")
    assert (condition["reason"], condition["severity"]) == ("FailedCreateAssetsClient", "Error")
    assert "gopher" in condition["message"]
    assert stacks.of_stack("Ready")["status"] == "False"
    monkeypatch.setenv("RELEASE_SOURCE", str(stacks.folder))
    stacks.settle()
    assert stacks.names(CLASS) == [f"{STACK}-v2"]
    assert stacks.of_stack("Ready")["status"] == "True"


def test_own_sources_replace_those_of_the_functions(stacks: Stacks) -> None:
    stacks.publish("v1")
    stacks.stack(sources=[{"url": "http://127.0.0.1:9"}])
    stacks.look_at_stack()
    assert "127.0.0.1:9" in stacks.of_stack("ReleasesSynced")["message"]
    assert stacks.names(CLUSTER_STACK_RELEASE) == []


@pytest.mark.parametrize(("setting", "expected"), [("x", 300.0), ("", 300.0), ("-5", 0.1), ("nan", 0.1), ("9", 9.0)])
def test_interval_is_read_from_settings(
    stacks: Stacks, monkeypatch: pytest.MonkeyPatch, setting: str, expected: float
) -> None:
    monkeypatch.setenv("RELEASE_POLL_SECONDS", setting)
    stacks.stack()
    assert stacks.look_at_stack().retry_after == expected


def test_failed_fetch_is_a_condition_with_its_reason(stacks: Stacks) -> None:
    stacks.stack(autoSubscribe=False, versions=["v7"])
    stacks.look_at_stack()
    answer = stacks.look_at(stacks.release("v7"))
    assert (answer.status, answer.retry_after, answer.reply) == (202, 60.0, None)
    condition = stacks.condition(stacks.release("v7"), "ClusterStackReleaseDownloaded")
    assert (condition["reason"], condition["severity"]) == ("IssueWithReleaseAssets", "Error")
    assert f"{STACK}-v7" in condition["message"]
    stacks.look_at_stack()
    [line] = stacks.get(CLUSTER_STACK, "stack")["status"]["summary"]
    assert (line["phase"], line["ready"]) == ("downloading release assets", False)
    assert f"{STACK}-v7" in line["message"]


def test_ready_release_survives_a_wiped_store(stacks: Stacks) -> None:
    tag = stacks.publish("v1")
    stacks.stack()
    stacks.settle()
    stacks.clients.releases.delete(tag)
    assert stacks.look_at(stacks.release("v1")).message == "already reconciled"
    answer = stacks.call(
        "cluster_stack_release", change_event(stacks.release("v1"), "update", source="/test", resync=True)
    )
    assert answer.reply is not None
    assert answer.reply.type == "dev.capi-functions.release.wanted"
    release = stacks.release("v1")
    assert release["status"]["ready"] is True
    assert stacks.condition(release, "ClusterStackReleaseDownloaded")["reason"] == "ReleaseAssetsNotDownloadedYet"
    stacks.look_at(release)
    assert stacks.condition(stacks.release("v1"), "Ready")["status"] == "True"


# -- the class chart ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("{{ nope }}", "nope"),
        ("a: {{ .Values.missing.deep }}", "extra.yaml"),
        ("kind: [unclosed", "extra.yaml"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: kube-system}", "only objects in test-"),
        ("apiVersion: v1\nkind: Namespace\nmetadata: {name: escaped}", "Namespace escaped is cluster-scoped"),
        (
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: escaped, namespace: x}",
            "ClusterRole.rbac.authorization.k8s.io escaped is cluster-scoped",
        ),
        (yaml.safe_dump(definition(LATE)), f"{LATE.plural}.{LATE.group} is cluster-scoped"),
        ("apiVersion: nowhere.example.com/v1\nkind: Nothing\nmetadata: {name: a}", "the management cluster does not"),
    ],
)
def test_broken_chart_is_a_condition(stacks: Stacks, monkeypatch: pytest.MonkeyPatch, extra: str, words: str) -> None:
    kinds = (CONFIG_MAP, NAMESPACE, CLUSTER_ROLE, CRD, Resource("nowhere.example.com", "v1", "Nothing", "nothings"))
    monkeypatch.setenv("CLASS_CHART_KINDS", " ".join(f"{kind.kind}.{kind.group}".rstrip(".") for kind in kinds))
    stacks.publish("v1", class_templates=classes("v1", extra=extra))
    stacks.stack()
    stacks.look_at_stack()
    answer = stacks.look_at(stacks.release("v1"))
    assert answer.retry_after in (20.0, 60.0)
    condition = stacks.condition(stacks.release("v1"), "HelmChartApplied")
    assert (condition["reason"], condition["severity"]) == ("FailedToApplyObjects", "Error")
    assert words in condition["message"]
    assert stacks.names(CLASS) == []
    assert stacks.release("v1")["status"]["ready"] is False
    stacks.settle()
    [line] = stacks.get(CLUSTER_STACK, "stack")["status"]["summary"]
    assert line["phase"] == "applying objects"
    assert words in line["message"]


def test_chart_without_objects_is_a_condition(stacks: Stacks) -> None:
    stacks.publish("v1", class_templates={"none.yaml": ""})
    stacks.stack()
    stacks.settle()
    assert "renders no objects" in stacks.condition(stacks.release("v1"), "HelmChartApplied")["message"]


def test_rejected_object_does_not_block_the_others(stacks: Stacks) -> None:
    refused = f"apiVersion: {CLASS.api_version}\nkind: ClusterClass\nmetadata: {{name: bad}}\nspec: {{}}"
    stacks.publish("v1", class_templates=classes("v1", extra=refused))
    stacks.stack()
    stacks.look_at_stack()
    assert stacks.look_at(stacks.release("v1")).retry_after == 20.0
    release = stacks.release("v1")
    condition = stacks.condition(release, "HelmChartApplied")
    assert (condition["reason"], condition["severity"]) == ("ObjectsApplyingOngoing", "Warning")
    assert "infrastructure" in condition["message"]
    assert {r["name"]: r["status"] for r in release["status"]["resources"]} == {
        f"{STACK}-v1": "synced",
        f"{STACK}-v1-worker": "synced",
        "bad": "not-synced",
    }
    assert release["status"]["ready"] is False
    stacks.settle()  # each write of a status is an event: trying again and again must not write


def test_release_continues_once_a_missing_kind_is_served(stacks: Stacks) -> None:
    extra = f"apiVersion: {LATE.api_version}\nkind: LateTemplate\nmetadata: {{name: late}}"
    stacks.publish("v1", class_templates=classes("v1", extra=extra))
    stacks.stack()
    stacks.settle()
    assert "LateTemplate" in stacks.condition(stacks.release("v1"), "HelmChartApplied")["message"]
    crds.install(stacks.client, [definition(LATE)])
    stacks.settle()
    assert stacks.release("v1")["status"]["ready"] is True
    stacks.client.delete(CRD, Key("", f"{LATE.plural}.{LATE.group}"))


def test_resync_repairs_the_class(stacks: Stacks) -> None:
    stacks.publish("v1")
    stacks.stack()
    stacks.settle()
    stacks.delete(CLASS, f"{STACK}-v1")
    stacks.client.patch(TEMPLATE, Key(stacks.namespace, f"{STACK}-v1-worker"), {"spec": {"size": "large"}})
    stacks.look_at(stacks.release("v1"), resync=True)
    assert stacks.names(CLASS) == [f"{STACK}-v1"]
    assert stacks.get(TEMPLATE, f"{STACK}-v1-worker")["spec"] == {"size": "small"}
    assert stacks.condition(stacks.release("v1"), "Ready")["status"] == "True"


def test_rollout_resumes_after_a_kill_between_inventory_and_apply(stacks: Stacks) -> None:
    tag = stacks.publish("v1")
    stacks.stack()
    stacks.look_at_stack()
    stacks.look_at(stacks.release("v1"))
    finished = stacks.names(CLASS), stacks.names(TEMPLATE), stacks.release("v1")["status"]["resources"]
    # The same in another stack of effects, which ends before anything is applied.
    stacks.client.patch(CLUSTER_STACK_RELEASE, Key(stacks.namespace, tag), {"status": None}, subresource="status")
    for resource, name in ((CLASS, tag), (TEMPLATE, f"{tag}-worker")):
        stacks.delete(resource, name)
    release = stacks.release("v1")
    event = change_event(release, "update", source="/test")
    decision = decide(observe(stacks.clients, Request(event, Key(stacks.namespace, tag), release)), datetime.now(UTC))
    begun = perform([effect for effect in decision.effects if not isinstance(effect, Sync)], stacks.clients)
    assert begun.error is None
    assert {r["status"] for r in stacks.release("v1")["status"]["resources"]} == {"not-synced"}
    assert stacks.names(CLASS) == []
    stacks.look_at(stacks.release("v1"))
    each_time: Object = {"uid": "", "revision": ""}
    entries = [{**entry, **each_time} for entry in stacks.release("v1")["status"]["resources"]]
    assert (stacks.names(CLASS), stacks.names(TEMPLATE)) == finished[:2]
    assert entries == [{**entry, **each_time} for entry in finished[2]]


def test_deletion_after_a_kill_between_inventory_and_apply(stacks: Stacks) -> None:
    tag = stacks.publish("v1")
    stacks.stack()
    stacks.look_at_stack()
    key = Key(stacks.namespace, tag)
    stacks.look_at(stacks.release("v1"))
    stacks.client.delete(CLUSTER_STACK_RELEASE, key)
    stacks.delete(CLASS, tag)  # as if it had not been reached
    stacks.look_at(stacks.release("v1"))
    assert stacks.find(CLUSTER_STACK_RELEASE, tag) is None
    assert stacks.names(TEMPLATE) == []


def test_two_replicas_apply_a_release_once(stacks: Stacks) -> None:
    stacks.publish("v1")
    stacks.publish("v2")
    stacks.stack(versions=["v1"])
    stack = change_event(stacks.get(CLUSTER_STACK, "stack"), "update", source="/test")
    answers = _at_once(lambda: stacks.call("cluster_stack", stack))
    assert {answer.status for answer in answers} <= {202, 503}
    assert stacks.names(CLUSTER_STACK_RELEASE) == [f"{STACK}-v1", f"{STACK}-v2"]
    for version in ("v1", "v2"):
        reply = stacks.call("cluster_stack_release", change_event(stacks.release(version), "add", source="/test")).reply
        assert reply is not None
        fetched = stacks.call("release_assets", reply).reply
        assert fetched is not None
        answers = _at_once(lambda event=fetched: stacks.call("cluster_stack_release", event))
        assert {answer.status for answer in answers} <= {204, 503}
    stacks.settle()
    assert stacks.names(CLASS) == [f"{STACK}-v1", f"{STACK}-v2"]
    assert stacks.get(CLUSTER_STACK, "stack")["status"]["usableVersions"] == "v1, v2"


def _at_once(call: Any) -> list[Answer]:
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(call())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    return answers


# -- deletion ----------------------------------------------------------------------------------------------------


def test_used_release_is_not_deleted(stacks: Stacks) -> None:
    tag = stacks.publish("v1")
    stacks.stack()
    stacks.settle()
    cluster = stacks.cluster(tag)
    stacks.delete(CLUSTER_STACK_RELEASE, tag)
    answer = stacks.look_at(stacks.release("v1"))
    assert (answer.status, answer.retry_after) == (202, 60.0)
    condition = stacks.condition(stacks.release("v1"), "HelmChartDeleted")
    assert condition["reason"] == "ClusterClassInUse"
    assert f"{stacks.namespace}/demo" in condition["message"]
    assert stacks.names(CLASS) == [tag]
    stacks.look_at_stack()
    [line] = stacks.get(CLUSTER_STACK, "stack")["status"]["summary"]
    assert line["message"].startswith("being deleted: the ClusterClass of the release is in use by")
    stacks.delete(CLUSTER, "demo")
    stacks.call("cluster_stack_release", change_event(cluster, "delete", source="/test"))
    assert stacks.find(CLUSTER_STACK_RELEASE, tag) is None
    assert (stacks.names(CLASS), stacks.names(TEMPLATE)) == ([], [])
    stacks.settle()  # it is still what the stack wants
    assert stacks.names(CLASS) == [tag]


def test_deletion_keeps_replaced_and_unlabelled_objects(stacks: Stacks) -> None:
    tag = stacks.publish("v1")
    stacks.stack()
    stacks.settle()
    stacks.delete(CLASS, tag)
    stacks.apply(CLASS, tag, spec={"infrastructure": {}})  # of the same name, and somebody else's
    key = Key(stacks.namespace, f"{tag}-worker")
    stacks.client.patch(TEMPLATE, key, {"metadata": {"labels": {"clusterstack.x-k8s.io/instance": None}}})
    stacks.delete(CLUSTER_STACK, "stack")
    stacks.settle()
    assert stacks.names(CLUSTER_STACK_RELEASE) == []
    assert (stacks.names(CLASS), stacks.names(TEMPLATE)) == ([tag], [f"{tag}-worker"])


def test_deletion_keeps_objects_of_other_releases(stacks: Stacks) -> None:
    shared = f"apiVersion: {TEMPLATE.api_version}\nkind: ToyMachineTemplate\nmetadata: {{name: shared}}"
    for version in ("v1", "v2"):
        stacks.publish(version, class_templates=classes(version, extra=shared))
    stacks.stack(versions=["v1"])
    stacks.settle()
    stacks.stack()
    stacks.settle()
    assert stacks.names(TEMPLATE) == ["shared", f"{STACK}-v2-worker"]
    stacks.delete(CLUSTER_STACK, "stack")
    stacks.settle()
    assert stacks.names(TEMPLATE) == []


@pytest.mark.parametrize("leaving", [True, False])
def test_status_entries_of_other_namespaces_are_never_pruned(stacks: Stacks, leaving: bool) -> None:
    """An earlier version may have applied the object, or a user may have written the entry."""
    stacks.publish("v1")
    stacks.stack()
    stacks.settle()
    name = f"escaped-{stacks.namespace}"
    labels = {OWNED_LABEL: OWNED}
    kinds = ((CLUSTER_ROLE, ""), (CONFIG_MAP, "default"))
    made = [
        stacks.client.apply(
            kind,
            {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {"name": name, "labels": labels} | ({"namespace": place} if place else {}),
            },
            manager="user",
        )
        for kind, place in kinds
    ]
    release = stacks.release("v1")
    planted = [{**entry_of(obj).dump(), "uid": obj["metadata"]["uid"], "status": "synced"} for obj in made]
    status = {"status": {"resources": [*release["status"]["resources"], *planted]}}
    stacks.client.patch(CLUSTER_STACK_RELEASE, Key(stacks.namespace, f"{STACK}-v1"), status, subresource="status")
    if leaving:
        stacks.delete(CLUSTER_STACK, "stack")
        stacks.client.delete(CLUSTER_STACK_RELEASE, Key(stacks.namespace, f"{STACK}-v1"))
        stacks.look_at(stacks.release("v1"))
        assert stacks.names(CLASS) == []
    else:
        stacks.look_at(stacks.release("v1"), resync=True)
        assert len(stacks.release("v1")["status"]["resources"]) == 2
    for kind, place in kinds:
        assert stacks.client.find(kind, Key(place, name)) is not None
        stacks.client.delete(kind, Key(place, name))


def test_shared_object_is_deleted_with_the_last_of_two_releases(stacks: Stacks) -> None:
    shared = f"apiVersion: {TEMPLATE.api_version}\nkind: ToyMachineTemplate\nmetadata: {{name: shared}}"
    for version in ("v1", "v2"):
        stacks.publish(version, class_templates=classes(version, extra=shared))
    stacks.stack(versions=["v1"])
    stacks.settle()
    stacks.cluster(f"{STACK}-v2")
    stacks.delete(CLUSTER_STACK, "stack")
    stacks.settle()
    assert stacks.names(TEMPLATE) == ["shared", f"{STACK}-v2-worker"]
    stacks.delete(CLUSTER, "demo")
    stacks.settle()
    assert stacks.names(TEMPLATE) == []


def test_release_applied_by_cluster_stack_operator_is_adopted(stacks: Stacks) -> None:
    """cluster-stack-operator leaves an inventory without uids, with the same label and finalizer."""
    tag = stacks.publish("v1")
    label = {"labels": {"clusterstack.x-k8s.io/instance": "owned"}}
    stacks.apply(CLASS, tag, metadata=label, spec={"infrastructure": {"old": True}})
    stacks.apply(TEMPLATE, "dropped", metadata=label, spec={})
    finalizers = {"finalizers": ["clusterstackrelease.clusterstack.x-k8s.io"]}
    stacks.apply(CLUSTER_STACK_RELEASE, tag, metadata=finalizers, spec={})
    common = {"namespace": stacks.namespace, "status": "synced"}
    resources = [
        {"group": CLASS.group, "version": "v1beta2", "kind": "ClusterClass", "name": tag, **common},
        {"group": TEMPLATE.group, "version": "v1beta1", "kind": TEMPLATE.kind, "name": "dropped", **common},
    ]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}
    types = ("ClusterStackReleaseDownloaded", "ProviderClusterStackReleaseReady", "HelmChartApplied")
    conditions = [ready, *(ready | {"type": type_} for type_ in types)]
    status = {"ready": True, "resources": resources, "conditions": conditions}
    key = Key(stacks.namespace, tag)
    stacks.client.patch(CLUSTER_STACK_RELEASE, key, {"status": status}, subresource="status")
    assert stacks.look_at(stacks.release("v1")).message == "already reconciled"
    stacks.look_at(stacks.release("v1"), resync=True)
    assert stacks.names(TEMPLATE) == [f"{tag}-worker"]
    stacks.delete(CLUSTER_STACK_RELEASE, tag)
    stacks.look_at(stacks.release("v1"))
    assert (stacks.names(CLUSTER_STACK_RELEASE), stacks.names(CLASS), stacks.names(TEMPLATE)) == ([], [], [])


def test_stack_deletion_waits_for_its_releases(stacks: Stacks) -> None:
    tag = stacks.publish("v1")
    stacks.stack()
    stacks.settle()
    stacks.cluster(tag)
    stacks.delete(CLUSTER_STACK, "stack")
    stacks.settle()
    condition = stacks.of_stack("ClusterStackReleasesSynced")
    assert condition["reason"] == "Deleting"
    assert (
        f"{tag} (the ClusterClass of the release is in use by Cluster {stacks.namespace}/demo)" in condition["message"]
    )
    assert stacks.look_at_stack().retry_after == 20.0
    stacks.delete(CLUSTER, "demo")
    stacks.settle()
    assert stacks.find(CLUSTER_STACK, "stack") is None
    assert (stacks.names(CLUSTER_STACK_RELEASE), stacks.names(CLASS)) == ([], [])


# -- paused ------------------------------------------------------------------------------------------------------


def test_paused_objects_are_not_reconciled(stacks: Stacks) -> None:
    paused = {"annotations": {"cluster.x-k8s.io/paused": ""}}
    stacks.publish("v1")
    stacks.apply(
        CLUSTER_STACK,
        "stack",
        metadata=paused,
        spec={"provider": "test", "name": "stack", "kubernetesVersion": "1.36", "noProvider": True},
    )
    assert stacks.look_at_stack().status == 204
    assert stacks.of_stack("Paused")["status"] == "True"
    assert stacks.names(CLUSTER_STACK_RELEASE) == []
    stacks.stack()
    stacks.look_at_stack()
    key = Key(stacks.namespace, f"{STACK}-v1")
    stacks.client.patch(CLUSTER_STACK_RELEASE, key, {"metadata": paused})
    stacks.settle()
    assert stacks.condition(stacks.release("v1"), "Paused")["status"] == "True"
    assert stacks.names(CLASS) == []
    stacks.client.patch(CLUSTER_STACK_RELEASE, key, {"metadata": {"annotations": None}})
    stacks.settle()
    assert stacks.names(CLASS) == [f"{STACK}-v1"]
    assert get_condition(stacks.release("v1")["status"]["conditions"], "Paused") is None
    assert get_condition(stacks.get(CLUSTER_STACK, "stack")["status"]["conditions"], "Paused") is None


# -- providers ---------------------------------------------------------------------------------------------------

REFERENCE = {"apiVersion": TOY_TEMPLATE.api_version, "kind": TOY_TEMPLATE.kind, "name": "toys"}


def with_provider(stacks: Stacks, **spec: Any) -> str:
    tag = stacks.publish("v1")
    content = {"metadata": {"labels": {"from": "template"}}, "spec": {"images": ["a"]}}
    stacks.apply(TOY_TEMPLATE, "toys", spec={"template": content})
    stacks.stack(noProvider=False, providerRef=REFERENCE, **spec)
    return tag


def test_rollout_waits_for_the_provider_object(stacks: Stacks) -> None:
    tag = with_provider(stacks)
    stacks.settle()
    toy, release = stacks.get(TOY, tag), stacks.release("v1")
    assert toy["spec"] == {"images": ["a"]}
    assert toy["metadata"]["labels"] == {"from": "template"}
    assert [(o["kind"], o["uid"]) for o in toy["metadata"]["ownerReferences"]] == [
        ("ClusterStackRelease", release["metadata"]["uid"])
    ]
    assert release["spec"]["providerRef"] == {
        "apiVersion": TOY.api_version,
        "kind": "ToyClusterStackRelease",
        "name": tag,
        "namespace": stacks.namespace,
    }
    condition = stacks.condition(release, "ProviderClusterStackReleaseReady")
    assert (condition["status"], condition["reason"]) == ("False", "ProcessOngoing")
    assert stacks.look_at(release).retry_after == 10.0
    [line] = stacks.get(CLUSTER_STACK, "stack")["status"]["summary"]
    assert line["phase"] == "provider-specific work"
    assert stacks.names(CLASS) == []
    stacks.client.patch(TOY, Key(stacks.namespace, tag), {"status": {"ready": True}}, subresource="status")
    stacks.settle()
    assert stacks.names(CLASS) == [tag]
    assert stacks.of_stack("ProviderClusterStackReleasesSynced")["status"] == "True"


def test_provider_object_follows_its_template(stacks: Stacks) -> None:
    tag = with_provider(stacks)
    stacks.settle()
    stacks.apply(TOY_TEMPLATE, "toys", spec={"template": {"spec": {"images": ["b"]}}})
    stacks.look_at_stack()
    assert stacks.get(TOY, tag)["spec"] == {"images": ["b"]}


def test_missing_template_is_a_condition(stacks: Stacks) -> None:
    tag = stacks.publish("v1")
    stacks.stack(noProvider=False, providerRef=REFERENCE)
    assert stacks.look_at_stack().retry_after == 60.0
    condition = stacks.of_stack("ProviderClusterStackReleasesSynced")
    assert (condition["reason"], condition["severity"]) == ("ProviderTemplateNotFound", "Error")
    assert "ToyClusterStackReleaseTemplate toys" in condition["message"]
    assert stacks.names(CLUSTER_STACK_RELEASE) == []
    with_provider(stacks)
    stacks.settle()
    assert stacks.names(TOY) == [tag]


def test_reference_to_a_kind_that_is_not_a_template_is_refused(stacks: Stacks) -> None:
    stacks.publish("v1")
    stacks.apply(TEMPLATE, "toys", spec={"template": {"spec": {}}})
    stacks.stack(noProvider=False, providerRef=REFERENCE | {"apiVersion": TEMPLATE.api_version, "kind": TEMPLATE.kind})
    stacks.settle()
    condition = stacks.of_stack("ProviderClusterStackReleasesSynced")
    assert "is not a <Provider>ClusterStackReleaseTemplate" in condition["message"]
    assert stacks.names(CLUSTER_STACK_RELEASE) == []


def test_provider_object_of_another_owner_is_not_overwritten(stacks: Stacks) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "00000000-0000-0000-0000-000000000000"}
    stacks.apply(TOY, f"{STACK}-v1", metadata={"ownerReferences": [owner]}, spec={"images": []})
    with_provider(stacks)
    assert stacks.look_at_stack().retry_after == 60.0
    condition = stacks.of_stack("ProviderClusterStackReleasesSynced")
    assert (condition["reason"], condition["severity"]) == ("FailedToCreateOrUpdate", "Warning")
    assert "already exists with another owner" in condition["message"]
    before = stacks.versions()
    stacks.look_at_stack()
    assert stacks.versions() == before
    assert stacks.get(TOY, f"{STACK}-v1")["spec"] == {"images": []}


def test_release_object_of_another_owner_is_not_overwritten(stacks: Stacks) -> None:
    tag = stacks.publish("v1")
    stacks.apply(CLUSTER_STACK_RELEASE, tag, spec={})
    stacks.stack()
    assert stacks.look_at_stack().retry_after == 60.0
    condition = stacks.of_stack("ClusterStackReleasesSynced")
    assert condition["reason"] == "FailedToCreateOrUpdate"
    assert "already exists with another owner" in condition["message"]
    # It keeps nothing else from being made, and gets nothing of ours.
    stacks.publish("v2")
    with_provider(stacks, versions=["v1", "v2"])
    stacks.look_at_stack()
    assert stacks.names(CLUSTER_STACK_RELEASE) == [f"{STACK}-v1", f"{STACK}-v2"]
    assert stacks.names(TOY) == [f"{STACK}-v2"]


def test_provider_object_is_deleted_before_the_finalizer(stacks: Stacks) -> None:
    tag = with_provider(stacks)
    stacks.settle()
    key = Key(stacks.namespace, tag)
    stacks.client.patch(TOY, key, {"status": {"ready": True}}, subresource="status")
    stacks.settle()
    stacks.client.patch(TOY, key, {"metadata": {"finalizers": ["example.com/images"]}})
    stacks.delete(CLUSTER_STACK, "stack")
    stacks.settle()
    assert stacks.names(CLASS) == []
    condition = stacks.condition(stacks.release("v1"), "ProviderClusterStackReleaseReady")
    assert condition["reason"] == "Deleting"
    assert f"ToyClusterStackRelease {tag}" in condition["message"]
    stacks.client.patch(TOY, key, {"metadata": {"finalizers": None}})
    stacks.settle()
    assert (stacks.find(CLUSTER_STACK, "stack"), stacks.names(CLUSTER_STACK_RELEASE)) == (None, [])


@pytest.mark.parametrize("kind", [TEMPLATE, SECRET, NAMESPACE], ids=lambda kind: kind.kind)
def test_provider_reference_cannot_cause_deletion_of_other_objects(stacks: Stacks, kind: Resource) -> None:
    content: Object = {"spec": {}} if kind == TEMPLATE else {}
    name = "victim" if kind.namespaced else stacks.namespace
    victim = stacks.apply(kind, name, **content) if kind.namespaced else stacks.client.get(kind, Key("", name))
    reference = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name}
    release = stacks.apply(CLUSTER_STACK_RELEASE, f"{STACK}-v1", spec={"providerRef": reference})
    stacks.publish("v1")
    stacks.look_at(release)
    stacks.delete(CLUSTER_STACK_RELEASE, f"{STACK}-v1")
    stacks.settle()
    assert stacks.names(CLUSTER_STACK_RELEASE) == []
    now = stacks.client.get(kind, Key(stacks.namespace if kind.namespaced else "", name))
    assert now["metadata"]["uid"] == victim["metadata"]["uid"]
    assert "deletionTimestamp" not in now["metadata"]


def test_invalid_release_name_is_a_condition(stacks: Stacks) -> None:
    release = stacks.apply(CLUSTER_STACK_RELEASE, "whatever", spec={})
    assert stacks.look_at(release).status == 204
    condition = stacks.condition(stacks.get(CLUSTER_STACK_RELEASE, "whatever"), "ClusterStackReleaseDownloaded")
    assert "'whatever' is not the name of a release" in condition["message"]
    stacks.delete(CLUSTER_STACK_RELEASE, "whatever")
    stacks.settle()
    assert stacks.names(CLUSTER_STACK_RELEASE) == []


# -- rights ------------------------------------------------------------------------------------------------------


def test_generated_roles_grant_the_required_rights(stacks: Stacks, kubeconfig: Path) -> None:
    for function in ("cluster_stack", "cluster_stack_release"):
        stacks.accounts[function] = as_function(stacks.client, kubeconfig, function)
    tag = with_provider(stacks)
    stacks.until(lambda: stacks.look_at_stack().status == 202, "the authorizer to know the roles")
    stacks.settle()
    stacks.client.patch(TOY, Key(stacks.namespace, tag), {"status": {"ready": True}}, subresource="status")
    stacks.settle()
    assert stacks.names(CLASS) == [tag]
    stacks.look_at(stacks.release("v1"), resync=True)
    stacks.publish("v2")
    stacks.settle()
    stacks.delete(CLUSTER_STACK, "stack")
    stacks.settle()
    assert [stacks.names(kind) for kind in (CLUSTER_STACK, CLUSTER_STACK_RELEASE, CLASS, TOY)] == [[], [], [], []]


def test_object_without_rbac_rule_is_named_in_the_condition(
    stacks: Stacks, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLASS_CHART_KINDS", "Secret")
    secret = 'apiVersion: v1\nkind: Secret\nmetadata: {name: planted}\nstringData: {a: "hunter2"}'
    stacks.publish("v1", class_templates=classes("v1", extra=secret))
    stacks.stack()
    stacks.look_at_stack()
    stacks.accounts["cluster_stack_release"] = as_function(stacks.client, kubeconfig, "cluster_stack_release")
    stacks.until(lambda: stacks.look_at(stacks.release("v1")).status == 202, "the authorizer to know the role")
    release = stacks.release("v1")
    assert f"Secret {stacks.namespace}/planted" in stacks.condition(release, "HelmChartApplied")["message"]
    assert "hunter2" not in str(release)
    assert release["status"]["ready"] is False


# -- what the API server refuses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"noProvider": False}, "providerRef is needed unless noProvider is true"),
        ({"noProvider": None}, "providerRef is needed unless noProvider is true"),
        ({"provider": ""}, "spec.provider"),
        ({"provider": "has-dash"}, "spec.provider"),
        ({"name": None}, "spec.name"),
        ({"kubernetesVersion": "1.27.3"}, "spec.kubernetesVersion"),
        ({"kubernetesVersion": "v1.27"}, "spec.kubernetesVersion"),
        ({"channel": "alpha"}, "spec.channel"),
        ({"versions": ["1"]}, "spec.versions[0]"),
        ({"versions": ["v1", "v2-alpha"]}, "spec.versions[1]"),
        ({"sources": [{"secretRef": {"name": "x"}}]}, "spec.sources[0].url"),
    ],
)
def test_invalid_stacks_are_rejected(stacks: Stacks, spec: Object, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        stacks.stack(**spec)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [{"provider": "other"}, {"name": "other"}, {"kubernetesVersion": "1.37"}, {"channel": "custom"}],
)
def test_identity_of_a_stack_is_immutable(stacks: Stacks, change: Object) -> None:
    stacks.stack(versions=["v1"])
    with pytest.raises(ApiError, match="cannot be changed"):
        stacks.stack(**change)
    stacks.stack(versions=["v2", "v0-sha.abc", "v0-git-abc"], autoSubscribe=False)


def test_stack_defaults(stacks: Stacks) -> None:
    spec = {"provider": "docker", "name": "ferrol", "kubernetesVersion": "1.27", "providerRef": REFERENCE}
    made = stacks.apply(CLUSTER_STACK, "stack", spec=spec)
    assert made["spec"] == spec | {"channel": "stable", "autoSubscribe": True, "noProvider": False}
