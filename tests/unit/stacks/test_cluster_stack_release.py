"""Decisions about a ClusterStackRelease, from download to deletion."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from functions.cluster_stack_release.decide import decide
from functions.cluster_stack_release.kinds import refuse
from functions.cluster_stack_release.observe import Assets, Observed, provider_is_ready
from functions.cluster_stack_release.ownership import STACK_LABEL, mark_of, recorded
from functions.cluster_stack_release.reconciled import is_reconciled
from functions.cluster_stack_release.rendering import RenderedClass, render
from functions.cluster_stack_release.triggers import TRIGGERS
from shared.api.conditions import get_condition
from shared.api.resources import CLUSTER_STACK_RELEASE, KIND_CLUSTER
from shared.applier.connection import ClusterConnection
from shared.applier.inventory import InventoryEntry, content_hash
from shared.applier.outcome import SyncIncomplete, SyncOutcome
from shared.applier.owner import Mark
from shared.applier.sync import Sync
from shared.clients import ClusterClients
from shared.effects import Delete, Patch, RemoveFinalizer, Results
from shared.event import change_event, own_event
from shared.kube import Key, Object, Resource
from shared.references import LookupResult
from shared.releases.missing_assets import MissingAssets
from shared.releases.naming import ReleaseName
from shared.releases.usage import FINALIZER
from tests.support.releases import chart
from tests.support.reported import reported_by
from tests.support.results import results_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TAG = "docker-ferrol-1-27-v1"
NAME = ReleaseName.parse(TAG)
CLASS = Resource("cluster.x-k8s.io", "v1beta1", "ClusterClass", "clusterclasses")
HERE = ClusterConnection(cast(ClusterClients, None), {(CLASS.api_version, CLASS.kind): CLASS})
TEMPLATE = "apiVersion: cluster.x-k8s.io/v1beta1\nkind: ClusterClass\nmetadata: {name: '{{ .Release.Name }}-v1'}\n"


def release(*conditions: Object, resources: Any = (), ready: bool = False, **metadata: Any) -> Object:
    return {
        "apiVersion": CLUSTER_STACK_RELEASE.api_version,
        "kind": "ClusterStackRelease",
        "metadata": {"namespace": "ns", "name": TAG, "uid": "u", "resourceVersion": "1", "finalizers": [FINALIZER]}
        | metadata,
        "spec": {"providerRef": {"apiVersion": "toys/v1", "kind": "Toy", "name": TAG}},
        "status": {"conditions": list(conditions), "resources": list(resources), "ready": ready},
    }


ASSETS = Assets("class.tgz", b"", "v1.27.3")


def rendered(template: str = TEMPLATE) -> RenderedClass:
    return render(chart("class", {"class.yaml": template}), "class.tgz", NAME, HERE, "v1.36.3", "ns")


def toy(ready: Any = None, **metadata: Any) -> LookupResult:
    status = {} if ready is None else {"status": {"ready": ready}}
    return LookupResult(
        "present", "Toy", {"metadata": {"namespace": "ns", "name": TAG, "uid": "t"} | metadata} | status, CLASS
    )


def up(**more: Any) -> Observed:
    """A release with all prerequisites."""
    return replace(Observed(release(), NAME, ASSETS, toy(True), HERE, rendered()), **more)


def condition(status: Object | None, type_: str) -> tuple[str, str, str]:
    found = get_condition((status or {})["conditions"], type_) or {}
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def new_condition(type_: str, status: str = "True", reason: str = "") -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": "x"}


def test_deleted_release_has_no_effects() -> None:
    assert decide(Observed(None), NOW).effects == ()


# -- sync -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "reason", "asks", "requeue_after"),
    [
        (MissingAssets(TAG), "ReleaseAssetsNotDownloadedYet", True, 10.0),
        (MissingAssets(TAG, "no such release"), "IssueWithReleaseAssets", True, 60.0),
        (MissingAssets(TAG, "no such release", NOW - timedelta(seconds=5)), "IssueWithReleaseAssets", False, 60.0),
        (MissingAssets(TAG, "no such release", NOW - timedelta(seconds=60)), "IssueWithReleaseAssets", True, 60.0),
    ],
)
def test_missing_assets_are_requested(missing: MissingAssets, reason: str, asks: bool, requeue_after: float) -> None:
    decision = decide(up(assets=missing), NOW)
    assert condition(decision.status, "ClusterStackReleaseDownloaded")[:2] == ("False", reason)
    assert decision.requeue_after == requeue_after
    assert (decision.reply is not None) is asks
    if decision.reply is not None:
        assert decision.reply.type == "dev.capi-functions.release.wanted"
        assert decision.reply.data == {"release": TAG, "namespace": "ns"}
        assert decision.reply.key == Key("ns", TAG)


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (LookupResult("absent", "Toy"), f"Toy {TAG} does not exist yet"),
        (LookupResult("failed", "Toy", error="not served"), f"Toy {TAG}: not served"),
        (toy(), f"Toy {TAG} is not ready yet"),
        (toy(False), f"Toy {TAG} is not ready yet"),
        (toy("true"), f"Toy {TAG} is not ready yet"),
    ],
)
def test_rollout_waits_for_the_provider(provider: LookupResult, words: str) -> None:
    decision = decide(up(provider=provider, management=None), NOW)
    assert condition(decision.status, "ProviderClusterStackReleaseReady") == ("False", "ProcessOngoing", words)
    assert (decision.status or {})["kubernetesVersion"] == "v1.27.3"
    assert "ready" not in (decision.status or {})
    assert decision.requeue_after == 10.0
    assert decision.effects == ()


@pytest.mark.parametrize("provider", [toy(True), LookupResult("unreferenced")])
def test_inventory_is_written_before_the_rollout(provider: LookupResult) -> None:
    first, second, third = decide(up(release=release(finalizers=[]), provider=provider), NOW).effects
    assert isinstance(first, Patch)
    assert first.patch == {"metadata": {"finalizers": [FINALIZER]}}
    assert isinstance(second, Patch)
    status = second.patch["status"]
    assert [(entry["kind"], entry["namespace"], entry["name"]) for entry in status["resources"]] == [
        ("ClusterClass", "ns", "docker-ferrol-1-27-v1")
    ]
    assert condition(status, "HelmChartApplied")[:2] == ("False", "ObjectsApplyingOngoing")
    assert isinstance(third, Sync)
    labels = third.plan.steps[0].obj["metadata"]["labels"]
    assert labels == {"clusterstack.x-k8s.io/instance": "owned", STACK_LABEL: "docker-ferrol-1-27"}
    owner = third.policy.owner
    assert (owner.mark, owner.exclusive, owner.adopts) == (Mark({STACK_LABEL: NAME.stack}), True, False)


def test_nothing_is_applied_if_the_inventory_would_not_fit_into_the_status() -> None:
    former = [{"version": "v1", "kind": "ConfigMap", "namespace": "ns", "name": f"m{number}"} for number in range(7000)]
    decision = decide(up(release=release(resources=former)), NOW)
    assert not [effect for effect in decision.effects if isinstance(effect, Sync)]
    status, reason, message = condition(decision.status, "HelmChartApplied")
    assert (status, reason) == ("False", "TooManyObjects")
    assert "7001 objects" in message
    assert decision.requeue_after == 60.0


def applied() -> Object:
    """The release as it is after a sync of `TEMPLATE`."""
    seen = up()
    decision = decide(seen, NOW)
    sync = decision.effects[-1]
    assert isinstance(sync, Sync)
    [step] = sync.plan.steps
    entry = replace(step.entry, uid="c", hash=content_hash(step.obj), status="synced")
    results = results_of(decision, {Sync: SyncOutcome(entries=(entry,), written=[entry])})
    reported = decide(seen, NOW, results)
    assert [event.reason for event in reported.kubernetes_events] == ["ClusterStackReleaseReady"]
    return release() | {"status": reported.status}


def test_release_is_ready_after_the_rollout() -> None:
    status = applied()["status"]
    assert (status["ready"], status["kubernetesVersion"]) == (True, "v1.27.3")
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "ClusterStackReleaseDownloaded": "True",
        "ProviderClusterStackReleaseReady": "True",
        "HelmChartApplied": "True",
        "Ready": "True",
    }


def test_repeated_rollout_writes_no_status() -> None:
    seen = up(release=applied())
    decision = decide(seen, NOW)
    [sync] = decision.effects
    assert isinstance(sync, Sync)
    assert [step.action for step in sync.plan.steps] == ["verify"]
    outcome = SyncOutcome(entries=tuple(replace(step.entry, status="synced") for step in sync.plan.steps))
    reported = decide(seen, datetime(2027, 1, 1, tzinfo=UTC), results_of(decision, {Sync: outcome}))
    assert reported.status == applied()["status"]
    assert reported.kubernetes_events == ()


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ nope }}", "nope"),
        ("", "renders no objects"),
        (TEMPLATE.replace("{name:", "{namespace: other, name:"), "only objects in ns are allowed"),
        (
            TEMPLATE.replace("ClusterClass", "Nothing"),
            "Nothing.cluster.x-k8s.io docker-ferrol-1-27-v1: class charts must not",
        ),
        (TEMPLATE.replace("v1beta1", "v1alpha4"), "the management cluster does not serve ClusterClass"),
    ],
)
def test_unusable_chart_is_a_condition_and_ready_stays(template: str, words: str) -> None:
    found = rendered(template)
    decision = decide(up(rendered=found, release=release(ready=True)), NOW)
    status, reason, message = condition(decision.status, "HelmChartApplied")
    assert (status, reason) == ("False", "FailedToApplyObjects")
    assert words in message
    assert decision.effects == ()
    assert [event.type for event in decision.kubernetes_events] == ["Warning"]
    assert decision.requeue_after == (20.0 if "does not serve" in words else 60.0)
    assert "ready" not in (decision.status or {}), "what was ready stays usable"
    again = decide(up(rendered=found, release=release() | {"status": decision.status}), NOW)
    assert again.kubernetes_events == ()


def test_partial_rollout_is_a_condition_and_retried() -> None:
    seen = up()
    failed = InventoryEntry("cluster.x-k8s.io", "v1beta1", "ClusterClass", "ns", "a", error="refused")
    results = Results(error=SyncIncomplete(SyncOutcome(entries=(failed,))))
    reported = decide(seen, NOW, results)
    assert reported.reports is results.error
    assert condition(reported.status, "HelmChartApplied")[:2] == ("False", "ObjectsApplyingOngoing")
    assert (reported.status or {})["resources"] == [failed.dump()]
    assert reported.requeue_after == 20.0


def test_other_errors_are_not_reported_as_conditions() -> None:
    seen = up()
    assert decide(seen, NOW, Results(error=ValueError("a bug"))).reports is None


def test_invalid_name_is_a_condition_without_retry() -> None:
    decision = decide(Observed(release()), NOW)
    assert condition(decision.status, "ClusterStackReleaseDownloaded")[:2] == ("False", "IssueWithReleaseAssets")
    assert decision.requeue_after is None


# -- what a class chart may contain ------------------------------------------------------------------------------


def rendered_object(kind: str, api_version: str = "v1", name: str = "a", **content: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}


@pytest.mark.parametrize(
    ("kind", "api_version", "setting", "allowed"),
    [
        ("ClusterClass", "cluster.x-k8s.io/v1beta2", "", True),
        ("ClusterClass", "example.com/v1", "", False),
        ("Cluster", "cluster.x-k8s.io/v1beta2", "", False),
        ("ToyMachineTemplate", "infrastructure.cluster.x-k8s.io/v1", "", True),
        ("ToyMachine", "infrastructure.cluster.x-k8s.io/v1", "", False),
        ("KubeadmControlPlaneTemplate", "controlplane.cluster.x-k8s.io/v1beta2", "", True),
        ("KubeadmControlPlane", "controlplane.cluster.x-k8s.io/v1beta2", "", False),
        ("KubeadmConfigTemplate", "bootstrap.cluster.x-k8s.io/v1beta2", "", True),
        ("ToyTemplate", "contract.example.com/v1", "", True),
        ("ToyTemplate", "other.example.com/v1", "", False),
        ("PodTemplate", "v1", "", False),
        ("Pod", "v1", "", False),
        ("Pod", "v1", "Job.batch Pod", True),
        ("Pod", "v1", "Job.batch,Pod", True),
        ("Pod", "v1", "Pod.batch", False),
        ("Job", "batch/v1", "Job", False),
        ("ConfigMap", "v1", "", False),
        ("ConfigMap", "v1", "ConfigMap", True),
    ],
)
def test_kinds_of_a_class_chart(
    monkeypatch: pytest.MonkeyPatch, kind: str, api_version: str, setting: str, allowed: bool
) -> None:
    monkeypatch.setenv("CLASS_CHART_KINDS", setting)
    problem = refuse(
        [rendered_object(kind, api_version)], NAME.stack, lambda version, _: version == "contract.example.com/v1"
    )
    assert (problem == "") is allowed
    assert allowed or f"{kind}{'.' if '/' in api_version else ''}{api_version.rpartition('/')[0]} a: " in problem


def test_few_of_many_refused_objects_are_named() -> None:
    problem = refuse([rendered_object("Pod", name=f"p{n}") for n in range(500)], NAME.stack, lambda *_: False)
    assert "Pod p4: " in problem
    assert "; and 495 more. Nothing of the chart is applied" in problem
    assert "CLASS_CHART_KINDS=Pod (in a cluster: ConfigMap or Secret capi-functions-classes" in problem


@pytest.mark.parametrize(
    ("text", "refers"),
    [
        ({"name": f"{NAME.stack}-cloud"}, True),
        (f"contentFrom:\n  secret: {{name: {NAME.stack}-cloud}}", True),
        ({"name": f"{NAME.stack}-cloud-2"}, False),
        ({"name": f"x{NAME.stack}-cloud"}, False),
        ({"name": "cloud"}, False),
    ],
)
def test_secret_is_allowed_if_a_template_refers_to_it_by_name(text: object, refers: bool) -> None:
    template = rendered_object("ToyTemplate", "infrastructure.cluster.x-k8s.io/v1", spec={"a": [text]})
    secret = rendered_object("Secret", name=f"{NAME.stack}-cloud")
    assert (refuse([template, secret], NAME.stack, lambda *_: False) == "") is refers


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param({}, {("c", "1"), ("cso", "")}, id="alone"),
        pytest.param({"docker-ferrol-1-27-v2": ["d"]}, {("c", "1"), ("cso", ""), ("d", "1")}, id="of the same stack"),
        pytest.param({"docker-ferrol-1-28-v1": ["c", "d"]}, {("cso", "")}, id="of another stack"),
        pytest.param({"whatever": ["c"]}, {("cso", "")}, id="of no stack"),
    ],
)
def test_objects_of_an_inventory_are_those_that_the_stack_has_applied(
    others: dict[str, list[str]], expected: set[tuple[str, str]]
) -> None:
    def entry(name: str, **fields: str) -> Object:
        return InventoryEntry("cluster.x-k8s.io", "v1beta1", "ClusterClass", "ns", name, **fields).dump()

    entries = [entry("c", uid="1"), entry("cso", status="synced"), entry("intent", error="it exists")]
    pod = InventoryEntry("", "v1", "Pod", "ns", "p", uid="1").dump()
    away = InventoryEntry("cluster.x-k8s.io", "v1beta1", "ClusterClass", "other", "c", uid="1").dump()
    ours = release(resources=[*entries, pod, away])
    siblings = [release(name=name, resources=[entry(one, uid="1") for one in held]) for name, held in others.items()]
    assert {(who.name, uid) for who, uid in recorded(ours, siblings, NAME)} == expected


def test_mark_of_a_stack_with_a_long_name_is_a_valid_label() -> None:
    long, other = (mark_of(replace(NAME, name=letter * 63)) for letter in "ab")
    assert len(long) == len(other) == 63
    assert long != other
    assert mark_of(NAME) == "docker-ferrol-1-27"


# -- deletion ----------------------------------------------------------------------------------------------------

ENTRY = InventoryEntry("cluster.x-k8s.io", "v1beta1", "ClusterClass", "ns", TAG, uid="c", hash="h", status="synced")


def down(**more: Any) -> Observed:
    leaving = release(resources=[ENTRY.dump()], deletionTimestamp="x")
    return replace(Observed(leaving, NAME, provider=LookupResult("absent"), management=HERE), **more)


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "the ClusterClass of the release is in use by Cluster ns/c0"),
        (7, "ns/c0, ns/c1, ns/c2, ns/c3, ns/c4, and 2 more"),
    ],
)
def test_used_release_is_not_deleted(count: int, words: str) -> None:
    decision = decide(down(users=tuple(Key("ns", f"c{n}") for n in range(count))), NOW)
    assert decision.effects == ()
    status, reason, message = condition(decision.status, "HelmChartDeleted")
    assert (status, reason) == ("False", "ClusterClassInUse")
    assert words in message
    assert decision.requeue_after == 60.0


OWNED = {"ownerReferences": [{"uid": "u"}]}


@pytest.mark.parametrize(
    ("provider", "effects", "waits"),
    [
        (LookupResult("unreferenced"), [Sync, RemoveFinalizer], False),
        (LookupResult("absent", "Toy"), [Sync, RemoveFinalizer], False),
        (toy(), [Sync, RemoveFinalizer], False),
        (toy(**OWNED), [Sync, Delete], True),
        (toy(**OWNED, deletionTimestamp="x"), [Sync], True),
        (LookupResult("failed", "Toy", error="HTTP 500"), [Sync], True),
    ],
)
def test_deletion_prunes_objects_then_provider_then_finalizer(
    provider: LookupResult, effects: list[type], waits: bool
) -> None:
    decision = decide(down(provider=provider), NOW)
    assert [type(effect) for effect in decision.effects] == effects
    sync = decision.effects[0]
    assert isinstance(sync, Sync)
    assert (sync.plan.steps, sync.plan.prune) == ((), (ENTRY,))
    assert (decision.requeue_after is not None) is waits
    if waits:
        assert condition(decision.status, "ProviderClusterStackReleaseReady")[:2] == ("False", "Deleting")


def test_objects_of_other_releases_are_not_pruned() -> None:
    [only] = decide(down(claimed=frozenset({ENTRY.identity})), NOW).effects
    assert isinstance(only, RemoveFinalizer)


def test_pruned_objects_leave_the_inventory() -> None:
    seen = down(provider=toy(**OWNED))
    decision = decide(seen, NOW)
    reported = decide(seen, NOW, results_of(decision, {Sync: SyncOutcome(pruned=(ENTRY,))}))
    assert (reported.status or {})["resources"] == []
    assert condition(reported.status, "ProviderClusterStackReleaseReady")[1] == "Deleting"


def test_failed_pruning_is_a_condition_and_retried() -> None:
    seen = down()
    stuck = replace(ENTRY, status="not-synced", error="not pruned: forbidden")
    results = Results(error=SyncIncomplete(SyncOutcome(entries=(stuck,))))
    reported = decide(seen, NOW, results)
    assert reported.reports is results.error
    status, reason, message = condition(reported.status, "HelmChartDeleted")
    assert (status, reason) == ("False", "FailedToDeleteObjects")
    assert "forbidden" in message
    assert reported.requeue_after == 20.0


def test_deletion_without_our_finalizer_has_no_effects() -> None:
    assert decide(down(release=release(deletionTimestamp="x", finalizers=["other"])), NOW).effects == ()


# -- reports --------------------------------------------------------------------------------------------------

STORED = {"ClusterStackReleaseDownloaded": "True"}
PROVIDED = {**STORED, "ProviderClusterStackReleaseReady": "True"}
FAILED = SyncIncomplete(SyncOutcome(entries=(replace(ENTRY, error="refused"),)))


@pytest.mark.parametrize(
    ("seen", "error", "conditions", "events"),
    [
        pytest.param(
            Observed(release()),
            None,
            {"ClusterStackReleaseDownloaded": "False IssueWithReleaseAssets Error"},
            ["Warning IssueWithReleaseAssets"],
            id="name that is none of a release",
        ),
        pytest.param(
            up(assets=MissingAssets(TAG)),
            None,
            {"ClusterStackReleaseDownloaded": "False ReleaseAssetsNotDownloadedYet Info"},
            [],
            id="release not fetched yet",
        ),
        pytest.param(
            up(assets=MissingAssets(TAG, "no such release")),
            None,
            {"ClusterStackReleaseDownloaded": "False IssueWithReleaseAssets Error"},
            ["Warning IssueWithReleaseAssets"],
            id="release that cannot be fetched",
        ),
        pytest.param(
            up(provider=toy(False), management=None),
            None,
            {**STORED, "ProviderClusterStackReleaseReady": "False ProcessOngoing Info"},
            [],
            id="provider that is not ready",
        ),
        pytest.param(
            up(rendered=rendered("{{ nope }}")),
            None,
            {**PROVIDED, "HelmChartApplied": "False FailedToApplyObjects Error"},
            ["Warning FailedToApplyObjects"],
            id="chart that cannot be rendered",
        ),
        pytest.param(
            up(),
            FAILED,
            {**PROVIDED, "HelmChartApplied": "False ObjectsApplyingOngoing Warning"},
            ["Warning ObjectsApplyingOngoing"],
            id="objects that cannot be applied",
        ),
        pytest.param(
            down(management=None, failure="no Clusters"),
            None,
            {"HelmChartDeleted": "False ClustersNotReadable Error"},
            ["Warning ClustersNotReadable"],
            id="users that cannot be read",
        ),
        pytest.param(
            down(users=(Key("ns", "c"),)), None, {"HelmChartDeleted": "False ClusterClassInUse Info"}, [], id="used"
        ),
        pytest.param(
            down(provider=toy(**OWNED)),
            None,
            {"ProviderClusterStackReleaseReady": "False Deleting Info"},
            [],
            id="provider's object that is being deleted",
        ),
        pytest.param(
            down(),
            FAILED,
            {"HelmChartDeleted": "False FailedToDeleteObjects Warning"},
            ["Warning FailedToDeleteObjects"],
            id="objects that cannot be deleted",
        ),
    ],
)
@pytest.mark.parametrize("resumed", [False, True], ids=["", "after a pause"])
def test_all_that_a_release_tells(
    seen: Observed, error: Exception | None, conditions: dict[str, str], events: list[str], resumed: bool
) -> None:
    if resumed:
        status = {"conditions": [new_condition("Paused")], "resources": [ENTRY.dump()] if error else []}
        seen = replace(seen, release={**(seen.release or {}), "status": status})
    decision = decide(seen, NOW, Results(error=error) if error else None)
    assert reported_by(decision) == (conditions, events)


def test_pause_is_over_once_the_rollout_is_reported() -> None:
    seen = up(release=release(new_condition("Paused")))
    decision = decide(seen, NOW)
    reported = decide(seen, NOW, results_of(decision, {Sync: SyncOutcome()}))
    assert reported_by(reported) == ({**PROVIDED, "HelmChartApplied": "True"}, ["Normal ClusterStackReleaseReady"])


# -- nothing to do -----------------------------------------------------------------------------------------------

PAUSED = {"annotations": {"cluster.x-k8s.io/paused": "true"}}


DONE = applied()


def done(*without: str, **metadata: Any) -> Object:
    """Returns the release after its sync, without some of its conditions."""
    conditions = [one for one in DONE["status"]["conditions"] if one["type"] not in without]
    return {
        **DONE,
        "metadata": {**DONE["metadata"], **metadata},
        "status": {**DONE["status"], "conditions": conditions},
    }


def paused(*conditions: Object) -> Object:
    obj = release(*conditions, **PAUSED)
    return obj | {"status": decide(Observed(obj), NOW).status}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (done(), True),
        (done("Ready"), False),
        (done("ClusterStackReleaseDownloaded"), False),
        (done("ProviderClusterStackReleaseReady"), False),
        (done("HelmChartApplied"), False),
        (done() | {"status": {**DONE["status"], "ready": False}}, False),
        (done(finalizers=[]), False),
        (release(), False),
        (done(deletionTimestamp="x"), False),
        (release(deletionTimestamp="x", finalizers=[]), True),
        (done(**PAUSED), False),
        (paused(), True),
        ({**paused(), "metadata": done()["metadata"]}, False),
    ],
)
def test_release_is_reconciled_once_its_rollout_or_its_pause_is_reported(obj: Object, expected: bool) -> None:
    assert is_reconciled(obj, change_event(obj, "update", source="/test"), NOW) is expected


def test_fetched_event_maps_to_the_requesting_release() -> None:
    for about, expected in ((release(), Key("ns", TAG)), ({"kind": "ClusterAddon"}, None)):
        event = own_event("release.fetched", source="/test", subject=TAG, about=about, data={"release": TAG})
        assert TRIGGERS.key(event) == expected
    other: Object = {"apiVersion": KIND_CLUSTER.api_version, "kind": "KINDCluster", "metadata": {"name": "x"}}
    assert TRIGGERS.key(change_event(other, "update", source="/test")) is None


def test_deletion_waits_until_the_users_are_known() -> None:
    decision = decide(down(management=None, failure="no answer"), NOW)
    found = next(each for each in (decision.status or {})["conditions"] if each["reason"] == "ClustersNotReadable")
    assert (found["status"], found["severity"]) == ("False", "Error")
    assert "no answer" in found["message"]
    assert decision.effects == ()
    assert decision.requeue_after is not None


@pytest.mark.parametrize(
    ("provider", "expected"),
    [(LookupResult("unreferenced"), True), (toy(True), True), (toy(False), False), (LookupResult("absent"), False)],
    ids=["needs none", "ready", "not ready", "absent"],
)
def test_release_needs_a_ready_object_of_its_provider(provider: LookupResult, expected: bool) -> None:
    assert provider_is_ready(provider) is expected
