"""Reads the objects that belong to a Cluster without a reference from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.resources import (
    CLUSTER_RESOURCE_SET_BINDING,
    HELM_RELEASE_PROXY,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_POOL,
    MACHINE_SET,
)
from shared.kube import ApiError, Client, Key, NotServed, Object

_LABELLED_KINDS = (MACHINE_DEPLOYMENT, MACHINE_SET, MACHINE_POOL, MACHINE, HELM_RELEASE_PROXY)
_MOST = 1_000
"""Objects of one kind that are read."""


@dataclass(frozen=True)
class Parts:
    """The objects that belong to a Cluster without a reference from it.

    Attributes:
        objects: Machines, their owners, and HelmReleaseProxies.
        binding: The ClusterResourceSetBinding.
        problems: Why some of them could not be read.
    """

    objects: Sequence[Object] = ()
    binding: Object | None = None
    problems: Sequence[str] = ()


def read_parts(management: Client, cluster: Key) -> Parts:
    """Reads the objects with the label of a Cluster, and its ClusterResourceSetBinding."""
    objects: list[Object] = []
    problems = []
    for kind in _LABELLED_KINDS:
        selector = f"{CLUSTER_NAME_LABEL}={cluster.name}"
        try:
            found = list(islice(management.list(kind, cluster.namespace, selector=selector), _MOST + 1))
        except NotServed:
            continue
        except ApiError as error:
            problems.append(str(error))
            continue
        if len(found) > _MOST:
            problems.append(f"only {_MOST} objects of the kind {kind.kind} are shown")
        objects += found[:_MOST]
    binding = None
    try:
        binding = management.find(CLUSTER_RESOURCE_SET_BINDING, cluster)
    except NotServed:
        pass
    except ApiError as error:
        problems.append(str(error))
    return Parts(objects, binding, problems)
