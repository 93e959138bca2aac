"""Which changes start which function, by the declarations: others, such as a function's own writes, cost no call."""

from __future__ import annotations

from typing import Any

import pytest

from functions import catalog
from functions.addon_apply.triggers import TRIGGERS as ADDON_APPLY
from functions.addon_cleanup.triggers import TRIGGERS as CLEANUP
from functions.cluster.triggers import TRIGGERS as OF_CLUSTER
from functions.kubeconfig.triggers import TRIGGERS as KUBECONFIG
from functions.provider_delete.triggers import TRIGGERS as DELETE
from functions.provider_preflight.triggers import TRIGGERS as PREFLIGHT
from functions.provider_wake.triggers import TRIGGERS as WAKE
from functions.release_assets.triggers import TRIGGERS as ASSETS
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.names import STAGE_ANNOTATION
from shared.api.provider import FINALIZER, HASH_ANNOTATION, PROVIDER_LABEL
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_STACK
from shared.event import change_event, own_event
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
    ("triggers", "metadata", "forwarded"),
    [
        (PREFLIGHT, {"generation": 2}, True),
        (PREFLIGHT, {"annotations": {"capi-functions.dev/wait": "false"}}, True),
        (PREFLIGHT, {"annotations": {HASH_ANNOTATION: "1"}}, False),
        (PREFLIGHT, {"annotations": {HASH_ANNOTATION: "1", "cluster.x-k8s.io/paused": ""}}, True),
        (PREFLIGHT, {"finalizers": [FINALIZER]}, False),
        (DELETE, GOING, True),
        (DELETE, {"annotations": {"capi-functions.dev/force-delete": "true"}}, True),
        (DELETE, {"annotations": {HASH_ANNOTATION: "1"}}, False),
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
