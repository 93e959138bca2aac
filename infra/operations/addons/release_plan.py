"""The plan of a release: what its sync would do in a workload cluster, stage by stage."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from shared.addons import chart_objects
from shared.addons.context import ReleaseContext
from shared.addons.owner import OWNER
from shared.addons.rendering import DEFAULT_NAMESPACE, render_charts
from shared.addons.stored_values import describe_fields
from shared.addons.target import is_applied
from shared.api import cluster as cluster_api
from shared.api.names import ROLLBACK_ANNOTATION
from shared.applier import inventory
from shared.applier.desired import desired, kinds_defined_by
from shared.applier.inventory import InventoryEntry, entry_of
from shared.applier.policy import PREFIX
from shared.applier.preview import Change, preview, totals
from shared.charts import ChartError
from shared.kube import Key, Object, Resource, dig, key_of
from shared.manifests import Identity, identity
from shared.releases.stages import Stage

from ..failure import Failure

_OTHERS = Stage("")
"""A stage without a name, for the changes outside all stages."""


@dataclass(frozen=True)
class StagePlan:
    """The changes of one stage; the stage without a name has the changes outside all stages."""

    stage: Stage
    changes: tuple[Change, ...]

    def dump(self) -> Object:
        """Returns the plan of the stage as JSON."""
        waits = {"before": self.stage.before, "after": self.stage.after}
        return {
            "name": self.stage.name,
            "action": self.stage.action,
            **{f"waits{when.title()}": wait.expression for when, wait in waits.items() if wait},
            "changes": [change.dump() for change in self.changes],
        }


@dataclass(frozen=True)
class ReleasePlan:
    """The plan of a release for one Cluster, whose class changes from `present_class` to `target_class`."""

    cluster: Key
    present_class: str
    target_class: str
    addon_version: str
    kubernetes: str
    hook: str
    notes: tuple[str, ...]
    stages: tuple[StagePlan, ...]

    @property
    def changes(self) -> list[Change]:
        """The changes of all stages."""
        return [change for stage in self.stages for change in stage.changes]

    @property
    def counts(self) -> dict[str, int]:
        """The number of objects by action."""
        return totals(self.changes)

    @property
    def is_blocked(self) -> bool:
        """Whether the sync would fail: at a rejected object, or at an unknown kind."""
        return bool(self.counts["refuse"] or self.counts["unknown"])

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not any(change.changes for change in self.changes)

    @property
    def exit_code(self) -> int:
        """0 if nothing would change, 3 if something would, 4 if the sync would fail."""
        return 4 if self.is_blocked else 0 if self.is_empty else 3

    def dump(self) -> Object:
        """Returns the plan as JSON."""
        return {
            "cluster": self.cluster.name,
            "namespace": self.cluster.namespace,
            "clusterStack": {"present": self.present_class, "wanted": self.target_class},
            "addonVersion": self.addon_version,
            "kubernetesVersion": self.kubernetes,
            "hook": self.hook,
            "notes": list(self.notes),
            "summary": self.counts,
            "stages": [stage.dump() for stage in self.stages],
        }


@dataclass(frozen=True)
class _RenderedStages:
    """The desired objects of a release by stage; `unknown` have kinds that the cluster does not serve."""

    applied: dict[str, list[Object]]
    unknown: dict[str, list[Object]]
    deleted: dict[str, list[Object]]
    """The objects of stages that delete them."""
    served: dict[tuple[str, str], Resource]
    notes: tuple[str, ...] = ()

    @property
    def stage_of(self) -> dict[Identity, str]:
        return {identity(obj): stage for stage, objects in self.applied.items() for obj in objects}


def plan_release(release: ReleaseContext, addon: Object, cluster: Object) -> ReleasePlan:
    """Plans the sync of a release.

    Args:
        release: The inputs of the sync.
        addon: The ClusterAddon as it is.
        cluster: The Cluster as it is.

    Raises:
        Failure: A chart failed.
        Unavailable: The workload cluster's API server stopped answering.
    """
    assets, target = release.assets, release.target
    due = assets.stages.at(target.hook) if assets.stages else ()
    desired_stages = assets.stages.desired(target.hook) if assets.stages else ()
    rendered = _render_stages(release, due)
    shown = (*due, *(one for one in desired_stages if one not in due), _OTHERS)
    stages = tuple(_stage_plans(release, rendered, shown))
    changed = any(change.changes for stage in stages for change in stage.changes)
    return ReleasePlan(
        key_of(cluster),
        dig(addon, "spec.clusterStack", ""),
        target.class_name,
        target.version,
        release.capabilities.version,
        target.hook,
        (*_notes(release, addon, cluster, changed=changed), *rendered.notes),
        stages,
    )


def _render_stages(release: ReleaseContext, due: Sequence[Stage]) -> _RenderedStages:
    assets, context, capabilities = release.assets, release.template_context, release.capabilities
    try:
        charts = render_charts(release)
        applied = dict(charts.stages)
        deleted = {
            one.name: chart_objects.stage_objects(assets, one, context, capabilities)
            for one in due
            if one.action == "delete"
        }
    except ChartError as error:
        raise Failure(f"{release.name}: {error}") from error
    served = {**release.connection.served, **kinds_defined_by(obj for objects in applied.values() for obj in objects)}

    def complete(objects: Iterable[Object]) -> list[Object]:
        of_served_kinds = [obj for obj in objects if (obj["apiVersion"], obj["kind"]) in served]
        return desired(of_served_kinds, served, OWNER, default_namespace=DEFAULT_NAMESPACE)

    return _RenderedStages(
        {stage: complete(objects) for stage, objects in applied.items()},
        {
            stage: [obj for obj in objects if (obj["apiVersion"], obj["kind"]) not in served]
            for stage, objects in applied.items()
        },
        {stage: complete(objects) for stage, objects in deleted.items()},
        served,
        (describe_fields(charts.fields),) if charts.fields else (),
    )


def _stage_plans(release: ReleaseContext, rendered: _RenderedStages, stages: Sequence[Stage]) -> Iterable[StagePlan]:
    """Yields the plan of each stage, and of the changes outside all stages, if any."""
    desired_objects = [obj for objects in rendered.applied.values() for obj in objects]
    operations = {stage: release.operation(stage) for stage in rendered.applied}
    sync = inventory.plan(
        desired_objects, release.inventory, resumed=False, stages=rendered.stage_of, operations=operations
    )
    deleted = {
        stage: _deleted_entries(objects, release.inventory, rendered.stage_of)
        for stage, objects in rendered.deleted.items()
    }
    first = {entry.identity: entry for entries in deleted.values() for entry in entries}
    sync = replace(sync, prune=tuple({**first, **{entry.identity: entry for entry in sync.prune}}.values()))
    changes = preview(release.connection.cluster, sync, rendered.served, release.policy)
    for stage in stages:
        if stage.action == "delete":
            identities = [entry.identity for entry in deleted[stage.name]]
        elif stage is _OTHERS:
            identities = list(changes)
        else:
            identities = [identity(obj) for obj in rendered.applied[stage.name]]
        of_stage = [changes.pop(identity_) for identity_ in identities if identity_ in changes]
        of_stage += map(_unknown_kind, rendered.unknown.get(stage.name, ()))
        if of_stage or stage is not _OTHERS:
            yield StagePlan(stage, tuple(of_stage))


def _deleted_entries(
    objects: Iterable[Object], known: Iterable[InventoryEntry], applied: Container[Identity]
) -> list[InventoryEntry]:
    """Returns the entries of objects that a stage deletes and no other stage applies."""
    ours = {entry.identity: entry for entry in known}
    deleted = {identity(obj): entry_of(obj) for obj in objects if identity(obj) not in applied}
    return [ours.get(who, entry) for who, entry in deleted.items()]


def _unknown_kind(obj: Object) -> Change:
    reason = "the workload cluster does not serve this kind, and no CRD of the release defines it"
    return Change(entry_of(obj), "unknown", reason=reason)


def _notes(release: ReleaseContext, addon: Object, cluster: Object, *, changed: bool) -> Iterable[str]:
    if cluster_api.is_paused(cluster):
        yield "the Cluster is paused, so nothing is applied until it is resumed"
    if dig(addon, ("metadata", "annotations", ROLLBACK_ANNOTATION)) == release.target.class_name:
        yield "the addons are rolled back from this class, so nothing is applied until the rollback is undone"
    target, drift = release.target, release.policy.drift
    if changed and drift != "repair" and is_applied(addon, target):
        yield (
            f"addons {target.version} are applied already, so these changes are made only with annotation "
            f"{PREFIX}drift: repair (now {drift})"
        )
