"""Starts `helm_chart_proxy` when a HelmChartProxy, one of its HelmReleaseProxies or a Cluster changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared import profiles, wake
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.conditions import READY, get_condition
from shared.api.resources import CLUSTER, HELM_CHART_PROXY, HELM_RELEASE_PROXY
from shared.helm_proxies.names import HCP_FINALIZER
from shared.kube import Key, key_of, owners
from shared.kube.resources import dig
from shared.settings import INSTALLATION
from shared.triggers import (
    FIND_CONTROLLERS,
    MEMORY_TO_RENDER,
    READ_CRDS,
    SPEC,
    Rule,
    Subscription,
    Triggers,
    Watch,
    annotation,
)

from .reconciled import is_reconciled


def owner_of(release: Mapping[str, Any]) -> Key | None:
    """Returns the key of the HelmChartProxy that owns a HelmReleaseProxy; None without an owner."""
    for reference in owners(release, HELM_CHART_PROXY.kind, HELM_CHART_PROXY.group):
        return Key(key_of(release).namespace, str(reference.get("name", "")))
    return None


def relevant_in_release(release: Mapping[str, Any]) -> object:
    """Returns the values that start the function when an update of a HelmReleaseProxy changes one of them."""
    ready = get_condition(dig(release, "status.conditions"), READY) or {}
    told = [ready.get(name) for name in ("status", "reason", "message")]
    observed = [dig(release, "metadata.generation"), dig(release, "status.observedGeneration")]
    return [*observed, *told, dig(release, "metadata.deletionTimestamp"), dig(release, "metadata.labels")]


TRIGGERS = Triggers(
    name="helm_chart_proxy",
    profiles=profiles.ADDONS,
    watches=(
        Watch(
            HELM_CHART_PROXY,
            fields=(*SPEC, annotation(PAUSED_ANNOTATION)),
            changes=("add", "update"),
            filtered=True,
        ),
        Watch(HELM_RELEASE_PROXY, key=owner_of, digest=relevant_in_release, needs_primary=True),
    ),
    subscriptions=(Subscription(wake.CHANGED),),
    is_reconciled=is_reconciled,
    finalizer=HCP_FINALIZER,
    rules=(
        Rule(HELM_CHART_PROXY.group, (HELM_CHART_PROXY.plural,), ("get", "patch")),
        Rule(
            HELM_RELEASE_PROXY.group,
            (HELM_RELEASE_PROXY.plural,),
            ("get", "list", "create", "patch", "delete"),
        ),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("get", "list")),
        *FIND_CONTROLLERS,
        # Values templates read the objects that the Cluster refers to, which may be of any provider.
        Rule("infrastructure.cluster.x-k8s.io", ("*",), ("get",)),
        Rule("infrastructure.cluster-k8s.io", ("*",), ("get",)),
        Rule("controlplane.cluster.x-k8s.io", ("*",), ("get",)),
        READ_CRDS,
    ),
    settings=(INSTALLATION,),
    memory=MEMORY_TO_RENDER,
)
