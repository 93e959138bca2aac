"""Class charts and release objects of hostile tenants, against a real API server.

The tenant may create ClusterStacks in a namespace, names his own source, and perhaps may write ClusterStackReleases
with their status. The functions have all rights here, so that RBAC hides no hole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from infra.local import crds
from shared.api.names import ADOPT_ANNOTATION, OWNED, OWNED_LABEL
from shared.api.resources import CLUSTER_STACK, CLUSTER_STACK_RELEASE, CONFIG_MAP, POD, SECRET
from shared.applier.inventory import entry_of
from shared.kube import MANAGER, Key, Object, Resource, connect
from shared.kube.crds import CRD
from tests.support.releases import STACK
from tests.support.stacks import CLASS, TEMPLATE, Stacks, classes, definition

MARK = "clusterstack.x-k8s.io/cluster-stack"
ROLE_BINDING = Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CONTROL_PLANE = Resource("controlplane.cluster.x-k8s.io", "v1beta1", "ToyControlPlane", "toycontrolplanes")
FOREIGN = Resource("toys.example.com", "v1", "ToyTemplate", "toytemplates")
LABELLED = Resource("toys.example.com", "v1", "LabelledToyTemplate", "labelledtoytemplates")

SUBJECT = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "tenant"}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}


def manifest(resource: Resource, name: str, metadata: Object | None = None, **content: object) -> Object:
    found = {"name": name, **(metadata or {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": found, **content}


def chart(version: str, *extra: Object) -> dict[str, str]:
    return classes(version, extra=yaml.safe_dump_all(extra))


def release_with(stacks: Stacks, *extra: Object, version: str = "v1") -> str:
    """Publishes and reconciles a release with these objects beside its class; returns the message of its failure."""
    stacks.publish(version, class_templates=chart(version, *extra))
    stacks.stack(autoSubscribe=False, versions=[version])
    stacks.settle()
    condition = stacks.condition(stacks.release(version), "HelmChartApplied")
    return "" if condition["status"] == "True" else str(condition["message"])


def delete(stacks: Stacks) -> None:
    stacks.delete(CLUSTER_STACK, "stack")
    stacks.settle()
    assert stacks.names(CLUSTER_STACK_RELEASE) == []


def labelled(crd: Object) -> Object:
    return {**crd, "metadata": {**crd["metadata"], "labels": {"cluster.x-k8s.io/v1beta1": "v1"}}}


@pytest.fixture(scope="module")
def foreign_kinds(kubeconfig: Path) -> Iterator[None]:
    """Applies the CRDs of further kinds."""
    client = connect.from_kubeconfig(str(kubeconfig))
    brought = [definition(CONTROL_PLANE), definition(FOREIGN), labelled(definition(LABELLED))]
    crds.install(client, brought)
    yield
    for crd in brought:
        client.delete(CRD, Key("", crd["metadata"]["name"]))
    client.close()


# -- kinds -------------------------------------------------------------------------------------------------------

CONTAINER = {"name": "c", "image": "i", "securityContext": {"privileged": True}}


@pytest.mark.parametrize(
    ("planted", "resource", "words"),
    [
        pytest.param(manifest(POD, "p", spec={"containers": [CONTAINER]}), POD, "Pod", id="privileged Pod"),
        pytest.param(
            manifest(ROLE_BINDING, "p", roleRef=ROLE, subjects=[SUBJECT]), ROLE_BINDING, "RoleBinding", id="RoleBinding"
        ),
        pytest.param(manifest(CONTROL_PLANE, "p", spec={}), CONTROL_PLANE, "ToyControlPlane", id="control plane"),
        pytest.param(
            manifest(FOREIGN, "p", spec={}), FOREIGN, "ToyTemplate.toys.example.com", id="template of no provider"
        ),
        pytest.param(manifest(SECRET, "p"), SECRET, "no template or ClusterClass", id="Secret that nothing refers to"),
        pytest.param(manifest(CONFIG_MAP, "p"), CONFIG_MAP, "no template or ClusterClass", id="such a ConfigMap"),
    ],
)
def test_object_that_is_not_of_a_class_is_refused_and_nothing_is_applied(
    stacks: Stacks, planted: Object, resource: Resource, words: str, foreign_kinds: None
) -> None:
    message = release_with(stacks, planted)
    assert words in message
    assert " p: " in message
    assert "CLASS_CHART_KINDS=" in message
    assert (stacks.find(resource, "p"), stacks.names(CLASS), stacks.names(TEMPLATE)) == (None, [], [])


REFERRING = "needs"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (f"{STACK}-cloud", {"type": "Opaque"}, ""),
        (f"{STACK}-cloud", {}, ""),
        (f"{STACK}-cloud", {"metadata": {"labels": {"app.kubernetes.io/name": "x"}}}, ""),
        ("cloud", {}, f"does not begin with {STACK}-"),
        (f"{STACK}-x", {"type": "kubernetes.io/service-account-token"}, "'kubernetes.io/service-account-token'"),
        (f"{STACK}-x", {"type": "cluster.x-k8s.io/secret"}, "'cluster.x-k8s.io/secret'"),
        (f"{STACK}-x-kubeconfig", {}, "Secret of a Cluster"),
        (f"{STACK}-x-ca", {}, "Secret of a Cluster"),
        (f"{STACK}-x", {"metadata": {"labels": {"provider": "x"}}}, "its label provider"),
    ],
)
def test_secret_of_a_template_grants_nothing(stacks: Stacks, name: str, content: Object, words: str) -> None:
    content = dict(content)
    secret = manifest(SECRET, name, content.pop("metadata", None), stringData={"a": "hunter2"}, **content)
    template = manifest(TEMPLATE, f"{STACK}-v1-{REFERRING}", spec={"secretRef": {"name": name}})
    message = release_with(stacks, template, secret)
    assert words in message
    assert "hunter2" not in json.dumps(stacks.release("v1"))
    assert (stacks.find(SECRET, name) is None) is bool(words)


def test_further_kinds_are_a_setting(stacks: Stacks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLASS_CHART_KINDS", f"ConfigMap {CONTROL_PLANE.kind}.{CONTROL_PLANE.group}")
    assert release_with(stacks, manifest(CONFIG_MAP, "any")) == ""
    assert stacks.find(CONFIG_MAP, "any") is not None
    delete(stacks)
    assert stacks.find(CONFIG_MAP, "any") is None


def test_template_in_another_group_is_allowed_with_the_label_of_a_contract(stacks: Stacks, foreign_kinds: None) -> None:
    assert release_with(stacks, manifest(LABELLED, "p", spec={})) == ""
    assert stacks.find(LABELLED, "p") is not None


# -- objects of others -------------------------------------------------------------------------------------------

OWNED_BY = {"labels": {OWNED_LABEL: OWNED}}


@pytest.mark.parametrize("metadata", [{}, OWNED_BY], ids=["without our label", "with our common label"])
def test_object_of_another_is_neither_overwritten_nor_deleted(stacks: Stacks, metadata: Object) -> None:
    victim = stacks.apply(TEMPLATE, "victim", metadata=metadata, spec={"size": "large"})
    message = release_with(stacks, manifest(TEMPLATE, "victim", spec={"size": "small"}))
    assert "ToyMachineTemplate" in message
    assert "it exists, written by user" in message
    assert ADOPT_ANNOTATION in message
    delete(stacks)
    assert stacks.get(TEMPLATE, "victim") == victim


def test_object_of_another_cluster_stack_is_neither_overwritten_nor_deleted(stacks: Stacks) -> None:
    assert release_with(stacks, manifest(TEMPLATE, "shared", spec={"size": "large"})) == ""
    victim = stacks.get(TEMPLATE, "shared")
    assert victim["metadata"]["labels"][MARK] == STACK
    other = STACK.replace("1-36", "1-37")
    stacks.publish("v1", stack=other, class_templates=chart("v1", manifest(TEMPLATE, "shared", spec={"size": "small"})))
    stacks.look_at(stacks.apply(CLUSTER_STACK_RELEASE, f"{other}-v1", spec={}))
    hostile = stacks.get(CLUSTER_STACK_RELEASE, f"{other}-v1")
    condition = stacks.condition(hostile, "HelmChartApplied")
    assert f"its label {MARK} names '{STACK}'" in condition["message"]
    # The annotation does not help, and neither does an inventory that names the object.
    key = Key(stacks.namespace, hostile["metadata"]["name"])
    planted = [{**entry_of(victim).dump(), "uid": victim["metadata"]["uid"], "status": "synced"}]
    stacks.client.patch(CLUSTER_STACK_RELEASE, key, {"metadata": {"annotations": {ADOPT_ANNOTATION: "true"}}})
    stacks.client.patch(CLUSTER_STACK_RELEASE, key, {"status": {"resources": planted}}, subresource="status")
    stacks.look_at(stacks.get(CLUSTER_STACK_RELEASE, key.name), resync=True)
    stacks.client.delete(CLUSTER_STACK_RELEASE, key)
    stacks.look_at(stacks.get(CLUSTER_STACK_RELEASE, key.name))
    assert stacks.find(CLUSTER_STACK_RELEASE, key.name) is None
    assert stacks.get(TEMPLATE, "shared") == victim


def test_annotated_release_takes_over_an_object_and_deletes_it_later(stacks: Stacks) -> None:
    stacks.apply(TEMPLATE, "mine", spec={"size": "large"})
    assert release_with(stacks, manifest(TEMPLATE, "mine", spec={"size": "small"}))
    key = Key(stacks.namespace, f"{STACK}-v1")
    stacks.client.patch(CLUSTER_STACK_RELEASE, key, {"metadata": {"annotations": {ADOPT_ANNOTATION: "true"}}})
    stacks.settle()
    assert stacks.get(TEMPLATE, "mine")["spec"] == {"size": "small"}
    assert stacks.condition(stacks.release("v1"), "Ready")["status"] == "True"
    delete(stacks)
    assert stacks.find(TEMPLATE, "mine") is None


@pytest.mark.parametrize("leaving", [True, False], ids=["deleted", "pruned"])
@pytest.mark.parametrize("uid", ["", "own"], ids=["without uid", "with uid"])
@pytest.mark.parametrize(
    ("victim", "resource"),
    [
        pytest.param(manifest(POD, "v", OWNED_BY, spec={"containers": [CONTAINER]}), POD, id="Pod"),
        pytest.param(manifest(SECRET, "v"), SECRET, id="Secret"),
        pytest.param(manifest(TEMPLATE, "v", spec={"size": "large"}), TEMPLATE, id="template"),
        pytest.param(
            manifest(TEMPLATE, "v", {"labels": {OWNED_LABEL: OWNED, MARK: "other-stack-1-36"}}, spec={}),
            TEMPLATE,
            id="template of another stack",
        ),
    ],
)
def test_planted_inventory_deletes_nothing_of_others(
    stacks: Stacks, victim: Object, resource: Resource, uid: str, leaving: bool
) -> None:
    assert release_with(stacks) == ""
    made = stacks.apply(resource, "v", **{name: victim[name] for name in victim if name not in ("apiVersion", "kind")})
    version = made["metadata"]["resourceVersion"]
    planted = {**entry_of(made).dump(), "status": "synced", "hash": "x"}
    planted |= {"uid": made["metadata"]["uid"], "revision": version} if uid else {}
    resources = [*stacks.release("v1")["status"]["resources"], planted]
    key = Key(stacks.namespace, f"{STACK}-v1")
    stacks.client.patch(CLUSTER_STACK_RELEASE, key, {"status": {"resources": resources}}, subresource="status")
    if leaving:
        delete(stacks)
    else:
        stacks.look_at(stacks.release("v1"), resync=True)
    assert stacks.get(resource, "v")["metadata"]["uid"] == made["metadata"]["uid"]
    assert "deletionTimestamp" not in stacks.get(resource, "v")["metadata"]


def test_planted_inventory_overwrites_nothing_of_others(stacks: Stacks) -> None:
    victim = stacks.apply(TEMPLATE, "v", spec={"size": "large"})
    stacks.publish("v1", class_templates=chart("v1", manifest(TEMPLATE, "v", spec={"size": "small"})))
    release = stacks.apply(CLUSTER_STACK_RELEASE, f"{STACK}-v1", spec={})
    planted = [{**entry_of(victim).dump(), "uid": victim["metadata"]["uid"], "status": "synced", "hash": "x"}]
    key = Key(stacks.namespace, f"{STACK}-v1")
    stacks.client.patch(CLUSTER_STACK_RELEASE, key, {"status": {"resources": planted}}, subresource="status")
    stacks.look_at(release)
    assert stacks.get(TEMPLATE, "v") == victim


# -- upgrade -----------------------------------------------------------------------------------------------------


def test_objects_of_an_earlier_version_are_marked_and_later_deleted(stacks: Stacks) -> None:
    assert release_with(stacks) == ""
    key = Key(stacks.namespace, f"{STACK}-v1")
    worker = Key(stacks.namespace, f"{STACK}-v1-worker")
    before = stacks.get(TEMPLATE, worker.name)
    # As an earlier version has applied it: with our field manager and our common label only.
    bare = manifest(TEMPLATE, worker.name, {"namespace": stacks.namespace, **OWNED_BY}, spec=before["spec"])
    earlier = stacks.client.apply(TEMPLATE, bare, manager=MANAGER)
    assert MARK not in earlier["metadata"]["labels"]
    entries = [{**one, "hash": "of-earlier"} for one in stacks.release("v1")["status"]["resources"]]
    stacks.client.patch(CLUSTER_STACK_RELEASE, key, {"status": {"resources": entries}}, subresource="status")
    stacks.look_at(stacks.release("v1"), resync=True)
    now = stacks.get(TEMPLATE, worker.name)
    assert (now["metadata"]["labels"][MARK], now["metadata"]["uid"]) == (STACK, before["metadata"]["uid"])
    assert stacks.condition(stacks.release("v1"), "Ready")["status"] == "True"
    stacks.client.apply(TEMPLATE, bare, manager=MANAGER)
    delete(stacks)
    assert stacks.names(TEMPLATE) == []


# -- references --------------------------------------------------------------------------------------------------


def test_release_deletes_no_object_of_a_kind_that_is_not_a_provider_release(stacks: Stacks) -> None:
    reference = {"apiVersion": TEMPLATE.api_version, "kind": TEMPLATE.kind, "name": "victim"}
    release = stacks.apply(CLUSTER_STACK_RELEASE, f"{STACK}-v1", spec={"providerRef": reference})
    owner = {**{name: release[name] for name in ("apiVersion", "kind")}, "name": release["metadata"]["name"]}
    owner["uid"] = release["metadata"]["uid"]
    victim = stacks.apply(TEMPLATE, "victim", metadata={"ownerReferences": [owner]}, spec={})
    stacks.publish("v1")
    stacks.look_at(release)
    message = stacks.condition(stacks.release("v1"), "ProviderClusterStackReleaseReady")["message"]
    assert "is not a <Provider>ClusterStackRelease" in message
    stacks.delete(CLUSTER_STACK_RELEASE, f"{STACK}-v1")
    stacks.settle()
    assert stacks.find(CLUSTER_STACK_RELEASE, f"{STACK}-v1") is None
    assert stacks.get(TEMPLATE, "victim") == victim
