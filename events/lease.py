"""Holds a Lease, so that one of several forwarders delivers events while the others stand by.

It follows leader election in Kubernetes. The holder renews the Lease. Another process takes it if it has seen no
renewal for the duration of the Lease, by its own clock. A Lease is no lock, because a holder that was suspended may
deliver for a moment beside the next. Functions allow for that.

The thread that renews the Lease outlives watches and deliveries that hang. So it asks before each renewal whether the
process does its work (`events.health`), and gives up the Lease if the process does not.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from shared.api.resources import LEASE
from shared.kube import ApiError, Client, Conflict, Key, Object, dig

log = logging.getLogger("capi-functions.events")

DURATION = 15.0
"""Seconds without a renewal after which another process takes the Lease."""
_RENEWALS = 5
"""Attempts to renew the Lease within its duration."""
_DEADLINE = 2 / 3
"""The part of the duration after which a holder that could not renew gives up, before another takes the Lease."""


_MAX_PROBLEMS = 5
"""Problems that are logged."""


class _GivenUp(Exception):
    """This process holds the Lease and does not work; the message says why."""


@dataclass(frozen=True)
class Seen:
    """A state of the Lease, and when this process first saw it, by its own clock."""

    state: tuple[Any, ...]
    at: float


def next_step(
    lease: Mapping[str, Any], identity: str, seen: Seen, now: float, *, works: bool = True
) -> Literal["renew", "take", "wait", "give up"]:
    """Returns the action of the process `identity` on a Lease that has not changed since `seen.at`.

    A process that does not work gives up the Lease, and takes none.
    """
    holder, duration = dig(lease, "spec.holderIdentity"), dig(lease, "spec.leaseDurationSeconds", DURATION)
    if holder == identity:
        return "renew" if works else "give up"
    return "take" if works and (not holder or now - seen.at >= duration) else "wait"


class LeaseHolder:
    """Takes a Lease when it is free or has expired, and renews it until it is released or lost.

    Args:
        client: The cluster with the Lease.
        key: Namespace and name of the Lease; it is created if absent.
        on_taken: Called when the Lease was taken.
        on_lost: Called when the Lease could not be renewed, another process has it, or this process does not work. The
            Lease is not taken again.
        problems: Returns the problems that keep this process from its work.
        duration: See `DURATION`; whole seconds.
        identity: Names this process in the Lease.
    """

    def __init__(
        self,
        client: Client,
        key: Key,
        *,
        on_taken: Callable[[], object],
        on_lost: Callable[[], object],
        duration: float = DURATION,
        identity: str = "",
        problems: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.identity = identity or f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4()}"
        self._client = client
        self._key = key
        self._on_taken = on_taken
        self._on_lost = on_lost
        self._problems = problems
        self._duration = duration
        self._seen = Seen((), 0.0)
        self._holder: str | None = None
        """The other process that was last seen to hold the Lease."""
        self._renewed = 0.0
        self._held = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def held(self) -> bool:
        """Whether this process holds the Lease."""
        return self._held

    def start(self) -> None:
        """Takes the Lease if it is free, and starts renewing it or waiting for it."""
        self._step()
        self._thread.start()

    def release(self) -> None:
        """Stops renewing the Lease, and lets another process take it at once."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if not self._held:
            return
        self._held = False
        try:
            client = self._client.within(self._duration / _RENEWALS)
            lease = client.get(LEASE, self._key)
            if dig(lease, "spec.holderIdentity") == self.identity:
                self._write(client, lease, {"holderIdentity": "", "renewTime": _now()})
        except ApiError as error:
            log.info("the Lease %s is not released, it expires: %s", self._key, error)

    def _run(self) -> None:
        while not self._stop.wait(self._duration / _RENEWALS):
            if not self._step():
                return

    def _step(self) -> bool:
        """Takes or renews the Lease and reports a change; returns whether to go on."""
        try:
            held = self._attempt()
        except _GivenUp as error:  # `release` frees the Lease, once this process no longer delivers
            log.error("gives up the Lease %s: %s", self._key, error)
            self._on_lost()
            return False
        except ApiError as error:
            log.warning("the Lease %s: %s", self._key, error)
            held = self._may_hold()
        if held and not self._held:
            self._held = True
            log.info("took the Lease %s", self._key)
            self._on_taken()
        elif self._held and not held:
            self._held = False
            log.error("lost the Lease %s", self._key)
            self._on_lost()
            return False
        return True

    def _may_hold(self) -> bool:
        """Returns whether no other process can have taken the Lease yet, with a margin."""
        return self._held and time.monotonic() - self._renewed < self._duration * _DEADLINE

    def _attempt(self) -> bool:
        """Takes or renews the Lease if possible. Returns whether this process has it; raises `ApiError`."""
        began = time.monotonic()
        # A request that hangs must not keep the holder from giving up in time.
        client = self._client.within(self._duration / _RENEWALS)
        lease = client.find(LEASE, self._key)
        try:
            if lease is None:
                self._create(client)
            else:
                spec = lease.get("spec") or {}
                state = tuple(spec.get(name) for name in ("holderIdentity", "renewTime", "leaseTransitions"))
                if state != self._seen.state:
                    self._seen = Seen(state, began)
                problems = self._problems()
                step = next_step(lease, self.identity, self._seen, began, works=not problems)
                if step == "give up":
                    raise _GivenUp("; ".join(problems[:_MAX_PROBLEMS]))
                if step == "wait":
                    self._stand_by(spec)
                    return False
                self._write(client, lease, self._renewal() if step == "renew" else self._acquisition(lease))
        except Conflict:  # another process was faster; the next attempt shows whether it has the Lease
            return self._may_hold()
        self._renewed = began
        return True

    def _stand_by(self, spec: Mapping[str, Any]) -> None:
        if spec.get("holderIdentity") != self._holder:
            self._holder = spec.get("holderIdentity")
            log.info("standing by: %s holds the Lease %s", self._holder, self._key)

    def _create(self, client: Client) -> None:
        metadata = {"namespace": self._key.namespace, "name": self._key.name}
        body: Object = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata}
        client.create(LEASE, body | {"spec": self._acquisition({})})

    def _write(self, client: Client, lease: Object, spec: Object) -> None:
        """Writes fields of the spec. Raises `Conflict` if the Lease was changed since it was read."""
        version = {"resourceVersion": lease["metadata"]["resourceVersion"]}
        client.patch(LEASE, self._key, {"metadata": version, "spec": spec})

    def _renewal(self) -> Object:
        return {"renewTime": _now(), "leaseDurationSeconds": max(1, round(self._duration))}

    def _acquisition(self, lease: Mapping[str, Any]) -> Object:
        transitions = dig(lease, "spec.leaseTransitions", -1) + 1
        return self._renewal() | {
            "holderIdentity": self.identity,
            "acquireTime": _now(),
            "leaseTransitions": transitions,
        }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
