"""`provider plan`: previews what a version of a provider would change in the cluster, by dry runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from shared.api import cluster
from shared.api import provider as provider_api
from shared.applier.preview import Change, preview, totals
from shared.applier.sync import Sync
from shared.clients import Clients
from shared.kube import Client, Key, Object, key_of
from shared.kube.crds import CRD
from shared.providers import inputs
from shared.providers.inputs import FetchedComponents
from shared.providers.ownership import inventory_of
from shared.providers.storage_migration import MigrateStorage, removed_versions
from shared.runtime import Decision

from ..failure import Failure
from . import crd_changes, rights
from .dry_run import Obstacle, PhaseDryRun
from .ineffective import empty_additional_manifests, ineffective_settings
from .next_version import NextVersion, config_map_versions, next_version
from .ownership_marks import is_only_marked
from .stored_objects import StoredKind, check


@dataclass(frozen=True)
class ProviderPlan:
    """The changes that the installation of a version would make for one provider."""

    kind: str
    key: Key
    installed: str
    version: str
    source: str = ""
    contract: str = ""
    notes: tuple[str, ...] = ()
    obstacle: str = ""
    """Why the version cannot be installed; empty if it can."""
    changes: tuple[Change, ...] = ()
    dropped: tuple[str, ...] = ()
    """Descriptions of the versions and fields that CRDs would lose, and of the objects that are migrated first."""
    crds: tuple[Object, ...] = ()
    """The CRDs that would change."""
    stored: tuple[StoredKind, ...] = ()
    """Whether their objects are valid in the new CRDs; empty if this was not checked."""
    widened: tuple[str, ...] = ()
    """Descriptions of the RBAC rights that the provider would have in addition."""

    @property
    def counts(self) -> dict[str, int]:
        """The number of changes by action."""
        return totals(self.changes)

    @property
    def obstructed(self) -> bool:
        """Whether the installation would fail, its changes cannot be determined, or stored objects would be invalid."""
        invalid = any(kind.invalid for kind in self.stored)
        return bool(self.obstacle or self.counts["refuse"] or self.counts["unknown"] or invalid)

    @property
    def exit_code(self) -> int:
        """0: nothing would change; 3: something would change; 4: `obstructed`."""
        if self.obstructed:
            return 4
        return 3 if any(change.changes for change in self.changes) else 0

    def dump(self) -> Object:
        """Returns the JSON form of the plan."""
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
            "storedObjects": [kind.dump() for kind in self.stored],
            "summary": self.counts | {"marked": sum(map(is_only_marked, self.changes))},
            "changes": [
                change.dump() | ({"marked": True} if is_only_marked(change) else {}) for change in self.changes
            ],
        }


def plan_provider(management: Client, provider: Object, version: str) -> ProviderPlan:
    """Returns what an installation of `version` would change. If `version` is empty, `next_version` chooses it."""
    plan = ProviderPlan(provider["kind"], key_of(provider), provider_api.installed_version(provider), version)
    try:
        target = NextVersion(version) if version else find_next_version(management, provider)
    except Failure as error:
        return replace(plan, obstacle=str(error))
    plan = replace(plan, version=target.version, notes=tuple(_notes(provider, target)))
    dry_run = PhaseDryRun(management, provider, plan.version)
    try:
        if note := dry_run.preflight():
            plan = _with_notes(plan, note)
        try:
            fetched = dry_run.fetch()
        except Obstacle:
            plan = _with_notes(plan, *_config_map_note(management, provider))
            raise
        plan = replace(plan, source=fetched.bundle.source, contract=fetched.contract)
        decision = dry_run.install()
        sync = next((effect for effect in decision.effects if isinstance(effect, Sync)), None)
        if sync is None:
            raise Obstacle(decision.message)
        plan = _with_notes(plan, *_ineffective_settings(dry_run, fetched))
        return _with_changes(management, plan, dry_run.provider, decision, sync)
    except Obstacle as error:
        return replace(plan, obstacle=str(error))


def with_stored_objects(management: Client, plan: ProviderPlan, progress: Callable[[str], None]) -> ProviderPlan:
    """Returns the plan with a check of all objects of the changed CRDs, in a throwaway control plane.

    Raises `Failure` if a CRD is invalid, `ApiError` if objects cannot be read, and the errors of `ControlPlane`.
    """
    return replace(plan, stored=check(management, plan.crds, progress)) if plan.crds else plan


def _with_notes(plan: ProviderPlan, *notes: str) -> ProviderPlan:
    return replace(plan, notes=(*plan.notes, *notes))


def _config_map_note(management: Client, provider: Object) -> Iterable[str]:
    if available := config_map_versions(Clients(management), provider):
        yield f"ConfigMaps in the provider's namespace contain the versions {', '.join(available)}"


def find_next_version(management: Client, provider: Object) -> NextVersion:
    """Returns the version that `plan` chooses without `--version`. Raises `Failure` if there is none."""
    clients = Clients(management)
    provider_inputs = inputs.read(clients, provider)
    if provider_inputs.problem:
        raise Failure(provider_inputs.problem)
    return next_version(clients, provider, provider_inputs)


def _notes(provider: Object, target: NextVersion) -> Iterable[str]:
    if target.note:
        yield target.note
    if cluster.is_paused(provider):
        yield f"the provider is paused, so nothing changes until the annotation {cluster.PAUSED_ANNOTATION} is removed"
    if target.version[:1].isdigit():
        yield f"release tags usually begin with v, as in v{target.version}; the version is looked up exactly as written"


def _with_changes(
    management: Client, plan: ProviderPlan, provider: Object, decision: Decision, sync: Sync
) -> ProviderPlan:
    """Returns the plan with the changes that a dry run of the sync reports."""
    changes = preview(sync.cluster, sync.plan, sync.resources, sync.policy)
    existing = sum(change.action in ("update", "unchanged", "recreate") for change in changes.values())
    if existing and not inventory_of(provider):
        removed = "fields that only the former installer has set are removed"
        plan = _with_notes(plan, f"existing objects are adopted: {existing}; {removed}")
    concerned = {change.entry.name for change in changes.values() if crd_changes.is_crd(change) and change.changes}
    desired = [step.obj for step in sync.plan.steps]
    migrations = [effect for effect in decision.effects if isinstance(effect, MigrateStorage)]
    return replace(
        plan,
        changes=tuple(changes.values()),
        crds=tuple(obj for obj in desired if obj["kind"] == CRD.kind and key_of(obj).name in concerned),
        dropped=(*crd_changes.removals(changes.values()), *map(_format_migration, migrations)),
        widened=tuple(_new_rights(management, plan, provider, sync)),
    )


def _ineffective_settings(dry_run: PhaseDryRun, fetched: FetchedComponents) -> Iterable[str]:
    provider, provider_inputs = dry_run.provider, dry_run.inputs()
    components, additional = fetched.bundle.components, provider_inputs.additional
    yield from empty_additional_manifests(provider, additional)
    yield from ineffective_settings(provider, components, provider_inputs.variables, additional)


def _format_migration(migration: MigrateStorage) -> str:
    removed = ", ".join(removed_versions(migration.live, migration.desired))
    return f"{migration.live['metadata']['name']}: objects stored as {removed} are migrated to another version first"


def _new_rights(management: Client, plan: ProviderPlan, provider: Object, sync: Sync) -> list[str]:
    """Returns the rights that the desired roles grant and the present ones do not; none for a first installation."""
    if not plan.installed:
        return []
    desired = [step.obj for step in sync.plan.steps if step.obj["kind"] in rights.KINDS]
    recorded = [entry for entry in inventory_of(provider) if entry.kind in rights.KINDS]
    keys = {(entry.kind, entry.namespace, entry.name) for entry in recorded}
    ordered = sorted(keys | {(obj["kind"], *key_of(obj)) for obj in desired})
    live = [management.find(rights.KINDS[kind], Key(namespace, name)) for kind, namespace, name in ordered]
    return rights.new_rights([{"kind": key[0], **obj} for key, obj in zip(ordered, live, strict=True) if obj], desired)
