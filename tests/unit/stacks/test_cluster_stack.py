"""The releases that a ClusterStack selects, and the decisions about it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.cluster_stack.decide import decide
from functions.cluster_stack.deletion import FINALIZER
from functions.cluster_stack.observe import Observed, Rejection, SourceListing
from functions.cluster_stack.provider import CloneTemplate, ProviderTemplate, read_template
from functions.cluster_stack.selection import Selection, select, sort_tags
from functions.cluster_stack.triggers import TRIGGERS, stack_of
from functions.cluster_stack.writes import Attempt
from functions.cluster_stack_release.triggers import TRIGGERS as RELEASE_TRIGGERS
from shared.api.conditions import get_condition
from shared.api.resources import CLUSTER, CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.effects import Create, Delete, Patch, RemoveFinalizer, Results
from shared.event import change_event
from shared.kube import Key, Object
from shared.references import LookupResult
from shared.releases.source_resolution import scope_of
from shared.releases.usage import release_of, users_by_release
from shared.runtime import Decision
from tests.support.reported import reported_by

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPEC: Object = {"provider": "docker", "name": "ferrol", "kubernetesVersion": "1.27", "noProvider": True}
F = "docker-ferrol-1-27-"


# -- selection ---------------------------------------------------------------------------------------------------


def tags(*versions: str) -> tuple[str, ...]:
    return tuple(F + version for version in versions)


@pytest.mark.parametrize(
    ("spec", "owned", "offered", "wanted", "obsolete"),
    [
        pytest.param({}, {}, [], (), (), id="nothing anywhere"),
        pytest.param({}, {}, ["v1"], ("v1",), (), id="first"),
        pytest.param({}, {}, ["v9", "v10", "v2"], ("v10",), (), id="numbers, not words"),
        pytest.param({}, {"v1": True}, ["v1", "v2"], ("v2",), (), id="the newest ready stays until the new one is"),
        pytest.param({}, {"v1": True, "v2": False}, ["v2"], ("v2",), (), id="new one on its way"),
        pytest.param({}, {"v1": True, "v2": True}, ["v2"], ("v2",), ("v1",), id="new one ready"),
        pytest.param({}, {"v9": True, "v10": True}, ["v10"], ("v10",), ("v9",), id="v10 is newer than v9"),
        pytest.param({}, {"v1": False, "v2": False}, ["v3"], ("v3",), ("v1", "v2"), id="overtaken, never ready"),
        pytest.param({}, {"v3": True}, ["v2"], ("v2",), (), id="withdrawn, but the newest ready"),
        pytest.param({}, {"v1": True, "v2": False}, None, (), (), id="not knowing deletes nothing"),
        pytest.param({"versions": ["v1"]}, {}, None, ("v1",), (), id="not knowing still makes what is named"),
        pytest.param({"versions": ["v1"]}, {"v1": True, "v3": True}, ["v3"], ("v1", "v3"), (), id="named"),
        pytest.param({"autoSubscribe": False}, {"v1": True, "v2": True}, None, (), ("v1",), id="no subscription"),
        pytest.param(
            {"autoSubscribe": False, "versions": ["v1"]}, {"v3": False}, None, ("v1",), ("v3",), id="only what is named"
        ),
        pytest.param({}, {}, ["v0-sha-abc", "v1"], ("v1",), (), id="stable only"),
        pytest.param({"channel": "custom"}, {}, ["v0-sha-abc", "v1"], ("v0-sha-abc",), (), id="all but stable"),
        pytest.param({"channel": "custom"}, {}, ["v0-sha.abc"], ("v0-sha-abc",), (), id="in dots"),
        pytest.param(
            {"channel": "custom"},
            {},
            ["v0-sha-b", "v1-sha-a", "v0-git-9", "v0-git-10"],
            ("v0-git-10", "v1-sha-a"),
            (),
            id="the newest of each channel",
        ),
        pytest.param(
            {"channel": "custom", "versions": ["v0-sha.abc"]},
            {"v0-sha-abc": True},
            [],
            ("v0-sha-abc",),
            (),
            id="dots in the spec, dashes in names",
        ),
        pytest.param({"versions": ["v0-sha.a"]}, {}, ["v1"], ("v0-sha-a", "v1"), (), id="named of another channel"),
        pytest.param({}, {"v0-sha-a": True, "v1": True}, ["v1"], ("v1",), ("v0-sha-a",), id="no longer named"),
    ],
)
def test_selection_of_wanted_and_obsolete_releases(
    spec: Object,
    owned: dict[str, bool],
    offered: list[str] | None,
    wanted: tuple[str, ...],
    obsolete: tuple[str, ...],
) -> None:
    found = select(
        SPEC | spec,
        {F + version: ready for version, ready in owned.items()},
        None if offered is None else [F + version for version in offered],
    )
    assert found == Selection(tags(*wanted), tags(*obsolete))


@pytest.mark.parametrize(
    "foreign", ["docker-ferrol-1-28-v9", "docker-other-1-27-v9", "aws-ferrol-1-27-v9", "v9", "", "../..", F + "v9x"]
)
def test_names_of_other_stacks_are_ignored(foreign: str) -> None:
    assert select(SPEC, {}, [foreign, F + "v1"]).desired == tags("v1")


def test_versions_are_sorted_as_numbers_within_channels() -> None:
    assert sort_tags(tags("v10", "v2", "v0-sha-b", "v0-sha-a")) == tags("v0-sha-a", "v0-sha-b", "v2", "v10")


def channels(count: int, number: int = 1) -> list[str]:
    return [f"v{number}-c{channel:05}-x" for channel in range(count)]


@pytest.mark.parametrize(
    ("versions", "owned", "offered", "desired", "obsolete", "left_out"),
    [
        pytest.param([], {}, channels(50), 50, 0, 0, id="as many as there may be"),
        pytest.param([], {}, channels(20_000), 50, 0, 19_950, id="a hostile source"),
        pytest.param(["v0-a.b"], {}, channels(60, 9), 50, 0, 11, id="one is named"),
        pytest.param([f"v{n}" for n in range(100)], {}, [], 50, 0, 50, id="too many are named"),
        pytest.param([], dict.fromkeys(channels(300), True), [], 0, 250, 250, id="too many exist"),
        pytest.param([], dict.fromkeys(channels(60), True), channels(60, 2), 50, 60, 70, id="newer ones are offered"),
    ],
)
def test_number_of_releases_is_limited(
    versions: list[str], owned: dict[str, bool], offered: list[str], desired: int, obsolete: int, left_out: int
) -> None:
    found = select(
        SPEC | {"channel": "custom", "versions": versions},
        {F + version: ready for version, ready in owned.items()},
        [F + version for version in offered],
    )
    assert (len(found.desired), len(found.obsolete), found.left_out) == (desired, obsolete, left_out)
    assert set(tags(*(version.replace(".", "-") for version in versions[-1:]))) <= set(found.desired)


# -- usage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        ({"class": F + "v1"}, Key("ns", F + "v1")),
        ({"classRef": {"name": F + "v0-sha.abc"}}, Key("ns", F + "v0-sha-abc")),
        ({"classRef": {"name": F + "v1", "namespace": "other"}}, Key("other", F + "v1")),
        ({"class": F + "v1", "classNamespace": "other"}, Key("other", F + "v1")),
        ({"class": "quick-start"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_cluster_maps_to_the_release_of_its_class(topology: Any, expected: Key | None) -> None:
    assert release_of({"metadata": {"namespace": "ns", "name": "c"}, "spec": {"topology": topology}}) == expected


def test_users_are_grouped_by_release() -> None:
    def cluster(name: str, class_name: str) -> Object:
        return {"metadata": {"namespace": "ns", "name": name}, "spec": {"topology": {"class": class_name}}}

    clusters = [cluster("a", F + "v1"), cluster("b", "other"), cluster("c", F + "v1"), cluster("d", F + "v2")]
    assert users_by_release(clusters) == {
        Key("ns", F + "v1"): (Key("ns", "a"), Key("ns", "c")),
        Key("ns", F + "v2"): (Key("ns", "d"),),
    }


# -- decisions ---------------------------------------------------------------------------------------------------


def stack(spec: Object | None = None, *, conditions: Any = (), **metadata: Any) -> Object:
    return {
        "apiVersion": CLUSTER_STACK.api_version,
        "kind": "ClusterStack",
        "metadata": {"namespace": "ns", "name": "stack", "uid": "u", "resourceVersion": "1", "finalizers": [FINALIZER]}
        | metadata,
        "spec": SPEC | (spec or {}),
        "status": {"conditions": list(conditions)},
    }


def release(version: str, *conditions: Object, ready: bool = False, **metadata: Any) -> Object:
    return {
        "apiVersion": CLUSTER_STACK_RELEASE.api_version,
        "kind": "ClusterStackRelease",
        "metadata": {"namespace": "ns", "name": F + version, "uid": version, "resourceVersion": "1"} | metadata,
        "spec": {},
        "status": {"ready": ready, "kubernetesVersion": "v1.27.3", "conditions": list(conditions)},
    }


def observed(obj: Object, *releases: Object, offered: list[str] | None = None, **more: Any) -> Observed:
    names = None if offered is None else [F + version for version in offered]
    owned = {r["metadata"]["name"]: r["status"]["ready"] for r in releases}
    base = Observed(obj, releases, SourceListing(names), select(obj["spec"], owned, names))
    return replace(base, **more)


def condition(status: Object | None, type_: str) -> tuple[str, str]:
    found = get_condition((status or {})["conditions"], type_) or {}
    return found.get("status", ""), found.get("reason", "")


def created(decision: Decision) -> list[Create]:
    attempts = [effect.effect for effect in decision.effects if isinstance(effect, Attempt)]
    return [effect for effect in attempts if isinstance(effect, Create)]


def new_condition(type_: str, status: str, reason: str = "") -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": f"{reason}!", "lastTransitionTime": "x"}


def test_deleted_stack_has_no_effects() -> None:
    assert decide(Observed(None), NOW).effects == ()


def test_offered_release_is_created_with_owner_and_finalizer() -> None:
    decision = decide(observed(stack(), offered=["v1"]), NOW)
    [create] = created(decision)
    assert (create.body["apiVersion"], create.body["kind"]) == (
        CLUSTER_STACK_RELEASE.api_version,
        "ClusterStackRelease",
    )
    assert create.body["metadata"] == {
        "namespace": "ns",
        "name": F + "v1",
        "ownerReferences": [
            {"apiVersion": "clusterstack.x-k8s.io/v1alpha1", "kind": "ClusterStack", "name": "stack", "uid": "u"}
        ],
        "finalizers": ["clusterstackrelease.clusterstack.x-k8s.io"],
    }
    assert create.body["spec"] == {}
    assert (decision.status or {})["summary"] == [{"name": "v1", "ready": False, "phase": ""}]
    assert condition(decision.status, "ClusterStackReleaseAvailable") == ("False", "NoReleaseReady")
    assert decision.requeue_after == 300.0


def test_finalizer_is_added_before_releases_are_created() -> None:
    first, *_ = decide(observed(stack(finalizers=["x"]), offered=["v1"]), NOW).effects
    assert isinstance(first, Patch)
    assert first.patch == {"metadata": {"finalizers": ["x", FINALIZER]}}


@pytest.mark.parametrize(
    ("using", "deleted"),
    [
        ({}, [F + "v1"]),
        ({Key("ns", F + "v1"): (Key("ns", "c"),)}, []),
        ({Key("other", F + "v1"): (Key("other", "c"),)}, [F + "v1"]),
    ],
)
def test_obsolete_release_is_deleted_unless_used(using: Any, deleted: list[str]) -> None:
    old, new = release("v1", ready=True), release("v2", ready=True)
    decision = decide(observed(stack(), old, new, offered=["v2"], users=using), NOW)
    found = [e.obj["metadata"]["name"] for e in decision.effects if isinstance(e, Delete)]
    assert found == deleted
    status = decision.status or {}
    assert status["latestRelease"] == f"{F}v2 | v1.27.3"
    assert status["usableVersions"] == ("v2" if deleted else "v1, v2")


def test_release_being_deleted_is_not_deleted_again() -> None:
    old, new = release("v1", ready=True, deletionTimestamp="x"), release("v2", ready=True)
    decision = decide(observed(stack(), old, new, offered=["v2"]), NOW)
    assert decision.effects == ()
    assert (decision.status or {})["summary"][0]["message"] == "being deleted"
    assert (decision.status or {})["usableVersions"] == "v2"


DOWNLOADED, PROVIDED = "ClusterStackReleaseDownloaded", "ProviderClusterStackReleaseReady"


@pytest.mark.parametrize(
    ("conditions", "ready", "phase", "message"),
    [
        ([], False, "", None),
        (
            [new_condition(DOWNLOADED, "False"), new_condition("Ready", "False", "X")],
            False,
            "downloading release assets",
            "X!",
        ),
        ([new_condition(DOWNLOADED, "True"), new_condition(PROVIDED, "False")], False, "provider-specific work", None),
        ([new_condition(DOWNLOADED, "True"), new_condition(PROVIDED, "True")], False, "applying objects", None),
        (
            [new_condition(DOWNLOADED, "True"), new_condition(PROVIDED, "True"), new_condition("Ready", "True")],
            True,
            "done",
            None,
        ),
        ([new_condition(DOWNLOADED, "False"), new_condition("Ready", "False", "X")], True, "done", "X!"),
    ],
)
def test_summary_shows_the_phase_of_each_release(
    conditions: list[Object], ready: bool, phase: str, message: str | None
) -> None:
    decision = decide(observed(stack(), release("v1", *conditions, ready=ready), offered=["v1"]), NOW)
    [line] = (decision.status or {})["summary"]
    assert (line["name"], line["ready"], line["phase"], line.get("message")) == ("v1", ready, phase, message)


@pytest.mark.parametrize(
    ("listing", "failing", "reason"),
    [
        (SourceListing(config_error="no such scheme"), "AssetsClientAPIAvailable", "FailedCreateAssetsClient"),
        (SourceListing(failure="HTTP 500"), "ReleasesSynced", "FailedToSync"),
    ],
)
def test_failing_source_is_a_condition_and_retried(listing: SourceListing, failing: str, reason: str) -> None:
    obj = stack()
    decision = decide(observed(obj, release("v1", ready=True), listing=listing), NOW)
    assert decision.effects == ()
    assert condition(decision.status, failing) == ("False", reason)
    assert decision.requeue_after == 60.0
    assert [event.reason for event in decision.kubernetes_events] == [reason]
    again = decide(observed(obj | {"status": decision.status}, release("v1", ready=True), listing=listing), NOW)
    assert again.kubernetes_events == ()
    assert (again.status or {})["conditions"] == (decision.status or {})["conditions"]
    soon = decide(observed(obj, listing=listing, poll=5.0), NOW)
    assert soon.requeue_after == 5.0


def test_latest_release_lists_each_channel() -> None:
    releases = [release(version, ready=True) for version in ("v0-sha-a", "v0-sha-b", "v3-git-x")]
    offered = ["v0-sha-b", "v3-git-x"]
    status = decide(observed(stack({"channel": "custom"}), *releases, offered=offered), NOW).status or {}
    assert status["latestRelease"] == f"{F}v3-git.x | v1.27.3, {F}v0-sha.b | v1.27.3"


def test_invalid_version_is_a_condition_and_others_are_created() -> None:
    """The CRD rejects such versions; objects from before may have them."""
    decision = decide(observed(stack({"versions": ["v1", "1.2"]}), offered=[]), NOW)
    assert [create.body["metadata"]["name"] for create in created(decision)] == [F + "v1"]
    assert condition(decision.status, "ClusterStackReleasesSynced") == ("False", "FailedToCreateOrUpdate")


def test_objects_with_other_names_are_not_touched() -> None:
    mine = release("v1", ready=True)
    odd = release("v2", ready=True)
    odd["metadata"]["name"] = "odd"
    base = observed(stack(), mine, offered=["v1"])
    assert decide(replace(base, releases=(mine, odd)), NOW).effects == ()


def test_deletion_waits_for_releases() -> None:
    held = release("v1", new_condition("HelmChartDeleted", "False", "in use"), deletionTimestamp="x")
    other = release("v2")
    decision = decide(observed(stack(deletionTimestamp="x"), held, other), NOW)
    assert [e.obj["metadata"]["name"] for e in decision.effects if isinstance(e, Delete)] == [F + "v2"]
    assert decision.requeue_after == 20.0
    reported = get_condition((decision.status or {})["conditions"], "ClusterStackReleasesSynced") or {}
    assert reported["message"] == f"waiting for releases to be deleted: {F}v1 (in use!); {F}v2"
    [last] = decide(observed(stack(deletionTimestamp="x")), NOW).effects
    assert isinstance(last, RemoveFinalizer)
    assert decide(observed(stack(deletionTimestamp="x", finalizers=[])), NOW).effects == ()


def test_paused_stack_is_not_reconciled() -> None:
    ready = new_condition("Ready", "True")
    obj = stack(annotations={"cluster.x-k8s.io/paused": ""}, deletionTimestamp="x", conditions=[ready])
    decision = decide(Observed(obj), NOW)
    assert decision.effects == ()
    assert condition(decision.status, "Paused") == ("True", "")
    assert get_condition((decision.status or {})["conditions"], "Ready") == ready


def test_releases_in_use_leave_less_room_for_new_ones() -> None:
    spec = {"channel": "custom"}
    held = [release(version, ready=True) for version in channels(45)]
    users = {Key("ns", one["metadata"]["name"]): (Key("ns", "c"),) for one in held}
    seen = observed(stack(spec), *held, offered=channels(60, 2), users=users)
    decision = decide(seen, NOW)
    assert len(created(decision)) == 5
    assert not any(isinstance(effect, Delete) for effect in decision.effects)
    status = decision.status or {}
    assert condition(status, "ClusterStackReleasesSynced") == ("False", "TooManyReleases")
    assert len(status["summary"]) == 50
    assert status["usableVersions"].endswith(", and 25 more")
    assert decision.requeue_after == seen.poll


def test_status_of_many_releases_is_short() -> None:
    failed = new_condition("Ready", "False")
    failed["message"] = "m" * 10_000
    held = [release(version, failed) for version in channels(5_000)]
    users = {Key("ns", one["metadata"]["name"]): (Key("ns", "c"),) for one in held}
    decision = decide(observed(stack({"channel": "custom"}), *held, offered=[], users=users), NOW)
    status = decision.status or {}
    assert (len(status["summary"]), status["summary"][-1]["name"]) == (51, "and 4950 more")
    assert len(str(status)) < 50_000
    leaving = decide(observed(stack(deletionTimestamp="x"), *held), NOW)
    assert len(leaving.effects) == 50
    assert "and 4990 more" in str(leaving.status)


# -- reports --------------------------------------------------------------------------------------------------

WELL = {
    "AssetsClientAPIAvailable": "True",
    "ReleasesSynced": "True",
    "ClusterStackReleasesSynced": "True",
    "ClusterStackReleaseAvailable": "True",
}
UNSYNCED = {name: state for name, state in WELL.items() if name not in ("AssetsClientAPIAvailable", "ReleasesSynced")}
PROVIDED_BY = {"noProvider": False, "providerRef": {"kind": "ToyClusterStackReleaseTemplate", "name": "toys"}}


@pytest.mark.parametrize(
    ("spec", "more", "conditions", "events"),
    [
        pytest.param({}, {}, WELL, [], id="all is well"),
        pytest.param(
            {},
            {"listing": SourceListing(config_error="no such scheme")},
            {**UNSYNCED, "AssetsClientAPIAvailable": "False FailedCreateAssetsClient Error"},
            ["Warning FailedCreateAssetsClient"],
            id="source that cannot be requested",
        ),
        pytest.param(
            {},
            {"listing": SourceListing(failure="HTTP 500")},
            {**WELL, "ReleasesSynced": "False FailedToSync Warning"},
            ["Warning FailedToSync"],
            id="source that fails",
        ),
        pytest.param({"autoSubscribe": False, "versions": ["v1"]}, {}, UNSYNCED, [], id="no subscription"),
        pytest.param(
            {"versions": ["1.2"]},
            {},
            {**WELL, "ClusterStackReleasesSynced": "False FailedToCreateOrUpdate Warning"},
            ["Warning FailedToCreateOrUpdate"],
            id="invalid version",
        ),
        pytest.param(
            {},
            {"failure": "no Clusters"},
            {**WELL, "ClusterStackReleasesSynced": "False FailedToCreateOrUpdate Warning"},
            ["Warning FailedToCreateOrUpdate"],
            id="users that cannot be read",
        ),
        pytest.param(
            PROVIDED_BY,
            {"template": LookupResult("absent", "ToyTemplate")},
            {**WELL, "ProviderClusterStackReleasesSynced": "False ProviderTemplateNotFound Error"},
            ["Warning ProviderTemplateNotFound"],
            id="no template",
        ),
        pytest.param(
            PROVIDED_BY,
            {"template": LookupResult("failed", "ToyTemplate", error="not served")},
            {**WELL, "ProviderClusterStackReleasesSynced": "False FailedToCreateOrUpdate Warning"},
            ["Warning FailedToCreateOrUpdate"],
            id="template that cannot be read",
        ),
        pytest.param(
            {},
            {"releases": ()},
            {**WELL, "ClusterStackReleaseAvailable": "False NoReleaseReady Info"},
            ["Normal ClusterStackReleaseCreated"],
            id="no release yet",
        ),
    ],
)
def test_all_that_a_stack_tells(spec: Object, more: Any, conditions: dict[str, str], events: list[str]) -> None:
    obj = stack(spec, conditions=[new_condition("Paused", "True"), new_condition("ReleasesSynced", "True")])
    releases = more.pop("releases") if "releases" in more else (release("v1", ready=True),)
    decision = decide(observed(obj, *releases, **{"offered": ["v1"], **more}), NOW)
    found, reported_events = reported_by(decision)
    assert (found, reported_events) == (conditions, events)


def test_obsolete_release_that_is_deleted_is_reported() -> None:
    old, new = release("v1", ready=True), release("v2", ready=True)
    assert reported_by(decide(observed(stack(), old, new, offered=["v2"]), NOW)) == (
        WELL,
        ["Normal ClusterStackReleaseDeleted"],
    )


def test_kubernetes_version_that_is_not_known_is_shown_as_a_dash() -> None:
    unknown = release("v1", ready=True)
    del unknown["status"]["kubernetesVersion"]
    status = decide(observed(stack(), unknown, offered=["v1"]), NOW).status or {}
    assert status["latestRelease"] == f"{F}v1 | -"


@pytest.mark.parametrize("until", [NOW + timedelta(hours=1), None])
def test_source_that_accepts_no_requests_is_left_alone_until_its_time(until: datetime | None) -> None:
    obj = stack({"sources": [{"url": "https://releases.test"}]})
    listing = SourceListing(failure="HTTP 429", blocked_until=until)
    decision = decide(observed(obj, release("v1", ready=True), listing=listing), NOW)
    held = {"until": "2026-01-01T01:00:00Z", "sources": scope_of(obj), "message": "HTTP 429"}
    assert (decision.status or {})["held"] == (held if until else None)
    assert decision.requeue_after == (3600.0 if until else 60.0)


# -- providers ---------------------------------------------------------------------------------------------------


def template(content: Any = None, kind: str = "ToyClusterStackReleaseTemplate", **metadata: Any) -> LookupResult:
    obj = {
        "apiVersion": "toys/v1",
        "kind": kind,
        "metadata": {"namespace": "ns", "name": "toys"} | metadata,
        "spec": {"template": {"spec": {"a": 1}}} if content is None else content,
    }
    return LookupResult("present", kind, obj)


def test_clone_merges_metadata_of_template_and_stack() -> None:
    content = {"metadata": {"labels": {"a": "template", "b": "template"}}, "spec": {"images": []}}
    obj = stack(
        labels={"a": "stack"},
        annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "stack"},
    )
    plan = read_template(template({"template": content}), obj)
    assert isinstance(plan, ProviderTemplate)
    assert plan.clone(Key("ns", F + "v1"), obj).body == {
        "apiVersion": "toys/v1",
        "kind": "ToyClusterStackRelease",
        "metadata": {
            "namespace": "ns",
            "name": F + "v1",
            "labels": {"a": "stack", "b": "template"},
            "annotations": {"note": "stack"},
        },
        "spec": {"images": []},
    }


@pytest.mark.parametrize(
    ("found", "reason", "words"),
    [
        (LookupResult("unreferenced"), "ProviderTemplateNotFound", "spec.providerRef is needed"),
        (LookupResult("absent", "ToyTemplate"), "ProviderTemplateNotFound", "ToyTemplate toys (spec.providerRef)"),
        (LookupResult("failed", "X", error="not served"), "FailedToCreateOrUpdate", "not served"),
        (template(kind="PodTemplate"), "ProviderTemplateNotFound", "PodTemplate is not a <Provider>"),
        (template(kind="ClusterStackReleaseTemplate"), "ProviderTemplateNotFound", "is not a <Provider>"),
        (template(kind="ToyClusterStackRelease"), "ProviderTemplateNotFound", "is not a <Provider>"),
        (template({}), "ProviderTemplateNotFound", "no spec.template"),
        (template({"template": []}), "ProviderTemplateNotFound", "no spec.template"),
    ],
)
def test_unusable_template_is_a_condition_and_nothing_is_created(found: LookupResult, reason: str, words: str) -> None:
    obj = stack({"noProvider": False, "providerRef": {"kind": "X", "name": "toys"}})
    present = release("v1", ready=True)
    decision = decide(observed(obj, present, offered=["v2"], template=found), NOW)
    assert decision.effects == ()
    assert condition(decision.status, "ProviderClusterStackReleasesSynced") == ("False", reason)
    reported = get_condition((decision.status or {})["conditions"], "ProviderClusterStackReleasesSynced") or {}
    assert words in reported["message"]
    assert decision.requeue_after == 60.0
    assert (decision.status or {})["usableVersions"] == "v1"


def test_provider_objects_are_created_and_updated() -> None:
    obj = stack({"noProvider": False, "providerRef": {"kind": "ToyClusterStackReleaseTemplate", "name": "toys"}})
    mine, without, leaving = release("v1", ready=True), release("v2"), release("v3", deletionTimestamp="x")
    for one in (mine, leaving):
        one["spec"] = {"providerRef": {"kind": "ToyClusterStackRelease"}}
    decision = decide(observed(obj, mine, without, leaving, offered=["v4"], template=template()), NOW)
    attempts = [effect.effect for effect in decision.effects if isinstance(effect, Attempt)]
    clones = [effect.release.name for effect in attempts if isinstance(effect, CloneTemplate)]
    assert clones == [F + "v4", F + "v1"]
    [create] = created(decision)
    assert create.body["spec"]["providerRef"] == {
        "apiVersion": "toys/v1",
        "kind": "ToyClusterStackRelease",
        "namespace": "ns",
        "name": F + "v4",
    }


# -- report ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", ["ClusterStackReleasesSynced", "ProviderClusterStackReleasesSynced"])
def test_rejected_write_is_a_condition(failing: str) -> None:
    obj = stack({"noProvider": False, "providerRef": {"kind": "ToyClusterStackReleaseTemplate", "name": "toys"}})
    seen = observed(obj, offered=["v1"], template=template())
    attempt = Attempt(Delete(CLUSTER_STACK_RELEASE, obj), failing)
    values: tuple[object, ...] = (Rejection(failing, "forbidden"), {}, Rejection(failing, "taken"))
    refused = [(attempt, value) for value in values]
    reported = decide(seen, NOW, Results(refused))
    assert condition(reported.status, failing) == ("False", "FailedToCreateOrUpdate")
    assert (get_condition((reported.status or {})["conditions"], failing) or {})["message"] == "forbidden; taken"
    assert [event.reason for event in reported.kubernetes_events] == ["FailedToCreateOrUpdate"]
    assert reported.requeue_after == 60.0
    # The same again moves no time stamp.
    later = replace(seen, stack=obj | {"status": reported.status})
    again = decide(later, datetime(2027, 1, 1, tzinfo=UTC), Results(refused))
    assert (again.status or {})["conditions"] == (reported.status or {})["conditions"]
    assert again.kubernetes_events == ()


def test_write_that_succeeds_is_reported_as_decided() -> None:
    seen = observed(stack(), offered=["v1"])
    decision = decide(seen, NOW)
    assert decide(seen, NOW, Results([(effect, {}) for effect in decision.effects])) == decision


# -- triggers ----------------------------------------------------------------------------------------------------


def test_release_maps_to_its_owner() -> None:
    owner = {"apiVersion": "clusterstack.x-k8s.io/v1alpha1", "kind": "ClusterStack", "name": "stack", "uid": "u"}
    owned = release("v1", ownerReferences=[owner])
    assert stack_of(owned) == Key("ns", "stack")
    assert TRIGGERS.key(change_event(owned, "update", source="/test")) == Key("ns", "stack")
    assert TRIGGERS.key(change_event(owned, "add", source="/test")) is None
    assert TRIGGERS.key(change_event(owned, "update", source="/test", reference=True)) is None
    assert stack_of(release("v1", ownerReferences=[owner | {"apiVersion": "other/v1"}])) is None


def test_cluster_starts_the_release_of_its_class() -> None:
    """Its deletion ends the wait of a deleted release; the stack looks for users itself."""
    obj: Object = {
        "apiVersion": CLUSTER.api_version,
        "kind": "Cluster",
        "metadata": {"namespace": "ns", "name": "c"},
        "spec": {"topology": {"class": F + "v0-sha.abc"}},
    }
    deleted = change_event(obj, "delete", source="/test")
    assert RELEASE_TRIGGERS.key(deleted) == Key("ns", F + "v0-sha-abc")
    assert TRIGGERS.key(deleted) is None


def test_misconfigured_source_drops_the_condition_of_the_previous_one() -> None:
    obj = stack()
    failing = decide(observed(obj, listing=SourceListing(failure="HTTP 500")), NOW)
    listing = SourceListing(config_error="no such scheme")
    changed = decide(observed(obj | {"status": failing.status}, listing=listing), NOW)
    assert "HTTP 500" not in str(changed.status)
