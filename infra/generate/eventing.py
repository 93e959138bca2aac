"""Declarations of triggers as Knative Eventing objects: what is watched, and what goes to whom."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from shared.event import OWN
from shared.kube.resources import Object, Resource
from shared.triggers import Subscription, Triggers, Watch

BROKER: Object = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "capi-functions"}
"""Reference to the one broker that everything goes through."""

CHANGES = "dev.knative.apiserver."
"""What the types of all object changes begin with."""

_SOURCES = "sources.knative.dev/v1"


def broker(namespace: str) -> Object:
    return {
        "apiVersion": BROKER["apiVersion"],
        "kind": BROKER["kind"],
        "metadata": {
            "name": BROKER["name"],
            "namespace": namespace,
            "annotations": {"messaging.knative.dev/async-handler": "true"},
        },
        "spec": {"delivery": {"retry": 8, "backoffPolicy": "exponential", "backoffDelay": "PT0.5S"}},
    }


def api_server_source(name: str, namespace: str, account: str, watches: Iterable[Watch], mode: str) -> Object:
    """One adapter that watches all these kinds in all namespaces."""
    return {
        "apiVersion": _SOURCES,
        "kind": "ApiServerSource",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "mode": mode,
            "serviceAccountName": account,
            "namespaceSelector": {},
            "resources": [
                {"apiVersion": resource.api_version, "kind": resource.kind}
                | ({"selector": label_selector(selector)} if selector else {})
                for resource, selector in selectors(watches).items()
            ],
            "sink": {"ref": BROKER | {"namespace": namespace}},
        },
    }


def selectors(watches: Iterable[Watch]) -> dict[Resource, str]:
    """Each kind once, for every object comes as one event; where watchers ask for different labels, unselected."""
    found: dict[Resource, str] = {}
    for watch in watches:
        same = found.setdefault(watch.resource, watch.selector) == watch.selector
        found[watch.resource] = watch.selector if same else ""
    return dict(sorted(found.items(), key=lambda entry: (entry[0].group, entry[0].kind)))


def label_selector(text: str) -> Object:
    """`a=b,c,!d` as a LabelSelector. Raises ValueError for what has no such form here."""
    equal: dict[str, str] = {}
    expressions: list[Object] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(!?)([\w./-]+)\s*(?:==?\s*([\w.-]*))?\s*", part)
        if match is None or (match[1] and match[3] is not None):
            raise ValueError(f"label selector {text!r}: only key=value, key and !key are understood")
        if match[3] is not None:
            equal[match[2]] = match[3]
        else:
            expressions.append({"key": match[2], "operator": "DoesNotExist" if match[1] else "Exists"})
    return ({"matchLabels": equal} if equal else {}) | ({"matchExpressions": expressions} if expressions else {})


def ping_source(name: str, namespace: str, schedule: str, data: Object) -> Object:
    return {
        "apiVersion": _SOURCES,
        "kind": "PingSource",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedule": schedule,
            "contentType": "application/json",
            "data": json.dumps(data),
            "sink": {"ref": BROKER | {"namespace": namespace}},
        },
    }


def sink_binding(name: str, namespace: str) -> Object:
    """Tells the Deployment `name` where the broker is, as K_SINK."""
    return {
        "apiVersion": _SOURCES,
        "kind": "SinkBinding",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "subject": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "namespace": namespace},
            "sink": {"ref": BROKER | {"namespace": namespace}},
        },
    }


def triggers_of(triggers: Triggers, name: str, namespace: str) -> Iterable[Object]:
    """One Trigger for each kind or type of event that starts a function; `name` is its Service."""
    for watch in triggers.watches:
        yield _trigger(f"{name}-{watch.resource.kind.lower()}", name, namespace, watch_filters(watch))
    for subscription in triggers.subscriptions:
        yield _trigger(f"{name}-{_tail(subscription)}", name, namespace, [{"exact": {"type": subscription.type}}])


def watch_filters(watch: Watch) -> list[Object]:
    """All must hold: the kind in any version of its group, and the type of change.

    Events with and without the object are both let in, whichever way the kind is watched: the sweep sends references.
    Only attributes can be filtered on. Labels are the source's matter, `fields` the forwarder's.
    """
    resource = watch.resource
    group: Object = (
        {"prefix": {"apiversion": f"{resource.group}/"}} if resource.group else {"exact": {"apiversion": "v1"}}
    )
    changes: list[Object] = [{"suffix": {"type": f".{change}"}} for change in watch.changes]
    return [{"exact": {"kind": resource.kind}}, group, {"prefix": {"type": CHANGES}}, {"any": changes}]


def _trigger(name: str, service: str, namespace: str, filters: list[Object]) -> Object:
    subscriber = {"apiVersion": "v1", "kind": "Service", "name": service, "namespace": namespace}
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"broker": BROKER["name"], "filters": filters, "subscriber": {"ref": subscriber}},
    }


def _tail(subscription: Subscription) -> str:
    """What tells a type apart, fit for a name."""
    own = subscription.type.startswith(OWN)
    word = subscription.type.removeprefix(OWN) if own else subscription.type.rpartition(".")[2]
    return re.sub(r"[^a-z0-9-]+", "-", word.lower())
