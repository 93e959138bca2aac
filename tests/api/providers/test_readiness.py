"""Webhooks are applied once their backends run; a provider is ready once its backends answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from shared.api.conditions import rfc3339
from shared.api.resources import DAEMON_SET, DEPLOYMENT, ENDPOINT_SLICE, POD, SECRET, SERVICE
from shared.applier.readiness import unready_reason
from shared.kube import Key, Object, Resource, dig, key_of
from shared.kube.crds import CRD
from shared.providers.phases import INSTALLED, completion_event
from tests.support.controllers import PENDING
from tests.support.fake_provider import MANAGER, SPACE, FakeProvider
from tests.support.provider_releases import WEBHOOKS, deployment, service, webhook, whole
from tests.support.until import until

AGENTS = Key(SPACE, "made-up-agents")
BACKEND = "made-up-webhook"
WORKLOADS = ((DEPLOYMENT, MANAGER, "updatedReplicas"), (DAEMON_SET, AGENTS, "updatedNumberScheduled"))

MUTATING = Resource(
    WEBHOOKS.group, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False
)
API_SERVICE = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False)
LATE = (
    (WEBHOOKS, "made-up-validating"),
    (MUTATING, "made-up-mutating"),
    (API_SERVICE, "v1.aggregated.example.com"),
)
ALL = [resource.kind for resource, _ in LATE]


def wanted(core: FakeProvider, objects: list[Object], annotations: Mapping[str, str] | None = None) -> None:
    """Publishes a version with these objects and reconciles it as far as possible."""
    core.publish("v1.1.0", objects)
    core.apply("v1.1.0", {f"capi-functions.dev/{name}": value for name, value in (annotations or {}).items()})
    core.reconcile()


def there(core: FakeProvider) -> list[str]:
    """Returns the kinds with a backend whose objects exist."""
    return [resource.kind for resource, name in LATE if core.providers.client.find(resource, Key("", name))]


def every_kind() -> list[Object]:
    """A provider with one object of each kind that has a backend."""
    validating, mutating = webhook("made-up"), webhook("made-up")
    mutating |= {"kind": MUTATING.kind, "metadata": {**mutating["metadata"], "name": "made-up-mutating"}}
    aggregated: Object = {
        "apiVersion": API_SERVICE.api_version,
        "kind": API_SERVICE.kind,
        "metadata": {
            "name": "v1.aggregated.example.com",
            "annotations": dig(validating, "metadata.annotations"),
        },
        "spec": {
            "group": "aggregated.example.com",
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 10,
            "service": {"name": BACKEND, "namespace": "system"},
        },
    }
    return [aggregated, mutating, *whole("made-up", "v1.1.0")]


def pending(workload: Object) -> Object:
    """The same, with pods that do not start before `start`."""
    metadata = workload["spec"]["template"]["metadata"]
    metadata["labels"] = {**metadata["labels"], **PENDING}
    return workload


def held_back() -> list[Object]:
    return [pending(obj) if obj["kind"] == DEPLOYMENT.kind else obj for obj in every_kind()]


def start(core: FakeProvider, resource: Resource, key: Key) -> None:
    """Makes the pods start, and sends the event of the workload."""
    client, labels = core.providers.client, {"metadata": {"labels": dict.fromkeys(PENDING)}}
    app = dig(client.get(resource, key), "spec.selector.matchLabels.app")

    def runs() -> bool:
        for pod in list(client.list(POD, SPACE, selector=f"app={app}")):
            client.patch(POD, key_of(pod), labels)
        return not unready_reason(client.get(resource, key))

    until(runs, f"{resource.kind} {key} runs")
    hear(core, resource, key)


def hear(core: FakeProvider, resource: Resource, key: Key) -> str:
    """Sends an event of this workload and returns the answer's message."""
    return core.providers.send_change(core.providers.client.get(resource, key), resource).message


def agents() -> Object:
    """A DaemonSet."""
    template = deployment("made-up-agents", "v1.1.0")["spec"]
    return {
        "apiVersion": DAEMON_SET.api_version,
        "kind": DAEMON_SET.kind,
        "metadata": {"name": AGENTS.name},
        "spec": {name: template[name] for name in ("selector", "template")},
    }


