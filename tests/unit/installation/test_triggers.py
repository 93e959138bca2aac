"""Which changes start which function, by the declarations: others, such as a function's own writes, cost no call."""

from __future__ import annotations

from typing import Any

import pytest

from functions import catalog
from functions.addon_apply.triggers import TRIGGERS as ADDON_APPLY
from functions.addon_cleanup.triggers import TRIGGERS as CLEANUP
from functions.addon_create.triggers import TRIGGERS as CREATE
from functions.cluster.triggers import TRIGGERS as OF_CLUSTER
from functions.cluster_stack.triggers import TRIGGERS as STACKS
from functions.cluster_stack_release.triggers import TRIGGERS as RELEASES
from functions.kind_cluster.triggers import TRIGGERS as KIND_CLUSTERS
from functions.kubeconfig.triggers import TRIGGERS as KUBECONFIG
from functions.provider_delete.triggers import TRIGGERS as DELETE
from functions.provider_preflight.triggers import TRIGGERS as PREFLIGHT
from functions.provider_wake.triggers import TRIGGERS as WAKE
from functions.release_assets.triggers import TRIGGERS as ASSETS
from functions.release_prune.triggers import TRIGGERS as PRUNE
from functions.sweep.triggers import TRIGGERS as SWEEP
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.names import STAGE_ANNOTATION
from shared.api.provider import FINALIZER, PROVIDER_LABEL
from shared.api.resources import (
    CLUSTER,
    CLUSTER_ADDON,
    CLUSTER_STACK,
    CLUSTER_STACK_RELEASE,
    KIND_CLUSTER,
    SECRET,
)
from shared.event import PING, Event, change_event, own_event
from shared.kube import Key, Object, Resource
from shared.triggers import Triggers, Watch, annotation, label
from tests.support.provider_objects import READY, provider

DEMO, ADDON, CORE = Key("ns", "demo"), Key("ns", "cluster-addon-demo"), Key("capi-system", "cluster-api")


def obj(resource: Resource, metadata: Object | None = None, **fields: Any) -> Object:
    name = "demo" if resource is CLUSTER else "cluster-addon-demo"
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"namespace": "ns", "name": name, **(metadata or {})},
        "spec": {},
        **fields,
    }


GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
ENDPOINT = {"controlPlaneEndpoint": {"host": "h", "port": 6443}}


@pytest.mark.parametrize(
    ("triggers", "changed", "key"),
    [
        (CLEANUP, obj(CLUSTER_ADDON), None),
        (CLEANUP, obj(CLUSTER_ADDON, spec={"hook": "AfterControlPlaneInitialized"}), None),
        (CLEANUP, obj(CLUSTER_ADDON, spec={"hook": "BeforeClusterDelete"}), ADDON),
        (CLEANUP, obj(CLUSTER), None),
        (CLEANUP, obj(CLUSTER, GOING), ADDON),
        (KUBECONFIG, obj(CLUSTER), None),
        (KUBECONFIG, obj(CLUSTER, spec={"controlPlaneEndpoint": {}}), None),
        (KUBECONFIG, obj(CLUSTER, spec=ENDPOINT), None),
        (KUBECONFIG, obj(CLUSTER, {"generation": 1}, status={"phase": "Pending", "observedGeneration": 1}), DEMO),
        (KUBECONFIG, obj(CLUSTER, {"generation": 2}, status={"phase": "Pending", "observedGeneration": 1}), None),
        (KUBECONFIG, obj(CLUSTER, {"generation": 2}, status={"phase": "Provisioned", "observedGeneration": 1}), DEMO),
        (DELETE, provider(), None),
        (DELETE, provider(metadata=GOING), CORE),
        (WAKE, provider(conditions=[]), None),
        (WAKE, provider(conditions=[READY | {"status": "False"}]), None),
        (WAKE, provider(conditions=[READY]), CORE),
    ],
)
def test_event_is_mapped_to_a_primary_object_by_its_content(
    triggers: Triggers, changed: Object, key: Key | None
) -> None:
    assert triggers.key(change_event(changed, "update", source="/test")) == key


def owner(resource: Resource, name: str = "owner") -> Object:
    return {"ownerReferences": [{"apiVersion": resource.api_version, "kind": resource.kind, "name": name, "uid": "o"}]}


