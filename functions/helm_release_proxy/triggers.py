"""Starts `helm_release_proxy` when a HelmReleaseProxy changes, its chart is fetched, or its Cluster changes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared import profiles, wake
from shared.api import cluster as cluster_api
from shared.api.conditions import READY, get_condition
from shared.api.resources import CLUSTER, CONFIG_MAP, HELM_RELEASE_PROXY, SECRET
from shared.event import Event
from shared.helm_charts.request import FETCHED
from shared.helm_proxies.names import HRP_FINALIZER, INSTALL_ONCE, INSTALLED
from shared.helm_proxies.release_record import DEPLOYED
from shared.kube import Object, deleting, dig, has_finalizer
from shared.settings import INSTALLATION, NETWORK, STORAGE
from shared.triggers import ANNOTATIONS, FIND_CONTROLLERS, MEMORY_TO_RENDER, SPEC, Rule, Subscription, Triggers, Watch


def is_installed_once(proxy: Mapping[str, Any]) -> bool:
    """Returns whether the release is installed, and its strategy leaves it unchanged since then."""
    return dig(proxy, "spec.reconcileStrategy") == INSTALL_ONCE and INSTALLED in dig(proxy, "metadata.annotations", {})


def is_reconciled(proxy: Object, event: Event, _now: datetime) -> bool:
    """Returns whether the release is deployed as the HelmReleaseProxy requests."""
    if deleting(proxy):
        return not has_finalizer(proxy, HRP_FINALIZER)
    if cluster_api.is_paused(proxy):
        return True
    ready = get_condition(dig(proxy, "status.conditions"), READY) or {}
    observed = dig(proxy, "status.observedGeneration") == dig(proxy, "metadata.generation")
    deployed = dig(proxy, "status.status") == DEPLOYED and bool(dig(proxy, "status.digest"))
    return (
        event.kind == HELM_RELEASE_PROXY.kind
        and event.change is not None
        and observed
        and has_finalizer(proxy, HRP_FINALIZER)
        and ready.get("status") == "True"
        and (deployed or is_installed_once(proxy))
    )


TRIGGERS = Triggers(
    name="helm_release_proxy",
    profiles=profiles.ADDONS,
    watches=(
        Watch(
            HELM_RELEASE_PROXY,
            fields=(*SPEC, ANNOTATIONS),
            changes=("add", "update"),
            filtered=True,
        ),
    ),
    subscriptions=(Subscription(FETCHED), Subscription(wake.CHANGED)),
    is_reconciled=is_reconciled,
    finalizer=HRP_FINALIZER,
    rules=(
        Rule(HELM_RELEASE_PROXY.group, (HELM_RELEASE_PROXY.plural,), ("list", "patch")),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("get",)),
        Rule(SECRET.group, (SECRET.plural,), ("get",)),  # kubeconfigs, and values
        *FIND_CONTROLLERS,
        Rule(CONFIG_MAP.group, (CONFIG_MAP.plural,), ("get",)),  # values
    ),
    settings=(INSTALLATION, STORAGE, NETWORK),
    memory=MEMORY_TO_RENDER,
)
