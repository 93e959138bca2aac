"""Bringing a workload cluster to the desired objects: namespaces and CRDs first, the rest at once, pruning last.

One failing object does not stop the others of its wave; a failing wave stops the later ones; and nothing is pruned
unless everything was applied.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Event as Flag

from ..charts.manifests import identity, waves
from ..clients import Clients, Workload
from ..effects import MANAGER
from ..kube import ApiError, Conflict, Key, NotFound, Object, Resource, Unavailable, dig
from ..kube.crds import CRD, await_established
from .inventory import NOT_SYNCED, SYNCED, Entry, Plan, content_hash, entry_of, is_owned

THREADS = 8
_NAMESPACE = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
_KEEP = ("metadata", "annotations", "helm.sh/resource-policy")


@dataclass(frozen=True)
class Outcome:
    """The inventory after a rollout, and what happened: counts of applied and pruned objects."""

    entries: tuple[Entry, ...]
    applied: int = 0
    pruned: tuple[Entry, ...] = ()
    kept: tuple[Entry, ...] = ()
    """Left in the cluster on purpose: not ours any more, or marked to be kept."""

    @property
    def failures(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.error]


class Incomplete(Exception):
    """A rollout that did not get through; its outcome says how far it came."""

    def __init__(self, outcome: Outcome, *, unavailable: bool) -> None:
        self.outcome = outcome
        self.unavailable = unavailable
        failures = outcome.failures
        shown = "; ".join(f"{entry}: {entry.error}" for entry in failures[:3])
        more = f"; and {len(failures) - 3} more" if len(failures) > 3 else ""
        super().__init__(f"{len(failures)} of {len(outcome.entries)} objects failed: {shown}{more}")


@dataclass(frozen=True)
class Rollout:
    """The effect of a plan on a workload cluster. Returns an `Outcome` or raises `Incomplete`."""

    workload: Workload
    plan: Plan
    resources: Mapping[tuple[str, str], Resource]
    """Every (apiVersion, kind) of the plan's objects."""
    _stop: Flag = field(default_factory=Flag, compare=False, repr=False)

    def execute(self, _clients: Clients) -> Outcome:
        results: dict[object, Entry] = {identity(obj): entry_of(obj) for obj in self.plan.apply}
        complete = True
        with ThreadPoolExecutor(THREADS, thread_name_prefix="apply") as pool:
            for wave in waves(self.plan.apply):
                for obj, entry in zip(wave, pool.map(self._apply, wave), strict=True):
                    results[identity(obj)] = entry
                complete = all(results[identity(obj)].status == SYNCED for obj in wave)
                if not complete:
                    break
            applied = [entry for entry in results.values() if entry.status == SYNCED]
            entries = [*self.plan.keep, *results.values()]
            if not complete:
                self._fail([*entries, *self.plan.prune], applied)
            return self._prune(pool, entries, len(applied))

    def _fail(self, entries: Sequence[Entry], applied: Sequence[Entry]) -> None:
        raise Incomplete(Outcome(tuple(entries), len(applied)), unavailable=self._stop.is_set())

    # -- apply -------------------------------------------------------------------------------------------------

    def _apply(self, obj: Object) -> Entry:
        entry = entry_of(obj)
        if self._stop.is_set():
            return replace(entry, error="not tried: the API server stopped answering")
        resource = self.resources[obj["apiVersion"], obj["kind"]]
        try:
            live = self._apply_once(resource, obj)
            if obj["kind"] == CRD.kind:
                await_established(self.workload.client, entry.name)
        except Unavailable as error:
            # A 500 is about this object (a field of the wrong type, say), anything else about the server.
            if error.status != 500:
                self._stop.set()
            return replace(entry, error=_told(entry, error))
        except (ApiError, TimeoutError) as error:
            return replace(entry, error=_told(entry, error))
        return replace(entry, uid=live["metadata"]["uid"], hash=content_hash(obj), status=SYNCED)

    def _apply_once(self, resource: Resource, obj: Object) -> Object:
        def apply() -> Object:
            return self.workload.client.apply(resource, obj, manager=MANAGER)

        try:
            return apply()
        except NotFound as error:
            if dig(error.body, "details.kind") == "namespaces":
                # A namespace that the chart takes for granted: made, but not ours to delete.
                name = obj["metadata"]["namespace"]
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                self.workload.client.apply(_NAMESPACE, body, manager=MANAGER)
                return apply()
            # An established CRD can still be unknown to the server's request path for a moment.
            return _poll(apply, within=5.0, failure=error)

    # -- prune -------------------------------------------------------------------------------------------------

    def _prune(self, pool: ThreadPoolExecutor, entries: Sequence[Entry], applied: int) -> Outcome:
        pruned: list[Entry] = []
        kept: list[Entry] = []
        failed: list[Entry] = []
        for wave in _backwards(self.plan.prune):
            for entry, result in zip(wave, pool.map(self._prune_one, wave), strict=True):
                if result is None:
                    pruned.append(entry)
                elif result.error:
                    failed.append(result)
                else:
                    kept.append(result)
            if failed:
                break
        handled = {entry.identity for entry in (*pruned, *kept, *failed)}
        rest = [entry for entry in self.plan.prune if entry.identity not in handled]
        outcome = Outcome((*entries, *failed, *rest), applied, tuple(pruned), tuple(kept))
        if failed:
            raise Incomplete(outcome, unavailable=self._stop.is_set())
        return outcome

    def _prune_one(self, entry: Entry) -> Entry | None:
        """None when it is gone, the entry with an error when it is not, and without one when it is left on purpose."""
        try:
            resource = self.workload.discovery.resource(entry.api_version, entry.kind)
            if resource is None:
                return None  # the kind is gone, and its objects with it
            key = Key(entry.namespace if resource.namespaced else "", entry.name)
            live = self.workload.client.find(resource, key)
            if live is None:
                return None
            foreign = entry.uid and live["metadata"]["uid"] != entry.uid
            if foreign or not is_owned(live) or dig(live, _KEEP) == "keep":
                return replace(entry, error="")
            self.workload.client.delete(resource, key, uid=live["metadata"]["uid"])
        except Conflict:
            return replace(entry, error="")  # replaced between the look and the deletion: not ours
        except Unavailable as error:
            self._stop.set()
            return replace(entry, status=NOT_SYNCED, error=f"not pruned: {error}")
        except ApiError as error:
            return replace(entry, status=NOT_SYNCED, error=f"not pruned: {error}")
        return None


def _told(entry: Entry, error: Exception) -> str:
    """The failure in the server's words; not of a Secret, since they can quote its values."""
    if entry.kind == "Secret" and isinstance(error, ApiError) and error.body:
        return f"refused with HTTP {error.status} {error.reason}; its words are withheld, they can quote the Secret"
    return str(error)


def _backwards(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Custom resources and the like before their CRDs, namespaces last."""
    entries = list(entries)
    crds = [entry for entry in entries if entry.kind == CRD.kind]
    namespaces = [entry for entry in entries if entry.kind == "Namespace" and not entry.group]
    rest = [entry for entry in entries if entry not in crds and entry not in namespaces]
    return [wave for wave in (rest, crds, namespaces) if wave]


def _poll(attempt: Callable[[], Object], *, within: float, failure: NotFound) -> Object:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        time.sleep(0.1)
        try:
            return attempt()
        except NotFound as error:
            failure = error
    raise failure
