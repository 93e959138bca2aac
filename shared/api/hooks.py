"""What Cluster API's lifecycle hooks leave on a ClusterAddon, so that any process can go on from there.

`spec.hook` names the hook that is under way. An annotation says what is waited for and since when:
`<time> <hook> <target>`. Deadlines count from that time, so they outlive restarts; a new target begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, unquote

from shared.kube.resources import dig
from shared.settings import SETTINGS

from .conditions import rfc3339

BEFORE_DELETE = "BeforeClusterDelete"

AWAITED = "capi-functions.dev/hook-awaited"
CLEANUP = "capi-functions.dev/cleanup"
"""On the Cluster: `false` leaves load balancers and volumes to themselves."""

CLEANED_UP = "WorkloadCleanedUp"
"""The condition that ends the wait for a clean-up."""


_CLOCK_SKEW = timedelta(minutes=1)


@dataclass(frozen=True)
class Awaited:
    """A wait that was begun: for `hook`, until `target` is reached (whatever tells it from another)."""

    hook: str
    target: str
    since: datetime

    @classmethod
    def on(cls, addon: Mapping[str, Any]) -> Awaited | None:
        """The wait that is recorded; None also where the annotation says nothing of the kind."""
        value = dig(addon, ("metadata", "annotations", AWAITED))
        parts = value.split(" ") if isinstance(value, str) else []
        if len(parts) != 3:
            return None
        try:
            since = datetime.fromisoformat(parts[0])
        except ValueError:
            return None
        return cls(parts[1], unquote(parts[2]), since) if since.tzinfo else None

    def goes_on(self, begun: Awaited | None, *, earliest: datetime | None = None) -> bool:
        """Whether `begun` is this wait.

        One from the future is none, or it would never end; nor is one from before `earliest`, or it would end too soon.
        """
        return (
            begun is not None
            and (begun.hook, begun.target) == (self.hook, self.target)
            and begun.since <= self.since + _CLOCK_SKEW
            and (earliest is None or begun.since >= earliest - _CLOCK_SKEW)
        )

    def dump(self) -> str:
        return f"{rfc3339(self.since)} {self.hook} {quote(self.target, safe='/:')}"


@dataclass(frozen=True)
class Limits:
    """How long a hook holds Cluster API back at most."""

    upgrade: timedelta = timedelta(hours=1)
    delete: timedelta = timedelta(minutes=10)

    @classmethod
    def from_env(cls) -> Limits:
        """From HOOK_UPGRADE_SECONDS and HOOK_DELETE_SECONDS. Raises ValueError."""
        return cls(
            _seconds("HOOK_UPGRADE_SECONDS", cls.upgrade),
            _seconds("HOOK_DELETE_SECONDS", cls.delete),
        )


def cleanup_wait(cluster: Mapping[str, Any], now: datetime) -> Awaited:
    """The wait for the clean-up of a Cluster that is being deleted, as one that begins now."""
    return Awaited(BEFORE_DELETE, str(dig(cluster, "metadata.uid", "")), now)


def wants_cleanup(cluster: Mapping[str, Any]) -> bool:
    return bool(dig(cluster, ("metadata", "annotations", CLEANUP)) != "false")


def is_about(addon: Mapping[str, Any], cluster: Mapping[str, Any]) -> bool:
    """False for the addon of another Cluster that had this name before."""
    uid, of = dig(cluster, "metadata.uid"), dig(addon, "spec.clusterRef.uid")
    return not uid or not of or bool(uid == of)


def _seconds(name: str, default: timedelta) -> timedelta:
    value = SETTINGS.get(name, "")
    if value and not (value.isdecimal() and len(value) < 9):
        raise ValueError(f"{name} is {value!r}; whole seconds are needed")
    return timedelta(seconds=int(value)) if value else default
