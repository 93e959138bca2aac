"""Generates Knative Eventing objects from declarations: Broker, sources, Triggers, SinkBindings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from events import delivery as delivering
from shared.dead_letters import FUNCTION as DEAD_LETTERS
from shared.event import OWN
from shared.kube.resources import Object, Resource
from shared.settings import NAMESPACE
from shared.triggers import DefinedKinds, Subscription, Triggers, Watch

from . import workloads
from .files import in_namespace

BROKER: Object = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "capi-functions"}
"""Reference to the Broker of all events."""

CHANGE_PREFIX = "dev.knative.apiserver."
"""The prefix of the CloudEvent types of object changes."""

JETSTREAM: Object = {
    "stream": {"retention": "Interest", "storage": "File", "replicas": 1, "maxAge": "24h"},
    "filter": {"env": [{"name": "CONSUMER_FETCH_BATCH_SIZE", "value": "1"}]},
}
"""The configuration of a Broker of the class NatsJetStreamBroker.

Its default keeps all events for ever. `Interest` keeps an event until each Trigger has handled it. `maxAge` limits
this, because an event stays if the filter ends in the last attempt. The filter fetches single events, because for a
batch the time limit of each acknowledgement begins with the fetch.
"""

_SOURCES = "sources.knative.dev/v1"

_SINK: Object = {"ref": BROKER | {"namespace": NAMESPACE}}


def broker() -> Object:
    """Returns the Broker, whose dead letters go to the function that keeps them."""
    sink = {"apiVersion": "v1", "kind": "Service", "name": workloads.name_of(DEAD_LETTERS), "namespace": NAMESPACE}
    delivery = {
        "retry": 8,
        "backoffPolicy": "exponential",
        "backoffDelay": "PT0.5S",
        "timeout": f"PT{delivering.TIMEOUT:.0f}S",
        "deadLetterSink": {"ref": sink},
    }
    result = in_namespace(BROKER["apiVersion"], BROKER["kind"], BROKER["name"], {"delivery": delivery})
    result["metadata"]["annotations"] = {"messaging.knative.dev/async-handler": "true"}
    return result


def event_policy() -> Object:
    """Returns the EventPolicy of the Broker: senders of its namespace only, sources, functions and replies."""
    spec = {"to": [{"ref": dict(BROKER)}], "from": [{"sub": f"system:serviceaccount:{NAMESPACE}:*"}]}
    return in_namespace("eventing.knative.dev/v1alpha1", "EventPolicy", BROKER["name"], spec)


def api_server_source(name: str, account: str, watches: Iterable[Watch], mode: str) -> Object:
    """Returns an ApiServerSource of these kinds in all namespaces; `mode` is Resource or Reference."""
    spec = {
        "mode": mode,
        "serviceAccountName": account,
        "namespaceSelector": {},
        "resources": [
            {"apiVersion": resource.api_version, "kind": resource.kind}
            | ({"selector": label_selector(selector)} if selector else {})
            for resource, selector in selectors(watches).items()
        ],
        "sink": _SINK,
    }
    return in_namespace(_SOURCES, "ApiServerSource", name, spec)


def selectors(watches: Iterable[Watch]) -> dict[Resource, str]:
    """Returns the label selector by kind; empty if watches of the kind have different selectors."""
    found: dict[Resource, str] = {}
    for watch in watches:
        same = found.setdefault(watch.resource, watch.selector) == watch.selector
        found[watch.resource] = watch.selector if same else ""
    return dict(sorted(found.items(), key=lambda entry: (entry[0].group, entry[0].kind)))


def label_selector(text: str) -> Object:
    """Converts `a=b,c,!d` to a LabelSelector. Raises ValueError for other operators."""
    equal: dict[str, str] = {}
    expressions: list[Object] = []
    for part in text.split(","):
        match = re.fullmatch(r"(!?)([\w./-]+)(?:\s*==?\s*([\w.-]*))?", part.strip())
        if match is None or (match[1] and match[3] is not None):
            raise ValueError(f"label selector {text!r}: only key=value, key and !key are supported")
        if match[3] is not None:
            equal[match[2]] = match[3]
        else:
            expressions.append({"key": match[2], "operator": "DoesNotExist" if match[1] else "Exists"})
    return ({"matchLabels": equal} if equal else {}) | ({"matchExpressions": expressions} if expressions else {})


def ping_source(name: str, schedule: str, data: Object) -> Object:
    """Returns a PingSource that sends `data` on a cron schedule."""
    spec = {"schedule": schedule, "contentType": "application/json", "data": json.dumps(data), "sink": _SINK}
    return in_namespace(_SOURCES, "PingSource", name, spec)


def sink_binding(name: str) -> Object:
    """Returns the SinkBinding that sets K_SINK in the Deployment `name` to the broker's URL."""
    subject = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "namespace": NAMESPACE}
    return in_namespace(_SOURCES, "SinkBinding", name, {"subject": subject, "sink": _SINK})


