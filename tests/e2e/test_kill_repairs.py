"""The functions are killed at writes of what follows a rollout: rollback, drift repair, hooks, and the clean-up.

The Cluster gets two releases, is rolled back and forward, loses and changes objects, is upgraded as Cluster API does it
with its hooks, and is deleted once its load balancers are gone. The test acts as Cluster API, as the cloud, and as the
controller of Jobs.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from functions.addon_cleanup.leftovers import CLAIM
from functions.cluster_hooks.protocol import HANDLERS
from shared.addons.status import ROLLED_BACK
from shared.api.conditions import get_condition
from shared.api.hooks import BEFORE_CLUSTER_DELETE
from shared.api.names import ROLLBACK_ANNOTATION
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, NAMESPACE, SECRET, SERVICE
from shared.event import change_event
from shared.kube import Client, Key, Object, Resource, deleting, dig, key_of
from shared.releases.stages import AFTER_CLUSTER_UPGRADE, BEFORE_CLUSTER_UPGRADE
from shared.storage import ObjectStore
from tests.support import objects
from tests.support.api_proxy import Request
from tests.support.kill_points import KillableFunctions, KillPoint, check_kills, in_parts, killable_functions
from tests.support.releases import STACK, config_map, write_release
from tests.support.swept_addons import SweptAddons, owned
from tests.support.until import until
from tests.support.world import JOB

VARIANTS = ((True, ""), (False, ""), (False, "deletion"))
PATHS = {handler.hook: handler.path for handler in HANDLERS}
CLOUD = "service.kubernetes.io/load-balancer-cleanup"
FUNCTIONS = ("addon_create", "addon_apply", "addon_cleanup")
COMPLETE: Object = {
    "conditions": [{"type": name, "status": "True"} for name in ("SuccessCriteriaMet", "Complete")],
    **dict.fromkeys(("startTime", "completionTime"), "2026-01-01T00:00:00Z"),
    "succeeded": 1,
}
"""The status of a Job."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    in_parts(metafunc, 10)


