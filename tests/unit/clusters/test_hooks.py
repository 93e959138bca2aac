"""Lifecycle hooks: the protocol, and tables of the response for each state."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.cluster_hooks import protocol
from functions.cluster_hooks.decide import decide
from shared.api.hooks import (
    BEFORE_CLUSTER_DELETE,
    CLEANED_UP,
    CLEANUP_ANNOTATION,
    WAIT_ANNOTATION,
    HookDeadlines,
    HookWait,
)
from shared.kube import Object
from shared.releases.stages import AFTER_CLUSTER_UPGRADE, AFTER_CONTROL_PLANE_INITIALIZED, BEFORE_CLUSTER_UPGRADE

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
DEADLINES = HookDeadlines(timedelta(hours=1), timedelta(minutes=10))
V1, V2 = "test-stack-1-36-v1", "test-stack-1-36-v2"
PREFIX = "/hooks.runtime.cluster.x-k8s.io/v1alpha1"


def cluster(
    name: str | None = V2, *, version: str = "v1.36.3", beta1: bool = False, uid: str = "u", **annotations: str
) -> Object:
    metadata = {"name": "demo", "namespace": "team", "uid": uid, "annotations": annotations}
    topology: Object = {"version": version}
    if name is not None:
        topology |= {"class": name} if beta1 else {"classRef": {"name": name}}
    api = "cluster.x-k8s.io/v1beta1" if beta1 else "cluster.x-k8s.io/v1beta2"
    return {"apiVersion": api, "kind": "Cluster", "metadata": metadata, "spec": {"topology": topology}}


def going(name: str | None = V2, *, deleted: timedelta = timedelta(days=1), **annotations: str) -> Object:
    """The Cluster, being deleted for so long."""
    about = cluster(name, **annotations)
    about["metadata"]["deletionTimestamp"] = (NOW - deleted).strftime("%Y-%m-%dT%H:%M:%SZ")
    return about


def addon(
    applied: str = V1, *, hook: str = "", ready: bool = True, awaited: str = "", message: str = "", cleaned: str = ""
) -> Object:
    conditions = [{"type": "Ready", "status": "False" if message else "True", "message": message}]
    if cleaned:
        conditions.append({"type": CLEANED_UP, "status": cleaned, "message": "two Services"})
    return {
        "metadata": {"name": "cluster-addon-demo", "annotations": {WAIT_ANNOTATION: awaited} if awaited else {}},
        "spec": {"clusterStack": applied, "hook": hook, "clusterRef": {"uid": "u"}},
        "status": {"ready": ready, "conditions": conditions},
    }


def waiting(hook: str, target: str, **since: float) -> str:
    return HookWait(hook, target, NOW - timedelta(**since)).dump()


UPGRADE_V2 = f"{V2}/v1.36.3"
BEGUN = {"metadata": {"annotations": {WAIT_ANNOTATION: waiting(BEFORE_CLUSTER_UPGRADE, UPGRADE_V2)}}}
FORGOTTEN = {"metadata": {"annotations": {WAIT_ANNOTATION: None}}}
ASKED = {"spec": {"hook": BEFORE_CLUSTER_DELETE}}
BEGUN_DELETE = {"metadata": {"annotations": {WAIT_ANNOTATION: waiting(BEFORE_CLUSTER_DELETE, "u")}}}


@pytest.mark.parametrize(
    "hook", [AFTER_CONTROL_PLANE_INITIALIZED, BEFORE_CLUSTER_UPGRADE, AFTER_CLUSTER_UPGRADE, BEFORE_CLUSTER_DELETE]
)
@pytest.mark.parametrize("found", [None, addon()], ids=["none", "of another Cluster"])
def test_cluster_without_addon_is_never_blocked(hook: str, found: Object | None) -> None:
    decision = decide(hook, cluster(uid="another"), found, NOW, DEADLINES)
    assert (decision.outcome, decision.patch, decision.event_suffix) == ("continue", None, "")


@pytest.mark.parametrize(
    ("found", "patch"),
    [
        pytest.param(addon(""), {"spec": {"hook": AFTER_CONTROL_PLANE_INITIALIZED}}, id="never applied"),
        pytest.param(addon("", hook=AFTER_CONTROL_PLANE_INITIALIZED), None, id="asked for already"),
        pytest.param(addon(V1), None, id="applied"),
    ],
)
def test_first_hook_requests_addons_once_and_never_blocks(found: Object, patch: Object | None) -> None:
    decision = decide(AFTER_CONTROL_PLANE_INITIALIZED, cluster(V1), found, NOW, DEADLINES)
    assert (decision.outcome, decision.patch) == ("continue", patch)


@pytest.mark.parametrize(
    ("about", "found", "outcome", "patch"),
    [
        pytest.param(cluster(), addon(V2), "continue", None, id="applied"),
        pytest.param(cluster(beta1=True), addon(V2), "continue", None, id="applied, v1beta1"),
        pytest.param(cluster(beta1=True), addon(V1), "block", BEGUN, id="not applied, v1beta1"),
        pytest.param(cluster(), addon(V1), "block", BEGUN, id="first call"),
        pytest.param(cluster(), addon(""), "block", BEGUN, id="nothing was ever applied"),
        pytest.param(cluster(), addon(V2, ready=False), "block", BEGUN, id="applied, not ready"),
        pytest.param(
            cluster(),
            addon(V1, awaited=waiting(BEFORE_CLUSTER_UPGRADE, UPGRADE_V2, minutes=59)),
            "block",
            None,
            id="begun before",
        ),
        pytest.param(
            cluster(),
            addon(V1, awaited=waiting(BEFORE_CLUSTER_UPGRADE, UPGRADE_V2, minutes=60)),
            "overdue",
            None,
            id="too long",
        ),
        pytest.param(
            cluster(),
            addon(V2, awaited=waiting(BEFORE_CLUSTER_UPGRADE, UPGRADE_V2, days=3)),
            "continue",
            FORGOTTEN,
            id="done at last",
        ),
        pytest.param(
            cluster(),
            addon(V1, awaited=waiting(BEFORE_CLUSTER_UPGRADE, f"{V1}/v1.36.3", days=3)),
            "block",
            BEGUN,
            id="a faulty stack left for another",
        ),
        pytest.param(
            cluster(),
            addon(V1, awaited=waiting(BEFORE_CLUSTER_UPGRADE, f"{V2}/v1.36.2", days=3)),
            "block",
            BEGUN,
            id="other version",
        ),
        pytest.param(
            cluster(),
            addon(V1, awaited=waiting(BEFORE_CLUSTER_DELETE, "u", days=3)),
            "block",
            BEGUN,
            id="another hook's wait",
        ),
        pytest.param(
            cluster(),
            addon(V1, awaited=waiting(BEFORE_CLUSTER_UPGRADE, UPGRADE_V2, days=-999)),
            "block",
            BEGUN,
            id="from the future",
        ),
        pytest.param(cluster(), addon(V1, awaited="yesterday it was"), "block", BEGUN, id="scribbled on"),
        pytest.param(cluster(), addon(V1, awaited="x"), "block", BEGUN, id="scribbled on, one word"),
        pytest.param(cluster("quick-start"), addon(""), "continue", None, id="a class that names no stack"),
        pytest.param(cluster(None), addon(""), "continue", None, id="no class"),
        pytest.param(
            cluster(),
            addon(V1, hook=AFTER_CONTROL_PLANE_INITIALIZED),
            "block",
            BEGUN,
            id="a hook of an earlier stack still set",
        ),
    ],
)
def test_upgrade_is_blocked_until_addons_are_ready_or_overdue(
    about: Object, found: Object, outcome: str, patch: Object | None
) -> None:
    decision = decide(BEFORE_CLUSTER_UPGRADE, about, found, NOW, DEADLINES)
    assert (decision.outcome, decision.patch) == (outcome, patch)
    assert bool(decision.event_suffix) == (outcome == "overdue")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (addon(V1, message="stage cni: no such kind"), f"the addons of {V2} are not ready: stage cni: no such kind"),
        (addon(V1), f"the addons of {V2} are not ready: their rollout has not begun"),
    ],
    ids=["message of the addon", "no message yet"],
)
def test_blocked_upgrade_names_the_obstacle(found: Object, message: str) -> None:
    assert decide(BEFORE_CLUSTER_UPGRADE, cluster(), found, NOW, DEADLINES).message == message


def test_deadline_counts_whatever_the_request_contains() -> None:
    """Spaces in a version must not make each call look like the first."""
    about = cluster(version="v1 36\n3 %20")
    begun = decide(BEFORE_CLUSTER_UPGRADE, about, addon(V1), NOW, DEADLINES).patch
    assert begun is not None
    later = decide(
        BEFORE_CLUSTER_UPGRADE,
        about,
        addon(V1, awaited=begun["metadata"]["annotations"][WAIT_ANNOTATION]),
        NOW,
        DEADLINES,
    )
    assert later.patch is None
    found = addon(V1, awaited=begun["metadata"]["annotations"][WAIT_ANNOTATION])
    assert decide(BEFORE_CLUSTER_UPGRADE, about, found, NOW + timedelta(hours=1), DEADLINES).outcome == "overdue"


@pytest.mark.parametrize(
    ("about", "found", "patch"),
    [
        pytest.param(cluster(V1), addon(V1), {"spec": {"hook": AFTER_CLUSTER_UPGRADE}}, id="asked for"),
        pytest.param(cluster(V1), addon(V1, hook=AFTER_CLUSTER_UPGRADE), None, id="asked for already"),
        pytest.param(
            cluster(V2),
            addon(V1, awaited=waiting(BEFORE_CLUSTER_UPGRADE, UPGRADE_V2, hours=2)),
            {"spec": {"hook": AFTER_CLUSTER_UPGRADE}},
            id="a wait that is recorded stays",
        ),
        pytest.param(cluster("quick-start"), addon(""), None, id="a class that names no stack"),
    ],
)
def test_addons_are_reconciled_again_after_an_upgrade(about: Object, found: Object, patch: Object | None) -> None:
    decision = decide(AFTER_CLUSTER_UPGRADE, about, found, NOW, DEADLINES)
    assert (decision.outcome, decision.patch) == ("continue", patch)


@pytest.mark.parametrize(
    ("about", "found", "outcome", "patch"),
    [
        pytest.param(going(), addon(), "block", ASKED | BEGUN_DELETE, id="first call"),
        pytest.param(
            going(),
            addon(hook=BEFORE_CLUSTER_DELETE, awaited=waiting(BEFORE_CLUSTER_DELETE, "u", minutes=9)),
            "block",
            None,
            id="begun before",
        ),
        pytest.param(
            going(),
            addon(hook=AFTER_CLUSTER_UPGRADE, awaited=waiting(BEFORE_CLUSTER_DELETE, "u", minutes=9)),
            "block",
            ASKED,
            id="unset",
        ),
        pytest.param(
            going(),
            addon(hook=AFTER_CLUSTER_UPGRADE, awaited=waiting(BEFORE_CLUSTER_UPGRADE, UPGRADE_V2, days=1)),
            "block",
            ASKED | BEGUN_DELETE,
            id="in the middle of an upgrade",
        ),
        pytest.param(
            going(),
            addon(hook=BEFORE_CLUSTER_DELETE, awaited=waiting(BEFORE_CLUSTER_DELETE, "u", minutes=10)),
            "overdue",
            None,
            id="too long",
        ),
        pytest.param(
            going(deleted=timedelta(minutes=3)),
            addon(hook=BEFORE_CLUSTER_DELETE, awaited=waiting(BEFORE_CLUSTER_DELETE, "u", minutes=30)),
            "block",
            ASKED | BEGUN_DELETE,
            id="begun before the deletion",
        ),
        pytest.param(going(), addon(hook=BEFORE_CLUSTER_DELETE, cleaned="True"), "continue", None, id="cleaned up"),
        pytest.param(going(**{CLEANUP_ANNOTATION: "false"}), addon(), "continue", None, id="not wanted"),
        pytest.param(going(**{CLEANUP_ANNOTATION: "true"}), addon(), "block", ASKED | BEGUN_DELETE, id="wanted"),
        pytest.param(going("quick-start"), addon(""), "block", ASKED | BEGUN_DELETE, id="whatever the class"),
    ],
)
def test_deletion_is_blocked_until_cleaned_up_or_overdue(
    about: Object, found: Object, outcome: str, patch: Object | None
) -> None:
    decision = decide(BEFORE_CLUSTER_DELETE, about, found, NOW, DEADLINES)
    assert (decision.outcome, decision.patch) == (outcome, patch)


def test_blocked_deletion_names_what_is_left() -> None:
    found = addon(hook=BEFORE_CLUSTER_DELETE, awaited=waiting(BEFORE_CLUSTER_DELETE, "u", minutes=1), cleaned="False")
    assert decide(BEFORE_CLUSTER_DELETE, going(), found, NOW, DEADLINES).message.endswith(": two Services")


@pytest.mark.parametrize(
    ("hook", "about", "outcome"),
    [
        pytest.param(BEFORE_CLUSTER_DELETE, cluster(), "block", id="a deletion that nobody asked for"),
        pytest.param(BEFORE_CLUSTER_UPGRADE, going(), "continue", id="an upgrade of what is being deleted"),
        pytest.param(AFTER_CLUSTER_UPGRADE, going(), "continue", id="after an upgrade of what is being deleted"),
        pytest.param(
            AFTER_CONTROL_PLANE_INITIALIZED, going(), "continue", id="the first addons of what is being deleted"
        ),
        pytest.param(
            BEFORE_CLUSTER_UPGRADE, {**cluster(), "spec": {**cluster()["spec"], "paused": True}}, "block", id="paused"
        ),
        pytest.param(
            BEFORE_CLUSTER_DELETE,
            {**going(), "spec": {**cluster()["spec"], "paused": True}},
            "block",
            id="paused deletion",
        ),
        pytest.param(
            AFTER_CLUSTER_UPGRADE,
            {**cluster(), "spec": {**cluster()["spec"], "paused": True}},
            "continue",
            id="paused, after",
        ),
        pytest.param(BEFORE_CLUSTER_DELETE, None, "continue", id="no such Cluster"),
    ],
)
def test_call_that_contradicts_the_cluster_changes_nothing(hook: str, about: Object | None, outcome: str) -> None:
    for found in (
        addon(V1),
        addon("", hook=BEFORE_CLUSTER_DELETE, awaited=waiting(BEFORE_CLUSTER_DELETE, "u", days=3)),
    ):
        decision = decide(hook, about, found, NOW, DEADLINES)
        assert (decision.outcome, decision.patch, decision.event_suffix) == (outcome, None, "")


@pytest.mark.parametrize(
    ("value", "limit"),
    [("", timedelta(hours=1)), ("90", timedelta(seconds=90)), ("0", timedelta(0)), ("1h", None), ("9" * 30, None)],
)
def test_limits_come_from_the_environment(value: str, limit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_UPGRADE_SECONDS", value)
    if limit is None:
        with pytest.raises(ValueError, match="HOOK_UPGRADE_SECONDS"):
            HookDeadlines.from_env()
    else:
        assert HookDeadlines.from_env() == HookDeadlines(upgrade=limit)


def test_request_that_needs_too_much_memory_is_refused() -> None:
    body = b'{"cluster": {"metadata": {"name": "demo", "namespace": "team"}}, "more": [' + b"{}," * 1_000_000 + b"{}]}"
    with pytest.raises(protocol.BadRequest, match="needs more than 48 MiB of memory"):
        protocol.cluster_of(BEFORE_CLUSTER_DELETE, body)


# -- the protocol ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "hook"),
    [
        (f"{PREFIX}/discovery", "Discovery"),
        (f"{PREFIX}/aftercontrolplaneinitialized/after-control-plane-initialized", AFTER_CONTROL_PLANE_INITIALIZED),
        (f"{PREFIX}/beforeclusterupgrade/before-cluster-upgrade", BEFORE_CLUSTER_UPGRADE),
        (f"{PREFIX}/afterclusterupgrade/after-cluster-upgrade", AFTER_CLUSTER_UPGRADE),
        (f"{PREFIX}/beforeclusterdelete/before-cluster-delete", BEFORE_CLUSTER_DELETE),
        (f"/below/a/prefix{PREFIX}/beforeclusterdelete/before-cluster-delete", BEFORE_CLUSTER_DELETE),
    ],
)
def test_paths_map_to_hooks(path: str, hook: str) -> None:
    assert protocol.hook_at(path) == hook


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/discovery",
        f"{PREFIX}/",
        f"{PREFIX}/discovery/more",
        f"{PREFIX}/beforeclustercreate/before-cluster-create",
        f"{PREFIX}/beforeclusterupgrade",
        f"{PREFIX}/beforeclusterupgrade/another",
        f"{PREFIX}/beforeclusterupgrade/before-cluster-delete",
        "/hooks.runtime.cluster.x-k8s.io/v1beta1/discovery",
    ],
)
def test_unknown_paths_are_rejected(path: str) -> None:
    with pytest.raises(protocol.UnknownHook, match="beforeclusterupgrade"):
        protocol.hook_at(path)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"{}", "metadata.name is None"),
        (b'{"cluster": []}', "metadata.name is None"),
        (b'{"cluster": {"metadata": {"name": "demo"}}}', "metadata.namespace is None"),
        (b'{"cluster": {"metadata": {"name": "../x", "namespace": "team"}}}', "metadata.name is '../x'"),
        (b'{"cluster": {"metadata": {"name": ["demo"], "namespace": "team"}}}', "metadata.name is"),
        (b'{"kind": "BeforeClusterDeleteRequest"}', "kind is 'BeforeClusterDeleteRequest'"),
        (b'{"apiVersion": "v1"}', "apiVersion is 'v1'"),
    ],
)
def test_invalid_requests_name_the_fault(body: bytes, words: str) -> None:
    with pytest.raises(protocol.BadRequest, match=words.replace(".", r"\.")):
        protocol.cluster_of(BEFORE_CLUSTER_UPGRADE, body)


def test_valid_request_yields_its_cluster() -> None:
    body = {
        "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1",
        "kind": "BeforeClusterUpgradeRequest",
        "settings": {"any": "thing"},
        "cluster": cluster(),
        "fromKubernetesVersion": "v1.35.0",
        "toKubernetesVersion": "v1.36.3",
    }
    assert protocol.cluster_of(BEFORE_CLUSTER_UPGRADE, json.dumps(body).encode()) == cluster()


def test_responses_have_the_fields_of_their_hook() -> None:
    api = {"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1"}
    blocked = {"kind": "BeforeClusterUpgradeResponse", "status": "Success", "message": "m", "retryAfterSeconds": 10}
    assert protocol.success(BEFORE_CLUSTER_UPGRADE, "m", 10) == api | blocked
    plain = {"kind": "AfterControlPlaneInitializedResponse", "status": "Success", "message": "m"}
    assert protocol.success(AFTER_CONTROL_PLANE_INITIALIZED, "m") == api | plain, (
        "this hook's response knows no retryAfterSeconds"
    )
    failed = {"kind": "BeforeClusterDeleteResponse", "status": "Failure", "message": "m"}
    assert protocol.failure(BEFORE_CLUSTER_DELETE, "m") == api | failed
    assert protocol.failure("", "m") == {"status": "Failure", "message": "m"}


def test_discovery_lists_handlers_with_failure_policies() -> None:
    found = protocol.discovery()
    assert (found["kind"], found["status"]) == ("DiscoveryResponse", "Success")
    names = [handler["name"] for handler in found["handlers"]]
    assert len(set(names)) == len(names)
    policies = {handler["requestHook"]["hook"]: handler["failurePolicy"] for handler in found["handlers"]}
    assert policies == {
        AFTER_CONTROL_PLANE_INITIALIZED: "Ignore",
        BEFORE_CLUSTER_UPGRADE: "Fail",
        AFTER_CLUSTER_UPGRADE: "Ignore",
        BEFORE_CLUSTER_DELETE: "Fail",
    }
    for handler in found["handlers"]:
        hook = handler["requestHook"]
        assert protocol.hook_at(f"/{hook['apiVersion']}/{hook['hook'].lower()}/{handler['name']}") == hook["hook"]
