"""Cluster API's real providers on a real node: our functions, as pods, install, upgrade and delete them.

Their managers run in pods, too: the executables of infra/binaries/*-manager, in images that are made here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest
import yaml

from infra.node import addresses, images
from shared.api import resources
from shared.api.conditions import get_condition, is_true
from shared.api.provider import BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE, PROVIDER_LABEL, ProviderKind
from shared.api.resources import CLUSTER, DEPLOYMENT, POD
from shared.kube import ApiError, Key, Object, dig
from shared.kube.crds import CRD
from tests.support.audit import AuditLog, prove
from tests.support.http_server import HttpServer, Response
from tests.support.node_installation import NAMESPACE, PROJECT, Installation, measured
from tests.support.object_store import KEYS
from tests.support.objects import manifest, secret
from tests.support.provider_world import is_ready
from tests.support.real_providers import CURRENT, DOWNLOADS, PREVIOUS, PROVIDERS, components, in_memory_cluster
from tests.support.until import until

pytestmark = pytest.mark.timeout(1200)

CHART = str(PROJECT / "infra/chart")
RELEASE = ("capi-functions", CHART, f"--namespace={NAMESPACE}")
REGISTRY = "localhost"
VARIABLES = Key("default", "variables")
LIVE = Key("live", "memory")
"""A Cluster in the memory of docker's manager, with its class in the same namespace."""


@dataclass(frozen=True)
class Provider:
    kind: ProviderKind
    name: str
    namespace: str


CORE_PROVIDER = Provider(CORE, "cluster-api", "capi-system")
DOCKER = Provider(INFRASTRUCTURE, "docker", "capd-system")
KUBEADM = (
    Provider(BOOTSTRAP, "kubeadm", "capi-kubeadm-bootstrap-system"),
    Provider(CONTROL_PLANE, "kubeadm", "capi-kubeadm-control-plane-system"),
)
ALL = (CORE_PROVIDER, *KUBEADM, DOCKER)


@dataclass
class Providers:
    """The providers of an installation."""

    installed: Installation

    def want(self, version: str) -> None:
        """Applies all providers in a version, as a user does."""
        spec = {"version": version, "configSecret": {"name": VARIABLES.name, "namespace": VARIABLES.namespace}}
        for provider in ALL:
            body = manifest(provider.kind.resource, provider.name, provider.namespace, spec=spec)
            self.installed.client.apply(provider.kind.resource, body, manager="user")

    def until_run(self, version: str) -> None:
        """Waits until all are Ready in a version, and no pods run but Ready ones of this version."""
        for provider in ALL:
            details = partial(self._describe, provider)
            until(partial(self._runs, provider, version), f"{provider} runs in {version}", details=details)

    def delete(self, *providers: Provider) -> None:
        for provider in providers:
            self.installed.client.delete(provider.kind.resource, Key(provider.namespace, provider.name))

    def until_gone(self) -> None:
        for provider in ALL:
            details = partial(self._describe, provider)
            until(partial(self._is_gone, provider), f"{provider} is gone", details=details)

    def find(self, provider: Provider) -> Object | None:
        return self.installed.client.find(provider.kind.resource, Key(provider.namespace, provider.name))

    def condition(self, provider: Provider, type_: str) -> Object:
        return get_condition(dig(self.find(provider), "status.conditions"), type_) or {}

    def _is_gone(self, provider: Provider) -> bool:
        return self.find(provider) is None

    def _runs(self, provider: Provider, version: str) -> bool:
        found = self.find(provider)
        if found is None or not is_ready(found) or dig(found, "status.installedVersion") != version:
            return False
        pods = list(self.installed.client.list(POD, provider.namespace))
        used = {container["image"] for pod in pods for container in pod["spec"]["containers"]}
        ready = all(is_true(dig(pod, "status.conditions"), "Ready") for pod in pods)
        return ready and {image.rpartition(":")[2] for image in used} == {version}

    def _describe(self, provider: Provider) -> str:
        ours = ("-n", NAMESPACE, "-l", "app.kubernetes.io/part-of=capi-functions")
        return "\n".join(
            [
                f"{dig(self.find(provider), 'status.conditions')}",
                self.installed.kube("get", "pods", "-A"),
                self.installed.kube("get", "events", "-n", provider.namespace)[-2000:],
                self.installed.kube("logs", *ours, "--tail=5"),
            ]
        )


@pytest.fixture(scope="module")
def site() -> Iterator[HttpServer]:
    """The releases of two versions, as a mirror of GitHub that pods reach."""
    folders = [components(version) for version in (PREVIOUS, CURRENT)]

    def answer(path: str) -> Response:
        found = [folder / path for folder in folders if (folder / path).is_file()]
        return Response(body=found[0].read_bytes()) if found else Response(404)

    with HttpServer(lambda request: answer(request.path[1:]), address=addresses.MACHINE) as server:
        yield server


