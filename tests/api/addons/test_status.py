"""A ClusterAddon's status is about the Cluster's present release only, whatever was rolled out before: conditions,
`Ready`, the columns of `kubectl get`, the inventory, and events.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from functions.addon_apply import unreconciled
from shared.api.core import core_state
from shared.api.resources import CLUSTER, CLUSTER_ADDON, EVENT, POD
from shared.applier.policy import PREFIX
from shared.event import PING, Event, change_event
from shared.kube import Key, Object, dig, key_of
from tests.support import objects
from tests.support.api_proxy import Proxy, answering
from tests.support.demo_cluster import ADDON
from tests.support.event_receiver import EventReceiver
from tests.support.objects import printed_rows
from tests.support.releases import STACK, write_release, write_stages
from tests.support.world import World

STAGES = """
  AfterControlPlaneInitialized: &stages
    - {name: cni}
    - name: csi
      waitForPreCondition:
        objects: [{key: a, apiVersion: v1, kind: ConfigMap, name: %s, namespace: %s}]
        conditions: %s
  BeforeClusterUpgrade: *stages
"""

# -- releases, good and bad: each function writes one, and returns the expected reason and words of its status ------

Expected = tuple[str, str]


def good(world: World, version: str) -> Expected:
    write_release(world.releases, version, [world.map("a", version), world.map(f"only-{version}")])
    return "", ""


def chart_error(world: World, version: str) -> Expected:
    write_release(world.releases, version, templates={"bad.yaml": '{{ fail "broken on purpose" }}'})
    return "TemplateNewClusterStackFailed", "broken on purpose"


def bad_values(world: World, version: str) -> Expected:
    write_release(world.releases, version, [world.map("a")], values="k: {{ .Cluster.metadata.name")
    return "TemplateNewClusterStackFailed", "cluster-addon-values.yaml"


def unknown_kind(world: World, version: str) -> Expected:
    widget = {"apiVersion": "toys.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    write_release(world.releases, version, [world.map("a", version), widget])
    return "FailedToApplyObjects", "Widget"


def refused_object(world: World, version: str) -> Expected:
    refused = {**world.map(f"refused-{version}"), "data": {"k": 1}}
    write_release(world.releases, version, [world.map("a", version), refused])
    return "FailedToApplyObjects", f"refused-{version}"


def never_ready(world: World, version: str) -> Expected:
    web = world.deployment()
    web["metadata"]["annotations"] = {"version": version}
    write_release(world.releases, version, [world.map("a", version), web])
    return "WaitingForObjects", "Deployment"


def hook_never_ends(world: World, version: str) -> Expected:
    hook = world.job("before", annotations={"helm.sh/hook": "pre-install,pre-upgrade"})
    write_release(world.releases, version, [world.map("a", version), hook])
    return "ObjectsApplyingOngoing", "Job"


def missing(_world: World, version: str) -> Expected:
    return "IssueWithReleaseAssets", f"{STACK}-{version}"


def incomplete(world: World, version: str) -> Expected:
    name = write_release(world.releases, version, [world.map("a")])
    (world.releases / name / f"{STACK}-cluster-addon-{version}.tgz").unlink()
    return "IssueWithReleaseAssets", "missing"


def bad_config(world: World, version: str) -> Expected:
    write_stages(world.releases, version, "  Whenever: [{name: cni}]", {"cni": [world.map("a")]})
    return "ParsingClusterAddonConfigFailed", "Whenever"


def staged(world: World, version: str, name: str, expression: str) -> None:
    charts = {"cni": [world.map("a", version)], "csi": [world.map("store", version)]}
    write_stages(world.releases, version, STAGES % (name, world.namespace, expression), charts)


def bad_expression(world: World, version: str) -> Expected:
    staged(world, version, "a", "a.data.k + 1")
    return "FailedToEvaluatePreCondition", "stage csi"


def stage_waits(world: World, version: str) -> Expected:
    staged(world, version, "nowhere", 'a.data.k == "1"')
    return "FailedToEvaluatePreCondition", "nowhere"


BAD = (
    chart_error,
    bad_values,
    unknown_kind,
    refused_object,
    never_ready,
    hook_never_ends,
    missing,
    incomplete,
    bad_config,
    bad_expression,
    stage_waits,
)
KINDS: tuple[Callable[[World, str], Expected], ...] = (*BAD, *BAD[:4], *[good] * 5)
"""The kinds of the twenty releases."""

# -- other failures: each lasts only as long as its cause ---------------------------------------------------------


@dataclass
class Story:
    """One Cluster that goes through several releases, with the expected status of each."""

    world: World
    expected: dict[str, Expected] = field(default_factory=dict)
    class_name: str = ""
    path: list[str] = field(default_factory=list)

    def write(self, kinds: list[Callable[[World, str], Expected]]) -> None:
        for number, kind in enumerate(kinds, start=11):  # no name begins with another one
            self.expected[f"{STACK}-v{number}"] = kind(self.world, f"v{number}")

    def go_to(self, class_name: str, *, paused: bool = False, policy: dict[str, str] | None = None) -> None:
        self.class_name = class_name
        self.path.append(f"{class_name}{' paused' if paused else ''}{policy or ''}")
        self.world.cluster(class_name, paused=paused, policy=policy)
        before = self.events()
        for _ in range(2):
            self.world.settle()
        self.news = {key: event for key, event in self.events().items() if before.get(key) != event}

    def events(self) -> dict[str, Object]:
        return {event["metadata"]["name"]: event for event in self.world.client.list(EVENT, self.world.namespace)}

    def annotate(self, value: str | None) -> None:
        patch = {"metadata": {"annotations": {PREFIX + "rollback-from": value}}}
        self.world.client.patch(CLUSTER_ADDON, Key(self.world.namespace, ADDON), patch)

    def check(self, reason: str, words: str, *, names: str = "", recorded: bool = True) -> None:
        """Checks reason and message of Ready; `names` is another release that the status may name."""
        addon, where = self.world.addon(), " -> ".join(self.path)
        conditions = {one["type"]: one for one in dig(addon, "status.conditions")}
        ready = conditions["Ready"]
        messages = [one["message"].partition("; it has ")[0] for one in conditions.values() if one["status"] != "True"]
        messages += [entry.get("error", "") for entry in dig(addon, "status.resources", [])]
        others = [name for name in self.expected if name not in (self.class_name, names)]
        assert not [(name, text) for name in others for text in messages if name in text], where
        assert dig(addon, "status.release") == self.class_name, where
        assert (ready.get("reason", ""), words in ready["message"]) == (reason, True), (where, ready)
        assert (ready["status"], dig(addon, "status.ready")) == ((("False", False)) if reason else ("True", True)), (
            where
        )
        [row] = printed_rows(self.world.client, CLUSTER_ADDON, self.world.namespace)
        assert (row["Wanted"], row["Reason"] or "", row["Message"] or "") == (
            self.class_name,
            reason,
            ready["message"],
        )
        if reason and recorded:
            about = [(event["reason"], event["message"]) for event in self.news.values()]
            assert (reason, ready["message"]) in about, (where, about)

    def check_release(self) -> None:
        """Checks that each condition that is not True names the release, and that Ready summarises them."""
        reason, words = self.expected[self.class_name]
        self.check(reason, words)
        for one in dig(self.world.addon(), "status.conditions"):
            assert one["status"] == "True" or self.class_name in one["message"], (self.path, one)


@pytest.mark.parametrize("seed", [1, 2])
def test_status_is_about_the_present_release_only(world: World, seed: int) -> None:
    """Releases in random order, with other failures in between."""
    dice = random.Random(seed)
    kinds = list(KINDS)
    dice.shuffle(kinds)
    story = Story(world)
    story.write(kinds)
    world.secret()
    order = [*story.expected, *dice.choices(list(story.expected), k=4)]
    for name in order:
        match dice.randrange(8) if story.path else -1:
            case 0:
                story.go_to(name, paused=True)
                story.check("Paused", "paused")
            case 1:
                story.go_to(name, policy={"drift": "what"})
                story.check("InvalidAnnotation", "drift")
            case 2:
                world.secret(b"no kubeconfig")
                story.go_to(name)
                story.check("ControlPlaneNotReady", "demo-kubeconfig", recorded=False)
                world.secret()
            case 3:
                story.go_to("some-class")
                story.check("NoClusterStack", "some-class")
        story.go_to(name)
        story.check_release()


def test_rollback_status_names_both_releases_and_is_removed_afterwards(world: World) -> None:
    story = Story(world)
    story.write([good, good, chart_error, refused_object, missing])
    world.secret()
    first, second, *bad = story.expected
    for name in (first, second):
        story.go_to(name)
        story.check_release()
    for name in bad:
        story.go_to(name)
        story.check_release()
        story.annotate(name)
        story.go_to(name)
        story.check("RolledBack", f"rolled back to {second}", names=second)
        assert dig(world.addon(), "status.rollbackFrom") == name
        story.annotate(None)
        story.go_to(name)
        story.check_release()
    story.go_to(second)
    story.check_release()


def test_upgrade_to_the_same_addons_keeps_true_conditions(world: World) -> None:
    world.secret()
    world.cluster(write_release(world.releases, "v1", [world.map("a")], addon_version="v1"))
    world.settle()
    before = {one["type"]: one for one in dig(world.addon(), "status.conditions")}
    name = write_release(world.releases, "v2", [world.map("a")], addon_version="v1")
    world.cluster(name)
    world.settle()
    after = {one["type"]: one for one in dig(world.addon(), "status.conditions")}
    assert {type_: one["status"] for type_, one in after.items()} == dict.fromkeys(before, "True")
    assert dig(world.addon(), "status.release") == name
    assert world.client.get(CLUSTER, Key(world.namespace, "demo"))["spec"]["topology"]["classRef"]["name"] == name


def sweep(world: World) -> None:
    """Delivers the sweep's events about this Cluster to addon_apply."""
    with pytest.MonkeyPatch.context() as patch, EventReceiver() as receiver:
        patch.setenv("K_SINK", receiver.url)
        assert world.call("sweep", Event(type=PING, source="/test", id="1")).status == 204
        sent = [event for _, event, _ in receiver.received if event.namespace == world.namespace]
    for event in sent:
        answer = world.call("addon_apply", event)
        if answer.reply is not None:
            fetched = world.call("release_assets", answer.reply)
            assert fetched.reply is not None
            world.call("addon_apply", fetched.reply)