# -- webhooks and their backends -----------------------------------------------------------------------------------


def test_webhooks_are_not_applied_before_their_backend_runs(core: FakeProvider) -> None:
    providers = core.providers
    wanted(core, held_back())
    for _ in range(2):  # looking again changes nothing
        assert core.reconcile().retry_after == 15.0
        status, reason, message = core.condition_of()
        assert (status, reason) == ("False", "WaitingForBackends")
        assert f"Deployment {MANAGER}" in message
        assert hear(core, DEPLOYMENT, MANAGER) == "already reconciled"
        assert there(core) == []
    assert providers.client.find(CRD, Key("", "widgets.made-up.example.com"))
    start(core, DEPLOYMENT, MANAGER)
    assert core.condition_of()[0] == "True"
    assert there(core) == ALL
    assert providers.brought() == providers.listed(*core.key)


def test_webhooks_have_ca_and_service_of_their_provider(core: FakeProvider) -> None:
    core.publish("v1.1.0", every_kind())
    core.install("v1.1.0")
    client = core.providers.client
    ca = dig(client.get(SECRET, Key(SPACE, "made-up-webhook-cert")), ("data", "ca.crt"))
    for resource, name in LATE:
        obj = client.get(resource, Key("", name))
        backend = obj["spec"] if resource is API_SERVICE else dig(obj, "webhooks")[0]["clientConfig"]
        assert backend["caBundle"] == ca, resource.kind
        assert backend["service"]["namespace"] == SPACE, resource.kind


def test_webhooks_wait_for_daemon_sets(core: FakeProvider) -> None:
    wanted(core, [pending(agents()), *every_kind()])
    until(lambda: not unready_reason(core.providers.client.get(DEPLOYMENT, MANAGER)), "the other one runs")
    core.reconcile()
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "WaitingForBackends")
    assert f"DaemonSet {AGENTS}" in message
    assert str(MANAGER) not in message
    assert there(core) == []
    start(core, DAEMON_SET, AGENTS)
    assert core.condition_of()[0] == "True"
    assert there(core) == ALL


@pytest.mark.parametrize(("annotations", "seconds"), [({}, 600), ({"wait-timeout": "60"}, 60)])
def test_webhooks_are_applied_after_the_timeout(core: FakeProvider, annotations: dict[str, str], seconds: int) -> None:
    wanted(core, held_back(), annotations)
    waited(core, seconds - 30)
    core.reconcile()
    assert there(core) == []
    assert core.condition_of()[1] == "WaitingForBackends"
    waited(core, seconds + 1)
    core.reconcile()
    assert there(core) == ALL
    assert core.condition_of()[0] == "True"
    status, reason, message = core.condition_of("Ready")
    assert (status, reason) == ("False", "WorkloadsUnavailable")
    assert f"Deployment {MANAGER}" in message


def waited(core: FakeProvider, seconds: int) -> None:
    """Moves the beginning of the rollout into the past."""
    then = rfc3339(datetime.now(UTC) - timedelta(seconds=seconds))
    conditions = [{**each, "lastTransitionTime": then} for each in dig(core.object, "status.conditions")]
    status = {"conditions": conditions, "target": {"begun": then}}
    core.providers.client.patch(core.kind.resource, core.at, {"status": status}, subresource="status")


def test_without_wait_webhooks_are_applied_at_once(core: FakeProvider) -> None:
    wanted(core, held_back(), {"wait": "false"})
    assert there(core) == ALL
    assert core.condition_of("Ready")[0] == "True"


