"""Finds the forwarders of an installation by their command: one, or a Deployment for each shard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from events.shard import ALL, Shard
from shared.kube import Object, dig

_MODULE = "infra.forwarder"
_OPTION = "--shard"


def forwarders(deployments: Iterable[Object]) -> list[Object]:
    """Returns the Deployments whose pods run a forwarder."""
    return [deployment for deployment in deployments if _arguments(deployment)]


def obstacle(found: Sequence[Object]) -> str:
    """Returns why some changes are not delivered; empty if all are. `found` has at least one Deployment.

    While the number of shards changes, Deployments of several numbers exist; one complete set suffices.
    """
    available = {_shard(deployment) for deployment in found if dig(deployment, "status.availableReplicas")}
    gaps = [
        [shard for shard in (Shard(index, count) for index in range(count)) if shard not in available]
        for count in sorted({_shard(deployment).count for deployment in found})
    ]
    gap = min(gaps, key=len)
    if not gap:
        return ""
    if gap == [ALL]:
        name = next(deployment["metadata"]["name"] for deployment in found if _shard(deployment) == ALL)
        return f"no pod of the Deployment {name} is available: only the sweep starts functions"
    missing = ", ".join(f"{_OPTION}={shard.index}/{shard.count}" for shard in gap)
    return f"no pod with {missing} is available: only the sweep starts functions for the objects of this shard"


def _shard(deployment: Object) -> Shard:
    arguments = iter(_arguments(deployment))
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name == _OPTION:
            try:
                return Shard.parse(value or next(arguments, ""))
            except ValueError:
                break
    return ALL


def _arguments(deployment: Object) -> list[str]:
    """Returns the command line of the forwarder in the pods of a Deployment, empty without one."""
    for container in dig(deployment, "spec.template.spec.containers", []):
        line = [*container.get("command", []), *container.get("args", [])]
        if _MODULE in line:
            return line
    return []
