"""Previews a change of a Cluster's topology with Cluster API core itself.

`snapshot` reads the Cluster and its objects. `simulation` copies them (`loading`) into a throwaway control plane, where
the unmodified core manager of the same version reconciles the change (`progress`). `result` compares the objects before
and after. Nothing is written to the management cluster: `read_only` sends GET requests only. `with_addons` adds the
plan of the addons, by dry runs. `class_plan` groups the Clusters of a class.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace

from infra.local.managers import GivenManager
from shared.api import cluster as cluster_api
from shared.api.conditions import counted
from shared.api.resources import CLUSTER
from shared.kube import ApiError, Client, Key, dig
from shared.releases.naming import ReleaseName

from ..addons import plan as addons
from ..failure import Failure
from ..read_only import ReadOnlyClient
from . import result, snapshot
from .change import Change, parse_manifests, parse_variable
from .class_plan import ClassPlan, grouped
from .progress import State, cluster_in, topology_condition
from .result import MachineChange, ObjectChange, Refusal, TopologyPlan
from .simulation import Simulation
from .snapshot import Snapshot

__all__ = [
    "Change",
    "ClassPlan",
    "MachineChange",
    "ObjectChange",
    "Refusal",
    "TopologyPlan",
    "parse_manifests",
    "parse_variable",
    "preview",
    "preview_class",
    "with_addons",
]

_STEPS = 12
"""The maximum number of simulated steps of an upgrade."""


def preview(
    management: Client,
    changes: Mapping[Key, Change],
    progress: Callable[[str], None] = lambda _line: None,
    managers: Iterable[GivenManager] = (),
) -> list[TopologyPlan]:
    """Previews changes of Clusters, each on its own, in one control plane.

    Args:
        management: The client of the management cluster; only its credentials are used, to read.
        changes: The changes by the key of the Cluster.
        progress: Called with each line of progress, which begins with the seconds since the start.
        managers: Managers to run; by default the managers of the management cluster's versions run.

    Raises:
        Failure: A change cannot be previewed; the message says why.
        ApiError: The management cluster cannot be read.
        ControlPlaneError: The throwaway control plane does not start.
        BinaryNotFound: An executable is missing.
    """
    progress = _timed(progress)
    with closing(ReadOnlyClient(management)) as reader:
        taken = snapshot.take(reader, changes)
    progress(f"copying {counted(len(taken.objects), 'object')} of {counted(len(taken.resources), 'kind')}")
    with Simulation(taken, progress, {one.label: one for one in managers}) as simulation:
        progress("waiting until core has reconciled the copies")
        before = simulation.settle(changes)
        progress("making the change")
        errors = {key: simulation.change(key, change) for key, change in changes.items()}
        states = [before, simulation.settle(key for key in changes if errors[key] is None)]
        upgraded = [key for key in changes if errors[key] is None and _is_upgrade(states, key)]
        while len(states) <= _STEPS and simulation.play_upgrade(states[-1], upgraded):
            states.append(simulation.settle(upgraded))
        progress(f"reconciled in {counted(len(states) - 1, 'step')}")
        notes = (*_notes(taken), *simulation.notes)
        return [
            _plan(taken, key, [simulation.loaded, *states], notes, result.refusal_of(errors[key], states[-1], key))
            for key in changes
        ]


def _timed(progress: Callable[[str], None]) -> Callable[[str], None]:
    began = time.monotonic()
    return lambda line: progress(f"{time.monotonic() - began:5.1f} s  {line}")


def preview_class(
    management: Client,
    cluster_class: Key,
    change: Change,
    progress: Callable[[str], None] = lambda _line: None,
    managers: Iterable[GivenManager] = (),
) -> ClassPlan:
    """Previews one change for all Clusters of a ClusterClass, in one control plane.

    Args:
        management: The client of the management cluster; only its credentials are used, to read.
        cluster_class: The class.
        change: The change of each Cluster; manifests without a namespace are for the namespace of the class.
        progress: Called with each line of progress.
        managers: Managers to run; by default the managers of the management cluster's versions run.

    Raises `Failure` if no Cluster uses the class, and the errors of `preview`.
    """
    with closing(ReadOnlyClient(management)) as reader:
        clusters = snapshot.clusters_of(reader, cluster_class)
    if not clusters:
        raise Failure(f"no Cluster uses ClusterClass {cluster_class}")
    progress(f"previewing {counted(len(clusters), 'Cluster')} of ClusterClass {cluster_class}")
    plans = preview(management, dict.fromkeys(clusters, change.within(cluster_class.namespace)), progress, managers)
    return ClassPlan(cluster_class, plans[0].core, plans[0].common_notes, grouped(plans))


def with_addons(management: Client, plan: TopologyPlan, change: Change) -> TopologyPlan:
    """Returns the plan with the changes of the addons after the change, or with a note why they are not known.

    Only a class of a cluster stack has addons, and only a change that succeeds changes them.

    Args:
        management: The client of the management cluster, which gets dry runs, as does the workload cluster.
        plan: The plan of the change.
        change: The change.
    """
    if plan.refusal or ReleaseName.from_class_name(plan.wanted_class) is None:
        return plan
    try:
        cluster = management.get(CLUSTER, plan.cluster)
        changed = {**cluster, "spec": {**cluster["spec"], "topology": change.topology(cluster)}}
        return replace(plan, addons=addons.plan(management, changed, None))
    except (Failure, ApiError) as error:
        return replace(plan, own_notes=(*plan.own_notes, f"the changes of the addons are not known: {error}"))


def _plan(
    taken: Snapshot, key: Key, states: list[State], notes: tuple[str, ...], refusal: result.Refusal | None
) -> TopologyPlan:
    loaded, *changed = states
    present, wanted = (cluster_in(state, key) for state in (loaded, changed[-1]))
    pending = result.object_changes([loaded, changed[0]], key)
    return TopologyPlan(
        cluster=key,
        present_class=cluster_api.class_name(present) or "",
        wanted_class=cluster_api.class_name(wanted) or "",
        present_version=dig(present, "spec.topology.version", ""),
        wanted_version=dig(wanted, "spec.topology.version", ""),
        core=taken.core_version,
        common_notes=notes,
        own_notes=_notes_of(taken, key, changed[-1], is_pending=bool(pending), is_refused=refusal is not None),
        changes=result.object_changes(changed, key),
        machines=result.machine_changes(changed, key),
        pending=pending,
        refusal=refusal,
    )


def _is_upgrade(states: list[State], key: Key) -> bool:
    before, after = (dig(cluster_in(state, key), "spec.topology.version") for state in states)
    return bool(before != after)


def _notes(taken: Snapshot) -> tuple[str, ...]:
    if not taken.extensions:
        return ()
    return (f"runtime extensions are not simulated: {', '.join(taken.extensions)}",)


def _notes_of(taken: Snapshot, key: Key, after: State, *, is_pending: bool, is_refused: bool) -> tuple[str, ...]:
    notes = []
    if cluster_api.is_paused(taken.clusters[key]):
        notes.append("the Cluster is paused, so core makes the changes once the Cluster is resumed")
    if is_pending:
        notes.append("core has not made all changes of the present topology yet; see pending changes")
    condition = topology_condition(cluster_in(after, key))
    if condition.get("status") == "False" and not is_refused:
        notes.append(
            f"the topology is not reconciled at the end: {condition.get('message') or condition.get('reason')}"
        )
    return tuple(notes)
