"""Starts `chart_assets` when a HelmReleaseProxy needs a chart that is not in storage, or may be out of date."""

from __future__ import annotations

from shared import profiles
from shared.api.resources import HELM_RELEASE_PROXY, SECRET
from shared.event import Event
from shared.helm_charts.request import WANTED
from shared.kube import Key
from shared.settings import HELM_CHARTS, NETWORK, STORAGE
from shared.triggers import Rule, Subscription, Triggers


def requester(event: Event) -> Key | None:
    """Returns the key of the HelmReleaseProxy that waits for the chart; None for events about anything else."""
    is_proxy = (event.group, event.kind) == (HELM_RELEASE_PROXY.group, HELM_RELEASE_PROXY.kind)
    return event.key if is_proxy and event.name else None


TRIGGERS = Triggers(
    name="chart_assets",
    profiles=profiles.ADDONS,
    subscriptions=(Subscription(WANTED, requester),),
    rules=(
        # The object says which chart to fetch, and its Secrets have the credentials.
        Rule(HELM_RELEASE_PROXY.group, (HELM_RELEASE_PROXY.plural,), ("get",)),
        Rule(SECRET.group, (SECRET.plural,), ("get",)),
    ),
    settings=(STORAGE, HELM_CHARTS, NETWORK),
)
