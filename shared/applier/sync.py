"""Brings a cluster to the desired objects: applies them wave by wave, in parallel within a wave, and prunes last.

One failing object does not stop the others of its wave; a failing wave stops the later ones; and nothing is pruned
unless everything was applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Event as Flag

from shared.manifests import (
    HOOK_FAILED,
    HOOK_SUCCEEDED,
    Identity,
    Operation,
    Wave,
    delete_policies,
    identity,
    runs_at_both_ends,
    waves,
)

from .. import tracing
from ..clients import Clients, ClusterClients
from ..kube import ApiError, Conflict, Key, Object, Resource, Unavailable
from ..kube.crds import await_all_established
from ..kube.responses import understood
from .connection import ClusterConnection
from .desired import desired, kinds_defined_by
from .inventory import NOT_SYNCED, InventoryEntry, Plan, Step, plan
from .live import Live, read_live, recheck_readiness
from .outcome import NOT_TRIED, StepResult, SyncIncomplete, SyncOutcome, format_error, is_server_failure
from .policy import Policy
from .prune import KEPT, await_deletion, prune, prune_waves
from .readiness import incomplete_reason, unready_reason
from .steps import StepExecutor

THREADS = 8
_EACH = 4
"""The number of objects for which another thread pays: its TLS handshake costs as much as two requests."""


def thread_count(objects: int) -> int:
    """Returns the number of threads for a sync of so many objects."""
    return max(1, min(THREADS, objects // _EACH))


@dataclass(frozen=True)
class Sync:
    """The effect that carries out a plan in a cluster: wave by wave, then prunes."""

    cluster: ClusterClients
    plan: Plan
    resources: Mapping[tuple[str, str], Resource]
    """The kinds of the plan's objects, by (apiVersion, kind)."""
    policy: Policy
    only_report: bool = False
    """Whether drift is reported and not repaired."""
    live: Mapping[Identity, Object] = field(default_factory=dict)
    """Live objects that the decision was made on: to verify one of these needs no further read."""

    def execute(self, _clients: Clients) -> SyncOutcome:
        """Carries out the plan.

        Raises:
            SyncIncomplete: An object failed, or a wave has to complete before the next one.
        """
        with ThreadPoolExecutor(
            thread_count(len(self.plan.steps)), thread_name_prefix="apply", initializer=tracing.in_threads()
        ) as pool:
            run = _Run(self, pool)
            return run.prune(run.apply())


def plan_sync(
    connection: ClusterConnection,
    objects: Iterable[Object],
    inventory: Sequence[InventoryEntry],
    policy: Policy,
    *,
    default_namespace: str,
    operation: Operation | None = None,
    resumed: bool = False,
) -> Sync:
    """Returns the effect that brings a cluster to these objects, and prunes all others of the inventory.

    The caller stores `intent(sync.plan)` before it executes the effect, and the entries of the outcome after it.
    Without objects everything is removed. A removal with hooks takes three effects: with the `pre-delete` hooks as
    objects, with the `post-delete` hooks, and without objects.

    Args:
        connection: The cluster.
        objects: Rendered objects, with the hooks of any operation.
        inventory: The entries of all objects that the owner has applied.
        policy: The policy, with the owner.
        default_namespace: The namespace of namespaced objects that name none, such as the release's.
        operation: The operation of Helm; without it hooks are ordinary objects.
        resumed: Whether the latest sync had the same target, so that its results still count.

    Raises:
        UnknownKinds: A kind is neither served nor defined by a CRD among the objects.
    """
    wanted = desired(objects, connection.served, policy.owner, default_namespace=default_namespace)
    planned = plan(wanted, inventory, resumed=resumed, operations={"": operation} if operation else None)
    return Sync(connection.cluster, planned, {**connection.served, **kinds_defined_by(wanted)}, policy)


def _lasts(step: Step) -> bool:
    """Returns whether the hooks after the other objects may need a hook that ran before these."""
    return runs_at_both_ends(step.obj, step.operation)


