"""`plan`: what a release would do in a workload cluster, stage by stage, without doing any of it.

What `addon_apply` would read is read the way it does, only that the Cluster is supposed to have the release's class
already, and that the addon does not remember being on its way.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from functions.addon_apply import content, history
from functions.addon_apply.content import Assets, Facts
from functions.addon_apply.decide import DEFAULT_NAMESPACE
from functions.addon_apply.observe import MissingAssets, Observed, observe, target, values_context
from functions.addon_apply.target import Target
from shared import charts
from shared.api import cluster as contract
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.charts import ChartError, Identity
from shared.clients import Clients
from shared.kube import Client, Key, Object, Resource, deleting, dig, key_of
from shared.kube.dry_run import DryRun
from shared.releases.naming import InvalidName, ReleaseName
from shared.releases.release import InvalidRelease
from shared.releases.source import FolderSource, SourceError, from_env
from shared.releases.stages import Stage
from shared.releases.store import ReleaseStore
from shared.storage import ObjectStore, StorageError
from shared.workload import inventory
from shared.workload.desired import defined_by, desired
from shared.workload.inventory import Entry, entry_of
from shared.workload.policy import Policy, PolicyError
from shared.workload.preview import Change, preview, totals
from shared.workload.reach import Reached

from .failures import Failure
from .scratch import Scratch

_REST = Stage("")


@dataclass(frozen=True)
class Part:
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
class Forecast:
    """The whole plan. `notes` are what else there is to know about it."""

    cluster: Key
    present: str
    wanted: str
    addon_version: str
    kubernetes: str
    hook: str
    notes: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def changes(self) -> list[Change]:
        return [change for part in self.parts for change in part.changes]

    @property
    def counts(self) -> dict[str, int]:
        return totals(self.changes)

    @property
    def obstructed(self) -> bool:
        """Whether the release would not get through."""
        return bool(self.counts["refuse"] or self.counts["unknown"])

    @property
    def empty(self) -> bool:
        return all(change.action in ("unchanged", "keep") for change in self.changes)

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
            "stages": [part.dump() for part in self.parts],
        }


def plan(management: Client, cluster: Object, release: str | None) -> Forecast:
    """What `release` (a tag, or a folder) would do; without one, that of the Cluster's class. Raises `Failure`."""
    dry = DryRun(management)
    clients = Clients(dry)
    if deleting(cluster):
        raise Failure(f"Cluster {key_of(cluster)} is being deleted")
    name = _name(release, cluster)
    clients.releases = _store(name, release)
    dry.suppose(CLUSTER, _of_class(cluster, name.class_name))
    addon = dry.find(CLUSTER_ADDON, addon_of(cluster)) or _fresh(cluster)
    observed = _obstacles(observe(clients, key_of(addon), _forgetful(addon), resync=True))
    return _forecast(observed, addon, cluster)


# -- what is supposed --------------------------------------------------------------------------------------------


def _name(release: str | None, cluster: Object) -> ReleaseName:
    if release is None:
        class_name = contract.class_name(cluster) or ""
        name = ReleaseName.from_class_name(class_name)
        if name is None:
            raise Failure(f"class {class_name!r} of Cluster {key_of(cluster)} names no cluster stack; give `--release`")
        return name
    try:
        return ReleaseName.parse(Path(release).resolve().name if Path(release).is_dir() else release)
    except InvalidName as error:
        raise Failure(f"--release {release}: neither a folder nor a tag: {error}") from error


def _store(name: ReleaseName, release: str | None) -> ReleaseStore:
    """A store that has the release, and that keeps to itself what is written there."""
    memory = ReleaseStore(Scratch())
    try:
        if release is not None and Path(release).is_dir():
            memory.save(name.tag, FolderSource(Path(release).resolve().parent))
            return memory
        missing = f"release {name.tag} is not in object storage"
        try:
            stored = ReleaseStore(Scratch(ObjectStore.from_env()))
            if stored.load(name.tag) is not None:
                return stored
        except StorageError as error:
            missing = str(error)
        memory.save(name.tag, from_env())
        return memory
    except (SourceError, InvalidRelease) as error:
        where = (
            "" if release is not None and Path(release).is_dir() else f"{missing}, and its source does not give it: "
        )
        raise Failure(f"{where}{error}") from error


