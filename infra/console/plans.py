"""Plans a change of a Cluster: its addons, and its topology with the progress of the preview."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass

from infra.local.cluster_checks import is_allowed
from infra.operations.addons import plan as planning
from infra.operations.addons.release_plan import ReleasePlan
from infra.operations.failure import Failure
from infra.operations.preview import Change, TopologyPlan, preview
from shared.api import cluster as cluster_api
from shared.api.names import addon_of, kubeconfig_secret_of
from shared.api.resources import CLUSTER_ADDON, CLUSTER_CLASS, CLUSTER_STACK, CLUSTER_STACK_RELEASE, SECRET
from shared.kube import ApiError, Client, Key, Object, key_of
from shared.releases.naming import ReleaseName

_AT_ONCE = 2
"""Plans that are made at the same time: each renders charts, and sends a dry run for each object."""
_MOST_CHOICES = 200
_KEEP_ALIVE = 15.0
"""Seconds between comments in a stream."""


@dataclass(frozen=True)
class Wanted:
    """A change to plan: the names of a class and a Kubernetes version; empty for the present ones."""

    class_name: str = ""
    version: str = ""


def choices(management: Client, cluster: Object) -> list[str]:
    """Returns the names of the readable ClusterClasses and ClusterStackReleases for a Cluster."""
    place = cluster_api.class_namespace(cluster)
    names: set[str] = set()
    for kind in (CLUSTER_CLASS, CLUSTER_STACK_RELEASE):
        with suppress(ApiError):
            names |= {key_of(obj).name for obj in management.list(kind, place)}
    return sorted(names)[:_MOST_CHOICES]


def missing_rights(management: Client, cluster: Object) -> list[str]:
    """Returns the rights for a plan of a Cluster's addons that the user of the client lacks. Raises `ApiError`."""
    secret, addon = kubeconfig_secret_of(key_of(cluster)), addon_of(cluster)
    needed = [
        ("get", CLUSTER_ADDON, addon.namespace, addon.name),
        ("get", SECRET, secret.namespace, secret.name),
        ("list", CLUSTER_STACK, cluster_api.class_namespace(cluster), ""),
    ]
    return [
        " ".join(filter(None, (verb, f"{resource.plural}.{resource.group}".rstrip("."), name, "in", namespace)))
        for verb, resource, namespace, name in needed
        if not is_allowed(management, verb, resource, namespace, name)
    ]


class Plans:
    """Makes plans of addons, a few at a time."""

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(_AT_ONCE)

    def make(self, management: Client, cluster: Object, wanted: Wanted) -> ReleasePlan:
        """Returns the plan of the addons of a Cluster. Raises `Failure` or `ApiError`."""
        release = None
        if wanted.class_name:
            name = ReleaseName.from_class_name(wanted.class_name)
            if name is None:
                raise Failure(f"class {wanted.class_name} does not belong to a cluster stack, so it has no addons")
            release = name.tag
        if not self._free.acquire(blocking=False):
            raise Failure(f"{_AT_ONCE} plans are being made: try again in a moment")
        try:
            return planning.plan(management, cluster, release)
        finally:
            self._free.release()


class Previews:
    """Makes previews of topologies, one at a time: each runs a control plane with Cluster API core."""

    def __init__(self) -> None:
        self._free = threading.Lock()

    async def stream(
        self, management: Client, cluster: Key, wanted: Wanted, show: Callable[[TopologyPlan | str], str]
    ) -> AsyncIterator[str]:
        """Yields server-sent events: `line` for each line of progress, and `result` with HTML as a JSON text.

        Args:
            management: The client of the management cluster.
            cluster: The key of the Cluster.
            wanted: The change.
            show: Returns the HTML of a plan, or of the reason why there is none.
        """
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

        def send(event: str, text: str) -> None:
            with suppress(RuntimeError):  # the console has ended
                loop.call_soon_threadsafe(events.put_nowait, (event, text))

        def run() -> None:
            if not self._free.acquire(blocking=False):
                return send("result", show("another preview is being made: try again once it is done"))
            try:
                change = Change(wanted.class_name, wanted.version)
                [found] = preview(management, {cluster: change}, lambda line: send("line", line))
                send("result", show(found))
            except Exception as error:  # of any program of the simulation; the page shows it
                send("result", show(str(error) or type(error).__name__))
            finally:
                self._free.release()

        threading.Thread(target=run, name="preview", daemon=True).start()
        while True:
            try:
                event, text = await asyncio.wait_for(events.get(), _KEEP_ALIVE)
            except TimeoutError:
                yield ":\n\n"
                continue
            yield f"event: {event}\ndata: {json.dumps(text)}\n\n"
            if event == "result":
                return
