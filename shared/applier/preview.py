"""Previews a sync: what it would do to each object.

The sync's own steps run on a client that sends dry runs, so that no rule is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, get_args

from shared.manifests import Identity, identity, waves

from ..clients import ClusterClients
from ..kube import ApiError, Key, Object, Resource, dig
from ..kube.crds import CRD
from ..kube.dry_run import DryRunClient
from .apply import ApplyResult, FieldConflict, apply, reject_other_owners
from .cascade import KEEP, is_marked_keep
from .defaults import claimed_fields
from .diff import FieldDiff, compare
from .inventory import InventoryEntry, Plan, Step
from .live import find_if_served, find_live
from .outcome import format_error, is_server_failure
from .owner import Owner
from .policy import Policy
from .prune import KEPT, prune, prune_waves
from .steps import with_ignored_paths
from .sync import THREADS

Action = Literal["create", "update", "recreate", "delete", "keep", "refuse", "unknown", "unchanged"]

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Change:
    """The effect of the sync on one object.

    Attributes:
        entry: The inventory entry of the object.
        action: `create`, `update`, `delete` and `unchanged` as the names say. `recreate`: delete and create, because an
            immutable field changes. `keep`: an object that is no longer desired is not deleted. `refuse`: the server or
            the policy rejects the change. `unknown`: the server does not serve the kind.
        fields: The fields that would change.
        reason: Why the object is kept or rejected, or a hint.
    """

    entry: InventoryEntry
    action: Action
    fields: tuple[FieldDiff, ...] = ()
    conflicts: tuple[FieldConflict, ...] = ()
    """Fields that other field managers own."""
    reason: str = ""

    @property
    def changes(self) -> bool:
        """Whether the sync would change the object, or fails to change it."""
        return self.action not in ("unchanged", "keep")

    def dump(self) -> Object:
        """Returns the change as JSON, without empty fields."""
        entry = self.entry
        found: Object = {
            "action": self.action,
            "apiVersion": entry.api_version,
            "kind": entry.kind,
            "namespace": entry.namespace,
            "name": entry.name,
            "reason": self.reason,
            "fields": [field.dump() for field in self.fields],
            "conflicts": [{"manager": held.manager, "field": held.field} for held in self.conflicts],
        }
        return {name: value for name, value in found.items() if value}


def preview(
    cluster: ClusterClients, plan: Plan, resources: Mapping[tuple[str, str], Resource], policy: Policy
) -> dict[Identity, Change]:
    """Returns what `plan` would do to each object, by identity.

    Previews all waves, even after a wave at which a sync would stop (a failure, a Job that has to complete).

    Args:
        cluster: The cluster to send dry runs to.
        plan: The plan to preview.
        resources: The kinds of the plan's objects, by (apiVersion, kind).
        policy: The policy of the sync.

    Raises:
        Unavailable: The API server stopped answering.
    """
    dry = _dry_run_clients(cluster)
    changes: dict[Identity, Change] = {}

    def run(pool: ThreadPoolExecutor, one: Callable[[_Item], Change | None], items: Iterable[_Item]) -> None:
        changes.update({change.entry.identity: change for change in pool.map(one, items) if change is not None})

    steps = {identity(step.obj): step for step in plan.steps}
    with ThreadPoolExecutor(THREADS, thread_name_prefix="preview") as pool:
        for wave in waves((step.obj for step in plan.steps), plan.operations):
            members = [steps[identity(obj)] for obj in wave.objects]
            run(
                pool,
                lambda step: _apply(dry, step, resources[step.obj["apiVersion"], step.obj["kind"]], policy),
                members,
            )
        for entries in prune_waves(plan.prune):
            run(pool, lambda entry: _prune(dry, entry, policy, plan.identities), entries)
    redefined = {_defined_kind(step.obj) for who, step in steps.items() if changes[who].action == "update"}
    return {who: _with_hint(change, redefined) for who, change in changes.items()}


def _dry_run_clients(cluster: ClusterClients) -> ClusterClients:
    dry = ClusterClients(DryRunClient(cluster.client))
    dry.discovery = cluster.discovery
    return dry


# -- desired objects ---------------------------------------------------------------------------------------------


def _apply(dry: ClusterClients, step: Step, resource: Resource, policy: Policy) -> Change:
    """Returns what a step would do, by a dry run."""
    obj, live = step.obj, None
    try:
        live = find_if_served(dry.client, resource, Key(step.entry.namespace, step.entry.name))
        if live is not None and step.action == "verify":
            obj = with_ignored_paths(obj, live, policy)
        # With force the dry run shows the conflicts field by field, and all other changes.
        supposed = replace(policy, conflicts="force") if policy.conflicts == "fail" else policy
        if live is not None and step.action == "verify":
            reject_other_owners(dry, live, policy)
        applied = apply(dry, resource, obj, supposed, new=step.new)
    except (ApiError, TimeoutError) as error:
        if live is not None and isinstance(error, ApiError) and claimed_fields(obj, live, error.body, policy.owner):
            reason = "it replaces fields that the API server has set, which a dry run cannot foresee"
            return Change(step.entry, "update", compare(live, obj, whole=False), reason=reason)
        return Change(step.entry, "refuse", reason=_rejection(step.entry, error))
    if step.run and live is not None and live["metadata"]["uid"] == step.entry.uid:
        fields = compare(live, applied.live, whole=bool(dig(applied.live, "metadata.uid")))
        return Change(step.entry, "recreate", fields, reason="it is a hook, which runs again")
    return classify(step.entry, live, applied, policy)


def classify(entry: InventoryEntry, live: Object | None, applied: ApplyResult, policy: Policy) -> Change:
    """Returns the change that a dry run of an apply shows; a result without a uid did not come from the server.

    Args:
        entry: The inventory entry of the object.
        live: The live object before, None if it does not exist.
        applied: The result of the dry run.
        policy: The policy of the sync.
    """
    unseen = not dig(applied.live, "metadata.uid")
    if live is None:
        if unseen and entry.uid:
            return Change(
                entry, "update", reason="its new version is not served yet, so the changed fields are not known"
            )
        return Change(entry, "create", reason="it was applied before, and is missing" if entry.uid else "")
    fields = compare(live, applied.live, whole=not unseen)
    if unseen:
        return Change(entry, "recreate", fields, reason="an immutable field changes: it is deleted and recreated")
    if applied.conflicts and policy.conflicts == "fail":
        return Change(
            entry, "refuse", fields, applied.conflicts, "other field managers own some of its fields (conflicts: fail)"
        )
    reason = f"other field managers own some of its fields (conflicts: {policy.conflicts})" if applied.conflicts else ""
    return Change(entry, "update" if fields else "unchanged", fields, applied.conflicts, reason)


def _rejection(entry: InventoryEntry, error: Exception) -> str:
    """Returns the error's message; raises the error if it concerns the server, not the object."""
    if is_server_failure(error):
        raise error
    return format_error(entry, error)


