"""Previews a change of a Cluster's topology with Cluster API core itself.

`snapshot` reads the Cluster and its objects. `simulation` copies them (`loading`) into a throwaway control plane, where
the unmodified core manager of the same version reconciles the change (`progress`). `result` compares the objects before
and after. Nothing is written to the management cluster: `reader` sends GET requests only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

from infra.local_control_plane.modules import module_of
from shared.api import cluster as cluster_api
from shared.api.provider import CORE_NAME
from shared.kube import Client, Key, dig

from . import result, snapshot
from .change import Change, parse_manifests, parse_variable
from .progress import State, cluster_in, topology_condition
from .reader import ReadOnlyClient
from .result import MachineChange, ObjectChange, TopologyPlan
from .simulation import Simulation
from .snapshot import Snapshot

__all__ = ["Change", "MachineChange", "ObjectChange", "TopologyPlan", "parse_manifests", "parse_variable", "preview"]

_STEPS = 12
"""The maximum number of simulated steps of an upgrade."""


def preview(
    management: Client, changes: Mapping[Key, Change], progress: Callable[[str], None] = lambda _line: None
) -> list[TopologyPlan]:
    """Previews changes of Clusters, each on its own, in one control plane.

    Args:
        management: The client of the management cluster; only its credentials are used, to read.
        changes: The changes by the key of the Cluster.
        progress: Called with each line of progress.

    Raises:
        Failure: A change cannot be previewed; the message says why.
        ApiError: The management cluster cannot be read.
        ControlPlaneError: The throwaway control plane does not start.
        BinaryNotFound: An executable is missing.
    """
    with closing(ReadOnlyClient(management)) as reader:
        taken = snapshot.take(reader, changes)
    with Simulation(taken, progress) as simulation:
        progress("waiting until core has reconciled the copies")
        before = simulation.settle(changes)
        progress("making the change")
        errors = {key: simulation.change(key, change) for key, change in changes.items()}
        states = [before, simulation.settle(key for key in changes if errors[key] is None)]
        upgraded = [key for key in changes if errors[key] is None and _is_upgrade(states, key)]
        while len(states) <= _STEPS and simulation.play_upgrade(states[-1], upgraded):
            states.append(simulation.settle(upgraded))
        notes = (*_notes(taken), *simulation.notes)
        return [
            _plan(taken, key, [simulation.loaded, *states], notes, result.refusal_of(errors[key], states[-1], key))
            for key in changes
        ]


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
        core=module_of(f"{CORE_NAME}-manager").version,
        notes=(*notes, *_notes_of(taken, key, changed[-1], is_pending=bool(pending), is_refused=refusal is not None)),
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


def _notes_of(taken: Snapshot, key: Key, after: State, *, is_pending: bool, is_refused: bool) -> list[str]:
    notes = []
    if cluster_api.is_paused(taken.clusters[key]):
        notes.append("the Cluster is paused: core makes the changes once it is not")
    if is_pending:
        notes.append("core has not made all changes of the present topology yet; see pending changes")
    condition = topology_condition(cluster_in(after, key))
    if condition.get("status") == "False" and not is_refused:
        notes.append(
            f"the topology is not reconciled at the end: {condition.get('message') or condition.get('reason')}"
        )
    return notes