def _of_class(cluster: Object, class_name: str) -> Object:
    """The Cluster as it is once it asks for this class and is not paused."""
    spec = {**cluster.get("spec", {}), "paused": False}
    topology = dict(spec.get("topology") or {})
    if "class" in topology:
        topology["class"] = class_name
    else:
        topology["classRef"] = {**(topology.get("classRef") or {}), "name": class_name}
    annotations = {**dig(cluster, "metadata.annotations", {})}
    annotations.pop(contract.PAUSED_ANNOTATION, None)
    return {
        **cluster,
        "metadata": {**cluster["metadata"], "annotations": annotations},
        "spec": {**spec, "topology": topology},
    }


def _fresh(cluster: Object) -> Object:
    """The addon that the Cluster would get."""
    key = addon_of(cluster)
    metadata = {"name": key.name, "namespace": key.namespace}
    reference = {"name": cluster["metadata"]["name"], "uid": cluster["metadata"]["uid"]}
    return {**_TYPE, "metadata": metadata, "spec": {"clusterRef": reference}}


_TYPE = {"apiVersion": CLUSTER_ADDON.api_version, "kind": CLUSTER_ADDON.kind}


def _forgetful(addon: Object) -> Object:
    """The addon without what it remembers of its way: conditions, stages, a rollback that is asked for."""
    annotations = {**dig(addon, "metadata.annotations", {})}
    annotations.pop(history.ROLLBACK, None)
    status = {name: value for name, value in addon.get("status", {}).items() if name not in ("conditions", "stages")}
    return {**addon, "metadata": {**addon["metadata"], "annotations": annotations}, "status": status}


def _obstacles(observed: Observed) -> Observed:
    """Raises `Failure` for what keeps the addons from being rendered or compared at all."""
    if isinstance(observed.policy, PolicyError):
        raise Failure(str(observed.policy))
    if observed.reach is None:
        raise Failure("the ClusterAddon is of an earlier Cluster of that name, and will be made anew; try again then")
    if not isinstance(observed.reach, Reached):
        raise Failure(observed.reach.message)
    if isinstance(observed.assets, MissingAssets):
        raise Failure(observed.assets.failure or f"release {observed.assets.tag} is not in object storage any more")
    assert observed.assets is not None
    if observed.assets.problem:
        raise Failure(observed.assets.problem)
    for found in (observed.control_plane, observed.infrastructure):
        if found.state in ("absent", "failed"):
            raise Failure(found.error or f"{found.kind} that the Cluster refers to does not exist")
    return observed


# -- what would be done ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Content:
    """The objects of the stages of a release, as they are applied, and those of kinds that nobody knows."""

    applied: dict[str, list[Object]]
    unknown: dict[str, list[Object]]
    deleted: dict[str, list[Object]]
    """What stages that delete are about."""
    served: dict[tuple[str, str], Resource]

    @property
    def stage_of(self) -> dict[Identity, str]:
        return {charts.identity(obj): stage for stage, objects in self.applied.items() for obj in objects}


def _forecast(observed: Observed, addon: Object, cluster: Object) -> Forecast:
    assets, reached, facts = observed.assets, observed.reach, observed.facts
    assert isinstance(assets, Assets)
    assert isinstance(reached, Reached)
    assert facts is not None
    goal = target(observed)
    due = assets.stages.of(goal.hook) if assets.stages else ()
    wanted = assets.stages.wanted(goal.hook) if assets.stages else ()
    rendered = _rendered(observed, assets, reached, facts, due, wanted)
    shown = (*due, *(one for one in wanted if one not in due), _REST)
    return Forecast(
        key_of(cluster),
        dig(addon, "spec.clusterStack", ""),
        goal.class_name,
        goal.version,
        facts.version,
        goal.hook,
        tuple(_notes(observed, addon, cluster, goal)),
        tuple(_parts(observed, reached, rendered, shown)),
    )