LABEL = {"labels": {"cluster.x-k8s.io/cluster-name": "labelled"}}
CLASS = {"class": "docker-ferrol-1-27-v1"}
INFRA = {"apiGroup": KIND_CLUSTER.group, "kind": KIND_CLUSTER.kind, "name": "infra"}


@pytest.mark.parametrize(
    ("triggers", "changed", "key"),
    [
        pytest.param(ADDON_APPLY, obj(CLUSTER), ADDON, id="the addon of a Cluster"),
        pytest.param(ADDON_APPLY, obj(SECRET, {"name": "demo-kubeconfig"}), ADDON, id="the addon of a kubeconfig"),
        pytest.param(ADDON_APPLY, obj(SECRET, {"name": "demo-ca"}), None, id="no addon of a CA"),
        pytest.param(CREATE, obj(CLUSTER, spec={"topology": CLASS}), ADDON, id="the addon to create"),
        pytest.param(CREATE, obj(CLUSTER, spec={"topology": {"class": "other"}}), None, id="no addon to create"),
        pytest.param(CREATE, obj(CLUSTER), None, id="no class"),
        pytest.param(
            CREATE, obj(CLUSTER, spec={"topology": CLASS, "paused": True}), None, id="none while it is paused"
        ),
        pytest.param(KUBECONFIG, obj(SECRET, {"name": "demo-ca"}), DEMO, id="the Cluster of a CA"),
        pytest.param(KUBECONFIG, obj(SECRET, {"name": "demo-kubeconfig"}), DEMO, id="the Cluster of a kubeconfig"),
        pytest.param(KUBECONFIG, obj(SECRET, {"name": "demo-etcd"}), DEMO, id="the Cluster of a certificate"),
        pytest.param(KUBECONFIG, obj(SECRET, {"name": "demo-other"}), None, id="no Cluster of another Secret"),
        pytest.param(
            OF_CLUSTER, obj(KIND_CLUSTER, {"name": "infra"}), Key("ns", "infra"), id="the Cluster of its name"
        ),
        pytest.param(
            OF_CLUSTER,
            obj(KIND_CLUSTER, {"name": "infra", **LABEL}),
            Key("ns", "labelled"),
            id="the Cluster of its label",
        ),
        pytest.param(
            OF_CLUSTER,
            obj(KIND_CLUSTER, {**LABEL, **owner(CLUSTER)}),
            Key("ns", "owner"),
            id="the Cluster that owns it",
        ),
        pytest.param(
            OF_CLUSTER, obj(KIND_CLUSTER, {**LABEL, **owner(SECRET)}), Key("ns", "labelled"), id="another owner"
        ),
        pytest.param(
            STACKS, obj(CLUSTER_STACK_RELEASE, owner(CLUSTER_STACK)), Key("ns", "owner"), id="the stack of a release"
        ),
        pytest.param(STACKS, obj(CLUSTER_STACK_RELEASE), None, id="a release without owner"),
        pytest.param(
            KIND_CLUSTERS, obj(CLUSTER, spec={"infrastructureRef": INFRA}), Key("ns", "infra"), id="its KINDCluster"
        ),
        pytest.param(
            KIND_CLUSTERS,
            obj(CLUSTER, spec={"infrastructureRef": {**INFRA, "kind": "Other"}}),
            None,
            id="no KINDCluster",
        ),
        pytest.param(KIND_CLUSTERS, obj(CLUSTER), None, id="no infrastructure"),
    ],
)
def test_change_is_mapped_to_the_object_that_it_belongs_to(
    triggers: Triggers, changed: Object, key: Key | None
) -> None:
    assert triggers.key(change_event(changed, "update", source="/test")) == key


@pytest.mark.parametrize(
    ("triggers", "about", "key"),
    [
        (ADDON_APPLY, obj(CLUSTER_ADDON), ADDON),
        (ADDON_APPLY, obj(CLUSTER_STACK_RELEASE, {"name": "r"}), None),
        (RELEASES, obj(CLUSTER_STACK_RELEASE, {"name": "r"}), Key("ns", "r")),
        (RELEASES, obj(CLUSTER_ADDON), None),
    ],
)
def test_fetched_release_is_news_for_who_requested_it(triggers: Triggers, about: Object, key: Key | None) -> None:
    event = own_event("release.fetched", source="/test", subject="r", about=about, data={"release": "r"})
    assert triggers.key(event) == key


