"""`provider_delete`, in tables: what blocks a deletion, its order, and what is reported meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from functions.provider_delete.decide import decide
from functions.provider_delete.observe import Observed
from shared.api.conditions import get_condition
from shared.api.provider import FINALIZER, INFRASTRUCTURE
from shared.applier.connection import ClusterConnection
from shared.applier.inventory import InventoryEntry, dump
from shared.applier.outcome import SyncIncomplete, SyncOutcome
from shared.applier.sync import Sync
from shared.clients import ClusterClients
from shared.effects import Delete, RemoveFinalizer
from shared.kube import Object
from shared.runtime import Decision
from tests.support.provider_objects import provider
from tests.support.results import results_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTER = ClusterConnection(cast(ClusterClients, None), {})
CRD = InventoryEntry("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "", "widgets.example.com")
WORKLOAD = InventoryEntry("apps", "v1", "Deployment", "capi-system", "manager")
MACHINE_SET = InventoryEntry("example.com", "v1", "CustomResourceDefinition", "", "no-crd")
FORCED = {"annotations": {"capi-functions.dev/force-delete": "true"}}


def going(**metadata: Any) -> Object:
    return provider(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER], **metadata})


def observed(obj: Object | None = None, **more: Any) -> Observed:
    return Observed(obj or going(), **{"management": CLUSTER, **more})


def condition(decision: Decision | None, type_: str = "Deleting") -> tuple[str, str, str]:
    assert decision is not None
    found = get_condition((decision.status or {})["conditions"], type_) or {}
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def pruned(decision: Decision) -> list[str]:
    [effect] = decision.effects
    assert isinstance(effect, Sync)
    return [entry.kind for entry in effect.plan.prune]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (Observed(None), "nothing to delete"),
        (observed(provider()), "nothing to delete"),
        (observed(management=None), "nothing to delete"),
        (observed(going(annotations={"cluster.x-k8s.io/paused": ""}), inventory=[WORKLOAD]), "paused"),
    ],
    ids=["gone", "not being deleted", "without our finalizer", "paused"],
)
def test_nothing_is_deleted(found: Observed, message: str) -> None:
    decision = decide(found, NOW)
    assert (decision.effects, decision.status, decision.message) == ((), None, message)


OTHERS = [provider(INFRASTRUCTURE, f"infra{number}", "capi") for number in range(6)]


@pytest.mark.parametrize(
    ("found", "reason", "words"),
    [
        (
            observed(custom_resources={"Widget": 2, "Gadget": 1}, inventory=[CRD]),
            "CustomResourcesExist",
            "objects of the provider's kinds exist: 1 Gadget, 2 Widget; delete them, or set the annotation "
            "capi-functions.dev/force-delete: true",
        ),
        (
            observed(others=OTHERS, inventory=[WORKLOAD]),
            "OtherProvidersExist",
            "InfrastructureProvider capi/infra4; delete them first, or set the annotation "
            "capi-functions.dev/force-delete: true",
        ),
        (observed(custom_resources={"Widget": 1}, others=OTHERS), "CustomResourcesExist", "1 Widget"),
    ],
    ids=["custom resources", "other providers", "both"],
)
def test_provider_in_use_is_not_deleted(found: Observed, reason: str, words: str) -> None:
    decision = decide(found, NOW)
    assert condition(decision)[:2] == ("True", reason)
    assert words in condition(decision)[2]
    assert "infra5" not in condition(decision)[2]
    assert (decision.effects, decision.requeue_after) == ((), 20.0)
    assert [(event.reason, event.type) for event in decision.kubernetes_events] == [(reason, "Normal")]


@pytest.mark.parametrize("value", ["false", "yes"])
def test_only_true_forces_a_deletion(value: str) -> None:
    obj = going(annotations={"capi-functions.dev/force-delete": value})
    assert decide(observed(obj, custom_resources={"Widget": 1}, inventory=[CRD]), NOW).effects == ()


ALL, CRDS = ["CustomResourceDefinition", "Deployment"], ["CustomResourceDefinition"]
LONG_AGO, JUST_NOW = NOW - timedelta(minutes=11), NOW - timedelta(minutes=10)


@pytest.mark.parametrize(
    ("found", "kinds"),
    [
        (observed(inventory=[CRD, WORKLOAD]), ALL),
        (observed(going(**FORCED), inventory=[CRD, WORKLOAD]), ALL),
        (observed(going(**FORCED), inventory=[CRD, WORKLOAD], custom_resources={"Widget": 1}), CRDS),
        (
            observed(going(**FORCED), inventory=[CRD, WORKLOAD], custom_resources={"W": 1}, crds_deleted_at=JUST_NOW),
            CRDS,
        ),
        (
            observed(going(**FORCED), inventory=[CRD, WORKLOAD], custom_resources={"W": 1}, crds_deleted_at=LONG_AGO),
            ALL,
        ),
        (
            observed(going(**FORCED), inventory=[MACHINE_SET, WORKLOAD], custom_resources={"W": 1}),
            [],
        ),
    ],
    ids=["not in use", "forced, not in use", "forced", "controllers have time", "controllers had time", "no CRD"],
)
def test_forced_deletion_deletes_crds_while_controllers_run(found: Observed, kinds: list[str]) -> None:
    assert pruned(decide(found, NOW)) == kinds


@pytest.mark.parametrize("forced", [True, False])
def test_only_a_forced_deletion_deletes_crds_with_objects(forced: bool) -> None:
    [effect] = decide(observed(going(**(FORCED if forced else {})), inventory=[CRD]), NOW).effects
    assert isinstance(effect, Sync)
    assert effect.policy.prune_crds is forced
    assert str(effect.policy.owner.mark) == "cluster-api"


def test_finalizer_is_removed_after_the_downloads() -> None:
    download = {"metadata": {"name": "x", "namespace": "capi-system"}}
    decision = decide(observed(downloads=[download]), NOW)
    assert [type(effect) for effect in decision.effects] == [Delete, RemoveFinalizer]


# -- report ------------------------------------------------------------------------------------------------------


def reported_by(found: Observed, outcome: SyncOutcome | None, error: Exception | None = None) -> Decision | None:
    decision = decide(found, NOW)
    results = results_of(decision, {Sync: outcome} if outcome else {}, error)
    reported = decide(found, NOW, results)
    return reported if reported.reports is error else None


FORCING = observed(going(**FORCED), inventory=[CRD, WORKLOAD], custom_resources={"Widget": 1})
LEFT = [InventoryEntry("", "v1", "Secret", "ns", str(number), error="refused") for number in range(4)]


def test_nothing_left_continues_with_the_finalizer() -> None:
    for decision in (
        reported_by(observed(inventory=[WORKLOAD]), SyncOutcome()),
        reported_by(observed(inventory=[WORKLOAD]), None, SyncIncomplete(SyncOutcome())),
    ):
        assert decision is not None
        assert (decision.proceed, (decision.status or {})["resources"]) == (True, None)


def test_objects_left_are_reported_and_deleted_later() -> None:
    decision = reported_by(observed(inventory=[WORKLOAD]), SyncOutcome(tuple(LEFT)))
    assert decision is not None
    assert condition(decision, "ProviderInstalled") == (
        "False",
        "OldComponentsDeletionError",
        "Secret ns/0: refused; Secret ns/1: refused; Secret ns/2: refused",
    )
    assert (decision.proceed, decision.requeue_after) == (False, 10.0)
    assert (decision.status or {})["resources"] == dump(LEFT)
    assert [event.type for event in decision.kubernetes_events] == ["Warning"]


def test_failed_deletions_are_reported_and_repeated() -> None:
    decision = reported_by(observed(inventory=[WORKLOAD]), None, SyncIncomplete(SyncOutcome(tuple(LEFT))))
    assert decision is not None
    assert condition(decision, "ProviderInstalled")[:2] == ("False", "OldComponentsDeletionError")
    assert "4 of 4 objects failed" in condition(decision, "ProviderInstalled")[2]
    assert (decision.status or {})["resources"] == dump(LEFT)


def test_forced_deletion_continues_once_the_crds_are_gone() -> None:
    decision = reported_by(FORCING, SyncOutcome((WORKLOAD,)))
    assert decision is not None
    assert (decision.proceed, (decision.status or {})["resources"]) == (True, dump([WORKLOAD]))


def test_forced_deletion_waits_for_finalizers_of_custom_resources() -> None:
    decision = reported_by(FORCING, None, SyncIncomplete(SyncOutcome((CRD,))))
    assert decision is not None
    assert condition(decision)[:2] == ("True", "CustomResourcesGoing")
    assert "1 Widget" in condition(decision)[2]
    assert (decision.requeue_after, decision.proceed) == (10.0, False)
    assert [(event.reason, event.type) for event in decision.kubernetes_events] == [("CustomResourcesGoing", "Normal")]


def test_decision_without_a_rollout_is_reported_as_it_is() -> None:
    waiting = observed(custom_resources={"Widget": 1})
    assert reported_by(waiting, None) == decide(waiting, NOW)
    assert reported_by(observed(inventory=[WORKLOAD]), None, ValueError("a bug")) is None
