"""Releases of a fake provider: a few objects of every relevant kind, published by an `HttpServer`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml

from shared.api.provider import CORE, ProviderKind
from shared.api.resources import CLUSTER_ROLE
from shared.kube import Object, Resource
from shared.kube.crds import CRD
from tests.support.real_providers import DOWNLOADS

CLUSTER_ROLE_BINDING = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)

METADATA = yaml.safe_dump(
    {
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
        "kind": "Metadata",
        "releaseSeries": [
            *({"major": 1, "minor": minor, "contract": "v1beta2"} for minor in range(5)),
            {"major": 999, "minor": 9, "contract": "v1beta2"},
        ],
    }
)


def publish(
    folder: Path, version: str, objects: Iterable[Object] | str, kind: ProviderKind = CORE, repository: str = ""
) -> None:
    """Puts a release into a folder that `Providers.releases` has."""
    place = folder / (f"{repository}/releases/download" if repository else DOWNLOADS) / version
    place.mkdir(parents=True, exist_ok=True)
    (place / "metadata.yaml").write_text(METADATA)
    (place / kind.file).write_text(text(objects))


def text(objects: Iterable[Object] | str) -> str:
    return objects if isinstance(objects, str) else yaml.safe_dump_all(objects)


def widget(name: str, version: str = "v1") -> Resource:
    """The kind of provider `name`."""
    return Resource(f"{name}.example.com", version, "Widget", "widgets")


def whole(name: str, version: str, *, role: str = "") -> list[Object]:
    """The objects of a provider `name`. `role` is the immutable roleRef of its binding."""
    return [
        crd(name),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": f"{name}-manager"}},
        cluster_role(f"{name}-{role or 'manager'}", version),
        binding(name, f"{name}-{role or 'manager'}"),
        service(name),
        deployment(name, version),
        config_map(f"{name}-settings", version),
        config_map(f"{name}-of-{version}", version),
        issuer(name),
        certificate(name),
        webhook(name),
    ]


def crd(name: str, *versions: str) -> Object:
    """Returns the CRD of the kind `widget(name)`, which stores the last of these versions; by default it has v1."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}
    group, versions = widget(name).group, versions or ("v1",)
    listed = [
        {"name": version, "served": True, "storage": version == versions[-1], "schema": schema} for version in versions
    ]
    return {
        "apiVersion": CRD.api_version,
        "kind": CRD.kind,
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": listed},
    }


def config_map(name: str, value: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}


def cluster_role(name: str, version: str) -> Object:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [version], "verbs": ["get"]}]
    return {
        "apiVersion": CLUSTER_ROLE.api_version,
        "kind": CLUSTER_ROLE.kind,
        "metadata": {"name": name},
        "rules": rules,
    }


def binding(name: str, role: str) -> Object:
    return {
        "apiVersion": CLUSTER_ROLE_BINDING.api_version,
        "kind": CLUSTER_ROLE_BINDING.kind,
        "metadata": {"name": f"{name}-manager"},
        "roleRef": {"apiGroup": CLUSTER_ROLE.group, "kind": CLUSTER_ROLE.kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": f"{name}-manager", "namespace": "system"}],
    }


def service(name: str) -> Object:
    metadata = {"name": f"{name}-webhook", "namespace": "system"}
    spec = {"selector": {"app": name}, "ports": [{"port": 443, "targetPort": 9443}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def deployment(name: str, version: str) -> Object:
    labels = {"app": name}
    manager = {
        "name": "manager",
        "image": f"registry.example.com/{name}:{version}",
        "ports": [{"containerPort": 9443}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"{name}-controller-manager"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [manager]}},
        },
    }


def issuer(name: str) -> Object:
    metadata = {"name": f"{name}-issuer", "namespace": "system"}
    return {"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": metadata, "spec": {"selfSigned": {}}}


def certificate(name: str) -> Object:
    spec = {
        "dnsNames": [f"{name}-webhook.system.svc"],
        "issuerRef": {"kind": "Issuer", "name": f"{name}-issuer"},
        "secretName": f"{name}-webhook-cert",
    }
    metadata = {"name": f"{name}-serving", "namespace": "system"}
    return {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": metadata, "spec": spec}


def webhook(name: str) -> Object:
    """A webhook configuration that ignores failures, since its backend does not run."""
    group = widget(name).group
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}
    client = {"service": {"name": f"{name}-webhook", "namespace": "system", "path": "/validate"}}
    return {
        "apiVersion": WEBHOOKS.api_version,
        "kind": WEBHOOKS.kind,
        "metadata": {
            "name": f"{name}-validating",
            "annotations": {"cert-manager.io/inject-ca-from": f"system/{name}-serving"},
        },
        "webhooks": [
            {
                "name": f"validation.widgets.{group}",
                "admissionReviewVersions": ["v1"],
                "clientConfig": client,
                "failurePolicy": "Ignore",
                "rules": [rule],
                "sideEffects": "None",
                "timeoutSeconds": 1,
            }
        ],
    }
