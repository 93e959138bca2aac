"""Counts a Cluster's workers and its control-plane replicas, which its control-plane object or its Machines report."""

from __future__ import annotations

import re
from collections.abc import Iterable

from shared.api import cluster as cluster_api
from shared.api.cluster import conditions, count, desired_replicas
from shared.api.conditions import is_true
from shared.api.resources import MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET
from shared.kube import Object, dig, owned_by
from shared.references import LookupResult
from shared.semver import Version, try_parse

from .descendants import Descendants, is_of_pool, machines

_BY_CONDITION = {"readyReplicas": "Ready", "availableReplicas": "Available", "upToDateReplicas": "UpToDate"}
"""The condition of a Machine that makes it count."""


def of_control_plane(found: LookupResult, descendants: Descendants | None) -> Object | None:
    """Returns the counters of the control plane; None if nothing is counted."""
    if found.state != "unreferenced":
        return _reported(found.object) if found.object else None
    return _sums([], machines(descendants or {}, control_plane=True))


def of_workers(cluster: Object, descendants: Descendants) -> Object | None:
    """Returns the sums of the workers' counters; None without workers."""
    sets = [one for one in descendants.get(MACHINE_SET, ()) if owned_by(one, cluster)]
    alone = [one for one in machines(descendants, control_plane=False) if owned_by(one, cluster)]
    owners = [*descendants.get(MACHINE_POOL, ()), *descendants.get(MACHINE_DEPLOYMENT, ()), *sets]
    return _sums([_reported(one) or {} for one in owners], [one for one in alone if not is_of_pool(one)])


def _reported(obj: Object) -> Object | None:
    """Returns the counters that an object reports; v1beta1 reports unavailable replicas instead of available ones."""
    desired, unavailable = desired_replicas(obj), count(obj, "unavailableReplicas")
    available = count(obj, "availableReplicas")
    if available is None and desired is not None and unavailable is not None:
        available = max(0, desired - unavailable)
    return _set(
        {
            "desiredReplicas": desired,
            "replicas": count(obj, "replicas"),
            "readyReplicas": count(obj, "readyReplicas"),
            "availableReplicas": available,
            "upToDateReplicas": count(obj, "upToDateReplicas", "updatedReplicas"),
            "versions": cluster_api.versions(obj) or None,
        }
    )


def _sums(reported: Iterable[Object], alone: Iterable[Object]) -> Object | None:
    """Returns the sums of counters. Each Machine without a reporting owner counts as one desired replica."""
    sums: dict[str, int] = {}
    versions: dict[str, int] = {}
    for counters in reported:
        for name, value in counters.items():
            if isinstance(value, int):
                sums[name] = sums.get(name, 0) + value
        for entry in counters.get("versions") or []:
            versions[entry["version"]] = versions.get(entry["version"], 0) + entry["replicas"]
    for machine in alone:
        true = [name for name, type_ in _BY_CONDITION.items() if is_true(conditions(machine), type_)]
        for name in ("desiredReplicas", "replicas", *true):
            sums[name] = sums.get(name, 0) + 1
        version = dig(machine, "status.nodeInfo.kubeletVersion") or dig(machine, "spec.version")
        if version and isinstance(version, str):
            versions[version] = versions.get(version, 0) + 1
    listed = [{"version": one, "replicas": versions[one]} for one in sorted(versions, key=_in_order)]
    return _set({**dict.fromkeys(_BY_CONDITION), "desiredReplicas": None, "replicas": None, **sums, "versions": listed})


def _set(counters: Object) -> Object | None:
    """Returns the counters as a merge patch, with None for absent counters; None without counters."""
    found = {name: value if value != [] else None for name, value in counters.items()}
    return found if any(value is not None for value in found.values()) else None


def _in_order(version: str) -> tuple[bool, Version, list[tuple[int, str]], str]:
    """Returns the key by which versions are sorted: semantically, then by build (`+k3s2`); other texts go last."""
    parsed = try_parse(version)
    build = re.findall(r"(\d+)|(\D+)", version.partition("+")[2])
    return parsed is None, parsed or Version(0, 0, 0), [(int(number or 0), text) for number, text in build], version
