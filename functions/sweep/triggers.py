"""What starts `sweep`: a timer. It reads every primary kind."""

from __future__ import annotations

from shared.api.provider import KINDS
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE, KIND_CLUSTER
from shared.event import PING, REFERENCE, Event
from shared.kube import Key
from shared.triggers import READ_CRDS, Rule, Subscription, Triggers

PROVIDERS = tuple(kind.resource for kind in KINDS)
PRIMARY_KINDS = (CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE, KIND_CLUSTER, *PROVIDERS)


def everything(_event: Event) -> Key:
    return Key("", "sweep")


TRIGGERS = Triggers(
    name="sweep",
    subscriptions=(Subscription(PING, everything),),
    rules=(*(Rule(kind.group, (kind.plural,), ("list",)) for kind in PRIMARY_KINDS), READ_CRDS),
    emits=(REFERENCE + "update",),
)
