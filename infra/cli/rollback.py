"""`rollback`: asks for what was applied before the Cluster's present class, and waits until it is there."""

from __future__ import annotations

from collections.abc import Callable

from shared.addons import manifest_history
from shared.addons.manifest_history import StoredManifest
from shared.addons.status import is_up_to_date
from shared.api import cluster as cluster_api
from shared.api.conditions import READY, get_condition
from shared.api.names import ROLLBACK_ANNOTATION, addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.clients import Clients
from shared.kube import Client, Key, Object, dig, key_of

from .failures import Failure
from .output import wait_for
from .text import plain

_WIDE = 4000
"""Characters of a condition: several errors of an API server, each with its object."""
_ANNOTATION = ("metadata", "annotations", ROLLBACK_ANNOTATION)


def addon_of_cluster(management: Client, cluster: Object) -> Object:
    addon = management.find(CLUSTER_ADDON, addon_of(cluster))
    if addon is None:
        raise Failure(f"Cluster {key_of(cluster)} has no ClusterAddon: no addons were ever applied from here")
    return addon


def request_rollback(management: Client, cluster: Object, addon: Object) -> StoredManifest:
    """Asks for the rollback; returns what it goes back to. Raises `Failure` where there is nothing to go back to."""
    unwanted = cluster_api.class_name(cluster)
    if not unwanted:
        raise Failure(f"Cluster {key_of(cluster)} has no class to go back from")
    annotations = {**dig(addon, "metadata.annotations", {}), ROLLBACK_ANNOTATION: unwanted}
    asking = {**addon, "metadata": {**addon["metadata"], "annotations": annotations}}
    kept = manifest_history.read_previous(Clients(management), asking)
    if kept.problem:
        raise Failure(f"{kept.problem}; give the Cluster another class instead")
    _annotate(management, addon, unwanted)
    return kept


def cancel_rollback(management: Client, cluster: Object, addon: Object) -> str:
    """Takes the wish back; returns the class that comes again. Raises `Failure` where nothing was asked for."""
    if not dig(addon, _ANNOTATION):
        raise Failure(f"no rollback of Cluster {key_of(cluster)} is asked for")
    _annotate(management, addon, None)
    return cluster_api.class_name(cluster) or "nothing"


def wait_obstacle(cluster: Object) -> str:
    """Why waiting would be in vain."""
    return "the Cluster is paused" if cluster_api.is_paused(cluster) else ""


def _annotate(management: Client, addon: Object, value: str | None) -> None:
    management.patch(CLUSTER_ADDON, key_of(addon), {"metadata": {"annotations": {ROLLBACK_ANNOTATION: value}}})


def wait_until_applied(management: Client, key: Key, *, within: float, tell: Callable[[str], None]) -> None:
    """Until the addons are what is asked for; `tell` hears what they say of themselves. Raises `WaitTimeout`."""
    heard = ""

    def done() -> bool:
        nonlocal heard
        cluster = management.get(CLUSTER, key)
        addon = addon_of_cluster(management, cluster)
        ready = get_condition(dig(addon, "status.conditions", []), READY) or {}
        heard = ": ".join(plain(ready[name], most=_WIDE) for name in ("reason", "message") if ready.get(name))
        return is_up_to_date(addon, cluster)

    what = "what was asked for (do the functions run?)"
    wait_for(what, done, within=within, hear=lambda: heard, tell=tell, pause=0.3)