@dataclass(frozen=True)
class _Run:
    """One execution of a sync."""

    sync: Sync
    pool: ThreadPoolExecutor
    stopped: Flag = field(default_factory=Flag)
    """Set once the API server has stopped answering: the remaining objects are not tried."""

    # -- apply -------------------------------------------------------------------------------------------------

    def apply(self) -> SyncOutcome:
        """Applies the plan wave by wave. Raises `SyncIncomplete` at a wave that failed or has to complete first."""
        plan = self.sync.plan
        steps = {identity(step.obj): step for step in plan.steps}
        done: dict[Identity, StepResult] = {}
        hooks: dict[Identity, StepResult] = {}
        for wave in [*waves((step.obj for step in plan.steps), plan.operations), Wave([])]:
            if wave.gate:
                of_wave = self._wave([steps[identity(obj)] for obj in wave.objects], gate=True)
                hooks |= of_wave
            else:  # all hooks before this wave have succeeded; the last wave is empty
                due = {who: one for who, one in hooks.items() if not (wave.objects and _lasts(steps[who]))}
                of_wave = self._delete_hooks(steps, due, HOOK_SUCCEEDED)
                hooks = {who: one for who, one in hooks.items() if who not in due}
                if not any(one.entry.error for one in of_wave.values()):
                    of_wave |= self._wave([steps[identity(obj)] for obj in wave.objects], gate=False)
            done |= of_wave
            if any(one.entry.error or (wave.gate and one.entry.waiting) for one in of_wave.values()):
                if wave.gate:
                    done |= {who: self._explained(steps[who], one) for who, one in of_wave.items()}
                    done |= self._delete_hooks(
                        steps, {who: done[who] for who in of_wave if done[who].failed}, HOOK_FAILED
                    )
                so_far = [done.get(who) or StepResult(step.entry) for who, step in steps.items()]
                outcome = SyncOutcome.of(so_far, (*plan.rest, *plan.prune))
                outcome = replace(outcome, untried=len(steps) - len(done))
                raise SyncIncomplete(outcome, unavailable=self.stopped.is_set())
        return SyncOutcome.of(done.values(), plan.rest)

    def _delete_hooks(
        self, steps: Mapping[Identity, Step], hooks: Mapping[Identity, StepResult], policy: str
    ) -> dict[Identity, StepResult]:
        """Deletes the objects of hooks with this deletion policy. Their entries stay, without uid."""
        found = [
            (steps[who].obj, one)
            for who, one in hooks.items()
            if steps[who].run and one.entry.uid and policy in delete_policies(steps[who].obj)
        ]
        deleted = self.pool.map(lambda hook: self._delete_hook(*hook), found)
        return {one.entry.identity: one for one in deleted}

    def _delete_hook(self, obj: Object, result: StepResult) -> StepResult:
        entry, resource = result.entry, self.sync.resources[obj["apiVersion"], obj["kind"]]
        try:
            with suppress(Conflict), understood(str(entry)):  # another object has taken the name since
                self.sync.cluster.client.delete(resource, Key(entry.namespace, entry.name), uid=entry.uid)
        except ApiError as error:
            self._stop_on_server_failure(error)
            return replace(result, entry=replace(entry, error=f"not deleted after the hook: {error.detail}"))
        return replace(result, entry=replace(entry, uid=""))

    def _explained(self, step: Step, result: StepResult) -> StepResult:
        """Adds why the pods of a Job do not start, unless the Job was only just applied."""
        if step.action != "keep" or not result.entry.waiting:
            return result
        try:
            entry = recheck_readiness(self.sync.cluster, result.entry, incomplete_reason, with_pods=True)
        except ApiError:  # the next reconcile finds out
            return result
        return replace(result, entry=entry) if entry.waiting else result

    def _wave(self, steps: Sequence[Step], *, gate: bool) -> dict[Identity, StepResult]:
        """Carries out the steps of one wave; with `gate` its Jobs and Pods have to complete before the next wave."""
        cluster, resources = self.sync.cluster, self.sync.resources
        # One list shows an exclusive owner its changed objects, instead of a read for each.
        exclusive = self.sync.policy.owner.exclusive
        read = [step for step in steps if step.action == "verify" or (exclusive and step.is_change)]
        unread = [step.obj for step in read if step.entry.identity not in self.sync.live]
        live = {**self.sync.live, **read_live(self.pool, cluster, resources, unread, self.sync.policy.owner)}
        readiness_check = incomplete_reason if gate else unready_reason
        executor = StepExecutor(cluster, resources, self.sync.policy, readiness_check, self.sync.only_report)
        done = self.pool.map(lambda step: self._step(executor, step, live.get(identity(step.obj))), steps)
        return self._established({one.entry.identity: one for one in done})

    def _step(self, executor: StepExecutor, step: Step, live: Live) -> StepResult:
        """Carries out one step; errors about the object become part of the result."""
        entry = replace(step.entry, error="")
        if self.stopped.is_set():
            return StepResult(replace(entry, status=NOT_SYNCED, error=NOT_TRIED))
        try:
            if isinstance(live, ApiError):
                raise live
            with understood(str(entry)):
                return executor.execute(replace(step, entry=entry), live)
        except (ApiError, TimeoutError) as error:
            self._stop_on_server_failure(error)
            return StepResult(replace(entry, status=NOT_SYNCED, error=format_error(entry, error)))

    def _established(self, done: dict[Identity, StepResult]) -> dict[Identity, StepResult]:
        """Waits for all CRDs of a wave together. After its last step most are established, as one list shows."""
        crds = {who: one.crd for who, one in done.items() if one.crd is not None}
        if not crds:
            return done
        try:
            with understood("CRDs"):
                problems = await_all_established(self.sync.cluster.client, crds.values())
        except ApiError as error:
            self._stop_on_server_failure(error)
            problems = {who.name: error.detail for who in crds}
        return done | {who: _served(done[who], problems.get(who.name, "")) for who in crds}

    def _stop_on_server_failure(self, error: Exception) -> None:
        if is_server_failure(error):
            self.stopped.set()

    # -- prune -------------------------------------------------------------------------------------------------

    def prune(self, outcome: SyncOutcome) -> SyncOutcome:
        """Prunes objects that are no longer desired, and adds the results to `outcome`."""
        pruned: list[InventoryEntry] = []
        kept: list[InventoryEntry] = []
        left: list[InventoryEntry] = []
        failed = False
        for wave in prune_waves(self.sync.plan.prune):
            if failed:
                left += wave
                continue
            results = self._lingering(wave, list(self.pool.map(self._prune_one, wave)))
            for entry, result in zip(wave, results, strict=True):
                if result is None:
                    pruned.append(entry)
                elif result.error:
                    left.append(result)
                    failed = failed or result.status != KEPT
                else:
                    kept.append(result)
        outcome = replace(outcome, entries=(*outcome.entries, *left), pruned=tuple(pruned), kept=tuple(kept))
        if failed:
            raise SyncIncomplete(outcome, unavailable=self.stopped.is_set())
        return outcome

    @cached_property
    def _inventoried(self) -> set[Identity]:
        return self.sync.plan.identities

    def _prune_one(self, entry: InventoryEntry) -> InventoryEntry | None:
        if self.stopped.is_set():
            return replace(entry, status=NOT_SYNCED, error="not pruned, because the API server stopped answering")
        try:
            with understood(str(entry)):
                return prune(self.sync.cluster, entry, self.sync.policy, self._inventoried)
        except Unavailable as error:
            self._stop_on_server_failure(error)
            return replace(entry, status=NOT_SYNCED, error=f"not pruned: {error.detail}")

    def _lingering(
        self, wave: Sequence[InventoryEntry], results: Sequence[InventoryEntry | None]
    ) -> list[InventoryEntry | None]:
        """Returns the results with the deleted objects that still exist marked as not pruned."""
        deleted = [entry for entry, result in zip(wave, results, strict=True) if result is None]
        try:
            with understood("deleted objects"):
                lingering = await_deletion(self.sync.cluster, deleted, self.sync.policy.owner)
            held = {who: f"it is being deleted, and its {why}" for who, why in lingering.items()}
        except ApiError as error:
            held = {entry.identity: error.detail for entry in deleted}
        return [
            replace(entry, status=NOT_SYNCED, error=f"not pruned: {held[entry.identity]}")
            if result is None and entry.identity in held
            else result
            for entry, result in zip(wave, results, strict=True)
        ]


def _served(crd: StepResult, problem: str) -> StepResult:
    """Returns the result for a CRD after the wait: failed if there is a `problem`, otherwise ready."""
    entry = crd.entry
    if problem:
        return replace(crd, entry=replace(entry, status=NOT_SYNCED, hash="", error=problem))
    return replace(crd, entry=replace(entry, waiting=""))
