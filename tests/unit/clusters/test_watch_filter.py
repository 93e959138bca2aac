"""The watch filter: which objects an installation leaves alone, for every function and for the sweep."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from functions.addon_apply.decide import decide
from functions.addon_apply.observe import Observed
from functions.addon_apply.reconciled import is_reconciled
from functions.addon_apply.triggers import TRIGGERS as ADDON_APPLY
from functions.addon_cleanup.triggers import TRIGGERS as CLEANUP
from functions.addon_create.function import Observed as ToCreate
from functions.addon_create.function import decide as create
from functions.addon_create.triggers import TRIGGERS as CREATE
from functions.cluster.triggers import TRIGGERS as OF_CLUSTER
from functions.cluster_stack_release.triggers import TRIGGERS as RELEASES
from functions.kind_cluster.triggers import TRIGGERS as KIND_CLUSTERS
from functions.kubeconfig.triggers import TRIGGERS as KUBECONFIG
from functions.sweep.function import not_covered, not_reconciled
from shared.api.names import ADDON_FINALIZER
from shared.api.resources import CLUSTER, CLUSTER_ADDON, KIND_CLUSTER
from shared.effects import Create, Patch
from shared.event import change_event
from shared.kube import Key, Object, Resource, dig
from shared.triggers import Triggers
from shared.watch_filter import LABEL, SETTING, Filtered

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["f"]}
TOPOLOGY = {"topology": {"classRef": {"name": "docker-ferrol-1-27-v1"}}}
CURRENT = {"observedGeneration": 1, "phase": "Provisioned"}


def obj(resource: Resource, value: str | None, metadata: Object | None = None, **fields: Any) -> Object:
    labels = {} if value is None else {LABEL: value}
    name = "cluster-addon-demo" if resource is CLUSTER_ADDON else "demo"
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": "u",
            "generation": 1,
            "labels": labels,
            **(metadata or {}),
        },
        "spec": {},
        **fields,
    }


@pytest.fixture
def blue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "blue")


def a_cluster(value: str | None, **metadata: Any) -> Object:
    return obj(CLUSTER, value, metadata, spec=TOPOLOGY, status=CURRENT)


FILTERED = [
    pytest.param(OF_CLUSTER, a_cluster, "add", id="cluster"),
    pytest.param(KUBECONFIG, a_cluster, "update", id="kubeconfig"),
    pytest.param(CREATE, a_cluster, "add", id="addon_create"),
    pytest.param(ADDON_APPLY, a_cluster, "update", id="addon_apply"),
    pytest.param(ADDON_APPLY, lambda value: a_cluster(value, **GOING), "delete", id="a deleted Cluster"),
    pytest.param(CLEANUP, lambda value: a_cluster(value, **GOING), "update", id="addon_cleanup"),
    pytest.param(KIND_CLUSTERS, lambda value: obj(KIND_CLUSTER, value), "add", id="kind_cluster"),
]


@pytest.mark.parametrize("value", [None, "green", "", "blue"])
@pytest.mark.parametrize(("triggers", "make", "change"), FILTERED)
@pytest.mark.usefixtures("blue")
def test_only_an_object_with_the_label_starts_a_function(
    triggers: Triggers, make: Any, change: Any, value: str | None
) -> None:
    event = change_event(make(value), change, source="/test")
    assert (triggers.key(event) is not None) == (value == "blue")
    assert triggers.key(event.without_object()) is not None or triggers is KIND_CLUSTERS, "a reference shows no label"


@pytest.mark.parametrize(("triggers", "make", "change"), FILTERED)
def test_without_a_filter_the_label_means_nothing(triggers: Triggers, make: Any, change: Any) -> None:
    assert {triggers.key(change_event(make(value), change, source="/test")) is None for value in (None, "green")} == {
        False
    }


@pytest.mark.usefixtures("blue")
def test_the_label_starts_the_function_and_a_change_of_others_does_not() -> None:
    for triggers in (OF_CLUSTER, KUBECONFIG, CREATE, ADDON_APPLY, CLEANUP):
        watch = next(one for one in triggers.watches if one.resource == CLUSTER)
        assert watch.relevant(a_cluster(None)) != watch.relevant(a_cluster("blue")), triggers.name
        if triggers is not ADDON_APPLY:  # it copies every label
            assert watch.relevant(a_cluster(None)) == watch.relevant(a_cluster("green")), triggers.name


@pytest.mark.parametrize(
    ("triggers", "primary", "admitted"),
    [
        (OF_CLUSTER, a_cluster(None), False),
        (OF_CLUSTER, a_cluster("blue"), True),
        (KUBECONFIG, a_cluster("green", **GOING), False),
        (KIND_CLUSTERS, obj(KIND_CLUSTER, None, GOING), False),
        (KIND_CLUSTERS, obj(KIND_CLUSTER, "blue"), True),
        # Cluster API drops events of HelmReleaseProxies without the label, although their Cluster has it.
        (ADDON_APPLY, obj(CLUSTER_ADDON, None), True),
        (CREATE, obj(CLUSTER_ADDON, None), True),
        (CLEANUP, obj(CLUSTER_ADDON, None), True),
    ],
)
@pytest.mark.usefixtures("blue")
def test_what_is_read_is_filtered_unless_its_cluster_decides(
    triggers: Triggers, primary: Object, *, admitted: bool
) -> None:
    if admitted:
        triggers.require_admitted(primary)
    else:
        with pytest.raises(Filtered, match=rf"{primary['kind']} does not have the label {LABEL}=blue"):
            triggers.require_admitted(primary)


@pytest.mark.usefixtures("blue")
def test_objects_of_a_cluster_need_no_label() -> None:
    """The Cluster that they lead to is read, and decides."""
    assert OF_CLUSTER.key(change_event(obj(KIND_CLUSTER, None), "update", source="/test")) == Key("ns", "demo")
    addon = change_event(obj(CLUSTER_ADDON, None), "update", source="/test")
    assert ADDON_APPLY.key(addon) == Key("ns", "cluster-addon-demo")
    released = change_event(a_cluster(None), "delete", source="/test")
    assert RELEASES.watch(released) is not None
    assert not any(watch.filtered for watch in RELEASES.watches)


@pytest.mark.parametrize("metadata", [{}, GOING], ids=["present", "being deleted"])
@pytest.mark.usefixtures("blue")
def test_sweep_sends_only_clusters_with_the_label(metadata: Object) -> None:
    for value, wanted in ((None, []), ("green", []), ("blue", ["Cluster"])):
        swept = [obj(CLUSTER, value, metadata, spec=TOPOLOGY)]
        assert [one["kind"] for one in not_reconciled(swept, NOW)] == wanted
        assert [one["kind"] for one in not_covered(swept)] == wanted


@pytest.mark.parametrize("value", [None, "blue"])
def test_addon_gets_the_label_of_its_cluster(value: str | None) -> None:
    [effect] = create(ToCreate(Key("ns", "cluster-addon-demo"), None, a_cluster(value)), NOW).effects
    assert isinstance(effect, Create)
    assert dig(effect.body, ("metadata", "labels", LABEL)) == value


@pytest.mark.parametrize(
    ("copied", "value"), [(None, "blue"), ("green", "blue"), ("green", None), ("blue", "blue"), (None, None)]
)
def test_addon_follows_the_label_of_its_cluster(copied: str | None, value: str | None) -> None:
    reference = {"kind": "Cluster", "name": "demo", "uid": "u"}
    owner = {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "name": "demo", "uid": "u"}
    metadata = {"ownerReferences": [owner], "finalizers": [ADDON_FINALIZER]}
    addon = obj(CLUSTER_ADDON, copied, metadata, spec={"clusterRef": reference})
    decision = decide(Observed(addon, a_cluster(value)), NOW)
    patches = [one.patch for one in decision.effects if isinstance(one, Patch)]
    if copied == value:
        assert not any("labels" in dig(patch, "metadata", {}) for patch in patches)
    else:
        assert patches == [{"metadata": {"labels": {LABEL: value}}}]
        assert decision.proceed
        assert not is_reconciled(addon, change_event(a_cluster(value), "update", source="/test"), NOW)
