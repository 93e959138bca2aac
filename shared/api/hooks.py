"""The state of Cluster API's lifecycle hooks, stored on the ClusterAddon so that any process can continue.

`spec.hook` names the hook in progress. An annotation records since when a hook waits for which target:
`<time> <hook> <target>`. Deadlines count from that time, so they survive restarts; a new target starts a new wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, unquote

from shared.kube.resources import dig
from shared.settings import SETTINGS

from .conditions import rfc3339

BEFORE_CLUSTER_DELETE = "BeforeClusterDelete"

WAIT_ANNOTATION = "capi-functions.dev/hook-awaited"
CLEANUP_ANNOTATION = "capi-functions.dev/cleanup"
"""The annotation of a Cluster that disables the clean-up of load balancers and volumes with the value `false`."""

CLEANED_UP: Final = "WorkloadCleanedUp"
"""The condition that ends the wait for a clean-up once it is True."""

_CLOCK_SKEW = timedelta(minutes=1)


@dataclass(frozen=True)
class HookWait:
    """A wait of `hook` until `target` is reached; `target` is a text that identifies the goal."""

    hook: str
    target: str
    since: datetime

    @classmethod
    def load(cls, addon: Mapping[str, Any]) -> HookWait | None:
        """Returns the wait that an addon's annotation records; None if it is absent or invalid."""
        value = dig(addon, ("metadata", "annotations", WAIT_ANNOTATION))
        parts = value.split(" ") if isinstance(value, str) else []
        if len(parts) != 3:
            return None
        try:
            since = datetime.fromisoformat(parts[0])
        except ValueError:
            return None
        return cls(parts[1], unquote(parts[2]), since) if since.tzinfo else None

    def continues(self, recorded: HookWait | None, *, earliest: datetime | None = None) -> bool:
        """Returns whether `recorded` is the beginning of this wait: for the same hook and target.

        Rejects a start in the future, because the wait would end too late, and a start before `earliest`, because it
        would end too soon.
        """
        return (
            recorded is not None
            and (recorded.hook, recorded.target) == (self.hook, self.target)
            and recorded.since <= self.since + _CLOCK_SKEW
            and (earliest is None or recorded.since >= earliest - _CLOCK_SKEW)
        )

    def dump(self) -> str:
        """Returns the value of the annotation that records this wait."""
        return f"{rfc3339(self.since)} {self.hook} {quote(self.target, safe='/:')}"


@dataclass(frozen=True)
class HookDeadlines:
    """The longest time that a hook blocks an upgrade or a deletion."""

    upgrade: timedelta = timedelta(hours=1)
    delete: timedelta = timedelta(minutes=10)

    @classmethod
    def from_env(cls) -> HookDeadlines:
        """Reads HOOK_UPGRADE_SECONDS and HOOK_DELETE_SECONDS. Raises `ValueError` for a value that is not a number."""
        return cls(
            _seconds("HOOK_UPGRADE_SECONDS", cls.upgrade),
            _seconds("HOOK_DELETE_SECONDS", cls.delete),
        )


def cleanup_wait(cluster: Mapping[str, Any], now: datetime) -> HookWait:
    """Returns a wait for the clean-up of a Cluster that is being deleted, starting now."""
    return HookWait(BEFORE_CLUSTER_DELETE, str(dig(cluster, "metadata.uid", "")), now)


def cleanup_enabled(cluster: Mapping[str, Any]) -> bool:
    """Returns whether the Cluster's annotation allows the clean-up."""
    return bool(dig(cluster, ("metadata", "annotations", CLEANUP_ANNOTATION)) != "false")


def refers_to(addon: Mapping[str, Any], cluster: Mapping[str, Any]) -> bool:
    """Returns whether the addon belongs to this Cluster, not to an earlier one of the same name."""
    uid, referenced = dig(cluster, "metadata.uid"), dig(addon, "spec.clusterRef.uid")
    return not uid or not referenced or bool(uid == referenced)


def _seconds(name: str, default: timedelta) -> timedelta:
    value = SETTINGS.get(name, "")
    if value and not (value.isdecimal() and len(value) < 9):
        raise ValueError(f"{name} is {value!r}; it must be a whole number of seconds")
    return timedelta(seconds=int(value)) if value else default