def import_managers(installed: Installation) -> None:
    """Imports an image of each manager. The present programs stand in for those of the previous version."""
    for provider in PROVIDERS:
        published = (components(CURRENT) / DOWNLOADS / CURRENT / provider.file).read_text()
        (name,) = re.findall(r"image: \S+/([a-z-]+):v", published)
        program = f"{provider.label}-manager"
        image = f"{REGISTRY}/{name}"
        installed.node.import_image(images.of_program(f"{image}:{CURRENT}", program, print, place="/manager"))
        installed.node.run(["ctr", "--namespace=k8s.io", "images", "tag", f"{image}:{CURRENT}", f"{image}:{PREVIOUS}"])


def values(installed: Installation, site: HttpServer) -> Object:
    """Returns values of the chart: a Deployment for each function, with its own rights, and images from `REGISTRY`."""
    sources = {
        "GITHUB_URL": site.url,
        "GITHUB_API_URL": site.url,
        "clusterctl.yaml": yaml.safe_dump({"images": {"all": {"repository": REGISTRY}}}),
    }
    return {"mode": "direct", "profile": "providers", "settings": {**installed.settings, "providers": sources}}


def test_providers_live_in_pods(prepared: Installation, site: HttpServer, audit: AuditLog) -> None:
    client, providers = prepared.client, Providers(prepared)
    chosen = values(prepared, site)
    with measured("images of managers imported"):
        import_managers(prepared)
    with measured("functions Available"):
        prepared.apply([manifest(resources.NAMESPACE, NAMESPACE), secret("capi-functions-storage", NAMESPACE, **KEYS)])
        prepared.helm("install", *RELEASE, values=chosen)
        prepared.until_available(NAMESPACE)

    with measured("four providers Ready"):
        features = {"CLUSTER_TOPOLOGY": "true"}
        spaces = (provider.namespace for provider in ALL)
        prepared.apply([*(manifest(resources.NAMESPACE, name) for name in (*spaces, LIVE.namespace))])
        prepared.apply([secret(VARIABLES.name, VARIABLES.namespace, **features)])
        providers.want(PREVIOUS)
        providers.until_run(PREVIOUS)
    with pytest.raises(ApiError, match=r"admission webhook .* denied"):  # of core, with certificates issued by us
        client.create(CLUSTER, manifest(CLUSTER, "wrong", "default", spec={"topology": {"version": "no version"}}))
    templates, cluster = in_memory_cluster(LIVE, "v1.36.0")
    prepared.apply(templates)

    with measured("upgrade, functions killed"):
        providers.want(CURRENT)
        for name in ("forwarder", "provider-fetch", "provider-install"):
            prepared.kill_pods(name)
        providers.until_run(CURRENT)
    with measured("a Cluster Available"):
        until(lambda: admitted(prepared, cluster), "the Cluster is admitted")
        until_available(prepared)

    with measured("deletion"):
        providers.delete(DOCKER)
        blocked = "docker waits for its objects"
        until(lambda: providers.condition(DOCKER, "Deleting").get("reason") == "CustomResourcesExist", blocked)
        providers.delete(CORE_PROVIDER, *KUBEADM)
        prepared.kube("delete", "cluster", LIVE.name, "-n", LIVE.namespace, "--timeout=300s")
        prepared.kube("delete", "namespace", LIVE.namespace, "--timeout=300s")
        providers.until_gone()
    assert not list(client.list(CRD, selector=PROVIDER_LABEL))
    for provider in ALL:
        assert not list(client.list(DEPLOYMENT, provider.namespace))
    print("MiB:", prepared.memory(NAMESPACE))
    rendered = prepared.helm("template", *RELEASE, values=chosen)
    prove(audit, [obj for obj in yaml.safe_load_all(rendered) if obj])


def admitted(installed: Installation, objects: list[Object]) -> bool:
    """Applies objects; returns whether their webhooks answered.

    For a moment after an upgrade the API server may call the pod that was replaced, and give up after ten seconds.
    """
    try:
        installed.apply(objects)
    except AssertionError as failure:
        if "context deadline exceeded" not in str(failure):
            raise
        return False
    return True


def until_available(installed: Installation) -> None:
    """Waits until core has the Cluster Available."""

    def conditions() -> list[Object]:
        return list(dig(installed.client.find(CLUSTER, LIVE), "status.conditions", []))

    until(lambda: is_true(conditions(), "Available"), f"{LIVE} is Available", details=lambda: json.dumps(conditions()))
