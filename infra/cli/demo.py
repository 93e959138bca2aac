"""`demo`: the main job on real parts, each step checked against the API servers before it counts."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from infra.local.stack import Stack
from shared import charts
from shared.api.conditions import get_condition
from shared.api.resources import CLUSTER, CLUSTER_ADDON, KIND_CLUSTER, SECRET
from shared.clients import Workload
from shared.kube import ApiError, Key, Object, dig
from shared.kube.connect import workload as connect_workload
from shared.workload.inventory import Entry, is_owned, load

from .output import Timeline, news, out, tree, wait_for

FOLDER = Path(__file__).parents[1] / "demo"
RELEASES = FOLDER / "releases"
STACK = "local-demo-1-36"
CLUSTER_KEY = Key("default", "demo")
ADDON_KEY = Key("default", "cluster-addon-demo")
CA_KEY, KUBECONFIG_KEY = Key("default", "demo-ca"), Key("default", "demo-kubeconfig")

Objects = dict[str, Object]
"""Live objects of the workload cluster by `Kind namespace/name`."""


class DemoError(Exception):
    """A step did not lead to what it should have."""


class Demo:
    """The steps, in order, over one running stack."""

    def __init__(self, stack: Stack, timeline: Timeline) -> None:
        if stack.client is None:
            raise DemoError("the stack does not run")
        self._stack = stack
        self._client = stack.client
        self._timeline = timeline
        self._workload: Workload | None = None

    def run(self, *, after_upgrade: Callable[[], object] = lambda: None) -> None:
        """Raises `DemoError`, `WaitTimeout` or `ApiError`. `after_upgrade` is called before the Cluster is deleted."""
        self._create()
        first = self._applied("v1")
        self._upgrade("v2", first)
        self._cold_start("v3")
        self._show()
        after_upgrade()
        self._delete()

    # -- steps -------------------------------------------------------------------------------------------------

    def _create(self) -> None:
        self._timeline.begin(f"apply a KINDCluster and a Cluster of class {STACK}-v1")
        resources = {CLUSTER.kind: CLUSTER, KIND_CLUSTER.kind: KIND_CLUSTER}
        for document in yaml.safe_load_all((FOLDER / "cluster.yaml").read_text()):
            self._client.apply(resources[document["kind"]], document, manager="demo")
        wait_for(
            "a reachable workload cluster",
            lambda: dig(self._cluster(), "status.phase") == "Provisioned" and self._secret(KUBECONFIG_KEY),
            within=90,
            hear=lambda: news(self._client.find(KIND_CLUSTER, CLUSTER_KEY), self._cluster()),
            tell=self._timeline.say,
        )
        kubeconfig = base64.b64decode(dig(self._secret(KUBECONFIG_KEY), "data.value", ""))
        self._workload = Workload(connect_workload(kubeconfig))
        self._workload.client.text("/readyz")
        self._timeline.done(f"workload cluster up at {self._workload.client.host}, our client certificate is accepted")

    def _applied(self, version: str) -> Objects:
        self._timeline.begin(f"addons of {version}")
        addon = self._await_addon(version)
        live = self._verify(addon, version)
        self._timeline.done(f"addons {version} ready: {len(live)} objects in the workload cluster")
        return live

    def _upgrade(self, version: str, before: Objects) -> None:
        self._timeline.begin(f"upgrade to {version}")
        self._set_class(version)
        addon = self._await_addon(version)
        after = self._verify(addon, version)
        changed = self._compare(before, after)
        self._timeline.done(f"upgraded to {version}: {changed}")

    def _cold_start(self, version: str) -> None:
        """Object store and functions vanish while the upgrade is on its way."""
        self._timeline.begin(
            f"upgrade to {version}, with the object store wiped and the functions killed in its middle"
        )
        previous = self._class()
        for _attempt in range(5):
            seen, cut_off = self._interrupted_upgrade(version)
            if cut_off:
                break
            self._timeline.say("the rollout was over before the kill; once more")
            self._set_class(previous)
            self._await_addon(previous)
        else:
            raise DemoError("the rollout could not be interrupted in its middle")
        waited = [reason for reason in seen if reason.startswith("ReleaseAssetsNotDownloadedYet")]
        failed = [reason for reason in seen if reason.startswith("IssueWithReleaseAssets")]
        if not waited or failed:
            raise DemoError(f"a cold start should wait for its assets, but the addon said: {sorted(seen)}")
        live = self._verify(self._addon() or {}, version)
        self._timeline.done(f"cold start waited for its assets, then finished {version}: {len(live)} objects")

    def _interrupted_upgrade(self, version: str) -> tuple[set[str], bool]:
        """Returns the reasons that the addon gave on its way, and whether the rollout was cut off."""
        functions = self._stack.functions
        if functions is None:
            raise DemoError("the functions do not run")
        watch = _Reasons(self._client)
        began = threading.Event()

        def cut() -> None:
            functions.kill()
            began.set()

        watch.when_applying(cut)
        with watch:
            self._set_class(version)
            if not began.wait(30):
                raise DemoError("the upgrade did not begin")
            self._stack.wipe_object_store()
            addon = self._addon() or {}
            cut_off = dig(addon, "status.ready") is not True
            pending = sum(entry.status != "synced" for entry in load(dig(addon, "status.resources")))
            self._timeline.say(f"functions killed, object store empty; {pending} objects without a result")
            functions.start()
            self._await_addon(version)
        return watch.seen, cut_off

    def _delete(self) -> None:
        self._timeline.begin("delete the Cluster")
        self._client.delete(CLUSTER, CLUSTER_KEY)
        wait_for(
            "a clean management cluster",
            lambda: not self._leftovers(),
            within=60,
            hear=lambda: news(self._cluster()) or ", ".join(self._leftovers()),
            tell=self._timeline.say,
        )
        try:
            self._reach().client.text("/readyz", timeout=1.0)
        except ApiError:
            pass
        else:
            raise DemoError("the workload API server still answers after its Cluster was deleted")
        self._timeline.done(
            "nothing is left: Cluster, infrastructure, addon and Secrets are gone, the API server ended"
        )

    def _show(self) -> None:
        addon, cluster = self._addon() or {}, self._cluster() or {}
        entries = [f"{entry}  {entry.status}" for entry in load(dig(addon, "status.resources"))]
        infra = self._client.get(KIND_CLUSTER, CLUSTER_KEY)
        secrets = [self._client.get(SECRET, key) for key in (CA_KEY, KUBECONFIG_KEY)]
        applied = f"{dig(addon, 'spec.clusterStack')}, addons {dig(addon, 'spec.version')}"
        shown: list[tuple[Object, str, list[str]]] = [
            (cluster, dig(cluster, "status.phase", ""), []),
            (infra, dig(infra, "status.phase", ""), []),
            *((secret, "", []) for secret in secrets),
            (addon, applied, [f"[dim]{entry}[/dim]" for entry in entries]),
        ]
        out.print(tree("management cluster", shown))

    # -- checks ------------------------------------------------------------------------------------------------

    def _verify(self, addon: Object, version: str) -> Objects:
        """Every object that the release renders is in the workload cluster, ours, and in the inventory; no other."""
        live = {str(entry): self._read(entry) for entry in load(dig(addon, "status.resources"))}
        missing = [name for name, obj in live.items() if obj is None or not is_owned(obj)]
        if missing:
            raise DemoError(f"not in the workload cluster, or not ours: {', '.join(missing)}")
        found = {name: obj for name, obj in live.items() if obj is not None}
        rendered = self._rendered(version)
        if {(o["kind"], o["metadata"]["name"]) for o in found.values()} != rendered:
            raise DemoError(f"release {version} renders {len(rendered)} objects, the inventory has {len(found)}")
        return found

    def _rendered(self, version: str) -> set[tuple[str, str]]:
        from .render import render_release

        objects = render_release(RELEASES / f"{STACK}-{version}", {"Cluster": self._cluster() or {}})
        return {(obj["kind"], obj["metadata"]["name"]) for obj in objects}

    def _compare(self, before: Objects, after: Objects) -> str:
        new, gone = sorted(after.keys() - before.keys()), sorted(before.keys() - after.keys())
        changed = [name for name in sorted(after.keys() & before.keys()) if _moved(before[name], after[name])]
        for mark, names in (("+", new), ("~", changed), ("-", gone)):
            for name in names:
                self._timeline.say(f"  {mark} {name}")
        for name in gone:
            still = self._reach_object(before[name])
            if still is not None and not dig(still, "metadata.deletionTimestamp"):
                raise DemoError(f"{name} should have been pruned")
        if not (new and changed and gone):
            raise DemoError(f"the upgrade should add, change and prune: +{new} ~{changed} -{gone}")
        return f"{len(new)} new, {len(changed)} changed, {len(gone)} pruned"

    # -- reading -----------------------------------------------------------------------------------------------

    def _await_addon(self, version: str) -> Object:
        name = f"{STACK}-{version}" if version.startswith("v") else version

        def ready() -> Object | None:
            addon = self._addon() or {}
            done = dig(addon, "spec.clusterStack") == name and dig(addon, "status.ready") is True
            return addon if done else None

        found: Object = wait_for(
            f"ClusterAddon ready with {name}",
            ready,
            within=90,
            hear=lambda: news(self._addon()),
            tell=self._timeline.say,
            pause=0.02,
        )
        return found

    def _set_class(self, version: str) -> None:
        name = f"{STACK}-{version}" if version.startswith("v") else version
        patch = {"spec": {"topology": {"classRef": {"name": name}}}}
        self._client.patch(CLUSTER, CLUSTER_KEY, patch, manager="demo")

    def _class(self) -> str:
        return str(dig(self._cluster(), "spec.topology.classRef.name"))

    def _cluster(self) -> Object | None:
        return self._client.find(CLUSTER, CLUSTER_KEY)

    def _addon(self) -> Object | None:
        return self._client.find(CLUSTER_ADDON, ADDON_KEY)

    def _secret(self, key: Key) -> Object | None:
        return self._client.find(SECRET, key)

    def _reach(self) -> Workload:
        if self._workload is None:
            raise DemoError("there is no workload cluster yet")
        return self._workload

    def _read(self, entry: Entry) -> Object | None:
        workload = self._reach()
        resource = workload.discovery.resource(entry.api_version, entry.kind)
        return workload.client.find(resource, Key(entry.namespace, entry.name)) if resource else None

    def _reach_object(self, obj: Object) -> Object | None:
        who = charts.identity(obj)
        version = obj["apiVersion"].rpartition("/")[2]
        return self._read(Entry(who.group, version, who.kind, who.namespace, who.name))

    def _leftovers(self) -> list[str]:
        left = [
            f"{resource.kind} {obj['metadata']['name']}"
            for resource in (CLUSTER, KIND_CLUSTER, CLUSTER_ADDON, SECRET)
            for obj in self._client.list(resource, "default")
        ]
        return sorted(left)


class _Reasons:
    """Watches the addon and remembers every reason that its conditions gave for waiting."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._end: Callable[[], None] = lambda: None
        self._applying: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seen: set[str] = set()

    def when_applying(self, action: Callable[[], None]) -> None:
        self._applying = action

    def __enter__(self) -> _Reasons:
        page = next(self._client.pages(CLUSTER_ADDON, "default"))
        self._version = page["metadata"]["resourceVersion"]
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        with suppress(OSError):  # it may have ended by itself
            self._end()
        self._thread.join(5)

    def _opened(self, end: Callable[[], None]) -> None:
        self._end = end

    def _run(self) -> None:
        with suppress(ApiError):  # ended from outside
            self._watch()

    def _watch(self) -> None:
        for event in self._client.watch(
            CLUSTER_ADDON, "default", version=self._version, seconds=120, opened=self._opened
        ):
            conditions = dig(event, "object.status.conditions", [])
            for condition in conditions:
                if condition.get("status") == "False":
                    self.seen.add(f"{condition.get('reason')}: {condition.get('message')}")
            applying = get_condition(conditions, "HelmChartApplied") or {}
            if self._applying and applying.get("reason") == "ObjectsApplyingOngoing":
                action, self._applying = self._applying, None
                action()


def _moved(before: Object, after: Object) -> bool:
    """True where the content changed; a mere status or bookkeeping update does not count."""
    return _content(before) != _content(after)


def _content(obj: Object) -> Object:
    metadata = {name: obj["metadata"].get(name) for name in ("labels", "annotations")}
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": metadata}