@pytest.mark.parametrize("lost", ["upgrade", "rollback", "resumption"])
def test_sweep_recovers_from_lost_events(world: World, lost: str) -> None:
    """Until the sweep, the columns show which release is ready."""
    first, second = (write_release(world.releases, version, [world.map("a", version)]) for version in ("v1", "v2"))
    world.secret()
    for name in (first, second)[: 2 if lost == "rollback" else 1]:
        world.cluster(name)
        world.settle()
    before = world.addon()["status"]["release"]
    if lost == "upgrade":
        world.cluster(second)
    elif lost == "rollback":
        patch = {"metadata": {"annotations": {PREFIX + "rollback-from": second}}}
        world.client.patch(CLUSTER_ADDON, world.addon_key, patch)
    else:
        world.cluster(first, paused=True)
        world.settle()
        world.cluster(first)
    [row] = printed_rows(world.client, CLUSTER_ADDON, world.namespace)
    assert (row["Wanted"], row["Ready"]) == (before, True)
    sweep(world)
    assert world.read("a")["data"]["k"] == ("v2" if lost == "upgrade" else "v1")
    assert dig(world.addon(), "status.release") == (first if lost == "resumption" else second)
    assert dig(world.condition("Ready"), "reason", "") == ("RolledBack" if lost == "rollback" else "")


