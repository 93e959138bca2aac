"""The admission policies on a real API server: which Clusters and providers it refuses, and which not."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import local_control_plane
from shared.api.provider import CORE, INFRASTRUCTURE
from shared.api.resources import CLUSTER, KIND_CLUSTER
from shared.applier.policy import CHOICES, PREFIX
from shared.components import versions
from shared.kube import ApiError, Client, Key, Object, Resource
from shared.providers import annotations as provider_annotations
from tests.support import accounts
from tests.support.objects import manifest
from tests.support.planes import connected, running_plane
from tests.support.until import until

FILE = Path(__file__).parents[3] / "infra/manifests/admission/policies.yaml"
DOCUMENTS = [*yaml.safe_load_all(FILE.read_text())]
POLICY = Resource(
    "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An API server of its own, since policies are about the whole cluster."""
    with running_plane(tmp_path_factory.mktemp("refusals")) as plane:
        yield plane


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    with connected(folder) as client:
        accounts.install(client, DOCUMENTS)
        wrong = cluster("x", "docker-ferrol-1-27-v1", "v1.28.0")
        until(lambda: refusal(client, CLUSTER, wrong), "the policy of Clusters is enforced")
        unknown = provider(**{provider_annotations.CERTIFICATES: "x"})
        until(lambda: refusal(client, INFRASTRUCTURE.resource, unknown), "the policy of providers is enforced")
        yield client


def cluster(name: str, class_name: str, version: str) -> Object:
    topology: Object = {"classRef": {"name": class_name}, "version": version}
    return manifest(CLUSTER, name, "default", spec={"topology": topology})


def provider(*, name: str = "docker", spec: Object | None = None, **given: str) -> Object:
    metadata = {"annotations": given}
    return manifest(INFRASTRUCTURE.resource, name, "default", metadata=metadata, spec=spec or {})


def refusal(client: Client, resource: Resource, obj: Object) -> str:
    """Returns why the API server refuses to write the object; empty if it does not."""
    try:
        client.apply(resource, obj, manager="user", dry_run=True)
    except ApiError as error:
        if error.status != 422:
            raise
        return str(error)
    return ""


STACK, NEXT = "docker-ferrol-1-27-v1", "docker-ferrol-1-28-v0-sha.abc"


@pytest.mark.parametrize(
    ("class_name", "version", "word"),
    [
        (STACK, "v1.27.9", ""),
        (STACK, "v1.28.0", "is for Kubernetes 1.27: change class and version together"),
        (STACK, "v1.2.7", "is for Kubernetes 1.27"),
        (STACK, "v1.270.1", "is for Kubernetes 1.27"),
        ("quick-start", "v1.28.0", ""),
        ("my-own-1-27-class", "v1.30.0", ""),
    ],
)
def test_version_of_a_new_cluster_fits_its_stack(client: Client, class_name: str, version: str, word: str) -> None:
    found = refusal(client, CLUSTER, cluster("new", class_name, version))
    assert word in found
    assert bool(word) is bool(found)


@pytest.mark.parametrize(
    ("class_name", "version", "word"),
    [
        ("docker-ferrol-1-27-v2", "v1.27.9", ""),
        (NEXT, "v1.28.0", ""),
        (NEXT, "v1.27.3", "is for Kubernetes 1.28"),
        ("docker-ferrol-1-29-v1", "v1.29.0", "skips a minor version of Kubernetes after docker-ferrol-1-27-v1"),
        ("docker-other-1-27-v1", "v1.27.3", "another cluster stack than docker-ferrol-1-27-v1"),
        ("aws-ferrol-1-28-v1", "v1.28.0", "another cluster stack"),
        ("quick-start", "v1.29.0", ""),
    ],
)
def test_upgrade_of_a_cluster(client: Client, class_name: str, version: str, word: str) -> None:
    client.apply(CLUSTER, cluster("old", STACK, "v1.27.3"), manager="user")
    try:
        found = refusal(client, CLUSTER, cluster("old", class_name, version))
    finally:
        client.delete(CLUSTER, Key("default", "old"))
    assert word in found
    assert bool(word) is bool(found)


