"""Knative's authentication and authorization on a real node: only senders of our namespace reach the Broker."""

from __future__ import annotations

import pytest
import urllib3

from infra.node import knative
from shared.api.resources import CONFIG_MAP, SERVICE
from shared.event import PING, Event
from shared.kube import Client, Key, Resource, dig
from tests.support.node_addons import Addons
from tests.support.node_installation import NAMESPACE, Installation, measured
from tests.support.object_store import KEYS
from tests.support.objects import secret
from tests.support.until import until

pytestmark = pytest.mark.timeout(1200)

BROKER = Resource("eventing.knative.dev", "v1", "Broker", "brokers")
PARTS = "brokers,triggers,pingsources,sinkbindings,eventpolicies"


def test_events_are_authenticated(prepared: Installation, workload: Client) -> None:
    client = prepared.client
    prepared.install_knative(knative.EVENTING)
    features = Key(knative.EVENTING.namespace, "config-features")
    client.patch(CONFIG_MAP, features, {"data": {"authentication-oidc": "enabled"}})
    prepared.kube("create", "namespace", NAMESPACE)
    prepared.apply([secret("capi-functions-storage", NAMESPACE, **KEYS)])
    with measured("release with an EventPolicy Ready"):
        prepared.release(profile="standalone", mode="forwarder", eventPolicy=True)
        prepared.kube("wait", "--for=condition=Ready", "--all", "-n", NAMESPACE, "--timeout=300s", PARTS)

    addons = Addons(prepared, "authenticated", workload)
    with measured("first addons Ready"):
        addons.wants(kept="1")
    with measured("upgrade"):
        addons.wants(kept="2")

    headers, body = Event(type=PING, source="/stranger", id="1", data={}).to_http()
    ingress = dig(client.get(SERVICE, Key(knative.EVENTING.namespace, "broker-ingress")), "spec.clusterIP")
    url = f"http://{ingress}/{NAMESPACE}/{NAMESPACE}"

    def answer(*arguments: str) -> int:
        token = prepared.kube("create", "token", *arguments).strip() if arguments else ""
        authorization = {"Authorization": f"Bearer {token}"} if token else {}
        return urllib3.request("POST", url, headers={**headers, **authorization}, body=body, retries=False).status

    audience = f"--audience={dig(client.get(BROKER, Key(NAMESPACE, NAMESPACE)), 'status.address.audience')}"
    assert answer() == 401
    assert answer("default", "-n", "default", "--audience=another") == 401
    assert answer("default", "-n", "default", audience) == 403, "a stranger of the cluster"
    until(lambda: answer("default", "-n", NAMESPACE, audience) == 202, "a sender of our namespace is let in")
    with measured("deletion"):
        addons.remove()
