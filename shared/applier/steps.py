"""Carries out one step of a plan: keeps, verifies or applies a desired object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..clients import ClusterClients
from ..kube import Key, Object, Resource, dig
from ..kube.crds import CRD
from .apply import apply, delete_former_run, reject_other_owners
from .cascade import is_marked_keep
from .fields import contains, differences, stored, with_live, without
from .inventory import SYNCED, InventoryEntry, Step, content_hash
from .live import find_if_served, same_content
from .outcome import Drift, StepResult
from .policy import Policy
from .prune import is_custom_resource
from .readiness import has_failed, incomplete_reason


@dataclass(frozen=True)
class StepExecutor:
    """Carries out steps; `readiness_check` returns what a live object is waiting for, empty if it is ready."""

    cluster: ClusterClients
    resources: Mapping[tuple[str, str], Resource]
    policy: Policy
    readiness_check: Callable[[Object], str]
    only_report: bool = False
    """Whether drift is reported and not repaired."""

    def execute(self, step: Step, live: Object | None) -> StepResult:
        """Carries out a step.

        Args:
            step: The step of the plan.
            live: The live object of a step that verifies, or that changes an object of an exclusive owner; None if it
                does not exist. Other steps do not use it.

        Raises:
            ApiError: The API server failed or rejected the object.
            TimeoutError: Finalizers keep an object that has to be deleted first.
        """
        match step.action:
            case "keep":
                return self._keep(step)
            case "verify":
                return self._verify(step, live)
            case "apply":
                before = live if self.policy.owner.exclusive and step.is_change else None
                return self._apply(step, step.obj, before=before)

    def _keep(self, step: Step) -> StepResult:
        """Keeps an applied object; reads it again if it was not ready, and applies it if it was deleted."""
        entry = step.entry
        if not entry.waiting:
            return StepResult(entry)
        live = find_if_served(self.cluster.client, self._resource(step.obj), Key(entry.namespace, entry.name))
        if live is None:
            return self._apply(step, step.obj)
        failed = self._is_gate and has_failed(live)
        return StepResult(replace(entry, waiting=self.readiness_check(live)), failed=failed)

    def _verify(self, step: Step, live: Object | None) -> StepResult:
        """Applies the object only if the live object differs from the applied object, and records the drift."""
        obj, drift = step.obj, Drift(step.entry)
        if live is not None:
            obj = with_ignored_paths(obj, live, self.policy)
            form = self._stored(step.obj, live)
            if contains(live, obj) or (form and form == step.entry.stored):
                return StepResult(self._synced(step, live))
            drift = Drift(step.entry, tuple(differences(live, obj)))
        if self.only_report:
            if live is not None and same_content(live, self._dry_run(obj)):
                return StepResult(replace(step.entry, status=SYNCED, stored=self._stored(step.obj, live)))
            return StepResult(replace(step.entry, status=SYNCED), drift=drift)
        done = self._apply(step, obj, before=live)
        # Without a write there was no drift: the server stores some values in another form.
        return replace(done, drift=drift) if done.written else done

    def _apply(self, step: Step, obj: Object, before: Object | None = None) -> StepResult:
        if before is not None:
            reject_other_owners(self.cluster, before, self.policy)
        if step.run and step.entry.uid:
            delete_former_run(self.cluster, self._resource(obj), obj, self.policy, step.entry.uid)
        # To an exclusive owner, an inventory does not prove that it owns an object.
        new = step.new or (before is None and self.policy.owner.exclusive)
        applied = apply(self.cluster, self._resource(obj), obj, self.policy, new=new)
        live = applied.live
        return StepResult(
            replace(self._synced(step, live), revision=self._revision(step.entry, live)),
            written=before is None or _version(before) != _version(live),
            conflicts=applied.conflicts,
            crd=live if (step.entry.group, step.entry.kind) == (CRD.group, CRD.kind) else None,
        )

    @property
    def _is_gate(self) -> bool:
        return self.readiness_check is incomplete_reason

    def _dry_run(self, obj: Object) -> Object:
        manager = self.policy.owner.manager
        return self.cluster.client.apply(self._resource(obj), obj, manager=manager, dry_run=True)

    def _synced(self, step: Step, live: Object) -> InventoryEntry:
        """Returns the entry of an object that was applied or verified, with the object's wait."""
        waiting = self.readiness_check(live) if self.policy.wait or self._is_gate else ""
        uid = live["metadata"]["uid"]
        form = self._stored(step.obj, live)
        return replace(step.entry, uid=uid, hash=content_hash(step.obj), status=SYNCED, waiting=waiting, stored=form)

    def _stored(self, obj: Object, live: Object) -> str:
        """Returns the hash of `obj` as the server stores it, without ignored fields; empty if stored as applied."""
        for ignored in self.policy.ignored:
            if ignored.covers(obj):
                obj = without(obj, ignored.path)
        return "" if contains(live, obj) else content_hash(stored(live, obj))

    def _revision(self, entry: InventoryEntry, live: Object) -> str:
        """Returns the version in which the object may be pruned without a read; empty if it must be read.

        A custom resource and an object with a status must be, because controllers change them, so that a deletion of
        this version would be rejected.
        """
        changes = "status" in live or is_custom_resource(entry)
        if changes or is_marked_keep(live) or not self.policy.owner.has(live):
            return ""
        return _version(live) or ""

    def _resource(self, obj: Object) -> Resource:
        return self.resources[obj["apiVersion"], obj["kind"]]


def with_ignored_paths(obj: Object, live: Object, policy: Policy) -> Object:
    """Returns `obj` with the live values of fields that may differ, so that an apply keeps them."""
    for ignored in policy.ignored:
        if ignored.covers(obj):
            obj = with_live(obj, live, ignored.path)
    return obj


def _version(obj: Object) -> str | None:
    version: str | None = dig(obj, "metadata.resourceVersion")
    return version
