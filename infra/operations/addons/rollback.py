"""The command `rollback`: requests a rollback from the Cluster's present class, and waits until it is complete."""

from __future__ import annotations

from collections.abc import Callable

from shared.addons import manifest_history
from shared.addons.manifest_history import StoredManifest
from shared.addons.status import is_up_to_date
from shared.api import cluster as cluster_api
from shared.api.conditions import READY, abridged, get_condition
from shared.api.names import ROLLBACK_ANNOTATION, addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON, HELM_RELEASE_PROXY
from shared.clients import Clients
from shared.helm_proxies.names import CLUSTER_NAME_LABEL, HCP_NAME_LABEL
from shared.kube import Client, Key, NotServed, Object, dig, key_of

from ..failure import Failure
from ..text import plain
from ..waiting import WaitTimeout, wait_for

_WIDE = 4000
"""Characters of a condition's message, which can have several errors with their objects."""
_ANNOTATION = ("metadata", "annotations", ROLLBACK_ANNOTATION)


def addon_of_cluster(management: Client, cluster: Object) -> Object:
    """Returns the ClusterAddon of a Cluster; raises `Failure` if there is none."""
    addon = management.find(CLUSTER_ADDON, addon_of(cluster))
    if addon is None:
        hint = _charts_of(management, cluster) or "`capi-functions describe cluster` shows why"
        raise Failure(f"Cluster {key_of(cluster)} has no ClusterAddon: no addons were applied to it; {hint}")
    return addon


def _charts_of(management: Client, cluster: Object) -> str:
    """Returns which HelmChartProxies brought charts to the Cluster, and how to change these; empty if none did."""
    namespace, name = key_of(cluster)
    try:
        releases = list(management.list(HELM_RELEASE_PROXY, namespace, selector=f"{CLUSTER_NAME_LABEL}={name}"))
    except NotServed:
        return ""
    names = sorted({str(dig(one, ("metadata", "labels", HCP_NAME_LABEL), "")) for one in releases} - {""})
    if not names:
        return ""
    return (
        f"its charts come from HelmChartProxies: {abridged(names, separator=', ')}. To go back, give a HelmChartProxy "
        "its former version and values, because a release always follows its HelmChartProxy"
    )


def request_rollback(management: Client, cluster: Object, addon: Object) -> StoredManifest:
    """Annotates the addon; returns the manifest to roll back to, or raises `Failure` if there is none."""
    present_class = cluster_api.class_name(cluster)
    if not present_class:
        raise Failure(f"Cluster {key_of(cluster)} has no class to roll back from")
    annotations = {**dig(addon, "metadata.annotations", {}), ROLLBACK_ANNOTATION: present_class}
    annotated = {**addon, "metadata": {**addon["metadata"], "annotations": annotations}}
    manifest = manifest_history.read_previous(Clients(management), annotated)
    if manifest.problem:
        raise Failure(f"{manifest.problem}; give the Cluster another class instead")
    _annotate(management, addon, present_class)
    return manifest


def cancel_rollback(management: Client, cluster: Object, addon: Object) -> str:
    """Removes the annotation; returns the class that is rolled out again, or raises `Failure` without a rollback."""
    if not dig(addon, _ANNOTATION):
        raise Failure(f"no rollback of Cluster {key_of(cluster)} is requested")
    _annotate(management, addon, None)
    return cluster_api.class_name(cluster) or "nothing"


def wait_obstacle(cluster: Object) -> str:
    """Returns why the request will not be carried out yet; empty if it will."""
    return "the Cluster is paused" if cluster_api.is_paused(cluster) else ""


def _annotate(management: Client, addon: Object, value: str | None) -> None:
    management.patch(CLUSTER_ADDON, key_of(addon), {"metadata": {"annotations": {ROLLBACK_ANNOTATION: value}}})


def wait_until_applied(
    management: Client, key: Key, *, within: float, progress: Callable[[str], None], before: Object | None = None
) -> None:
    """Waits until the addons are up to date with the request.

    Args:
        management: The client of the management cluster.
        key: The Cluster.
        within: Seconds to wait.
        progress: Called with each new message of the addons' condition Ready.
        before: The addon before the request, whose message is not printed because the request makes it obsolete.

    Raises:
        WaitTimeout: The addons are not up to date in time.
    """
    message, stale = "", _ready_message(before or {})
    first = dig(before, "status")
    has_reacted = False

    def done() -> bool:
        nonlocal message, first, has_reacted
        cluster = management.get(CLUSTER, key)
        addon = addon_of_cluster(management, cluster)
        message, status = _ready_message(addon), dig(addon, "status")
        first = status if first is None else first
        has_reacted = has_reacted or status != first
        return is_up_to_date(addon, cluster)

    try:
        wait_for(
            "the addons to be up to date",
            done,
            within=within,
            status=lambda: message,
            progress=lambda line: None if line == stale else progress(line),
            pause=0.3,
        )
    except WaitTimeout as error:
        if has_reacted:
            raise
        why = "no function has changed the ClusterAddon since the request: do functions run for this cluster?"
        raise WaitTimeout(f"{error}; {why}") from None


def _ready_message(addon: Object) -> str:
    ready = get_condition(dig(addon, "status.conditions", []), READY) or {}
    return ": ".join(plain(ready[name], most=_WIDE) for name in ("reason", "message") if ready.get(name))
