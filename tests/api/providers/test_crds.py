"""The provider kinds on a real API server: manifests for Cluster API Operator work unchanged, mistakes are rejected."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.generate.crds import definition
from infra.local import crds
from shared.api.models import PROVIDERS
from shared.api.provider import (
    BY_KIND,
    COMPONENT_LABEL,
    CORE,
    CORE_NAME,
    FINALIZER,
    INFRASTRUCTURE,
    KINDS,
    PROVIDER_LABEL,
    ProviderKind,
)
from shared.api.resources import CLUSTERCTL_PROVIDER
from shared.kube import ApiError, Client, Key, Object, Resource
from shared.kube.crds import CRD
from tests.support import real_providers

MANAGER: Object = {
    "syncPeriod": "10m0s",
    "leaderElection": {
        "leaderElect": True,
        "leaseDuration": "1h2m3s",
        "renewDeadline": "10.5s",
        "retryPeriod": "0",
        "resourceLock": "leases",
        "resourceName": "election",
        "resourceNamespace": "",
    },
    "cacheNamespace": "tenant",
    "gracefulShutDown": "-1ns",
    "controller": {
        "groupKindConcurrency": {"Machine": 3, "ReplicaSet.apps": 4},
        "cacheSyncTimeout": 120000000000,
        "recoverPanic": True,
    },
    "metrics": {"bindAddress": "0", "diagnosticsAddress": ":8443", "insecureDiagnostics": False},
    "health": {"healthProbeBindAddress": "", "readinessEndpointName": "readyz", "livenessEndpointName": "healthz"},
    "webhook": {"port": 9443, "host": "0.0.0.0", "certDir": "/certs"},
    "profilerAddress": "localhost:6060",
    "maxConcurrentReconciles": 1,
    "verbosity": 0,
    "featureGates": {"ClusterTopology": True, "MachinePool": False},
    "additionalArgs": {"--foo": "bar", "--empty": ""},
}
DEPLOYMENT: Object = {
    "replicas": 0,
    "nodeSelector": {"disk": "fast"},
    "tolerations": [
        {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        {"key": "b", "value": "c"},
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}]
            }
        }
    },
    "containers": [
        {
            "name": "manager",
            "imageUrl": "registry.example/manager:v1",
            "args": {"--flag": "value"},
            "env": [
                {"name": "PLAIN", "value": "x"},
                {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
            ],
            "resources": {"limits": {"cpu": 1, "memory": "100Mi"}, "requests": {"cpu": "10m"}},
            "command": ["/manager"],
        }
    ],
    "serviceAccountName": "manager",
    "imagePullSecrets": [{"name": "pull"}],
}
EVERY_FIELD: Object = {
    "version": "v1.10.0-rc.1",
    "manager": MANAGER,
    "deployment": DEPLOYMENT,
    "configSecret": {"name": "variables", "namespace": "elsewhere"},
    "fetchConfig": {
        "selector": {
            "matchLabels": {"provider": "x"},
            "matchExpressions": [
                {"key": "tier", "operator": "NotIn", "values": ["old"]},
                {"key": "kept", "operator": "Exists"},
            ],
        }
    },
    "additionalManifests": {"name": "more"},
    "patches": [
        {
            "patch": "- {op: remove, path: /spec/replicas}",
            "target": {
                "group": "apps",
                "version": "v1",
                "kind": "Deployment",
                "name": "capi-controller-manager",
                "namespace": "capi-system",
                "labelSelector": "a=b,c in (d,e)",
            },
        },
        {"patch": "metadata: {labels: {a: b}}"},
    ],
    "additionalDeployments": {"service-operator": {"manager": MANAGER, "deployment": DEPLOYMENT}},
}
OTHER_CHOICES: tuple[Object, ...] = (
    {},
    {"version": ""},
    {"version": "1.10.0+build.1"},
    {"fetchConfig": {"url": "https://github.com/owner/name/releases/latest/components.yaml"}},
    {"fetchConfig": {"oci": "http://registry.example:5000/path:v1.0.0"}},
    {"fetchConfig": {"selector": {}}},
    {"manifestPatches": ["kind: Service\napiVersion: v1\nspec: {selector: null}\n"]},
    {"deployment": {"tolerations": []}},
    {"deployment": {}},
)
STATUS: Object = {
    "contract": "v1beta2",
    "installedVersion": "v1.10.0",
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "Ready",
            "status": "False",
            "reason": "DeploymentNotAvailable",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
    ],
    "resources": [{"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "n", "name": "d", "hash": "h"}],
    "target": {
        "version": "v1.11.0",
        "source": "https://example.com/",
        "digest": "sha256:0",
        "sourceHash": "5678",
        "contract": "v1beta2",
        "inputs": "1234",
        "renewAt": "2026-01-01T00:00:00Z",
    },
}


@pytest.fixture
def core_slot(management: Client) -> Iterator[None]:
    """Deletes the one CoreProvider after the test, since tests share the API server."""
    yield
    for found in management.list(CORE.resource):
        management.delete(CORE.resource, Key(found["metadata"]["namespace"], found["metadata"]["name"]))


def provider(kind: ProviderKind, namespace: str, spec: Object, name: str = "") -> Object:
    metadata = {"name": name or (CORE_NAME if kind.is_core else "made"), "namespace": namespace}
    return {"apiVersion": kind.resource.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
@pytest.mark.usefixtures("core_slot")
def test_every_field_of_every_kind_is_stored_unchanged(management: Client, namespace: str, kind: ProviderKind) -> None:
    made = management.create(kind.resource, provider(kind, namespace, EVERY_FIELD))
    assert made["spec"] == EVERY_FIELD
    key = Key(namespace, made["metadata"]["name"])
    reported = management.patch(kind.resource, key, {"status": STATUS}, subresource="status")
    assert reported["status"] == STATUS


@pytest.mark.parametrize("spec", OTHER_CHOICES, ids=str)
def test_alternative_fields_are_stored_unchanged(management: Client, namespace: str, spec: Object) -> None:
    assert management.create(INFRASTRUCTURE.resource, provider(INFRASTRUCTURE, namespace, spec))["spec"] == spec


def test_empty_tolerations_differ_from_none(management: Client, namespace: str) -> None:
    given: Object = {"deployment": {"tolerations": []}}
    management.create(INFRASTRUCTURE.resource, provider(INFRASTRUCTURE, namespace, given, "cleared"))
    management.create(INFRASTRUCTURE.resource, provider(INFRASTRUCTURE, namespace, {"deployment": {}}, "left"))
    found = {obj["metadata"]["name"]: obj for obj in management.list(INFRASTRUCTURE.resource, namespace)}
    assert found["cleared"]["spec"]["deployment"] == {"tolerations": []}
    assert found["left"]["spec"]["deployment"] == {}


def test_verbosity_gets_its_default(management: Client, namespace: str) -> None:
    made = management.create(INFRASTRUCTURE.resource, provider(INFRASTRUCTURE, namespace, {"manager": {}}))
    assert made["spec"] == {"manager": {"verbosity": 1}}


ONE_SOURCE = "fetchConfig needs exactly one of oci, url and selector"
SEMANTIC = "version must be semantic, such as v1.10.0"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"fetchConfig": {}}, ONE_SOURCE),
        ({"fetchConfig": {"url": "https://example.com/", "oci": "example.com/a"}}, ONE_SOURCE),
        ({"fetchConfig": {"url": "https://example.com/", "selector": {}}}, ONE_SOURCE),
        ({"fetchConfig": {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}}, "Unsupported value"),
        ({"patches": [], "manifestPatches": []}, "patches and manifestPatches cannot be used together"),
        ({"patches": [{"target": {"kind": "Service"}}]}, "spec.patches[0].patch: Required value"),
        ({"patches": [{"patch": ""}]}, "spec.patches[0].patch"),
        *(
            ({"version": version}, SEMANTIC)
            for version in (
                "one",
                "v1",
                "v1.10",
                "v1.10.0.1",
                "V1.10.0",
                "v01.10.0",
                "v1.10.0-",
                "v1.10.0 ",
                "../v1.0.0",
            )
        ),
        ({"configSecret": {"namespace": "a"}}, "spec.configSecret.name: Required value"),
        ({"configSecret": {"name": ""}}, "spec.configSecret.name"),
        ({"additionalManifests": {"namespace": "a"}}, "spec.additionalManifests.name: Required value"),
        ({"manager": {"syncPeriod": "10 minutes"}}, "spec.manager.syncPeriod"),
        ({"manager": {"leaderElection": {"leaseDuration": "10"}}}, "spec.manager.leaderElection.leaseDuration"),
        ({"manager": {"maxConcurrentReconciles": 0}}, "spec.manager.maxConcurrentReconciles"),
        ({"manager": {"verbosity": -1}}, "spec.manager.verbosity"),
        ({"manager": {"webhook": {"port": 65536}}}, "spec.manager.webhook.port"),
        ({"manager": {"featureGates": {"A": "true"}}}, "spec.manager.featureGates.A"),
        ({"deployment": {"replicas": -1}}, "spec.deployment.replicas"),
        ({"deployment": {"containers": [{"imageUrl": "a"}]}}, "spec.deployment.containers[0].name: Required value"),
        ({"deployment": {"tolerations": {}}}, "spec.deployment.tolerations"),
        (
            {"additionalDeployments": {"a": {"deployment": {"replicas": -1}}}},
            "spec.additionalDeployments.a.deployment.replicas",
        ),
    ],
    ids=str,
)
def test_invalid_providers_are_rejected(management: Client, namespace: str, spec: Object, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        management.create(INFRASTRUCTURE.resource, provider(INFRASTRUCTURE, namespace, spec))
    assert caught.value.status == 422
    assert message in str(caught.value)


def test_core_provider_of_another_name_is_rejected(management: Client, namespace: str) -> None:
    with pytest.raises(ApiError, match="the CoreProvider must be named cluster-api"):
        management.create(CORE.resource, provider(CORE, namespace, {}, "capi"))


def test_existing_core_provider_of_another_name_can_be_deleted(management: Client, namespace: str) -> None:
    """As after Cluster API Operator's CRD was replaced. The kind is another one, since tests share the server."""
    resource = replace(CORE.resource, group=f"{namespace}.test", kind="Renamed", plural="renamed")
    (custom,) = [custom for custom in PROVIDERS if custom.resource == CORE.resource]
    ours = definition(replace(custom, resource=resource, short_name=""))
    before = deepcopy(ours)
    del before["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
    crds.install(management, [before])
    try:
        old: Object = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "capi"}}
        old["metadata"] |= {"namespace": namespace, "finalizers": [FINALIZER]}
        management.create(resource, old)
        crds.install(management, [ours])
        another = {**old, "metadata": {"name": "another", "namespace": namespace}}
        assert "must be named cluster-api" in _refusal(management, resource, another)
        management.delete(resource, Key(namespace, "capi"))
        management.patch(resource, Key(namespace, "capi"), {"metadata": {"finalizers": None}})
        assert management.find(resource, Key(namespace, "capi")) is None
    finally:
        management.delete(CRD, Key("", ours["metadata"]["name"]))


