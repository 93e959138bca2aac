"""What carrying out a release would do in a workload cluster, stage by stage, from what `addon_apply` observes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from shared.addons import content
from shared.addons.context import ReleaseContext
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

from .failures import Failure

_REST = Stage("")


@dataclass(frozen=True)
class StagePlan:
    """What one stage does; without a name what comes after all stages, or everything where there are none."""

    stage: Stage
    changes: tuple[Change, ...]

    def dump(self) -> Object:
        waits = {"before": self.stage.before, "after": self.stage.after}
        return {
            "name": self.stage.name,
            "action": self.stage.action,
            **{f"waits{when.title()}": wait.expression for when, wait in waits.items() if wait},
            "changes": [change.dump() for change in self.changes],
        }


@dataclass(frozen=True)
class ReleasePlan:
    """The whole plan. `notes` are what else there is to know about it."""

    cluster: Key
    present: str
    wanted: str
    addon_version: str
    kubernetes: str
    hook: str
    notes: tuple[str, ...]
    stages: tuple[StagePlan, ...]

    @property
    def changes(self) -> list[Change]:
        return [change for part in self.stages for change in part.changes]

    @property
    def counts(self) -> dict[str, int]:
        return totals(self.changes)

    @property
    def is_blocked(self) -> bool:
        """Whether the release would not get through."""
        return bool(self.counts["refuse"] or self.counts["unknown"])

    @property
    def is_empty(self) -> bool:
        return not any(change.changes for change in self.changes)

    @property
    def exit_code(self) -> int:
        """0 where nothing would change, 3 where something would, 4 where the release would not get through."""
        return 4 if self.is_blocked else 0 if self.is_empty else 3

    def dump(self) -> Object:
        return {
            "cluster": self.cluster.name,
            "namespace": self.cluster.namespace,
            "clusterStack": {"present": self.present, "wanted": self.wanted},
            "addonVersion": self.addon_version,
            "kubernetesVersion": self.kubernetes,
            "hook": self.hook,
            "notes": list(self.notes),
            "summary": self.counts,
            "stages": [part.dump() for part in self.stages],
        }


@dataclass(frozen=True)
class _RenderedStages:
    """The objects of the stages of a release, as they are applied, and those of kinds that nobody knows."""

    applied: dict[str, list[Object]]
    unknown: dict[str, list[Object]]
    deleted: dict[str, list[Object]]
    """What stages that delete are about."""
    served: dict[tuple[str, str], Resource]
    notes: tuple[str, ...] = ()

    @property
    def stage_of(self) -> dict[Identity, str]:
        return {identity(obj): stage for stage, objects in self.applied.items() for obj in objects}


def plan_release(release: ReleaseContext, addon: Object, cluster: Object) -> ReleasePlan:
    assets, target = release.assets, release.target
    due = assets.stages.at(target.hook) if assets.stages else ()
    wanted = assets.stages.desired(target.hook) if assets.stages else ()
    rendered = _render_stages(release, due)
    shown = (*due, *(one for one in wanted if one not in due), _REST)
    parts = tuple(_stage_plans(release, rendered, shown))
    changed = any(change.changes for part in parts for change in part.changes)
    return ReleasePlan(
        key_of(cluster),
        dig(addon, "spec.clusterStack", ""),
        target.class_name,
        target.version,
        release.capabilities.version,
        target.hook,
        (*_notes(release, addon, cluster, changed=changed), *rendered.notes),
        parts,
    )


def _render_stages(release: ReleaseContext, due: Sequence[Stage]) -> _RenderedStages:
    assets, context, capabilities = release.assets, release.template_context, release.capabilities
    try:
        whole = render_charts(release)
        applied = dict(whole.stages)
        deleted = {
            one.name: content.stage_objects(assets, one, context, capabilities) for one in due if one.action == "delete"
        }
    except ChartError as error:
        raise Failure(f"{release.name}: {error}") from error
    served = {**release.connection.served, **kinds_defined_by(obj for objects in applied.values() for obj in objects)}

    def known(objects: Iterable[Object]) -> list[Object]:
        there = [obj for obj in objects if (obj["apiVersion"], obj["kind"]) in served]
        return desired(there, served, default_namespace=DEFAULT_NAMESPACE)

    return _RenderedStages(
        {stage: known(objects) for stage, objects in applied.items()},
        {
            stage: [obj for obj in objects if (obj["apiVersion"], obj["kind"]) not in served]
            for stage, objects in applied.items()
        },
        {stage: known(objects) for stage, objects in deleted.items()},
        served,
        (describe_fields(whole.fields),) if whole.fields else (),
    )


def _stage_plans(release: ReleaseContext, rendered: _RenderedStages, stages: Sequence[Stage]) -> Iterable[StagePlan]:
    """One for each stage, and one more where there is something beyond them."""
    objects = [obj for part in rendered.applied.values() for obj in part]
    todo = inventory.plan(objects, release.inventory, resumed=False, stages=rendered.stage_of)
    deleted = {
        stage: _deleted_entries(objects, release.inventory, rendered.stage_of)
        for stage, objects in rendered.deleted.items()
    }
    first = {entry.identity: entry for entries in deleted.values() for entry in entries}
    todo = replace(todo, prune=tuple({**first, **{entry.identity: entry for entry in todo.prune}}.values()))
    changes = preview(release.connection.cluster, todo, rendered.served, release.policy)
    for stage in stages:
        if stage.action == "delete":
            here = [entry.identity for entry in deleted[stage.name]]
        elif stage is _REST:
            here = list(changes)
        else:
            here = [identity(obj) for obj in rendered.applied[stage.name]]
        part = [changes.pop(who) for who in here if who in changes]
        part += map(_unknown_kind, rendered.unknown.get(stage.name, ()))
        if part or stage is not _REST:
            yield StagePlan(stage, tuple(part))


def _deleted_entries(
    objects: Iterable[Object], known: Iterable[InventoryEntry], wanted: Container[Identity]
) -> list[InventoryEntry]:
    """What a stage that deletes is about, as far as no other stage wants it."""
    ours = {entry.identity: entry for entry in known}
    unwanted = {identity(obj): entry_of(obj) for obj in objects if identity(obj) not in wanted}
    return [ours.get(who, entry) for who, entry in unwanted.items()]


def _unknown_kind(obj: Object) -> Change:
    reason = "the workload cluster does not serve this kind, and no CRD of the release defines it"
    return Change(entry_of(obj), "unknown", reason=reason)


def _notes(release: ReleaseContext, addon: Object, cluster: Object, *, changed: bool) -> Iterable[str]:
    if cluster_api.is_paused(cluster):
        yield "the Cluster is paused: nothing of this happens before it is not"
    if dig(addon, ("metadata", "annotations", ROLLBACK_ANNOTATION)) == release.target.class_name:
        yield "the addons are rolled back from this class: nothing of this happens while that is asked for"
    target, drift = release.target, release.policy.drift
    if changed and drift != "repair" and is_applied(addon, target):
        yield (
            f"addons {target.version} are applied already, and this is what differs from them; it is put back with "
            f"annotation {PREFIX}drift: repair (now {drift})"
        )
