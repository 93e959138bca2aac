"""Releases that are uninstalled before their Cluster is deleted (`spec.clusterDeletion` of HelmReleaseProxies).

Whoever can hold the deletion of a Cluster deletes these HelmReleaseProxies, and waits until they are gone: `cluster`,
or beside Cluster API core the hook BeforeClusterDelete. The wait counts from the deletion of the Cluster, so that it
ends even if the workload cluster never answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from shared.api import cluster as cluster_api
from shared.api.conditions import READY, get_condition, rfc3339
from shared.api.resources import HELM_RELEASE_PROXY
from shared.clients import Clients
from shared.components.durations import whole_seconds
from shared.effects import Delete
from shared.kube import NotServed, Object, deleting, dig, key_of

from . import selection
from .names import CLUSTER_NAME_LABEL, INSTALL_ONCE

UNINSTALL: Final = "Uninstall"
NOT_UNINSTALLED: Final = "ChartsNotUninstalled"
"""The reason of the Kubernetes event about `Uninstallation.warning`."""
_DEFAULT: Final = timedelta(minutes=10)
_LONGEST: Final = timedelta(days=1)
_MAX_NAMES: Final = 5
_MAX_TEXT: Final = 300
"""Characters of the text about one HelmReleaseProxy."""


@dataclass(frozen=True)
class Uninstallation:
    """The releases that are to be uninstalled before a Cluster is deleted, and are not yet."""

    awaited: tuple[Object, ...] = ()
    overdue: tuple[Object, ...] = ()
    """The releases whose time is over: the Cluster is deleted without them."""
    until: datetime | None = None
    """When the wait for the last awaited release ends."""

    @property
    def deletions(self) -> tuple[Delete, ...]:
        """The deletions that start the uninstallation of the awaited releases."""
        return tuple(Delete(HELM_RELEASE_PROXY, release) for release in self.awaited if not deleting(release))

    @property
    def progress(self) -> str:
        """The text about the wait: its end, and each awaited release with its problem."""
        until = rfc3339(self.until) if self.until else ""
        lines = "".join(f"\n* {line}" for line in _lines(self.awaited))
        return f"Waiting until {until} for the HelmReleaseProxies of this Cluster to uninstall their charts:{lines}"

    @property
    def warning(self) -> str:
        """Which releases are left behind."""
        found = "; ".join(_lines(self.overdue))
        return f"The Cluster is deleted although charts are not uninstalled, because their timeout has passed: {found}"


def read(clients: Clients, cluster: Mapping[str, Any]) -> tuple[Object, ...]:
    """Returns the HelmReleaseProxies of a Cluster whose releases are uninstalled before it. Raises `ApiError`."""
    namespace, name = key_of(cluster)
    try:
        listed = list(clients.management.list(HELM_RELEASE_PROXY, namespace, selector=f"{CLUSTER_NAME_LABEL}={name}"))
    except NotServed:
        return ()
    return tuple(one for one in listed if selection.cluster_of(one) == name and is_uninstalled_first(one))


def is_uninstalled_first(release: Mapping[str, Any]) -> bool:
    """Returns whether the release is uninstalled before its Cluster is deleted.

    Paused releases stay as they are, and releases that are installed once are never uninstalled.
    """
    wanted = dig(release, "spec.clusterDeletion.policy") == UNINSTALL
    return wanted and dig(release, "spec.reconcileStrategy") != INSTALL_ONCE and not cluster_api.is_paused(release)


def uninstallation(cluster: Mapping[str, Any], releases: Iterable[Object], now: datetime) -> Uninstallation:
    """Returns which of these releases the deletion of a Cluster waits for."""
    since = cluster_api.deleted_at(cluster) or now
    ends = [(since + _timeout(release), release) for release in sorted(releases, key=key_of)]
    awaited = [(end, release) for end, release in ends if now < end]
    return Uninstallation(
        tuple(release for _, release in awaited),
        tuple(release for end, release in ends if now >= end),
        max((end for end, _ in awaited), default=None),
    )


def _timeout(release: Mapping[str, Any]) -> timedelta:
    text = dig(release, "spec.clusterDeletion.timeout")
    try:
        seconds = whole_seconds(text) if isinstance(text, str) else _DEFAULT.total_seconds()
    except ValueError:
        return _DEFAULT
    return min(timedelta(seconds=max(seconds, 0)), _LONGEST)


def _lines(releases: Iterable[Object]) -> list[str]:
    lines = []
    for release in releases:
        ready = get_condition(dig(release, "status.conditions"), READY) or {}
        text = "" if ready.get("status") == "True" else " ".join(str(ready.get("message") or "").split())
        name = key_of(release).name
        lines.append(f"{name}: {text[:_MAX_TEXT]}" if text else name)
    more = len(lines) - _MAX_NAMES
    return [*lines[:_MAX_NAMES], *([f"and {more} more"] if more > 0 else [])]
