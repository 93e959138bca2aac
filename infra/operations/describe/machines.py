"""Groups the Machines of a Cluster by their owner and state, as `clusterctl describe` does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from shared.api import cluster as cluster_api
from shared.api.conditions import READY, get_condition
from shared.api.resources import MACHINE, MACHINE_DEPLOYMENT, MACHINE_POOL
from shared.kube import Object, dig, key_of

from ..text import age
from .conditions import describe_conditions, remedy

_OWNER_LABELS = {
    MACHINE_DEPLOYMENT.kind: "cluster.x-k8s.io/deployment-name",
    MACHINE_POOL.kind: "cluster.x-k8s.io/pool-name",
}
"""The label of a Machine with the name of its owner, by the owner's kind."""
_GROUPED_BY = (READY, "Available", "UpToDate")
"""The conditions whose status Machines of one group share."""


def control_plane_machines(objects: Iterable[Object], now: datetime) -> list[Object]:
    """Returns the groups of the Machines of a control plane."""
    return _groups([one for one in _machines(objects) if _is_control_plane(one)], now)


def workers(objects: Sequence[Object], now: datetime) -> list[Object]:
    """Returns MachineDeployments and MachinePools with their conditions, replicas and groups of Machines.

    Machines without such an owner are the last entry, without a name.
    """
    machines = [one for one in _machines(objects) if not _is_control_plane(one)]
    found = []
    for owner in (one for one in objects if one["kind"] in _OWNER_LABELS):
        kind, key = owner["kind"], key_of(owner)
        own = [one for one in machines if dig(one, ("metadata", "labels", _OWNER_LABELS[kind])) == key.name]
        machines = [one for one in machines if one not in own]
        found.append(
            {
                "kind": kind,
                "namespace": key.namespace,
                "name": key.name,
                "version": dig(owner, "spec.template.spec.version"),
                "replicas": replicas(owner),
                "conditions": describe_conditions(kind, cluster_api.conditions(owner), now),
                "machines": _groups(own, now),
            }
        )
    return [*found, {"machines": _groups(machines, now)}] if machines else found


def replicas(owner: Object | None) -> Object:
    """Returns the numbers of replicas of an owner of Machines: desired, ready, available and up to date."""
    if not owner or cluster_api.desired_replicas(owner) is None:
        return {}
    return {
        "desired": cluster_api.desired_replicas(owner),
        "ready": cluster_api.count(owner, "readyReplicas") or 0,
        "available": cluster_api.count(owner, "availableReplicas") or 0,
        "upToDate": cluster_api.count(owner, "upToDateReplicas", "updatedReplicas") or 0,
    }


def _machines(objects: Iterable[Object]) -> list[Object]:
    return sorted((one for one in objects if one["kind"] == MACHINE.kind), key=key_of)


def _is_control_plane(machine: Object) -> bool:
    return cluster_api.CONTROL_PLANE_LABEL in dig(machine, "metadata.labels", {})


def _groups(machines: Iterable[Object], now: datetime) -> list[Object]:
    """Returns Machines with the same states, reason, phase and version as one entry; unready Machines come first.

    The message and the time are of the Machine that has been in its state for longest.
    """
    grouped: dict[tuple[str, ...], list[Object]] = defaultdict(list)
    for machine in machines:
        conditions = cluster_api.conditions(machine)
        states = [str((get_condition(conditions, type) or {}).get("status", "")) for type in _GROUPED_BY]
        ready = get_condition(conditions, READY) or {}
        about = (dig(machine, "status.phase"), dig(machine, "spec.version"), ready.get("reason"))
        grouped[*states, *(str(text or "") for text in about)].append(machine)
    return [_group(*item, now) for item in sorted(grouped.items(), key=lambda item: (item[0][0] == "True", item[0]))]


def _group(states: tuple[str, ...], machines: Sequence[Object], now: datetime) -> Object:
    ready, available, up_to_date, phase, version, reason = states
    found = [get_condition(cluster_api.conditions(one), READY) or {} for one in machines]
    oldest = min(found, key=lambda one: str(one.get("lastTransitionTime") or "~"))
    is_ready = ready == "True"
    return {
        "kind": MACHINE.kind,
        "count": len(machines),
        "names": [key_of(one).name for one in machines],
        "ready": ready or "Unknown",
        "available": available,
        "upToDate": up_to_date,
        "phase": phase,
        "version": version,
        "reason": "" if is_ready else reason,
        "message": "" if is_ready else oldest.get("message"),
        "for": age(oldest.get("lastTransitionTime"), now),
        **({} if is_ready else remedy(MACHINE.kind, reason)),
    }
