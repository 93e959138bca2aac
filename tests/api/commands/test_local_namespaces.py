"""Local runs delete the objects of terminating namespaces, and then the namespaces."""

from __future__ import annotations

from pathlib import Path

from infra.local.namespaces import Namespaces, finalize, terminating
from shared.api.resources import CONFIG_MAP, KIND_CLUSTER, NAMESPACE
from shared.kube import Client, Key, Object
from tests.support.releases import config_map
from tests.support.until import until


def kind_cluster(namespace: str, **metadata: object) -> Object:
    body = {"name": "held", "namespace": namespace, **metadata}
    return {
        "apiVersion": KIND_CLUSTER.api_version,
        "kind": "KINDCluster",
        "metadata": body,
        "spec": {"clusterName": "held"},
    }


def delete_namespace(client: Client, name: str) -> Object:
    client.delete(NAMESPACE, Key("", name))
    [found] = [one for one in terminating(client) if one["metadata"]["name"] == name]
    return found


def test_namespace_is_finalized_after_its_objects_are_deleted(management: Client, namespace: str) -> None:
    management.create(CONFIG_MAP, config_map("a", namespace=namespace))
    management.create(
        CONFIG_MAP,
        config_map("b", namespace=namespace)
        | {
            "metadata": {
                "name": "b",
                "namespace": namespace,
                "finalizers": ["example.com/held"],
            }
        },
    )
    management.create(KIND_CLUSTER, kind_cluster(namespace))
    found = delete_namespace(management, namespace)
    assert not finalize(management, found)
    assert [obj["metadata"]["name"] for obj in management.list(CONFIG_MAP, namespace)] == ["b"]
    assert list(management.list(KIND_CLUSTER, namespace)) == []
    assert management.find(NAMESPACE, Key("", namespace)) is not None
    management.patch(CONFIG_MAP, Key(namespace, "b"), {"metadata": {"finalizers": None}})
    assert finalize(management, found)
    assert management.find(NAMESPACE, Key("", namespace)) is None


def test_namespace_that_is_not_deleted_is_not_terminating(management: Client, namespace: str) -> None:
    management.create(CONFIG_MAP, config_map("a", namespace=namespace))
    assert namespace not in [one["metadata"]["name"] for one in terminating(management)]


def test_background_thread_finalizes_namespaces_and_skips_planes_that_do_not_run(
    management: Client, namespace: str, plane: Path, tmp_path: Path
) -> None:
    namespaces = Namespaces(lambda: [tmp_path / "none", plane], every=0.05)
    namespaces.start()
    try:
        management.delete(NAMESPACE, Key("", namespace))
        until(lambda: management.find(NAMESPACE, Key("", namespace)) is None, "the end of the namespace")
    finally:
        namespaces.stop()
