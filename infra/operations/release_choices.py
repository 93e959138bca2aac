"""The releases of cluster stacks in a management cluster, and those that a Cluster could move to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shared.api import cluster as cluster_api
from shared.api.conditions import READY, get_condition
from shared.api.resources import CLUSTER_STACK_RELEASE
from shared.kube import Client, Object, dig, key_of
from shared.releases.naming import ReleaseName

from .text import plain


@dataclass(frozen=True)
class Choice:
    """A release as a class that Clusters can have.

    Attributes:
        namespace: The namespace of the release and its ClusterClass.
        name: The name of the ClusterClass.
        kubernetes: The Kubernetes version of the release, such as v1.36.2; empty until it is known.
        ready: Whether the class can be used.
        is_current: Whether the Cluster has it.
        reason: Why it is not ready.
    """

    namespace: str
    name: str
    kubernetes: str
    ready: bool
    is_current: bool
    reason: str


def list_choices(client: Client, namespace: str, cluster: Object | None = None) -> list[Choice]:
    """Returns the releases in a namespace (empty: in all), or the releases that a Cluster could move to.

    Raises `ApiError`.
    """
    place = cluster_api.class_namespace(cluster) if cluster else namespace
    return choices(client.list(CLUSTER_STACK_RELEASE, place), cluster)


def choices(releases: Iterable[Object], cluster: Object | None = None) -> list[Choice]:
    """Returns the releases in the order of namespace, stack, Kubernetes version and version.

    With a Cluster these are the releases of its stack with the Kubernetes minor version of its class or the next one,
    because Kubernetes upgrades skip no minor version. A Cluster whose class belongs to no stack could move to all.
    """
    current = ReleaseName.from_class_name(cluster_api.class_name(cluster) or "") if cluster else None
    named = [(name, obj) for name, obj in _named(releases) if current is None or _is_reachable(name, current)]
    return [_choice(name, obj, current) for name, obj in sorted(named, key=lambda each: _order(*each))]


def _named(releases: Iterable[Object]) -> Iterator[tuple[ReleaseName, Object]]:
    for obj in releases:
        if name := ReleaseName.from_class_name(key_of(obj).name):
            yield name, obj


def _is_reachable(name: ReleaseName, current: ReleaseName) -> bool:
    (major, minor), (present_major, present_minor) = _minor(name), _minor(current)
    same_stack = (name.provider, name.name) == (current.provider, current.name)
    return same_stack and major == present_major and minor in (present_minor, present_minor + 1)


def _minor(name: ReleaseName) -> tuple[int, int]:
    major, _, minor = name.kubernetes.partition(".")
    return int(major), int(minor)


def _order(name: ReleaseName, obj: Object) -> tuple[object, ...]:
    version = name.version
    patch = (0, int(version.patch), "") if version.patch.isdecimal() else (1, 0, version.patch)
    return key_of(obj).namespace, name.provider, name.name, _minor(name), version.channel, version.number, patch


def _choice(name: ReleaseName, obj: Object, current: ReleaseName | None) -> Choice:
    condition = get_condition(dig(obj, "status.conditions"), READY) or {}
    ready = dig(obj, "status.ready") is True
    why = ": ".join(str(condition[part]) for part in ("reason", "message") if condition.get(part))
    kubernetes = plain(dig(obj, "status.kubernetesVersion") or "")
    return Choice(
        key_of(obj).namespace,
        name.class_name,
        kubernetes,
        ready,
        name == current,
        "" if ready else plain(why, most=300),
    )