# -- availability --------------------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(core: FakeProvider) -> Iterator[None]:
    """Deletes the EndpointSlice at the end, since the namespace stays."""
    yield
    core.providers.client.delete(ENDPOINT_SLICE, Key(SPACE, BACKEND))


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("resource", [WEBHOOKS, MUTATING], ids=lambda resource: resource.kind)
def test_webhooks_without_endpoint_are_reported(core: FakeProvider, resource: Resource) -> None:
    """Their Service has no selector: its EndpointSlice is created by hand."""
    backend, configuration = service("made-up"), {**webhook("made-up"), "kind": resource.kind}
    del backend["spec"]["selector"]
    changed = {SERVICE.kind: backend, WEBHOOKS.kind: configuration}
    wanted(core, [changed.get(obj["kind"], obj) for obj in whole("made-up", "v1.1.0")])
    start(core, DEPLOYMENT, MANAGER)
    status, reason, message = core.condition_of("ComponentsAvailable")
    assert (status, reason) == ("False", "WebhooksNotAnswering")
    assert f"{resource.kind} made-up-validating: Service {SPACE}/{BACKEND} has no endpoint" in message
    assert core.condition_of("Ready")[:2] == ("False", "WebhooksNotAnswering")

    for ready in (False, True):
        endpoint(core, ready=ready)
        assert says(core, DEPLOYMENT, MANAGER)[0] == str(ready)


def endpoint(core: FakeProvider, *, ready: bool) -> None:
    metadata = {"name": BACKEND, "namespace": SPACE, "labels": {"kubernetes.io/service-name": BACKEND}}
    found: Object = {
        "apiVersion": ENDPOINT_SLICE.api_version,
        "kind": ENDPOINT_SLICE.kind,
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": ready}}],
    }
    core.providers.client.apply(ENDPOINT_SLICE, found, manager="user")


@pytest.mark.parametrize(("resource", "key", "updated"), WORKLOADS, ids=["Deployment", "DaemonSet"])
def test_unavailable_workloads_are_reported_and_deleted_ones_recreated(
    core: FakeProvider, resource: Resource, key: Key, updated: str
) -> None:
    """They are reported even while former pods run."""
    client = core.providers.client
    core.publish("v1.1.0", [agents(), *whole("made-up", "v1.1.0")])
    core.install("v1.1.0")
    until(lambda: says(core, resource, key) == ("True", "Ready"), "all is well")
    client.patch(resource, key, of_pods(PENDING))  # by hand: what comes up from now on does not start
    until(lambda: observed(client.get(resource, key)) and dig(client.get(resource, key), f"status.{updated}"))
    assert says(core, resource, key) == ("False", "WorkloadsUnavailable")
    assert f"{resource.kind} {key}" in core.condition_of("Ready")[2]
    client.patch(resource, key, of_pods(dict.fromkeys(PENDING)))
    until(lambda: says(core, resource, key)[0] == "True", "all is well again")

    before = client.get(resource, key)
    client.delete(resource, key)
    core.providers.send_change(before, resource, "delete")
    assert client.get(resource, key)["metadata"]["uid"] != before["metadata"]["uid"]
    until(lambda: says(core, resource, key)[0] == "True", "all is well once more")


def of_pods(labels: Mapping[str, str | None]) -> Object:
    return {"spec": {"template": {"metadata": {"labels": labels}}}}


def observed(obj: Object) -> bool:
    return bool(dig(obj, "status.observedGeneration") == dig(obj, "metadata.generation"))


def says(core: FakeProvider, resource: Resource, key: Key) -> tuple[str, str]:
    """Returns status and reason of `Ready` after an event of this workload."""
    hear(core, resource, key)
    return core.condition_of("Ready")[:2]


def test_unserved_kinds_are_reported(core: FakeProvider) -> None:
    providers, name = core.providers, "widgets.made-up.example.com"
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    providers.client.delete(CRD, Key("", name))
    until(lambda: providers.client.find(CRD, Key("", name)) is None)
    providers.clients.discovery.invalidate()  # as whoever starts now
    providers.send(completion_event(INSTALLED, core.object, resync=False))
    assert core.condition_of("Ready")[:2] == ("False", "KindsNotServed")
    assert name in core.condition_of("ComponentsAvailable")[2]
    core.reconcile(resync=True)
    until(lambda: says(core, DEPLOYMENT, MANAGER)[0] == "True", "the kind is there again")
