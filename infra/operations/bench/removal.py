"""Deletes a load: Clusters, leftovers of their addons in the workload cluster, and the namespaces."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Collection
from datetime import datetime

from shared.addons.owner import OWNER
from shared.api.cluster import created_at
from shared.api.names import KUBECONFIG_SUFFIX
from shared.api.resources import CLUSTER, CLUSTER_ADDON, NAMESPACE, SECRET
from shared.applier.inventory import InventoryEntry
from shared.applier.inventory import load as load_inventory
from shared.kube import ApiError, Client, Key, NotServed, Object, connect, deleting, dig, key_of
from shared.kube.connect import KubeconfigError
from shared.kube.discovery import Discovery
from shared.manifests import Identity

from ..failure import Failure
from ..waiting import WaitTimeout
from . import PROGRESS_INTERVAL
from .load import SPACE_LABEL, check_namespace, each

_POLL = 0.5
_STALLED = 60.0
"""The maximum number of seconds until the next object is gone; without a controller, no object ever is."""
_NAMESPACES_HINT = "do Kubernetes' controllers run in the cluster? Without them no namespace ends"


def remove(management: Client, namespace: str, progress: Callable[[str], None], within: float) -> None:
    """Deletes the load in a namespace, and waits until it is gone.

    Raises:
        ApiError: The management cluster refused something.
        Failure: The namespace is not of a load, or the workload cluster cannot be cleaned up.
        WaitTimeout: An object still exists after `within` seconds.
    """
    if not check_namespace(management, namespace):
        return
    deadline = time.monotonic() + within
    entries = _inventories(management, namespace)
    workload = _workload(management, namespace)
    clusters = [cluster for cluster in management.list(CLUSTER, namespace) if not deleting(cluster)]
    each(lambda cluster: management.delete(CLUSTER, key_of(cluster)), clusters, lambda _number: None)
    await_gone(
        "Clusters", lambda: list(management.list(CLUSTER, namespace)), "do the functions run?", progress, deadline
    )
    problem = ""
    if workload is not None:
        try:
            _remove_objects(workload, namespace, entries, progress, deadline)
            if check_namespace(workload, namespace):
                _delete_namespace(workload, namespace)
        except (ApiError, Failure) as error:
            problem = str(error)
        finally:
            workload.close()
    _delete_namespace(management, namespace)
    await_gone("Namespaces", lambda: _present(management, namespace), _NAMESPACES_HINT, progress, deadline)
    if problem:
        raise Failure(f"objects of the load are left in the workload cluster: {problem}")


def _inventories(management: Client, namespace: str) -> Collection[InventoryEntry]:
    """Returns the objects that were applied to the workload cluster, each once, because Clusters may share objects."""
    entries: dict[Identity, InventoryEntry] = {}
    for addon in management.list(CLUSTER_ADDON, namespace):
        entries |= {entry.identity: entry for entry in load_inventory(dig(addon, "status.resources"))}
    return entries.values()


def _workload(management: Client, namespace: str) -> Client | None:
    """Returns a client of the workload cluster; None if the load has no kubeconfig, and so no objects there."""
    for secret in management.list(SECRET, namespace):
        value = dig(secret, "data.value")
        if secret["metadata"]["name"].endswith(KUBECONFIG_SUFFIX) and value:
            try:
                return Client(connect.inline_credentials(base64.b64decode(value)))
            except (KubeconfigError, ValueError):
                continue
    return None


def _remove_objects(
    workload: Client,
    namespace: str,
    entries: Collection[InventoryEntry],
    progress: Callable[[str], None],
    deadline: float,
) -> None:
    """Deletes the namespaces of the Clusters, and objects elsewhere that were created since the load began."""
    selector = f"{SPACE_LABEL}={namespace}"
    spaces: set[str] = set()

    def left() -> list[Object]:
        """Deletes the namespaces that are left: a rollout that began before its Cluster was deleted may create some."""
        found = list(workload.list(NAMESPACE, selector=selector))
        alive = [space["metadata"]["name"] for space in found if not deleting(space)]
        each(lambda name: workload.delete(NAMESPACE, Key("", name)), alive, lambda _number: None)
        spaces.update(space["metadata"]["name"] for space in found)
        return found

    left()
    outside = [entry for entry in entries if entry.namespace not in spaces and entry.name not in spaces]
    begun = created_at(workload.find(NAMESPACE, Key("", namespace)) or {})
    if outside and begun is not None:
        discovery = Discovery(workload)
        each(lambda entry: _remove_object(workload, discovery, entry, begun), outside, lambda _number: None)
    await_gone("namespaces of Clusters", left, _NAMESPACES_HINT, progress, deadline)


def _remove_object(workload: Client, discovery: Discovery, entry: InventoryEntry, begun: datetime) -> None:
    """Deletes one object, unless it is older than the load, or gone with its namespace or CRD."""
    resource = discovery.in_any_version(entry.api_version, entry.kind)
    if resource is None:
        return
    try:
        live = workload.find(resource, Key(entry.namespace, entry.name))
    except NotServed:
        return
    if live is not None and not deleting(live) and is_of_load(live, begun):
        workload.delete(resource, key_of(live), uid=live["metadata"]["uid"])


def is_of_load(obj: Object, begun: datetime) -> bool:
    """Returns whether a load that began at this time, by the clock of the cluster, created the object.

    Creation times are whole seconds. A load creates nothing in its first second (`load.create_namespaces`), so objects
    of that second belong to others.
    """
    created = created_at(obj)
    return created is not None and created > begun and OWNER.has_labels(obj)


def _delete_namespace(client: Client, name: str) -> None:
    found = client.find(NAMESPACE, Key("", name))
    if found is not None and not deleting(found):
        client.delete(NAMESPACE, Key("", name))


def _present(client: Client, namespace: str) -> list[Object]:
    found = client.find(NAMESPACE, Key("", namespace))
    return [found] if found else []


def await_gone(
    what: str, left: Callable[[], list[Object]], hint: str, progress: Callable[[str], None], deadline: float
) -> None:
    """Waits until nothing is left. Raises `WaitTimeout`, with the hint if no further object goes."""
    changed_at = reported_at = time.monotonic()
    count = 0
    while found := left():
        now = time.monotonic()
        if len(found) != count:
            changed_at, count = now, len(found)
        stalled = now - changed_at > _STALLED
        if stalled or now > deadline:
            names = ", ".join(obj["metadata"]["name"] for obj in found[:3])
            raise WaitTimeout(
                f"{count} {what} are still there ({names}); {f'{hint} ' if stalled else ''}"
                "`--clean-up` deletes the rest"
            )
        if now - reported_at > PROGRESS_INTERVAL:
            reported_at = now
            progress(f"{len(found)} {what} are still there")
        time.sleep(_POLL)