def test_workload_that_is_not_ready_is_quoted_with_a_pod_that_does_not_start(world: World) -> None:
    web = world.deployment()
    world.cluster(write_release(world.releases, "v1", [web]))
    world.secret()
    world.settle()
    labels = dig(web, "spec.selector.matchLabels")
    container = {"name": "web", "image": "nginx:nope"}
    pod = objects.manifest(POD, "web-1", world.namespace, metadata={"labels": labels}, spec={"containers": [container]})
    key = key_of(world.client.create(POD, pod))
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "nginx:nope"'}
    state = {**container, "imageID": "", "ready": False, "restartCount": 0, "state": {"waiting": waiting}}
    world.client.patch(POD, key, {"status": {"containerStatuses": [state]}}, subresource="status")
    world.settle()
    assert "(pod web-1: ImagePullBackOff nginx:nope)" in world.condition("ObjectsReady")["message"]


def test_missing_rights_name_the_user_and_the_secret_with_its_credentials(world: World, proxy: Proxy) -> None:
    refusal = 'configmaps "a" is forbidden: User "bob" cannot patch resource "configmaps"'
    proxy.fail(answering(403, {"kind": "Status", "message": refusal, "reason": "Forbidden"}), lambda one: one.writes)
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret(proxy.kubeconfig)
    world.settle()
    message = world.condition("HelmChartApplied")["message"]
    assert 'User "bob" cannot patch' in message
    assert f"Secret {world.namespace}/demo-kubeconfig has the credentials of this user" in message


def test_cluster_that_nobody_reconciles_has_a_condition_and_an_event(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The condition ends with the first reconciliation; `core_state` does not take the condition for one of core."""
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.settle()
    before = world.client.get(CLUSTER, world.cluster_key)
    assert dig(before, "status.conditions") is None, "a program may still come"
    monkeypatch.setattr(unreconciled, "AFTER", timedelta(0))
    for _ in range(2):
        world.settle()
    assert "No program has reconciled this Cluster" in world.condition("ClusterReady")["message"]
    reported = world.client.get(CLUSTER, world.cluster_key)
    available = objects.condition(reported, "Available")
    assert (available["status"], available["reason"]) == ("Unknown", "NotReconciled")
    about = [event for event in world.client.list(EVENT, world.namespace) if event["reason"] == "NotReconciled"]
    assert [(event["involvedObject"]["kind"], event["type"], event["count"]) for event in about] == [
        ("Cluster", "Warning", 1)
    ]
    assert core_state(reported, datetime.now(UTC)) == "none"
    world.call("cluster", change_event(reported, "update", source="/test"))
    assert objects.condition(world.client.get(CLUSTER, world.cluster_key), "Available")["reason"] != "NotReconciled"
    world.settle()
    assert "No program" not in world.condition("ClusterReady")["message"]
