"""Decides from a ClusterStackRelease alone whether there is nothing to do."""

from __future__ import annotations

from datetime import datetime

from shared.api import cluster as cluster_api
from shared.effects import would_change
from shared.event import Event
from shared.kube import Object, deleting, dig, has_finalizer
from shared.releases.usage import FINALIZER

from .conditions import ReleaseStatusBuilder, set_applied


def is_reconciled(release: Object, _event: Event, now: datetime) -> bool:
    """Returns whether the status shows that the release's objects are applied, or reports its pause.

    The content of a release never changes afterwards. The words of conditions do not matter, because another program
    may have applied the release.
    """
    builder = ReleaseStatusBuilder(release, now)
    if cluster_api.is_paused(release):
        return not would_change(dig(release, "status", {}), builder.paused_status())
    if deleting(release):
        return not has_finalizer(release, FINALIZER)
    set_applied(builder)
    is_reported = _statuses(builder.initial) == _statuses(builder.summarized())
    return is_reported and dig(release, "status.ready") is True and has_finalizer(release, FINALIZER)


def _statuses(conditions: list[Object]) -> dict[str, str]:
    return {str(condition.get("type")): str(condition.get("status")) for condition in conditions}