def triggers_of(triggers: Triggers, name: str) -> Iterable[Object]:
    """Yields the Knative Triggers of a function: one for each watched kind, one for each event type it subscribes to.

    One Trigger covers all kinds of `DefinedKinds`. `name` is the name of the function's Service.
    """
    kinds = triggers.defined_kinds
    for watch in triggers.watches:
        if kinds is None or not kinds.includes(watch.resource.group, watch.resource.kind):
            yield _trigger(f"{name}-{watch.resource.kind.lower()}", name, watch_filters(watch))
    if kinds is not None:
        yield _trigger(f"{name}-defined-kinds", name, defined_filters(kinds))
    for subscription in triggers.subscriptions:
        yield _trigger(f"{name}-{_tail(subscription)}", name, [{"exact": {"type": subscription.type}}])


def watch_filters(watch: Watch) -> list[Object]:
    """Returns the filters of a Trigger: the kind in any version of its group, and the types of change.

    A Trigger sees only the attributes of an event. So the source applies the label selector, and only the forwarder
    compares `fields`. The filters accept events with the object and events with a reference, whatever the mode of the
    source, because the sweep sends references.
    """
    resource = watch.resource
    group: Object = (
        {"prefix": {"apiversion": f"{resource.group}/"}} if resource.group else {"exact": {"apiversion": "v1"}}
    )
    return [{"exact": {"kind": resource.kind}}, group, *_change_filters(watch)]


def defined_filters(kinds: DefinedKinds) -> list[Object]:
    """Returns the filters of a Trigger for defined kinds: those for which `DefinedKinds.includes` returns True."""
    endings: list[Object] = [{"suffix": {"kind": ending}} for ending in kinds.endings]
    other_groups: Object = {"not": {"prefix": {"apiversion": f"{kinds.without_group}/"}}}
    return [{"any": endings}, other_groups, *_change_filters(kinds.like)]


def _change_filters(watch: Watch) -> list[Object]:
    changes: list[Object] = [{"suffix": {"type": f".{change}"}} for change in watch.changes]
    return [{"prefix": {"type": CHANGE_PREFIX}}, {"any": changes}]


def _trigger(name: str, service: str, filters: list[Object]) -> Object:
    subscriber = {"apiVersion": "v1", "kind": "Service", "name": service, "namespace": NAMESPACE}
    spec = {"broker": BROKER["name"], "filters": filters, "subscriber": {"ref": subscriber}}
    return in_namespace(BROKER["apiVersion"], "Trigger", name, spec)


def _tail(subscription: Subscription) -> str:
    """Returns the event type without its prefix, in a form that object names allow."""
    own = subscription.type.startswith(OWN)
    word = subscription.type.removeprefix(OWN) if own else subscription.type.rpartition(".")[2]
    return re.sub(r"[^a-z0-9-]+", "-", word.lower())
