"""Bringing a workload cluster to the desired objects: wave by wave, each at once, pruning last.

One failing object does not stop the others of its wave; a failing wave stops the later ones; and nothing is pruned
unless everything was applied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Event as Flag

from ..charts.manifests import Identity, identity, waves
from ..clients import Clients, Workload
from ..effects import MANAGER
from ..kube import ApiError, Key, Object, Resource, Unavailable, dig
from ..kube.crds import CRD, await_all
from .apply import Held, Refused, apply
from .fields import contains, differences, with_live
from .inventory import NOT_SYNCED, OWNED, OWNED_LABEL, SYNCED, Entry, Plan, Step, content_hash
from .policy import Policy
from .prune import KEPT, backwards, linger, prune
from .readiness import completed, unready

_Live = Object | ApiError | None
"""An object as it is in the cluster, why it could not be read, or that it is not there."""

THREADS = 8
_EACH = 4
"""Objects for which another thread is worth its connection: a TLS handshake costs both ends as much as two requests."""
_LIST_FROM = 3
"""Objects of one kind from which on one list is cheaper than a look at each."""


@dataclass(frozen=True)
class Drift:
    """An object that was not as it had been applied: the paths that differed, or `missing`."""

    entry: Entry
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.entry} ({', '.join(self.fields[:5]) if self.fields else 'missing'})"


@dataclass
class Outcome:
    """The inventory after a rollout, and what happened. Fields grow while it runs."""

    entries: tuple[Entry, ...] = ()
    written: list[Entry] = field(default_factory=list)
    pruned: tuple[Entry, ...] = ()
    kept: tuple[Entry, ...] = ()
    """Left in the cluster on purpose: not ours any more, or marked to be kept."""
    held: list[tuple[Entry, Held]] = field(default_factory=list)
    drift: list[Drift] = field(default_factory=list)

    @property
    def failures(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.error and entry.status != KEPT]

    @property
    def unready(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.waiting]


class Incomplete(Exception):
    """A rollout that did not get through; its outcome says how far it came.

    `unavailable`: the server stopped answering. Without failures it waits for a wave to be over.
    """

    def __init__(self, outcome: Outcome, *, unavailable: bool = False) -> None:
        self.outcome = outcome
        self.unavailable = unavailable
        failures = outcome.failures
        if failures:
            shown = "; ".join(f"{entry}: {entry.error}" for entry in failures[:3])
            more = f"; and {len(failures) - 3} more" if len(failures) > 3 else ""
            super().__init__(f"{len(failures)} of {len(outcome.entries)} objects failed: {shown}{more}")
        else:
            super().__init__("waiting for " + told_waiting(outcome.unready))

    @property
    def waiting(self) -> bool:
        return not self.outcome.failures


def threads(objects: int) -> int:
    return max(1, min(THREADS, objects // _EACH))


def told_waiting(entries: Sequence[Entry]) -> str:
    """What is not ready, in one line."""
    more = f"; and {len(entries) - 3} more" if len(entries) > 3 else ""
    return "; ".join(f"{entry} {entry.waiting}" for entry in entries[:3]) + more


@dataclass(frozen=True)
class Rollout:
    """The effect of a plan on a workload cluster. Returns an `Outcome` or raises `Incomplete`."""

    workload: Workload
    plan: Plan
    resources: Mapping[tuple[str, str], Resource]
    """Every (apiVersion, kind) of the plan's objects."""
    policy: Policy = field(default_factory=Policy)
    only_report: bool = False
    """Tells drift and leaves it."""
    _stop: Flag = field(default_factory=Flag, compare=False, repr=False)
    _crds: list[Object] = field(default_factory=list, compare=False, repr=False)
    """Those of the present wave that were applied, as the server answered."""

    def execute(self, _clients: Clients) -> Outcome:
        steps = {identity(step.obj): step for step in self.plan.steps}
        results: dict[Identity, Entry] = {}
        outcome = Outcome()
        with ThreadPoolExecutor(threads(len(steps)), thread_name_prefix="apply") as pool:
            for wave in waves(step.obj for step in self.plan.steps):
                members = [steps[identity(obj)] for obj in wave.objects]
                self._run(pool, members, results, outcome, completed if wave.gate else unready)
                done = [results[identity(obj)] for obj in wave.objects]
                if any(entry.error or (wave.gate and entry.waiting) for entry in done):
                    self._interrupt(outcome, results)
            outcome.entries = (*results.values(), *self.plan.rest)
            return self._prune(pool, outcome)

    def _interrupt(self, outcome: Outcome, results: Mapping[Identity, Entry]) -> None:
        entries = [results.get(identity(step.obj), step.entry) for step in self.plan.steps]
        outcome.entries = (*entries, *self.plan.rest, *self.plan.prune)
        raise Incomplete(outcome, unavailable=self._stop.is_set())

    # -- apply -------------------------------------------------------------------------------------------------

    def _run(
        self,
        pool: ThreadPoolExecutor,
        steps: Sequence[Step],
        results: dict[Identity, Entry],
        outcome: Outcome,
        judge: Callable[[Object], str],
    ) -> None:
        live = self._look(pool, [step for step in steps if step.action == "verify"])

        def one(step: Step) -> Entry:
            found = live.get(identity(step.obj))
            return self._one(step, found, outcome, judge)

        for step, entry in zip(steps, pool.map(one, steps), strict=True):
            results[identity(step.obj)] = entry
        self._establish(results)

    def _establish(self, results: dict[Identity, Entry]) -> None:
        """The CRDs of a wave are waited for together: by then most are served, and one look tells."""
        applied, crds = {identity(crd) for crd in self._crds}, list(self._crds)
        self._crds.clear()
        try:
            problems = await_all(self.workload.client, crds) if crds else {}
        except ApiError as error:
            if isinstance(error, Unavailable) and error.status != 500:
                self._stop.set()
            problems = {who.name: error.detail for who in applied}
        for who in applied:
            entry, problem = results[who], problems.get(who.name)
            if problem:
                results[who] = replace(entry, status=NOT_SYNCED, hash="", error=problem)
            else:
                results[who] = replace(entry, waiting="")

    def _one(self, step: Step, live: _Live, outcome: Outcome, judge: Callable[[Object], str]) -> Entry:
        entry = replace(step.entry, error="")
        if self._stop.is_set():
            return replace(entry, status=NOT_SYNCED, error="not tried: the API server stopped answering")
        try:
            if isinstance(live, ApiError):
                raise live
            match step.action:
                case "keep":
                    return self._keep(step, entry, outcome, judge) if entry.waiting else entry
                case "verify":
                    return self._verify(step, entry, live, outcome, judge)
                case "apply":
                    return self._apply(step, entry, step.obj, outcome, judge)[0]
        except Unavailable as error:
            # A 500 is about this object (a field of the wrong type, say), anything else about the server.
            if error.status != 500:
                self._stop.set()
            return replace(entry, status=NOT_SYNCED, error=told(entry, error))
        except (ApiError, TimeoutError) as error:
            return replace(entry, status=NOT_SYNCED, error=told(entry, error))

    def _keep(self, step: Step, entry: Entry, outcome: Outcome, judge: Callable[[Object], str]) -> Entry:
        """Applied before and not ready then; by now it may be, or somebody may have taken it away."""
        resource = self.resources[step.obj["apiVersion"], step.obj["kind"]]
        live = self.workload.client.find(resource, Key(entry.namespace, entry.name))
        if live is None:
            return self._apply(step, entry, step.obj, outcome, judge)[0]
        return replace(entry, waiting=judge(live))

    def _verify(
        self, step: Step, entry: Entry, live: Object | None, outcome: Outcome, judge: Callable[[Object], str]
    ) -> Entry:
        """Applies only what is not as it was applied last time, and tells that."""
        if live is None:
            drift = Drift(entry)
        else:
            obj = self._with_ignored(step.obj, live)
            if contains(live, obj):
                return self._synced(entry, step.obj, live, judge)
            drift = Drift(entry, tuple(differences(live, obj)))
        obj = step.obj if live is None else obj
        if self.only_report:
            resource = self.resources[obj["apiVersion"], obj["kind"]]
            if live is None or not _same(
                live, self.workload.client.apply(resource, obj, manager=MANAGER, dry_run=True)
            ):
                outcome.drift.append(drift)
            return replace(entry, status=SYNCED)
        result, after = self._apply(step, entry, obj, outcome, judge, before=live)
        # Where nothing was written it only looked different: the server writes some values in another form.
        if live is None or dig(live, "metadata.resourceVersion") != dig(after, "metadata.resourceVersion"):
            outcome.drift.append(drift)
        return result

    def _apply(
        self,
        step: Step,
        entry: Entry,
        obj: Object,
        outcome: Outcome,
        judge: Callable[[Object], str],
        before: Object | None = None,
    ) -> tuple[Entry, Object]:
        applied = apply(self.workload, self.resources[obj["apiVersion"], obj["kind"]], obj, self.policy)
        live = applied.live
        if before is None or dig(before, "metadata.resourceVersion") != dig(live, "metadata.resourceVersion"):
            outcome.written.append(entry)
        outcome.held += [(entry, held) for held in applied.held]
        if (entry.group, entry.kind) == (CRD.group, CRD.kind):
            self._crds.append(live)
        return self._synced(entry, step.obj, live, judge), live

    def _synced(self, entry: Entry, wanted: Object, live: Object, judge: Callable[[Object], str]) -> Entry:
        waiting = judge(live) if self.policy.wait or judge is completed else ""
        uid = live["metadata"]["uid"]
        return replace(entry, uid=uid, hash=content_hash(wanted), status=SYNCED, waiting=waiting)

    def _with_ignored(self, obj: Object, live: Object | None) -> Object:
        """`obj` with the live values of what may differ, so that applying it keeps them."""
        for ignored in self.policy.ignored if live is not None else ():
            if ignored.covers(obj):
                obj = with_live(obj, live or {}, ignored.path)
        return obj

    def _look(self, pool: ThreadPoolExecutor, steps: Sequence[Step]) -> dict[Identity, _Live]:
        """The objects of these steps as they are in the cluster; None where they are not."""
        kinds: dict[tuple[str, str], list[Step]] = defaultdict(list)
        for step in steps:
            kinds[step.obj["apiVersion"], step.obj["kind"]].append(step)
        found: dict[Identity, _Live] = {}
        looks: list[Callable[[], dict[Identity, _Live]]] = []
        for kind, members in kinds.items():
            resource = self.resources[kind]
            if len(members) >= _LIST_FROM:
                looks.append(lambda resource=resource, members=members: self._list(resource, members))  # type: ignore[misc]
            else:
                looks += [lambda resource=resource, step=step: self._get(resource, step) for step in members]  # type: ignore[misc]
        for part in pool.map(lambda look: look(), looks):
            found |= part
        return found

    def _list(self, resource: Resource, steps: Sequence[Step]) -> dict[Identity, _Live]:
        """One list for all of them, of their namespace if they have one, and a look at each that lost our label."""
        namespaces = {identity(step.obj).namespace for step in steps}
        namespace = namespaces.pop() if len(namespaces) == 1 else ""
        try:
            found_there = self.workload.client.list(resource, namespace, selector=f"{OWNED_LABEL}={OWNED}")
            listed = {identity(obj): obj for obj in found_there}
        except ApiError as error:
            return {identity(step.obj): error for step in steps}
        found: dict[Identity, _Live] = {}
        for step in steps:
            who = identity(step.obj)
            found |= {who: listed[who]} if who in listed else self._get(resource, step)
        return found

    def _get(self, resource: Resource, step: Step) -> dict[Identity, _Live]:
        who = identity(step.obj)
        try:
            return {who: self.workload.client.find(resource, Key(who.namespace, who.name))}
        except ApiError as error:
            return {who: error}

    # -- prune -------------------------------------------------------------------------------------------------

    def _prune(self, pool: ThreadPoolExecutor, outcome: Outcome) -> Outcome:
        left: list[Entry] = []
        failed = False
        for wave in backwards(self.plan.prune):
            if failed:
                left += wave
                continue
            results = self._lingering(wave, list(pool.map(self._prune_one, wave)))
            for entry, result in zip(wave, results, strict=True):
                if result is None:
                    outcome.pruned += (entry,)
                elif result.error:
                    left.append(result)
                    failed = failed or result.status != KEPT
                else:
                    outcome.kept += (result,)
        outcome.entries += tuple(left)
        if failed:
            raise Incomplete(outcome, unavailable=self._stop.is_set())
        return outcome

    def _lingering(self, wave: Sequence[Entry], results: Sequence[Entry | None]) -> list[Entry | None]:
        """The results with what does not go, though it was deleted."""
        deleted = [entry for entry, result in zip(wave, results, strict=True) if result is None]
        try:
            held = {who: f"it is being deleted, its {why}" for who, why in linger(self.workload, deleted).items()}
        except ApiError as error:
            held = {entry.identity: error.detail for entry in deleted}
        return [
            replace(entry, status=NOT_SYNCED, error=f"not pruned: {held[entry.identity]}")
            if result is None and entry.identity in held
            else result
            for entry, result in zip(wave, results, strict=True)
        ]

    def _prune_one(self, entry: Entry) -> Entry | None:
        if self._stop.is_set():
            return replace(entry, status=NOT_SYNCED, error="not pruned: the API server stopped answering")
        try:
            return prune(self.workload, entry, self.policy)
        except Unavailable as error:
            if error.status != 500:
                self._stop.set()
            return replace(entry, status=NOT_SYNCED, error=f"not pruned: {error.detail}")


def look_again(workload: Workload, entry: Entry, judge: Callable[[Object], str] = unready) -> Entry:
    """The entry with what its object is waiting for now. Raises `ApiError`."""
    resource = workload.discovery.resource(entry.api_version, entry.kind)
    live = workload.client.find(resource, Key(entry.namespace, entry.name)) if resource else None
    return replace(entry, waiting=judge(live) if live else "is not there any more")


def told(entry: Entry, error: Exception) -> str:
    """The failure in the server's words; not of a Secret, since they can quote its values."""
    our_words = isinstance(error, Refused) and not error.body
    if entry.kind == "Secret" and isinstance(error, ApiError) and error.status and not our_words:
        return f"refused with HTTP {error.status} {error.reason}; its words are withheld, they can quote the Secret"
    return error.detail if isinstance(error, ApiError) else str(error)


def _same(live: Object, other: Object) -> bool:
    """Whether two answers about one object differ in no more than bookkeeping."""

    def content(obj: Object) -> Object:
        bookkeeping = ("managedFields", "resourceVersion", "generation")
        metadata = {name: value for name, value in obj["metadata"].items() if name not in bookkeeping}
        return {**obj, "metadata": metadata}

    return content(live) == content(other)
