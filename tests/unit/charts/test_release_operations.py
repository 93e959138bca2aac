"""What the status of a HelmReleaseProxy shows before an operation on its release, and after each of its outcomes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from functions.helm_release_proxy.decide import FAILURE_RETRY, READY_RETRY, decide
from functions.helm_release_proxy.findings import GivenUp, Observed, Removal, Rival, Work
from functions.helm_release_proxy.options import Options
from functions.helm_release_proxy.ownership import policy
from functions.helm_release_proxy.rollout import ReleaseIncomplete, RemoveRelease, Rolled, RollOutRelease
from shared.api.conditions import get_condition
from shared.api.resources import CLUSTER, HELM_RELEASE_PROXY
from shared.applier.connection import ConnectionFailed
from shared.applier.inventory import InventoryEntry, Plan, Step
from shared.applier.outcome import SyncOutcome
from shared.applier.sync import Sync
from shared.charts import Release
from shared.effects import Effect, Patch, Results
from shared.helm_charts.store import StoredChart
from shared.helm_proxies.names import HRP_FINALIZER, INSTALLED
from shared.helm_proxies.release_record import History, ReleaseRecord
from shared.kube import Object, dig
from shared.manifests import Operation
from shared.runtime import Decision
from tests.support import objects

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTER_READY = objects.manifest(CLUSTER, "demo", "ns", status={"initialization": {"controlPlaneInitialized": True}})
CHART = StoredChart("web", "1.1.0", "sha256:0", b"", NOW)
RELEASE = Release("web", "apps")
ENTRY = InventoryEntry("", "v1", "ConfigMap", "apps", "map")
RECORD = ReleaseRecord("web", "apps", 2, "pending-upgrade", {"metadata": {"version": "1.0.0"}}, {}, "a: b")
RECORDED = {"status": "pending-upgrade", "revision": 2}


def proxy(*, finalizers: list[str] | None = None, status: Object | None = None, **spec: Any) -> Object:
    metadata = {"generation": 2, "uid": "u", "finalizers": [HRP_FINALIZER] if finalizers is None else finalizers}
    given = {"chartName": "web", "releaseName": "web", "namespace": "apps", "clusterRef": {"name": "demo"}, **spec}
    return objects.manifest(HELM_RELEASE_PROXY, "web", "ns", metadata=metadata, spec=given, status=status or {})


def work(operation: Operation = "upgrade", *, stored: bool = False, entries: int = 1, **fields: Any) -> Work:
    """Returns work on revision 2, whose record is `stored` or new."""
    steps = tuple(Step({}, replace(ENTRY, name=f"map-{number}"), "apply") for number in range(entries))
    rollout = Sync(cast(Any, None), Plan(steps), {}, policy(RELEASE, Options()))
    history = History(((2, RECORD.status),), RECORD) if stored else History()
    given = {"options": Options(), "attempt": "attempt", "former_digest": "former", **fields}
    return Work(CHART, "digest", history, RECORD, rollout, operation=operation, **given)


def decided(finding: Any, results: Results | None = None, obj: Object | None = None) -> Decision:
    return decide(Observed(obj or proxy(), CLUSTER_READY, finding), NOW, results)


def failed(error: Exception) -> Results:
    return Results(error=error)


def done(finding: Work, outcome: SyncOutcome) -> Results:
    return Results([(cast(Effect, RollOutRelease(finding, NOW)), Rolled(finding.record, outcome))])


def condition(decision: Decision) -> tuple[str, str, str]:
    found = get_condition(dig(decision.status, "conditions", []), "HelmReleaseReady") or {}
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def intent_of(decision: Decision) -> Object:
    (patch,) = [one for one in decision.effects if isinstance(one, Patch) and one.subresource == "status"]
    status: Object = patch.patch["status"]
    return status


def test_a_new_revision_is_recorded_before_it_begins() -> None:
    decision = decided(work(), obj=proxy(finalizers=[]))
    finalizer, intent, operation = decision.effects
    assert isinstance(finalizer, Patch)
    assert finalizer.patch["metadata"]["finalizers"] == [HRP_FINALIZER]
    assert isinstance(operation, RollOutRelease)
    assert operation.now == NOW
    assert isinstance(intent, Patch)
    found = intent_of(decision)
    assert get_condition(found["conditions"], "HelmReleaseReady") == {
        "type": "HelmReleaseReady",
        "status": "False",
        "reason": "HelmReleasePending",
        "message": "release is in state pending-upgrade",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 2,
    }
    assert {name: found[name] for name in found if name not in ("conditions", "resources")} == {
        "status": "pending-upgrade",
        "revision": 2,
        "digest": "digest",
        "recordDigest": RECORD.digest,
        "chartVersion": "1.1.0",
        "failedAttempt": None,
        "formerRecordDigest": "former",
        "observedGeneration": 2,
    }
    assert [one["name"] for one in found["resources"]] == ["map-0"]
    assert (decision.context, decision.message) == ({"cluster": "demo"}, "release web revision 2")


def test_a_resumed_revision_keeps_its_condition() -> None:
    found = intent_of(decided(work(stored=True)))
    assert get_condition(found["conditions"], "HelmReleaseReady") == get_condition(
        dig(decided(GivenUp(CHART)).status, "conditions"), "HelmReleaseReady"
    )
    assert "failedAttempt" not in found


def test_a_check_records_nothing_before_it() -> None:
    assert [type(effect) for effect in decided(work("check", stored=True)).effects] == [RollOutRelease]


def test_a_rollback_keeps_the_failure_in_the_condition() -> None:
    found = intent_of(decided(work("rollback")))
    assert "formerRecordDigest" not in found


def test_an_inventory_that_is_too_large_is_refused() -> None:
    decision = decided(work(entries=20_000))
    assert decision.effects == ()
    assert condition(decision)[:2] == ("False", "HelmInstallOrUpgradeFailed")


@pytest.mark.parametrize("strategy", ["InstallOnce", "Continuous"])
def test_only_a_release_that_is_installed_once_is_marked(strategy: str) -> None:
    decision = decided(work("install"), obj=proxy(reconcileStrategy=strategy))
    marks = [effect.patch for effect in decision.effects if isinstance(effect, Patch) and not effect.subresource]
    assert marks == ([{"metadata": {"annotations": {INSTALLED: "true"}}}] if strategy == "InstallOnce" else [])


@pytest.mark.parametrize(
    ("finding", "outcome", "fields", "events"),
    [
        pytest.param(work(), SyncOutcome((ENTRY,), written=[ENTRY]), {"digest": "digest"}, 1, id="upgraded"),
        pytest.param(work(), SyncOutcome((ENTRY,), pruned=(ENTRY,)), {"digest": "digest"}, 1, id="pruned"),
        pytest.param(work("check"), SyncOutcome((ENTRY,)), {"digest": "digest"}, 0, id="no change"),
        pytest.param(
            work("rollback"),
            SyncOutcome((ENTRY,)),
            {"digest": None, "failedAttempt": "attempt", "formerRecordDigest": None, "chartVersion": "1.0.0"},
            0,
            id="rolled back",
        ),
    ],
)
def test_a_completed_operation_is_reported(finding: Work, outcome: SyncOutcome, fields: Object, events: int) -> None:
    decision = decided(finding, done(finding, outcome))
    status = decision.status or {}
    expected = {"status": "deployed", "revision": 2, "chartVersion": "1.1.0", **fields}
    assert {name: status[name] for name in expected} == expected
    assert [one["name"] for one in status["resources"]] == ["map"]
    assert len([event for event in decision.kubernetes_events if event.reason == "ReleaseDeployed"]) == events
    assert condition(decision)[0] == ("False" if finding.operation == "rollback" else "True")
    assert decision.message == f"release web revision 2: {outcome.summary}"


def test_a_rollback_names_the_failure_and_the_revision() -> None:
    before = decided(work(), failed(ReleaseIncomplete("map is refused", RECORD))).status
    finding = replace(work("rollback"), record=RECORD.rollback(3))
    decision = decided(finding, done(finding, SyncOutcome()), proxy(status=before))
    assert condition(decision) == (
        "False",
        "HelmInstallOrUpgradeFailed",
        "map is refused; rollback to 2 is done",
    )


def test_a_check_of_a_rolled_back_release_stays_failed() -> None:
    before = decided(work(), failed(ReleaseIncomplete("map is refused", RECORD))).status or {}
    finding = work("check", stored=True)
    obj = proxy(status={**before, "failedAttempt": "attempt"})
    decision = decided(finding, done(finding, SyncOutcome()), obj)
    assert condition(decision)[0] == "False"
    assert "digest" not in (decision.status or {})


@pytest.mark.parametrize(
    ("finding", "error", "ready", "fields", "seconds"),
    [
        pytest.param(
            work(),
            ReleaseIncomplete("waiting for map", RECORD, [ENTRY], waiting=True),
            ("False", "HelmReleasePending", "waiting for map"),
            RECORDED,
            READY_RETRY,
            id="waits",
        ),
        pytest.param(
            work(),
            ReleaseIncomplete("refused", RECORD, [ENTRY]),
            ("False", "HelmInstallOrUpgradeFailed", "refused"),
            RECORDED,
            FAILURE_RETRY,
            id="fails",
        ),
        pytest.param(
            work(options=Options(atomic=True)),
            ReleaseIncomplete("refused", RECORD, [ENTRY]),
            ("False", "HelmInstallOrUpgradeFailed", "refused"),
            RECORDED,
            READY_RETRY,
            id="is undone soon",
        ),
        pytest.param(
            work(),
            ReleaseIncomplete("no record"),
            ("False", "HelmInstallOrUpgradeFailed", "no record"),
            {"status": "failed", "revision": None, "digest": None},
            FAILURE_RETRY,
            id="did not begin",
        ),
        pytest.param(
            work("rollback"),
            ReleaseIncomplete("refused", RECORD, [ENTRY]),
            ("False", "HelmInstallOrUpgradeFailed", "the rollback is not complete: refused"),
            RECORDED,
            FAILURE_RETRY,
            id="rollback fails",
        ),
        pytest.param(
            work("rollback"),
            ReleaseIncomplete("waiting", RECORD, [ENTRY], waiting=True),
            ("False", "PreparingToHelmInstall", ""),
            RECORDED,
            READY_RETRY,
            id="rollback waits",
        ),
    ],
)
def test_an_incomplete_operation_is_reported(
    finding: Work, error: ReleaseIncomplete, ready: tuple[str, str, str], fields: Object, seconds: float
) -> None:
    decision = decided(finding, failed(error))
    status = decision.status or {}
    assert condition(decision) == ready
    assert {name: status[name] for name in fields} == fields
    assert ("digest" in status) is (error.entries is None)
    assert [one["name"] for one in status.get("resources", [])] == (["map"] if error.entries else [])
    assert (decision.requeue_after, decision.reports) == (seconds, error)
    assert decision.message == f"release web revision 2: {error}"


REMOVAL = Removal(cast(Any, None), RELEASE, History(), (ENTRY,), (), Options(), "attempt")


@pytest.mark.parametrize("finding", [work(), REMOVAL])
def test_an_unexpected_error_is_left_to_the_runtime(finding: Work | Removal) -> None:
    decision = decided(finding, failed(RuntimeError("x")))
    assert (decision.effects, decision.status, decision.reports) == ((), None, None)


def test_a_failed_installation_is_undone() -> None:
    before = proxy(status=decided(work("install"), failed(ReleaseIncomplete("refused", RECORD))).status)
    first = decided(REMOVAL, obj=before)
    assert intent_of(first)["status"] == "uninstalling"
    assert [type(effect) for effect in first.effects] == [Patch, RemoveRelease]
    stuck = decided(REMOVAL, failed(ReleaseIncomplete("a finalizer", None, [ENTRY])), before)
    assert condition(stuck)[2] == "the failed installation is not undone: a finalizer"
    assert (stuck.requeue_after, [one["name"] for one in dig(stuck.status, "resources")]) == (FAILURE_RETRY, ["map"])
    last = decided(REMOVAL, Results(), before)
    assert condition(last) == ("False", "HelmInstallOrUpgradeFailed", "refused; the installation is undone")
    expected: Object = {
        "status": "uninstalled",
        "revision": None,
        "digest": None,
        "recordDigest": None,
        "resources": [],
    }
    assert {name: (last.status or {})[name] for name in expected} == expected
    assert dig(last.status, "failedAttempt") == "attempt"
    assert last.requeue_after is None


@pytest.mark.parametrize(
    ("observed", "message"),
    [
        (Observed(None), "the HelmReleaseProxy does not exist"),
        (Observed(proxy(), None), "Cluster demo does not exist"),
        (Observed(proxy(), None, ConnectionFailed("not served")), "not served"),
        (Observed(proxy(), CLUSTER_READY), "nothing to do"),
        (
            Observed(proxy(), CLUSTER_READY, Rival("other")),
            "HelmReleaseProxy other installs release web in namespace apps of this cluster, too: give one of the two "
            "HelmReleaseProxies another release name",
        ),
    ],
)
def test_a_decision_says_why_it_does_nothing(observed: Observed, message: str) -> None:
    assert decide(observed, NOW).message == message


def test_entries_have_one_order() -> None:
    finding, entries = work("check", stored=True), (ENTRY, replace(ENTRY, name="a"), replace(ENTRY, kind="Job"))
    found = [
        dig(decided(finding, done(finding, SyncOutcome(order))).status, "resources")
        for order in (entries, tuple(reversed(entries)))
    ]
    assert found[0] == found[1]