@pytest.mark.parametrize(
    ("data", "pruned"), [({"everything": True}, Key("", "everything")), ({"everything": "yes"}, None), ({}, None)]
)
def test_each_tick_sweeps_and_that_of_a_full_resync_prunes(data: Object, pruned: Key | None) -> None:
    event = Event(PING, "/timer", "1", data=data)
    assert (SWEEP.key(event), PRUNE.key(event)) == (Key("", "sweep"), pruned)


@pytest.mark.parametrize("resync", [True, False])
@pytest.mark.parametrize(
    ("triggers", "changed", "key"),
    [
        (CLEANUP, obj(CLUSTER_ADDON), ADDON),
        (CLEANUP, obj(CLUSTER), ADDON),
        (KUBECONFIG, obj(CLUSTER), DEMO),
        (DELETE, provider(), CORE),
        (DELETE, provider(metadata=GOING), CORE),
        (WAKE, provider(conditions=[]), CORE),
        (WAKE, provider(conditions=[READY | {"status": "False"}]), CORE),
        (WAKE, provider(conditions=[READY]), CORE),
    ],
)
def test_reference_is_mapped_to_a_primary_object_whatever_its_content(
    triggers: Triggers, changed: Object, key: Key, resync: bool
) -> None:
    """The sweep sends references."""
    event = change_event(changed, "update", source="/sweep", reference=True, resync=resync)
    assert triggers.key(event) == key


@pytest.mark.parametrize(
    ("triggers", "after", "forwarded"),
    [
        (OF_CLUSTER, obj(CLUSTER, {"finalizers": ["cluster.cluster.x-k8s.io"]}), False),
        (OF_CLUSTER, obj(CLUSTER, {"generation": 2}), True),
        (OF_CLUSTER, obj(CLUSTER, GOING), True),
        (OF_CLUSTER, obj(CLUSTER, status={"phase": "Pending"}), False),
        (KUBECONFIG, obj(CLUSTER, {"finalizers": ["cluster.cluster.x-k8s.io"]}), False),
        (KUBECONFIG, obj(CLUSTER, {"generation": 2}), False),
        (KUBECONFIG, obj(CLUSTER, spec={"topology": {"classRef": {"name": "c"}}}), False),
        (KUBECONFIG, obj(CLUSTER, spec=ENDPOINT), True),
        (KUBECONFIG, obj(CLUSTER, spec={"paused": True}), True),
        (KUBECONFIG, obj(CLUSTER, status={"phase": "Pending"}), True),
        (KUBECONFIG, obj(CLUSTER, status={"conditions": []}), False),
    ],
)
def test_update_of_a_cluster_is_forwarded_only_if_a_watched_field_changes(
    triggers: Triggers, after: Object, forwarded: bool
) -> None:
    [watch] = [watch for watch in triggers.watches if watch.resource is CLUSTER]
    assert (watch.relevant(obj(CLUSTER)) != watch.relevant(after)) is forwarded


AVAILABLE: Object = {"conditions": [{"type": "KubeconfigAvailable", "status": "True"}]}
TO_CONTROL_PLANE: Object = {"controlPlaneRef": {"kind": "K", "name": "n"}}


@pytest.mark.parametrize(
    ("spec", "before", "after", "wakes"),
    [
        pytest.param(ENDPOINT, AVAILABLE, {"infrastructureProvisioned": True}, True, id="infrastructure"),
        pytest.param({}, AVAILABLE, {"infrastructureProvisioned": True}, False, id="no endpoint"),
        pytest.param(ENDPOINT, {}, {"infrastructureProvisioned": True}, False, id="no kubeconfig"),
        pytest.param(
            ENDPOINT | TO_CONTROL_PLANE,
            {},
            {"infrastructureProvisioned": True, "controlPlaneInitialized": True},
            True,
            id="control plane",
        ),
    ],
)
def test_update_that_makes_a_cluster_reachable_wakes_its_probe(
    spec: Object, before: Object, after: Object, wakes: bool
) -> None:
    [watch] = [watch for watch in OF_CLUSTER.watches if watch.resource is CLUSTER]
    found = obj(CLUSTER, spec=spec, status={**before, "initialization": after})
    assert (watch.relevant(obj(CLUSTER, spec=spec, status=before)) != watch.relevant(found)) is wakes