class Journey:
    """The later life of one Cluster with addons, in a namespace of its own with objects of a user."""

    versions = 0

    def __init__(self, functions: KillableFunctions, client: Client) -> None:
        self.functions, self.client = functions, client
        self.namespace = f"kill-{uuid.uuid4().hex[:8]}"
        self.addons = SweptAddons(client, self.namespace, functions.kubeconfig, functions.deliver)
        self.resync = False
        self.released: list[str] = []
        """The classes so far, the newest last."""

    def take(self, point: KillPoint | None) -> list[Request]:
        """Takes the journey, and returns its writes; the functions are killed at `point`."""
        self.functions.while_down = lambda: self.delete() if point and point.meanwhile == "deletion" else None
        self.functions.kill_at(point)
        self.client.create(NAMESPACE, objects.manifest(NAMESPACE, self.namespace))
        theirs = [self.create(CONFIG_MAP, "theirs", data={"k": "theirs"}), self.service("theirs", "ClusterIP")]
        self.service("public", "LoadBalancer", finalizers=[CLOUD])
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        self.create(CLAIM, "data", spec=claim)
        for step in (self.release, self.release, self.roll_back, self.undo, self.drift, self.upgrade):
            if not self.deleted():
                step()
        if not self.deleted():
            self.delete()
        self.end()
        kinds = (CONFIG_MAP, SERVICE)
        assert [self.client.get(kind, Key(self.namespace, "theirs")) for kind in kinds] == theirs
        return self.functions.end()

    # -- the steps -------------------------------------------------------------------------------------------------

    def release(self) -> None:
        self.next_class()
        self.reach(self.settled, "a release", -1)

    def roll_back(self) -> None:
        self.annotate(self.released[-1])
        self.reach(self.rolled_back, "the rollback", -2)

    def undo(self) -> None:
        self.annotate(None)
        self.reach(self.settled, "the way back", -1)

    def drift(self) -> None:
        """Deletes an object and changes two others; a resync repairs what the release has."""
        self.client.delete(CONFIG_MAP, Key(self.namespace, "kept"))
        for name, data in (("changed", {"k": "drifted"}), ("other", {"added": "by a user"})):
            self.client.patch(CONFIG_MAP, Key(self.namespace, name), {"data": data}, manager="user")
        self.resync = True
        self.reach(lambda: self.settled() and self.values() == self.wanted(-1), "the repair", -1)
        self.resync = False

    def upgrade(self) -> None:
        """Upgrades as Cluster API does, with its hooks."""
        self.next_class()
        self.reach(lambda: not self.blocked(BEFORE_CLUSTER_UPGRADE), "the hook before the upgrade", -1)
        assert self.deleted() or dig(self.client.get(CONFIG_MAP, Key(self.namespace, "other")), "data.added")
        self.until(lambda: self.deleted() or not self.blocked(AFTER_CLUSTER_UPGRADE), "the hook after the upgrade")
        self.reach(self.settled, "the rollout of the hook after the upgrade", -1)

    def end(self) -> None:
        """Deletes the Cluster as Cluster API does: after the hook, and with its dependents."""
        self.until(lambda: not self.blocked(BEFORE_CLUSTER_DELETE), "the clean-up")
        if self.client.find(CLUSTER_ADDON, self.addons.addon_key):
            assert [one["metadata"]["name"] for one in self.client.list(SERVICE, self.namespace)] == ["theirs"]
            assert list(self.client.list(CLAIM, self.namespace)) == []
        cluster = self.client.get(CLUSTER, self.addons.cluster_key)
        self.addons.remove()
        objects.remove(self.client, CLUSTER, self.addons.cluster_key)
        self.until(self.addons.gone, "the end of the addon")
        for name in FUNCTIONS:  # events that arrive after the deletion
            self.addons.send(name, change_event(cluster, "update", source="/test"))
        assert list(self.client.list(CLUSTER_ADDON, self.namespace)) == []
        assert [one["metadata"]["name"] for one in self.client.list(SECRET, self.namespace)] == ["demo-kubeconfig"]

    # -- what users and Cluster API do -----------------------------------------------------------------------------

    def create(self, resource: Resource, name: str, **content: Any) -> Object:
        return self.client.create(resource, objects.manifest(resource, name, self.namespace, **content), manager="user")

    def service(self, name: str, type_: str, **metadata: Any) -> Object:
        return self.create(SERVICE, name, metadata=metadata, spec={"type": type_, "ports": [{"port": 80}]})

    def next_class(self) -> None:
        """Publishes a release with a Job as its hook, and gives the Cluster its class."""
        Journey.versions += 1
        version = f"v{Journey.versions}"
        self.released.append(f"{STACK}-{version}")
        maps = [config_map(name, value, self.namespace) for name, value in self.wanted(-1).items()]
        container = {"name": "c", "image": "example.com/image:1", "args": [version]}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        hook = {"annotations": {"helm.sh/hook": "pre-install,pre-upgrade"}}
        job = objects.manifest(JOB, "before", self.namespace, metadata=hook, spec={"template": template})
        write_release(self.functions.releases, version, [*maps, job])
        self.addons.secret()
        self.addons.cluster(self.released[-1], policy={"drift": "repair"})
        self.client.patch(CLUSTER, self.addons.cluster_key, {"metadata": {"finalizers": ["test.dev/hold"]}})

    def annotate(self, rollback_from: str | None) -> None:
        patch = {"metadata": {"annotations": {ROLLBACK_ANNOTATION: rollback_from}}}
        self.client.patch(CLUSTER_ADDON, self.addons.addon_key, patch, manager="user")

    def delete(self) -> None:
        self.client.delete(CLUSTER, self.addons.cluster_key)

    def blocked(self, hook: str) -> bool:
        """Calls the hook, and returns whether Cluster API has to call it again."""
        cluster = self.client.get(CLUSTER, self.addons.cluster_key)
        response = self.functions.call_hook(PATHS[hook], {**cluster, "kind": CLUSTER.kind})
        return response is None or bool(response.get("retryAfterSeconds"))

    # -- what events, the cloud and the controller of Jobs do ------------------------------------------------------

    def reach(self, reached: Callable[[], bool], what: str, release: int) -> None:
        """Waits, and checks that the objects are those of a release, unless the Cluster is deleted meanwhile."""
        self.until(lambda: self.deleted() or reached(), what)
        if not self.deleted():
            self.check(release)

    def until(self, reached: Callable[[], bool], what: str) -> None:
        until(reached, what, pause=0, between=self.turn, details=self.addons.describe)

    def turn(self) -> None:
        for resource, key in ((CLUSTER, self.addons.cluster_key), (CLUSTER_ADDON, self.addons.addon_key)):
            found = self.client.find(resource, key)
            if found is not None:
                event = change_event(found, "update", source="/test", reference=True, resync=self.resync)
                for name in FUNCTIONS:
                    self.addons.send(name, event)
        for job in list(self.client.list(JOB, self.namespace)):
            if not dig(job, "status.succeeded"):
                self.client.patch(JOB, key_of(job), {"status": COMPLETE}, subresource="status")
        for resource in (SERVICE, CLAIM):
            for obj in list(self.client.list(resource)):
                if deleting(obj):
                    self.client.patch(resource, key_of(obj), {"metadata": {"finalizers": None}})

    # -- what is there then ----------------------------------------------------------------------------------------

    def deleted(self) -> bool:
        return deleting(self.client.find(CLUSTER, self.addons.cluster_key) or {"metadata": {}})

    def settled(self) -> bool:
        """Returns whether the newest release is applied, and no hook is in progress."""
        addon = self.client.find(CLUSTER_ADDON, self.addons.addon_key)
        return self.addons.ready(self.released[-1]) and not dig(addon, "spec.hook") and not self.rolled_back()

    def rolled_back(self) -> bool:
        addon = self.client.find(CLUSTER_ADDON, self.addons.addon_key)
        return (get_condition(dig(addon, "status.conditions"), "HelmChartApplied") or {}).get("reason") == ROLLED_BACK

    def wanted(self, release: int) -> dict[str, str]:
        """Returns the values of the ConfigMaps of a release by name."""
        tag = self.released[release]
        return {"kept": "1", "other": "1", "changed": tag, f"of-{tag}": "1"}

    def values(self) -> dict[str, str]:
        return {name: obj["data"]["k"] for name, obj in owned(self.client, CONFIG_MAP, self.namespace).items()}

    def check(self, release: int) -> None:
        """Asserts that the labelled objects are those of a release, and that the inventory lists just them.

        The hook is the newest release's, because a rollback does not run it.
        """
        assert self.values() == self.wanted(release)
        job = self.client.get(JOB, Key(self.namespace, "before"))
        assert dig(job, "spec.template.spec.containers")[0]["args"] == [self.released[-1].removeprefix(f"{STACK}-")]
        maps = owned(self.client, CONFIG_MAP, self.namespace)
        live = {("ConfigMap", name): obj["metadata"]["uid"] for name, obj in maps.items()}
        inventory = self.addons.inventory()
        assert {who: entry["uid"] for who, entry in inventory.items()} == live | {
            ("Job", "before"): job["metadata"]["uid"]
        }
        assert {entry["status"] for entry in inventory.values()} == {"synced"}


@pytest.mark.timeout(3600)
def test_repairs_end_the_same_when_functions_are_killed_at_a_write(
    management: Client,
    kubeconfig: Path,
    object_store: ObjectStore,
    object_store_url: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    part: tuple[int, int],
) -> None:
    with killable_functions(kubeconfig, object_store, object_store_url, tmp_path, hooks=True) as functions:

        def take(point: KillPoint | None) -> list[Request]:
            return Journey(functions, management).take(point)

        check_kills(take, VARIANTS, pytestconfig, part, most=6)
