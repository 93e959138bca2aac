"""`provider plan`: what a version of a provider would do in the cluster, from dry runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from shared.api import cluster
from shared.api import provider as provider_api
from shared.applier.preview import Change, preview, totals
from shared.applier.rollout import Rollout
from shared.clients import Clients
from shared.kube import Client, Key, Object, key_of
from shared.providers import inputs
from shared.providers.fetched_components import FetchedComponents
from shared.providers.inventory import inventory_of
from shared.providers.storage_migration import MigrateStorage, removed_versions
from shared.runtime import Decision

from ..failures import Failure
from . import crds, rights
from .dry_run import Obstacle, PhaseDryRun
from .marks import only_marked
from .remarks import nothing_added, remarks
from .versions import Next, brought, following


@dataclass(frozen=True)
class Outlook:
    """What would become of one provider. `obstacle` is why nothing would, `dropped` and `widened` are for the eye."""

    kind: str
    key: Key
    installed: str
    version: str
    source: str = ""
    contract: str = ""
    notes: tuple[str, ...] = ()
    obstacle: str = ""
    changes: tuple[Change, ...] = ()
    dropped: tuple[str, ...] = ()
    """Versions and fields of CRDs that go."""
    widened: tuple[str, ...] = ()
    """Rights that come."""

    @property
    def counts(self) -> dict[str, int]:
        return totals(self.changes)

    @property
    def obstructed(self) -> bool:
        """Whether the version would not get through."""
        return bool(self.obstacle or self.counts["refuse"] or self.counts["unknown"])

    @property
    def exit_code(self) -> int:
        """0 where nothing would change, 3 where something would, 4 where it would not get through."""
        if self.obstructed:
            return 4
        return 3 if any(change.changes for change in self.changes) else 0

    def dump(self) -> Object:
        return {
            "kind": self.kind,
            "namespace": self.key.namespace,
            "name": self.key.name,
            "version": {"installed": self.installed, "wanted": self.version},
            "source": self.source,
            "contract": self.contract,
            "notes": list(self.notes),
            "obstacle": self.obstacle,
            "droppedVersions": list(self.dropped),
            "widenedRights": list(self.widened),
            "summary": self.counts | {"marked": sum(map(only_marked, self.changes))},
            "changes": [change.dump() | ({"marked": True} if only_marked(change) else {}) for change in self.changes],
        }


def plan(management: Client, provider: Object, version: str) -> Outlook:
    """What `version` would do; without one, the next."""
    outlook = Outlook(provider["kind"], key_of(provider), provider_api.installed_version(provider), version)
    try:
        goal = Next(version) if version else _goal(management, provider)
    except Failure as error:
        return replace(outlook, obstacle=str(error))
    outlook = replace(outlook, version=goal.version, notes=tuple(_notes(provider, goal)))
    dry_run = PhaseDryRun(management, provider, outlook.version)
    try:
        if waits := dry_run.preflight():
            outlook = _noted(outlook, waits)
        try:
            fetched = dry_run.fetch()
        except Obstacle:
            outlook = _noted(outlook, *_brought(management, provider))
            raise
        outlook = replace(outlook, source=fetched.bundle.source, contract=fetched.contract)
        decision = dry_run.install()
        rollout = next((effect for effect in decision.effects if isinstance(effect, Rollout)), None)
        if rollout is None:
            raise Obstacle(decision.message)
        outlook = _noted(outlook, *_remarks(dry_run, fetched))
        return _foreseen(management, outlook, dry_run.provider, decision, rollout)
    except Obstacle as error:
        return replace(outlook, obstacle=str(error))


def _noted(outlook: Outlook, *notes: str) -> Outlook:
    return replace(outlook, notes=(*outlook.notes, *notes))


def _brought(management: Client, provider: Object) -> Iterable[str]:
    if found := brought(Clients(management), provider):
        yield f"ConfigMaps in its namespace are of {', '.join(found)}"


def _goal(management: Client, provider: Object) -> Next:
    clients = Clients(management)
    read = inputs.read(clients, provider)
    if read.problem:
        raise Failure(read.problem)
    return following(clients, provider, read)


def _notes(provider: Object, goal: Next) -> Iterable[str]:
    if goal.note:
        yield goal.note
    if cluster.is_paused(provider):
        yield "it is paused: nothing of this happens before it is not"
    if goal.version[:1].isdigit():
        yield f"releases are tagged v{goal.version}, as a rule; a version is asked for as it is written"


def _foreseen(management: Client, outlook: Outlook, provider: Object, decision: Decision, rollout: Rollout) -> Outlook:
    changes = preview(rollout.cluster, rollout.plan, rollout.resources, rollout.policy)
    there = sum(change.action in ("update", "unchanged", "recreate") for change in changes.values())
    if there and not inventory_of(provider):
        note = f"{there} of its objects are there already, and are taken over: what only their installer set goes"
        outlook = _noted(outlook, note)
    migrations = [effect for effect in decision.effects if isinstance(effect, MigrateStorage)]
    return replace(
        outlook,
        changes=tuple(changes.values()),
        dropped=(*crds.dropped(changes.values()), *map(_moved, migrations)),
        widened=tuple(_widened(management, outlook, provider, rollout)),
    )


def _remarks(dry_run: PhaseDryRun, fetched: FetchedComponents) -> Iterable[str]:
    provider, read = dry_run.provider, dry_run.inputs()
    components, added = fetched.bundle.components, read.additional
    return (*nothing_added(provider, added), *remarks(provider, components, read.variables, added))


def _moved(migration: MigrateStorage) -> str:
    gone = ", ".join(removed_versions(migration.live, migration.wanted))
    return f"{migration.live['metadata']['name']}: objects that are stored as {gone} are written anew before that"


def _widened(management: Client, outlook: Outlook, provider: Object, rollout: Rollout) -> list[str]:
    """Nothing for a first installation, whose rights are all new."""
    if not outlook.installed:
        return []
    wanted = [step.obj for step in rollout.plan.steps if step.obj["kind"] in rights.KINDS]
    known = {
        (entry.kind, entry.namespace, entry.name) for entry in inventory_of(provider) if entry.kind in rights.KINDS
    }
    places = sorted(known | {(obj["kind"], *key_of(obj)) for obj in wanted})
    live = [management.find(rights.KINDS[kind], Key(namespace, name)) for kind, namespace, name in places]
    return rights.widened([{"kind": place[0], **obj} for place, obj in zip(places, live, strict=True) if obj], wanted)