MINE: Object = {"annotations": {"mine": "x"}, "labels": {"mine": "x"}}
PAUSE: Object = {"annotations": {PAUSED_ANNOTATION: ""}}
PROVIDER_TEMPLATE: Object = {"spec": {"providerRef": {"kind": "T", "name": "t"}}}


@pytest.mark.parametrize("name", ["cluster", "kubeconfig", "kind_cluster", "cluster_stack", "cluster_stack_release"])
def test_unrelated_label_or_annotation_is_not_forwarded_but_a_pause_is(name: str) -> None:
    declared = catalog.triggers()[name]
    own = [watch for watch in declared.watches if not watch.reference]
    for watch in own:
        before = watch.relevant(obj(watch.resource))
        assert watch.relevant(obj(watch.resource, MINE)) == before, watch.resource
    primary = own[0]
    assert primary.relevant(obj(primary.resource, PAUSE)) != primary.relevant(obj(primary.resource))


def test_labels_of_a_cluster_stack_matter_where_provider_objects_get_them() -> None:
    watch = catalog.triggers()["cluster_stack"].watches[0]
    before = obj(CLUSTER_STACK, **PROVIDER_TEMPLATE)
    assert watch.relevant(obj(CLUSTER_STACK, MINE, **PROVIDER_TEMPLATE)) != watch.relevant(before)


@pytest.mark.parametrize(
    ("path", "metadata"),
    [(annotation("a.b/c"), {"annotations": {"a.b/c": ""}}), (label("a.b/c"), {"labels": {"a.b/c": "x"}})],
)
def test_one_annotation_or_label_can_be_watched(path: str, metadata: Object) -> None:
    watch = Watch(CLUSTER, fields=(path,))
    assert watch.relevant(obj(CLUSTER, MINE)) == watch.relevant(obj(CLUSTER))
    assert watch.relevant(obj(CLUSTER, metadata)) != watch.relevant(obj(CLUSTER))


@pytest.mark.parametrize(
    ("metadata", "spec", "forwarded"),
    [
        pytest.param({}, {"topology": CLASS}, False, id="nothing"),
        pytest.param({}, {"topology": {"class": "docker-ferrol-1-27-v2"}}, False, id="another class of a stack"),
        pytest.param({}, {"topology": {"class": "other"}}, True, id="a class of no stack"),
        pytest.param({}, {"topology": CLASS, "paused": True}, True, id="paused"),
        pytest.param({"uid": "new"}, {"topology": CLASS}, True, id="another Cluster of its name"),
        pytest.param({"annotations": {"cluster.x-k8s.io/paused": ""}}, {"topology": CLASS}, True, id="annotated"),
        pytest.param({"annotations": {"example.com/note": ""}}, {"topology": CLASS}, False, id="another annotation"),
        pytest.param({}, {"topology": CLASS, **ENDPOINT}, False, id="another field"),
    ],
)
def test_update_of_a_cluster_may_make_it_need_an_addon(metadata: Object, spec: Object, forwarded: bool) -> None:
    [watch] = [watch for watch in CREATE.watches if watch.resource is CLUSTER]
    before, after = obj(CLUSTER, spec={"topology": CLASS}), obj(CLUSTER, metadata, spec=spec)
    assert (watch.relevant(before) != watch.relevant(after)) is forwarded


@pytest.mark.parametrize(
    ("triggers", "metadata", "forwarded"),
    [
        (PREFLIGHT, {"generation": 2}, True),
        (PREFLIGHT, {"annotations": {"capi-functions.dev/wait": "false"}}, True),
        (PREFLIGHT, {"annotations": {"cluster.x-k8s.io/paused": ""}}, True),
        (PREFLIGHT, {"finalizers": [FINALIZER]}, False),
        (DELETE, GOING, True),
        (DELETE, {"annotations": {"capi-functions.dev/force-delete": "true"}}, True),
        (DELETE, {"finalizers": [FINALIZER]}, False),
    ],
)
def test_update_of_a_provider_is_forwarded_only_if_a_watched_field_changes(
    triggers: Triggers, metadata: Object, forwarded: bool
) -> None:
    watch = triggers.watches[0]
    assert (watch.relevant(provider()) != watch.relevant(provider(metadata=metadata))) is forwarded