def test_cluster_that_was_wrong_before_the_policy_keeps_its_labels_and_can_be_deleted(client: Client) -> None:
    name = "capi-functions-clusters"
    policy = client.get(POLICY, Key("", name))
    client.delete(POLICY, Key("", name))
    wrong = cluster("wrong", STACK, "v1.30.0")
    until(lambda: not refusal(client, CLUSTER, wrong), "the policy is gone")
    client.apply(CLUSTER, {**wrong, "metadata": {**wrong["metadata"], "finalizers": ["example.com/a"]}}, manager="user")
    client.create(POLICY, {key: policy[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": {"name": name}})
    until(lambda: refusal(client, CLUSTER, cluster("x", STACK, "v1.28.0")), "the policy is enforced")
    labelled = {"metadata": {"labels": {"a": "b"}}}
    client.patch(CLUSTER, Key("default", "wrong"), labelled)
    client.delete(CLUSTER, Key("default", "wrong"))
    client.patch(CLUSTER, Key("default", "wrong"), {"metadata": {"finalizers": None}})
    until(lambda: client.find(CLUSTER, Key("default", "wrong")) is None, "the Cluster is deleted")


@pytest.mark.parametrize("installed", ["", "v1.14.1", "1.14.0-rc.1", "v2.0.0"])
@pytest.mark.parametrize("requested", ["", "v1.14.0", "v1.13.9", "v1.15.0", "v1.9.0", "v2.1.0", "1.13.0"])
def test_downgrade_is_refused_by_the_rule_of_the_functions(client: Client, installed: str, requested: str) -> None:
    resource, key = INFRASTRUCTURE.resource, Key("default", "docker")
    client.apply(resource, provider(spec={"version": installed or "v1.0.0"}), manager="user")
    try:
        client.patch(resource, key, {"status": {"installedVersion": installed or None}}, subresource="status")
        found = refusal(client, resource, provider(spec={"version": requested}))
    finally:
        client.delete(resource, key)
    expected = bool(installed and requested and versions.downgrade_refusal(installed, requested))
    assert ("Downgrade is not supported" in found) is expected
    assert bool(found) is expected


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (PREFIX + "conflicts", CHOICES["conflicts"]),
        (PREFIX + "wait", CHOICES["wait"]),
        (provider_annotations.CERTIFICATES, provider_annotations.ISSUERS),
        (provider_annotations.KEEP_DOWNLOAD, provider_annotations.DOWNLOADS),
        (provider_annotations.FORCE_DELETE, ("true",)),
    ],
)
def test_annotation_has_a_known_value(client: Client, name: str, values: Any) -> None:
    resource = INFRASTRUCTURE.resource
    assert [refusal(client, resource, provider(**{name: value})) for value in values] == [""] * len(values)
    assert f"annotation {name} must be one of " in refusal(client, resource, provider(**{name: "perhaps"}))


def test_provider_without_anything_is_admitted(client: Client) -> None:
    assert refusal(client, CORE.resource, manifest(CORE.resource, "cluster-api", "default", spec={})) == ""


def test_kind_cluster_that_nobody_reconciles_is_created_with_a_warning(
    client: Client, folder: Path, kubectl: Path
) -> None:
    command = [kubectl, f"--kubeconfig={local_control_plane.kubeconfig(folder)}", "apply", "-f", "-"]
    obj = json.dumps(manifest(KIND_CLUSTER, "demo", "default", spec={"clusterName": "demo"}))

    def said() -> str:
        done = subprocess.run(command, input=obj, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        client.delete(KIND_CLUSTER, Key("default", "demo"))
        return done.stderr

    until(lambda: "`capi-functions run --kind`" in said(), "the warning")
