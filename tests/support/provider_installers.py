"""Installs providers as other programs do: with their requests and field managers."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from shared.api.provider import FINALIZER, ProviderKind, kind_of
from shared.api.resources import CLUSTERCTL_PROVIDER, CONFIG_MAP, SECRET
from shared.components.certificates import CERT_MANAGER
from shared.components.render import generate_components
from shared.kube import Client, Key, Object, Resource, key_of, owner_reference
from shared.kube.crds import CRD, await_established
from tests.support.objects import manifest, secret
from tests.support.provider_world import Providers
from tests.support.real_providers import DOWNLOADS, PROVIDERS, Provider, reduced

Install = Callable[[Client, Resource, Object], None]

CORE = PROVIDERS[0]
APPLIED = "operator.cluster.x-k8s.io/applied-spec-hash"
"""The annotation in which Cluster API Operator records the hash of what it has installed."""


def write(client: Client, method: str, resource: Resource, obj: Object, manager: str) -> None:
    key = key_of(obj)
    kind = "application/json" if method == "POST" else "application/merge-patch+json"
    path = resource.path(key.namespace) if method == "POST" else resource.path(key.namespace, key.name)
    client.request(method, path, body=obj, query={"fieldManager": manager}, content_type=kind)


def by_clusterctl(client: Client, resource: Resource, obj: Object) -> None:
    """Creates and updates like an upgrade by clusterctl."""
    write(client, "POST", resource, with_fields_of_an_earlier_version(obj), "clusterctl")
    write(client, "PATCH", resource, obj, "clusterctl")


def by_operator(client: Client, resource: Resource, obj: Object) -> None:
    """Creates, merges and applies like Cluster API Operator."""
    write(client, "POST", resource, with_fields_of_an_earlier_version(obj), "manager")
    write(client, "PATCH", resource, obj, "manager")
    client.apply(resource, obj, manager="capi-operator")


def with_fields_of_an_earlier_version(obj: Object) -> Object:
    """Adds fields of an earlier version in places where merging keeps them."""
    metadata = obj["metadata"]
    obj = {**obj, "metadata": {**metadata, "labels": {**metadata["labels"], "of-before": ""}}}
    if obj["kind"] == "Deployment":
        template = obj["spec"]["template"]
        pod = {**template["spec"], "nodeSelector": {"of-before": "x"}}
        obj = {**obj, "spec": {**obj["spec"], "template": {**template, "spec": pod}}}
    return obj


def installed(
    providers: Providers, version: str, install: Install, provider: Provider = CORE, namespace: str = "capi-system"
) -> list[tuple[Resource, Key]]:
    """Installs a reduced provider as another program would, without objects of cert-manager's kinds."""
    text = (reduced(version) / DOWNLOADS / version / provider.file).read_text()
    providers.namespace(namespace)
    found = []
    objects = generate_components(text, {}, namespace=namespace, label=provider.label)
    objects = [obj for obj in objects if obj["kind"] != "Namespace" and CERT_MANAGER not in obj["apiVersion"]]
    for obj in objects:
        resource = providers.clients.discovery.resource(obj["apiVersion"], obj["kind"])
        assert resource is not None
        install(providers.client, resource, obj)
        found.append((resource, key_of(obj)))
    return found


def reported_by_operator(providers: Providers, key: tuple[ProviderKind, str, str], version: str, **spec: Any) -> Object:
    """Creates a provider object with the status of a completed installation by Cluster API Operator."""
    kind, name, namespace = key
    providers.apply(*key, {APPLIED: "0" * 64}, version=version, **spec)
    at = Key(namespace, name)
    providers.client.patch(kind.resource, at, {"metadata": {"finalizers": [FINALIZER]}}, manager="manager")
    reasons = {
        "PreflightCheckPassed": "PreflightChecksPassed",
        "ProviderInstalled": "ProviderInstalled",
        "Ready": "Yes",
    }
    conditions = [
        {"type": type_, "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for type_, reason in reasons.items()
    ]
    status = {"installedVersion": version, "contract": "v1beta2", "observedGeneration": 1, "conditions": conditions}
    return providers.client.patch(kind.resource, at, {"status": status}, subresource="status", manager="manager")


def kept_by_operator(providers: Providers, provider: Object, version: str, file: str) -> list[tuple[Resource, Key]]:
    """Creates the operator's ConfigMap with the download and its Secret with the cached components."""
    key, word = key_of(provider), kind_of(provider).type_name
    name, release = f"{word}-{key.name}-{version}", reduced(version) / DOWNLOADS / version
    labels = {
        "provider.cluster.x-k8s.io/version": version,
        "provider.cluster.x-k8s.io/type": word,
        "provider.cluster.x-k8s.io/name": key.name,
        "managed-by.operator.cluster.x-k8s.io": "true",
    }
    owned = {"ownerReferences": [owner_reference(provider)]}
    metadata = {**owned, "labels": labels, "annotations": {"provider.cluster.x-k8s.io/compressed": "true"}}
    packed = {"components": base64.b64encode(gzip.compress((release / file).read_bytes())).decode()}
    data = {"metadata": (release / "metadata.yaml").read_text()}
    download = manifest(CONFIG_MAP, name, key.namespace, metadata=metadata, data=data, binaryData=packed)
    cache = secret(f"{name}-cache", key.namespace, cache="[]")
    cache["metadata"] |= {**owned, "annotations": {APPLIED: "0" * 64}}
    for resource, obj in ((CONFIG_MAP, download), (SECRET, cache)):
        providers.client.apply(resource, obj, manager="manager")
    return [(CONFIG_MAP, key_of(download)), (SECRET, key_of(cache))]


def recorded(client: Client, version: str) -> None:
    """Creates clusterctl's record of the core provider."""
    labels = {"clusterctl.cluster.x-k8s.io": "", "cluster.x-k8s.io/provider": "cluster-api"}
    record: Object = {
        "apiVersion": CLUSTERCTL_PROVIDER.api_version,
        "kind": CLUSTERCTL_PROVIDER.kind,
        "metadata": {"name": "cluster-api", "namespace": "capi-system", "labels": labels},
        "providerName": "cluster-api",
        "type": "CoreProvider",
        "version": version,
    }
    write(client, "POST", CLUSTERCTL_PROVIDER, record, "clusterctl")


@contextmanager
def cert_manager(client: Client) -> Iterator[None]:
    """Creates cert-manager's CRDs, as far as clusterctl needs them, without a controller."""
    kinds = {"Certificate": "certificates", "Issuer": "issuers"}
    made: list[Object] = []
    for kind, plural in kinds.items():
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
        spec = {"group": CERT_MANAGER, "scope": "Namespaced", "names": names, "versions": [version]}
        metadata = {"name": f"{plural}.{CERT_MANAGER}"}
        crd: Object = {"apiVersion": CRD.api_version, "kind": CRD.kind, "metadata": metadata, "spec": spec}
        made.append(client.create(CRD, crd))
    for crd in made:
        await_established(client, crd["metadata"]["name"])
    try:
        yield
    finally:
        for crd in made:
            client.delete(CRD, key_of(crd))
