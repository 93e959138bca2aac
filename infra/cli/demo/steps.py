"""Runs the steps of the demo."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime

import yaml

from infra.local.local_run import LocalRun
from infra.local.services import wipe
from infra.operations import clusters
from infra.operations.waiting import failing_condition, wait_for
from shared.api.resources import CLUSTER, KIND_CLUSTER
from shared.applier.inventory import load
from shared.kube import ApiError, Object, dig

from ..terminal.cluster_tree import show
from ..terminal.output import out
from ..terminal.timeline import Timeline
from . import FOLDER, STACK
from .checks import Objects, compare, verify
from .condition_watcher import ConditionWatcher
from .demo_objects import CLUSTER_KEY, DemoError, DemoObjects


class Demo:
    """The steps of the demo, in a local run."""

    def __init__(self, local_run: LocalRun, timeline: Timeline) -> None:
        if local_run.client is None:
            raise DemoError("the local run is not started")
        self._local_run = local_run
        self._objects = DemoObjects(local_run.client)
        self._timeline = timeline

    def run(self, *, after_upgrade: Callable[[], object] = lambda: None) -> None:
        """Runs all steps. Calls `after_upgrade` before the Cluster is deleted.

        Raises `DemoError`, `WaitTimeout` or `ApiError`.
        """
        self._create()
        first = self._applied("v1")
        self._upgrade("v2", first)
        self._cold_start("v3")
        self._show()
        after_upgrade()
        self._delete()

    def _create(self) -> None:
        self._timeline.begin(f"apply a KINDCluster and a Cluster of class {STACK}-v1")
        resources = {CLUSTER.kind: CLUSTER, KIND_CLUSTER.kind: KIND_CLUSTER}
        for document in yaml.safe_load_all((FOLDER / "cluster.yaml").read_text()):
            self._objects.client.apply(resources[document["kind"]], document, manager="demo")
        wait_for(
            "a reachable workload cluster",
            lambda: dig(self._objects.cluster(), "status.phase") == "Provisioned" and self._objects.kubeconfig(),
            within=90,
            status=lambda: failing_condition(self._objects.infrastructure(), self._objects.cluster()),
            progress=self._timeline.say,
        )
        workload = self._objects.connect()
        self._timeline.done(f"workload cluster up at {workload.client.host}; it accepts the client certificate")

    def _applied(self, version: str) -> Objects:
        self._timeline.begin(f"addons of {version}")
        live = self._await_release(f"{STACK}-{version}")
        self._timeline.done(f"addons {version} ready: {len(live)} objects in the workload cluster")
        return live

    def _upgrade(self, version: str, before: Objects) -> None:
        self._timeline.begin(f"upgrade to {version}")
        self._objects.set_class(f"{STACK}-{version}")
        after = self._await_release(f"{STACK}-{version}")
        changed = compare(self._objects, before, after, self._timeline.say)
        self._timeline.done(f"upgraded to {version}: {changed}")

    def _cold_start(self, version: str) -> None:
        """Upgrades, and meanwhile deletes all stored releases and kills the functions."""
        self._timeline.begin(f"upgrade to {version}, with all stored releases deleted and the functions killed halfway")
        previous, release = self._objects.class_name(), f"{STACK}-{version}"
        for _attempt in range(5):
            seen, cut_off = self._interrupted_upgrade(release)
            if cut_off:
                break
            self._timeline.say("the rollout ended before the kill; trying again")
            self._objects.set_class(previous)
            self._await_addon(previous)
        else:
            raise DemoError("the rollout could not be interrupted")
        waited = [reason for reason in seen if reason.startswith("ReleaseAssetsNotDownloadedYet")]
        failed = [reason for reason in seen if reason.startswith("IssueWithReleaseAssets")]
        if not waited or failed:
            raise DemoError(f"a cold start should wait for its assets, but the addon reported: {sorted(seen)}")
        live = verify(self._objects, self._objects.addon() or {}, release)
        self._timeline.done(f"cold start waited for its assets, then finished {version}: {len(live)} objects")

    def _interrupted_upgrade(self, release: str) -> tuple[set[str], bool]:
        """Returns the reasons of the addon's conditions, and whether the rollout was really interrupted."""
        functions = self._local_run.services.functions
        if functions is None:
            raise DemoError("the functions do not run")
        started = threading.Event()

        def kill() -> None:
            functions.kill()
            started.set()

        watcher = ConditionWatcher(self._objects.client, on_applying=kill)
        with watcher:
            self._objects.set_class(release)
            if not started.wait(30):
                raise DemoError("the upgrade did not start")
            wipe(self._local_run.store)
            addon = self._objects.addon() or {}
            cut_off = dig(addon, "status.ready") is not True
            pending = sum(entry.status != "synced" for entry in load(dig(addon, "status.resources")))
            self._timeline.say(f"functions killed, stored releases deleted; {pending} objects without a result")
            functions.start()
            self._await_addon(release)
        return watcher.seen, cut_off

    def _delete(self) -> None:
        self._timeline.begin("delete the Cluster")
        self._objects.client.delete(CLUSTER, CLUSTER_KEY)
        wait_for(
            "a clean management cluster",
            lambda: not self._objects.leftovers(),
            within=60,
            status=lambda: failing_condition(self._objects.cluster()) or ", ".join(self._objects.leftovers()),
            progress=self._timeline.say,
        )
        try:
            self._objects.workload.client.text("/readyz", timeout=1.0)
        except ApiError:
            pass
        else:
            raise DemoError("the workload API server still answers after its Cluster was deleted")
        self._timeline.done("Cluster, infrastructure, addon and Secrets are deleted, and the API server has ended")

    def _show(self) -> None:
        show(out, [clusters.describe(self._objects.client, self._objects.cluster() or {}, datetime.now(UTC))])

    def _await_release(self, release: str) -> Objects:
        """Waits until the addon has applied the release, and returns the objects."""
        return verify(self._objects, self._await_addon(release), release)

    def _await_addon(self, release: str) -> Object:
        def ready() -> Object | None:
            addon = self._objects.addon() or {}
            done = dig(addon, "spec.clusterStack") == release and dig(addon, "status.ready") is True
            return addon if done else None

        found: Object = wait_for(
            f"the ClusterAddon to be ready with {release}",
            ready,
            within=90,
            status=lambda: failing_condition(self._objects.addon()),
            progress=self._timeline.say,
            pause=0.02,
        )
        return found
