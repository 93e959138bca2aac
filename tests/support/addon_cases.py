"""Observations of a ClusterAddon for tables of decisions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from functions.addon_apply.decide import decide
from functions.addon_apply.observe import Finding, Observed
from functions.addon_apply.step import ReleaseStep, find_step
from shared.addons.chart_objects import AddonAssets
from shared.addons.context import ReleaseContext, RollbackContext
from shared.addons.owner import OWNER
from shared.addons.target import Progress, SyncTarget
from shared.api.conditions import get_condition
from shared.api.names import ADDON_FINALIZER
from shared.api.resources import CLUSTER_ADDON, CONFIG_MAP
from shared.applier.connection import ClusterConnection
from shared.applier.inventory import SYNCED, InventoryEntry, content_hash
from shared.applier.policy import Policy
from shared.applier.sync import Sync
from shared.charts import Capabilities
from shared.clients import ClusterClients
from shared.kube import Object
from shared.releases.metadata import ReleaseMetadata
from shared.releases.naming import ReleaseName, StackVersion
from shared.releases.release import Release as Stored
from shared.releases.stages import BoundObject, StageCondition, Stages
from shared.runtime import Decision
from tests.support.releases import archive, config_map
from tests.support.results import results_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TAG = "docker-ferrol-1-27-v2"
NAME = ReleaseName.parse(TAG)
REACHED = ClusterConnection(cast(ClusterClients, None), {("v1", "ConfigMap"): CONFIG_MAP})
POLICY = Policy(OWNER)
WIDGET = {"apiVersion": "toys/v1", "kind": "Widget", "metadata": {"name": "w"}}
BOUND = BoundObject("a", "v1", "ConfigMap", "a", "default")
EXISTS = StageCondition("a.data.k == '1'", (BOUND,))
"""A stage's condition on a ConfigMap of the Cluster."""


def an_addon(*conditions: Object, spec: Mapping[str, Any] | None = None, **status: Any) -> Object:
    return {
        "apiVersion": CLUSTER_ADDON.api_version,
        "kind": CLUSTER_ADDON.kind,
        "metadata": {
            "namespace": "ns",
            "name": "cluster-addon-demo",
            "uid": "a",
            "resourceVersion": "1",
            "finalizers": [ADDON_FINALIZER],
        },
        "spec": {"clusterRef": {"name": "demo", "uid": "c"}, **(spec or {})},
        "status": {"conditions": list(conditions), "release": TAG, **status},
    }


def a_cluster(**spec: Any) -> Object:
    topology = {"classRef": {"name": NAME.class_name}}
    return {"metadata": {"namespace": "ns", "name": "demo", "uid": "c"}, "spec": {"topology": topology, **spec}}


def assets(stages: Stages | None = None, problem: str = "", **charts: list[Object]) -> AddonAssets:
    """Returns the assets of charts with these objects, by name; without stages, of one umbrella chart."""
    files = {}
    for name, objects in charts.items():
        files[f"{name}/Chart.yaml"] = f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n"
        files |= {f"{name}/templates/{n}.yaml": json.dumps(obj) for n, obj in enumerate(objects)}
    stored = Stored(NAME, {}, ReleaseMetadata(StackVersion(2), "v1.27.3", StackVersion(2)))
    return AddonAssets(stored, archive(files), stages=stages, problem=problem)


def a_release(addon: Object | None = None, content: AddonAssets | None = None, **more: Any) -> ReleaseContext:
    addon = addon or an_addon()
    content = content or assets(addons=[config_map("a")])
    target = SyncTarget.of_release(addon, a_cluster(), content, Capabilities("v1.27.3"))
    found = ReleaseContext(
        addon=addon,
        policy=POLICY,
        connection=REACHED,
        inventory=(),
        target=target,
        progress=Progress.for_target(target, addon, content),
        name=NAME,
        assets=content,
        capabilities=Capabilities("v1.27.3"),
        template_context={"Cluster": a_cluster()},
    )
    return replace(found, **more)


def applied_before(*known: InventoryEntry, ready: bool = True, **spec: Any) -> Object:
    """Returns an addon whose latest sync had the target of `a_release()`."""
    target = a_release().target
    resources = [entry.dump() for entry in known]
    applied = {"clusterStack": target.class_name, "version": target.version, **spec}
    return an_addon(spec=applied, digest=target.digest, ready=ready, resources=resources)


def entry_of_a(**more: Any) -> InventoryEntry:
    """Returns the inventory entry of the ConfigMap of `a_release()`."""
    obj = sync(decided(a_release())).plan.steps[0].obj
    entry = InventoryEntry("", "v1", "ConfigMap", "default", "a", uid="u", hash=content_hash(obj), status=SYNCED)
    return replace(entry, **more)


def decided(
    found: Finding | ReleaseContext | None, addon: Object | None = None, cluster: Object | None = None
) -> Decision:
    return decide(seen(found, addon, cluster), NOW)


def seen(
    found: Finding | ReleaseContext | None, addon: Object | None = None, cluster: Object | None = None
) -> Observed:
    """Returns an observation with this finding; for a release, with the next step of its sync."""
    if isinstance(found, (ReleaseContext, RollbackContext)):
        addon = found.addon
    if isinstance(found, ReleaseContext):
        found = ReleaseStep(found, find_step(found))
    return Observed(addon or an_addon(), cluster or a_cluster(), NAME, found)


def reported(
    found: Finding | ReleaseContext, values: Mapping[type, object] | None = None, *, error: Exception | None = None
) -> Decision:
    """Reports a decision for `found` whose effects returned `values` by their class, or in which an effect failed."""
    observed = seen(found)
    decision = decide(observed, NOW)
    results = results_of(decision, values or {}, error)
    reported = decide(observed, NOW, results)
    assert reported.reports is error
    return reported


def sync(decision: Decision) -> Sync:
    [found] = [effect for effect in decision.effects if isinstance(effect, Sync)]
    return found


def actions(decision: Decision) -> list[str]:
    return [step.action for step in sync(decision).plan.steps]


def condition(decision: Decision, type_: str) -> tuple[str, str, str]:
    found = get_condition((decision.status or {})["conditions"], type_) or {}
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def refuses_too_many(decision: Decision) -> None:
    """Asserts that nothing is applied or recorded, because the inventory of 7,001 objects is too large."""
    assert not [effect for effect in decision.effects if isinstance(effect, Sync)]
    status, reason, message = condition(decision, "HelmChartApplied")
    assert (status, reason) == ("False", "TooManyObjects")
    assert "7001 objects" in message
    assert decision.requeue_after == 60.0
    assert "resources" not in (decision.status or {})
