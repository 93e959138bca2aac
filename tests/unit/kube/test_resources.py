"""API paths of resources, plurals, and access to fields of objects."""

from __future__ import annotations

import pytest

from shared.kube import Key, NotFound, Resource
from shared.kube.resources import conventional_plural, dig, resource_of, split_api_version

POD = Resource("", "v1", "Pod", "pods")
CLUSTER = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters")
NODE = Resource("", "v1", "Node", "nodes", namespaced=False)


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        (POD, ("ns", "p"), "/api/v1/namespaces/ns/pods/p"),
        (POD, ("ns",), "/api/v1/namespaces/ns/pods"),
        (POD, (), "/api/v1/pods"),
        (NODE, ("", "n"), "/api/v1/nodes/n"),
        (CLUSTER, ("ns", "c", "status"), "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters/c/status"),
        (NODE, ("", "system:node.a"), "/api/v1/nodes/system:node.a"),
    ],
)
def test_path_of_a_resource(resource: Resource, arguments: tuple[str, ...], path: str) -> None:
    assert resource.path(*arguments) == path


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/namespaces/ns/pods/p", "pods"),
        ("/api/v1/namespaces/ns/pods/p/log", "pods/log"),
        ("/api/v1/pods", "pods"),
        ("/api/v1/namespaces", "namespaces"),
        ("/api/v1/namespaces/ns", "namespaces"),
        ("/api/v1/namespaces/ns/secrets/password", "secrets"),
        ("/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters/c/status", "clusters.cluster.x-k8s.io/status"),
        ("/apis/example.dev/v1/things/one", "things.example.dev"),
        ("/apis/example.dev/v1", "/apis/example.dev/v1"),
        ("/api/v1", "/api/v1"),
        ("/version", "/version"),
    ],
)
def test_resource_of_a_path(path: str, resource: str) -> None:
    assert resource_of(path) == resource


@pytest.mark.parametrize("name", ["../../secrets/x", "..", ".", "a/b", "a%2Fb", "a?watch=1", "a#b", "a\nb", "ä"])
def test_name_that_would_change_the_path_is_refused(name: str) -> None:
    with pytest.raises(NotFound, match="is not a valid name of a Cluster"):
        CLUSTER.path("ns", name)
    with pytest.raises(NotFound, match="is not a valid name of a Cluster"):
        CLUSTER.path(name, "c")


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Cluster", "clusters"),
        ("KINDCluster", "kindclusters"),
        ("NetworkPolicy", "networkpolicies"),
        ("Ingress", "ingresses"),
    ],
)
def test_conventional_plural(kind: str, plural: str) -> None:
    assert conventional_plural(kind) == plural


def test_api_version_is_split_into_group_and_version() -> None:
    assert split_api_version("apps/v1") == ("apps", "v1")
    assert split_api_version("v1") == ("", "v1")


def test_dig_returns_the_default_for_null_and_for_other_types() -> None:
    assert dig({"a": {"b": None}}, "a.b", 1) == 1
    assert dig({"a": []}, "a.b") is None


def test_key_without_namespace_is_the_name() -> None:
    assert str(Key("", "n")) == "n"
