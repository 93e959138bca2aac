"""Providers in a cluster of their own, their releases, and functions called as a broker calls them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from events.delivery import Deliver
from functions import catalog
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.conditions import is_true
from shared.api.provider import GROUP, KINDS, PROVIDER_LABEL, ProviderKind
from shared.api.resources import CLUSTERCTL_PROVIDER, CONFIG_MAP, DEPLOYMENT, NAMESPACE, SECRET
from shared.applier import inventory
from shared.clients import Clients
from shared.event import Change, Event, change_event
from shared.kube import ApiError, Client, Key, Object, Resource, dig, key_of
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support import objects
from tests.support.broker import deliver_with_replies, subscribers
from tests.support.http_server import HttpServer, Request, Response
from tests.support.planes import connected, running_plane
from tests.support.until import until

EVENTS = "events.k8s.io"
COPIES = ("Endpoints", "EndpointSlice")
"""Kinds whose objects take the labels of others."""
PHASES = tuple(f"provider_{phase}" for phase in ("preflight", "fetch", "install", "report", "delete"))


@dataclass
class Providers:
    """A management cluster for providers; `site` serves the folders in `releases`, laid out like a GitHub host."""

    client: Client
    clients: Clients
    site: HttpServer
    releases: list[Path]
    namespaces: set[str] = field(default_factory=set)
    given: set[tuple[Resource, Key]] = field(default_factory=set)
    """What users keep beside providers: it ends with the test."""
    answers: list[tuple[str, Answer]] = field(default_factory=list)
    deliver: Deliver | None = None
    """The way to the functions, where they are not called in this process."""

    @property
    def requests(self) -> int:
        """The number of requests that the functions have sent so far."""
        return self.clients.management.requests

    # -- what users do -----------------------------------------------------------------------------------------

    def namespace(self, name: str) -> str:
        if name not in self.namespaces and self.client.find(NAMESPACE, Key("", name)) is None:
            self.client.create(NAMESPACE, objects.manifest(NAMESPACE, name))
        self.namespaces.add(name)
        return name

    def apply(
        self, kind: ProviderKind, name: str, namespace: str, annotations: Mapping[str, str] | None = None, **spec: Any
    ) -> Object:
        metadata = {"annotations": dict(annotations or {})}
        body = objects.manifest(kind.resource, name, self.namespace(namespace), metadata=metadata, spec=spec)
        return self.client.apply(kind.resource, body, manager="user")

    def secret(self, name: str, namespace: str, **values: str) -> None:
        self._give(SECRET, objects.secret(name, self.namespace(namespace), **values))

    def config_map(self, name: str, namespace: str, labels: Mapping[str, str] | None = None, **data: str) -> None:
        metadata = {"labels": dict(labels or {})}
        body = objects.manifest(CONFIG_MAP, name, self.namespace(namespace), metadata=metadata, data=data)
        self._give(CONFIG_MAP, body)

    def _give(self, resource: Resource, body: Object) -> None:
        self.given.add((resource, key_of(self.client.apply(resource, body, manager="user"))))

    def url(self, file: str, version: str = "latest", repository: str = "kubernetes-sigs/cluster-api") -> str:
        """Returns a value for `spec.fetchConfig.url`."""
        return f"{self.site.url}/{repository}/releases/{version}/{file}"

    def empty_storage(self) -> None:
        """Deletes all downloads from storage."""
        store = ObjectStore.from_env()
        for name in store.list():
            store.delete(name)

    # -- what event sources do ---------------------------------------------------------------------------------

    def reconcile(self, kind: ProviderKind, name: str, namespace: str, *, resync: bool = False) -> Answer:
        """Sends an event of the provider and all events that follow; returns the last answer."""
        found = self.client.find(kind.resource, Key(namespace, name))
        if found is None:
            return Answer(204, "gone")
        return self.send(change_event(found, "update", source="/test", reference=True, resync=resync))

    def send_change(self, obj: Object, resource: Resource, change: Change = "update") -> Answer:
        """Sends an event of an object that a provider has installed."""
        whole = {**obj, "apiVersion": resource.api_version, "kind": resource.kind}
        return self.send(change_event(whole, change, source="/test"))

    def send_to(self, phases: Iterable[str], kind: ProviderKind, name: str, namespace: str) -> Answer:
        """Like `reconcile`, with only these phases subscribed."""
        return self.send(change_event(self.get(kind, name, namespace), "update", source="/test"), phases)

    def send(self, event: Event, phases: Iterable[str] = PHASES) -> Answer:
        listening, last = partial(subscribers, among=tuple(phases)), Answer(204)
        for name, last in deliver_with_replies(event, listening(event), self.deliver or self._call, listening):
            self.answers.append((name, last))
        return last

    def _call(self, name: str, event: Event) -> Answer:
        return catalog.handler(name)(self.clients, event)

    def reconcile_with_workloads(self, kind: ProviderKind, name: str, namespace: str) -> None:
        """Sends events of the provider and of its Deployments, and all events that follow."""
        self.reconcile(kind, name, namespace)
        for deployment in list(self.client.list(DEPLOYMENT, namespace, selector=PROVIDER_LABEL)):
            self.send_change(deployment, DEPLOYMENT)

    def until_ready(self, kind: ProviderKind, name: str, namespace: str) -> Object:
        """Sends events of the provider and of its Deployments until its present generation is ready."""

        def looked() -> Object | None:
            self.reconcile_with_workloads(kind, name, namespace)
            provider = self.get(kind, name, namespace)
            return provider if is_ready(provider) else None

        def details() -> str:
            return f"{dig(self.get(kind, name, namespace), 'status.conditions')} {self.answers[-4:]}"

        return until(looked, f"{kind.kind} {namespace}/{name} is ready", pause=0.1, details=details)

    # -- what is there then ------------------------------------------------------------------------------------

    def get(self, kind: ProviderKind, name: str, namespace: str) -> Object:
        return self.client.get(kind.resource, Key(namespace, name))

    def condition(self, provider: Object, type_: str) -> Object:
        return objects.condition(self.client.get(_resource(provider), key_of(provider)), type_, self.answers[-4:])

    def versions(self) -> dict[str, str]:
        """Returns the resourceVersion of every provider and of every object that providers have installed."""
        found = {}
        for resource in {*self.clients.discovery.served().values()}:
            try:
                selector = "" if resource.group == GROUP else PROVIDER_LABEL
                for obj in objects.metadata_of(self.client, resource, selector):
                    found[f"{resource.kind} {key_of(obj)}"] = obj["metadata"]["resourceVersion"]
            except ApiError:
                continue  # cannot be listed
        return found

    def brought(self, label: str = "") -> dict[str, str]:
        """Returns the uids of all objects that providers have installed, or the provider with this label."""
        selector = f"{PROVIDER_LABEL}={label}" if label else PROVIDER_LABEL
        found = {}
        for resource in {*self.clients.discovery.served().values()}:
            if resource.group in (GROUP, EVENTS) or resource.kind in COPIES:
                continue
            try:
                for obj in objects.metadata_of(self.client, resource, selector):
                    found[f"{resource.kind} {key_of(obj)}"] = obj["metadata"]["uid"]
            except ApiError:
                continue  # cannot be listed
        return found

    def listed(self, kind: ProviderKind, name: str, namespace: str) -> dict[str, str]:
        """Returns the same from the provider's inventory."""
        entries = inventory.load(dig(self.get(kind, name, namespace), "status.resources"))
        return {f"{entry.kind} {Key(entry.namespace, entry.name)}": entry.uid for entry in entries}

    def without_webhooks(self, label: str) -> None:
        """Deletes the webhook configurations, whose backends do not run."""
        for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
            resource = Resource("admissionregistration.k8s.io", "v1", "Webhook", kind, namespaced=False)
            for obj in list(self.client.list(resource, selector=f"{PROVIDER_LABEL}={label}")):
                self.client.delete(resource, key_of(obj))

    def remove_all(self) -> None:
        """Deletes every provider by force, what users created, and the labels of providers on namespaces."""
        for kind in reversed(KINDS):
            for provider in list(self.client.list(kind.resource)):
                key = key_of(provider)
                annotations = {"capi-functions.dev/force-delete": "true", PAUSED_ANNOTATION: None}
                self.client.patch(kind.resource, key, {"metadata": {"annotations": annotations}})
                self.client.delete(kind.resource, key)
                deadline = time.monotonic() + 60  # kinds with objects take their time to go
                while self.client.find(kind.resource, key) and time.monotonic() < deadline:
                    self.reconcile(kind, key.name, key.namespace)
                if self.client.find(kind.resource, key):
                    self.client.patch(kind.resource, key, {"metadata": {"finalizers": None}})
        for resource, key in self.given:
            self.client.delete(resource, key)
        for namespace in list(self.client.list(NAMESPACE, selector=PROVIDER_LABEL)):
            self.client.patch(NAMESPACE, key_of(namespace), {"metadata": {"labels": {PROVIDER_LABEL: None}}})