def _refusal(management: Client, resource: Resource, obj: Object) -> str:
    """Waits for the new schema and returns the rejection; empty if there is none."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            management.create(resource, obj)
        except ApiError as error:
            return str(error)
        management.delete(resource, Key(obj["metadata"]["namespace"], obj["metadata"]["name"]))
        time.sleep(0.1)
    return ""


@pytest.mark.parametrize(
    ("field", "value"), [("reason", "no sentence"), ("reason", ""), ("status", "true"), ("message", None)]
)
def test_conditions_follow_kubernetes_rules(management: Client, namespace: str, field: str, value: Any) -> None:
    made = management.create(INFRASTRUCTURE.resource, provider(INFRASTRUCTURE, namespace, {}))
    condition = {**STATUS["conditions"][0], field: value}
    with pytest.raises(ApiError, match=rf"status\.conditions\[0\]\.{field}"):
        management.patch(
            INFRASTRUCTURE.resource,
            Key(namespace, made["metadata"]["name"]),
            {"status": {"conditions": [condition]}},
            subresource="status",
        )


# -- clusterctl's inventory --------------------------------------------------------------------------------------

INVENTORY = (
    {"providerName": CORE_NAME, "type": "CoreProvider", "version": "v1.0.0", "watchedNamespace": ""},
    {"providerName": "made", "type": "InfrastructureProvider", "version": "v1.0.0"},
)


def test_clusterctl_lists_recorded_providers(
    management: Client, namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    labels = [BY_KIND[entry["type"]].label(entry["providerName"]) for entry in INVENTORY]
    try:
        for entry, label in zip(INVENTORY, labels, strict=True):
            made = management.create(CLUSTERCTL_PROVIDER, _recorded(entry, label, namespace))
            assert {name: made[name] for name in entry} == entry
        output = _clusterctl("upgrade", "plan", kubeconfig=kubeconfig, home=tmp_path)
    finally:
        for label in labels:
            management.delete(CLUSTERCTL_PROVIDER, Key(namespace, label))
    rows = [line.split() for line in output.splitlines()]
    for entry, label in zip(INVENTORY, labels, strict=True):
        assert [label, namespace, entry["type"], "v1.0.0", "v1.1.0"] in rows


def _recorded(entry: Object, label: str, namespace: str) -> Object:
    labels = {COMPONENT_LABEL: "", PROVIDER_LABEL: label, f"{COMPONENT_LABEL}/core": "inventory"}
    kind: Object = {"apiVersion": CLUSTERCTL_PROVIDER.api_version, "kind": CLUSTERCTL_PROVIDER.kind}
    return kind | {"metadata": {"name": label, "namespace": namespace, "labels": labels}} | entry


def _clusterctl(*arguments: str, kubeconfig: Path, home: Path) -> str:
    """Runs clusterctl with a repository that has two versions of the recorded providers."""
    places = []
    for entry in INVENTORY:
        folder = home / BY_KIND[entry["type"]].label(entry["providerName"])
        for version in ("v1.0.0", "v1.1.0"):
            (folder / version).mkdir(parents=True)
            (folder / version / "components.yaml").write_text("")
            (folder / version / "metadata.yaml").write_text(METADATA)
        url = f"file://{folder}/v1.1.0/components.yaml"
        places.append({"name": entry["providerName"], "type": entry["type"], "url": url})
    config = home / "clusterctl.yaml"
    config.write_text(json.dumps({"providers": places}))
    ended = subprocess.run(
        [real_providers.clusterctl(), *arguments, "--kubeconfig", kubeconfig, "--config", config],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "CLUSTERCTL_DISABLE_VERSIONCHECK": "true"},
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


METADATA = """
apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Metadata
releaseSeries:
- {major: 1, minor: 0, contract: v1beta2}
- {major: 1, minor: 1, contract: v1beta2}
"""