def _defined_kind(obj: Object) -> tuple[str, str] | None:
    """Returns the (group, kind) that a CRD defines; None for any other object."""
    return (dig(obj, "spec.group", ""), dig(obj, "spec.names.kind", "")) if obj["kind"] == CRD.kind else None


def _with_hint(change: Change, redefined: set[tuple[str, str] | None]) -> Change:
    """Adds a hint to a rejected change if the sync also changes the object's CRD."""
    if change.action != "refuse" or (change.entry.group, change.entry.kind) not in redefined:
        return change
    hint = "this release changes its CRD, so a dry run cannot foresee the change"
    return replace(change, reason=f"{change.reason}; {hint}")


# -- objects to prune --------------------------------------------------------------------------------------------


def _prune(
    dry: ClusterClients, entry: InventoryEntry, policy: Policy, inventoried: Collection[Identity]
) -> Change | None:
    """Returns None if the object no longer exists."""
    try:
        found = find_live(dry, entry)
        if found is None:
            return None
        # Clears the version so that the object is read, because an unsent deletion cannot be rejected.
        left = prune(dry, replace(entry, revision=""), policy, inventoried)
    except ApiError as error:
        return Change(entry, "refuse", reason=_rejection(entry, error))
    if left is None:
        return Change(entry, "delete", reason="with everything in it" if entry.kind == "Namespace" else "")
    if left.error and left.status != KEPT:
        return Change(entry, "refuse", reason=left.error)
    return Change(entry, "keep", reason=left.error or keep_reason(entry, found[1], policy.owner))


def keep_reason(entry: InventoryEntry, live: Object, owner: Owner) -> str:
    """Returns why an object that is neither a CRD nor a Namespace is not pruned."""
    if is_marked_keep(live):
        return f"it is annotated with {KEEP}: keep"
    if not owner.has_labels(live):
        return "it no longer has the label of its owner, so it is kept"
    if (mark := owner.mark.of(live)) not in ("", str(owner.mark)):
        return f"it now belongs to {mark}, so it is kept"
    if not owner.has(live, entry):
        return "it was recreated by another owner, so it is kept"
    return "it has changed since it was read"


def totals(changes: Sequence[Change]) -> dict[str, int]:
    """Returns the number of objects for each action, and the number of objects with field conflicts."""
    counts = {action: sum(change.action == action for change in changes) for action in get_args(Action)}
    return counts | {"conflicts": sum(bool(change.conflicts) for change in changes)}