def test_core_provider_wakes_others_only_when_it_becomes_ready() -> None:
    watch = WAKE.watches[0]
    before, ready = provider(), provider(conditions=[READY])
    upgraded = provider(conditions=[READY, {"type": "ProviderUpgraded", "status": "True"}])
    assert watch.relevant(before) != watch.relevant(ready) == watch.relevant(upgraded)


def test_secrets_and_config_maps_of_provider_components_are_not_watched_as_inputs() -> None:
    selectors = {watch.resource.kind: watch.selector for watch in WAKE.watches}
    assert all(f"!{PROVIDER_LABEL}" in selectors[kind].split(",") for kind in ("Secret", "ConfigMap"))


@pytest.mark.parametrize(
    ("spec", "secrets", "config_maps"),
    [
        ({}, [], []),
        ({"configSecret": {"name": "s"}}, [Key("capi-system", "s")], []),
        ({"configSecret": {"name": "s", "namespace": "other"}}, [Key("other", "s")], []),
        ({"additionalManifests": {"name": "m"}}, [], [Key("capi-system", "m")]),
        ({"fetchConfig": {"url": "https://example.com"}}, [], []),
        ({"fetchConfig": {"selector": {}}}, [], [Key("capi-system", "")]),
        (
            {"additionalManifests": {"name": "m"}, "fetchConfig": {"selector": {}}},
            [],
            [Key("capi-system", "m"), Key("capi-system", "")],
        ),
    ],
    ids=["nothing", "a Secret", "in another namespace", "manifests", "a URL", "any it may select", "both"],
)
def test_inputs_of_a_provider_are_what_it_refers_to(spec: Object, secrets: list[Key], config_maps: list[Key]) -> None:
    referrers = {watch.resource.kind: watch.referenced_by[0] for watch in WAKE.watches if watch.referenced_by}
    found = [list(referrers[kind].references(provider(**spec))) for kind in ("Secret", "ConfigMap")]
    assert found == [secrets, config_maps]


def test_requests_for_a_release_without_an_object_share_one_key_per_release() -> None:
    def key(release: str, namespace: str = "ns", about: Object | None = None) -> Key | None:
        data = {"release": release, "namespace": namespace}
        return ASSETS.key(own_event("release.wanted", source="/test", subject=release, about=about, data=data))

    assert key("r-v1") == key("r-v1")
    assert len({key("r-v1"), key("r-v2"), key("r-v1", "other"), key("r-v1", about=obj(CLUSTER_ADDON))}) == 4
    assert key("r-v1", about=obj(CLUSTER_ADDON)) == ADDON
    assert key("") is None


@pytest.mark.parametrize(
    ("change", "relevant"),
    [
        ({"spec": {"clusterStack": "docker-ferrol-1-27-v1", "version": "v1", "hook": ""}}, False),
        ({"metadata": {"annotations": {STAGE_ANNOTATION: "created"}, "generation": 2}}, False),
        ({"status": {"ready": True}}, False),
        ({"spec": {"hook": "AfterClusterUpgrade"}}, True),
        ({"metadata": {"annotations": {"capi-functions.dev/rollback-from": "docker-ferrol-1-27-v1"}}}, True),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, True),
    ],
)
def test_addon_apply_is_not_started_by_its_own_record(change: Object, relevant: bool) -> None:
    watch = ADDON_APPLY.watches[0]
    before = obj(CLUSTER_ADDON)
    assert (watch.relevant(before) != watch.relevant({**before, **change})) is relevant


@pytest.mark.parametrize(
    ("annotation", "relevant"),
    [("example.com/note", False), ("capi-functions.dev/drift", True), (PAUSED_ANNOTATION, True)],
)
def test_addon_apply_is_started_by_annotations_that_it_reads(annotation: str, relevant: bool) -> None:
    watch = ADDON_APPLY.watches[1]
    before = obj(CLUSTER)
    after = {**before, "metadata": {**before["metadata"], "annotations": {annotation: "1"}}}
    assert (watch.relevant(before) != watch.relevant(after)) is relevant