def _rendered(
    observed: Observed, assets: Assets, reached: Reached, facts: Facts, due: Sequence[Stage], wanted: Sequence[Stage]
) -> _Content:
    context = values_context(observed)
    try:
        applied = dict(content.wanted(assets, wanted, context, facts))
        deleted = {one.name: content.stage(assets, one, context, facts) for one in due if one.action == "delete"}
    except ChartError as error:
        raise Failure(f"{observed.release}: {error}") from error
    served = {**reached.served, **defined_by(obj for objects in applied.values() for obj in objects)}

    def known(objects: Iterable[Object]) -> list[Object]:
        there = [obj for obj in objects if (obj["apiVersion"], obj["kind"]) in served]
        return desired(there, served, default_namespace=DEFAULT_NAMESPACE)

    return _Content(
        {stage: known(objects) for stage, objects in applied.items()},
        {
            stage: [obj for obj in objects if (obj["apiVersion"], obj["kind"]) not in served]
            for stage, objects in applied.items()
        },
        {stage: known(objects) for stage, objects in deleted.items()},
        served,
    )


def _parts(observed: Observed, reached: Reached, rendered: _Content, stages: Sequence[Stage]) -> Iterable[Part]:
    """One for each stage, and one more where there is something beyond them."""
    policy = observed.policy if isinstance(observed.policy, Policy) else Policy()
    objects = [obj for part in rendered.applied.values() for obj in part]
    todo = inventory.plan(objects, observed.known, resumed=False, stages=rendered.stage_of)
    deleted = {
        stage: _entries(objects, observed.known, rendered.stage_of) for stage, objects in rendered.deleted.items()
    }
    first = {entry.identity: entry for entries in deleted.values() for entry in entries}
    todo = replace(todo, prune=tuple({**first, **{entry.identity: entry for entry in todo.prune}}.values()))
    changes = preview(reached.workload, todo, rendered.served, policy)
    for stage in stages:
        if stage.action == "delete":
            here = [entry.identity for entry in deleted[stage.name]]
        elif stage is _REST:
            here = list(changes)
        else:
            here = [charts.identity(obj) for obj in rendered.applied[stage.name]]
        part = [changes.pop(who) for who in here if who in changes]
        part += map(_unknown, rendered.unknown.get(stage.name, ()))
        if part or stage is not _REST:
            yield Part(stage, tuple(part))


def _entries(objects: Iterable[Object], known: Iterable[Entry], wanted: Container[Identity]) -> list[Entry]:
    """What a stage that deletes is about, as far as no other stage wants it."""
    ours = {entry.identity: entry for entry in known}
    unwanted = {charts.identity(obj): entry_of(obj) for obj in objects if charts.identity(obj) not in wanted}
    return [ours.get(who, entry) for who, entry in unwanted.items()]


def _unknown(obj: Object) -> Change:
    reason = "the workload cluster does not serve this kind, and no CRD of the release defines it"
    return Change(entry_of(obj), "unknown", reason=reason)


def _notes(observed: Observed, addon: Object, cluster: Object, goal: Target) -> Iterable[str]:
    if contract.is_paused(cluster):
        yield "the Cluster is paused: nothing of this happens before it is not"
    if dig(addon, ("metadata", "annotations", history.ROLLBACK)) == goal.class_name:
        yield "the addons are rolled back from this class: nothing of this happens while that is asked for"
    same = dig(addon, "spec.version") == goal.version and dig(addon, "status.kubernetesVersion", "") == goal.told
    if same and dig(addon, "status.ready") is True:
        drift = observed.policy.drift if isinstance(observed.policy, Policy) else ""
        yield (
            f"addons {goal.version} are applied already; what is listed was changed since, and is put back only with "
            f"annotation capi-functions.dev/drift: repair (now: {drift})"
        )


def exit_code(forecast: Forecast) -> int:
    """With `--exit-code`: 0 nothing would change, 3 something would, 4 the release would not get through."""
    if forecast.obstructed:
        return 4
    return 0 if forecast.empty else 3
