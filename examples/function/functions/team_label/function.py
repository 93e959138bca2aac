"""`team_label`: gives a Cluster the team of its Namespace."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from shared.api.resources import CLUSTER, NAMESPACE
from shared.clients import Clients
from shared.effects import Patch, Results
from shared.kube import Key, Object, dig
from shared.runtime import Decision, Function, Request

from .triggers import LABEL, TRIGGERS, is_labelled


@dataclass(frozen=True)
class Observed:
    """The Cluster, None if it does not exist, and the team of its Namespace, empty if it has none."""

    cluster: Object | None
    team: str = ""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the Namespace."""
    if request.primary is None or is_labelled(request.primary):
        return Observed(request.primary)
    namespace = clients.management.find(NAMESPACE, Key("", request.key.namespace))
    return Observed(request.primary, str(dig(namespace or {}, ("metadata", "labels", LABEL), "")))


def decide(observed: Observed, _now: datetime, _results: Results | None = None) -> Decision:
    """Sets the label. A Namespace without a team is looked at again after a minute."""
    cluster = observed.cluster
    if cluster is None or is_labelled(cluster):
        return Decision()
    if not observed.team:
        return Decision(message="the Namespace has no team", requeue_after=60.0)
    patch = {"metadata": {"labels": {LABEL: observed.team}}}
    return Decision(effects=(Patch(CLUSTER, cluster, patch),), message=f"team {observed.team}")


handle = Function(TRIGGERS, observe, decide).handle