def is_ready(provider: Object) -> bool:
    """Returns whether the present generation is ready."""
    observed = dig(provider, "status.observedGeneration") == dig(provider, "metadata.generation")
    return observed and is_true(dig(provider, "status.conditions"), "Ready")


def _resource(provider: Object) -> Resource:
    return next(kind.resource for kind in KINDS if kind.kind == provider["kind"])


def plane_of_providers(folder: Path) -> AbstractContextManager[Path]:
    """A control plane with the provider kinds and without Cluster API's kinds, which the providers install."""
    return running_plane(folder, groups=(GROUP, CLUSTERCTL_PROVIDER.group), controllers=True)


@contextmanager
def world_of(plane: Path, site: HttpServer, releases: list[Path]) -> Iterator[Providers]:
    with connected(plane) as client, connected(plane) as theirs:
        yield Providers(client, Clients(theirs), site, releases)


@pytest.fixture(scope="session")
def provider_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with plane_of_providers(tmp_path_factory.mktemp("provider-plane") / "management") as folder:
        yield folder


@pytest.fixture
def providers(
    provider_plane: Path,
    object_store: ObjectStore,  # sets the environment
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Providers]:
    releases: list[Path] = []

    def answer(request: Request) -> Response:
        path = request.path.partition("?")[0].lstrip("/")
        files = [folder / path for folder in releases if (folder / path).is_file()]
        return Response(body=files[0].read_bytes()) if files else Response(404)

    with HttpServer(answer) as site, world_of(provider_plane, site, releases) as world:
        monkeypatch.setenv("GITHUB_URL", site.url)
        monkeypatch.setenv("GITHUB_API_URL", site.url)
        yield world
        world.remove_all()
