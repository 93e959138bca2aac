"""The models accept and reject the same objects as the CRDs generated from them."""

from typing import Any

import pytest
from pydantic import ValidationError

from shared.api.models.cluster import Cluster
from shared.api.models.cluster_addon import ClusterAddon
from shared.api.models.kind_cluster import KINDCluster


def test_kind_cluster_defaults() -> None:
    made = KINDCluster.model_validate({"spec": {"clusterName": "test-1"}})
    assert made.spec.kubernetes_version == "1.21"


@pytest.mark.parametrize("version", ["1.14", "1.19", "1.20", "1.21", "1.22", "1.34", "1.99", "1.100"])
def test_valid_kubernetes_versions_are_accepted(version: str) -> None:
    KINDCluster.model_validate({"spec": {"clusterName": "a", "kubernetesVersion": version}})


KIND_NODES = [
    {"role": "control-plane", "extraPortMappings": [{"containerPort": 80, "hostPort": 0, "protocol": "TCP"}]},
    {"role": "worker", "extraMounts": [{"hostPath": "/a", "containerPath": "/b", "readOnly": True}]},
]


def test_kind_configuration_is_accepted() -> None:
    networking = {"apiServerAddress": "192.0.2.1", "disableDefaultCNI": True, "podSubnet": "10.1.0.0/16"}
    spec = {"clusterName": "a", "kubernetesVersion": "1.36", "runtime": "kind", "nodes": KIND_NODES}
    given = {"spec": {**spec, "networking": networking, "featureGates": {"X": True}, "endpointAccess": "Network"}}
    assert KINDCluster.model_validate(given).model_dump(by_alias=True, exclude_unset=True) == given


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"clusterName": ""},
        {"clusterName": "x" * 96},
        {"clusterName": "Upper"},
        {"clusterName": "a_b"},
        *[
            {"clusterName": "a", "kubernetesVersion": version}
            for version in ("1.13", "1.9", "1.1", "1", "v1.21", "1.21.1", "0.20", "1.014", "", "1.14\n")
        ],
        {"clusterName": "a", "runtime": "vm"},
        {"clusterName": "a", "nodes": []},
        {"clusterName": "a", "nodes": [{"role": "etcd"}]},
        {"clusterName": "a", "nodes": [{"extraPortMappings": [{"containerPort": 70000}]}]},
        {"clusterName": "a", "nodes": [{"extraPortMappings": [{"containerPort": 80, "hostPort": -2}]}]},
        {"clusterName": "a", "networking": {"apiServerPort": 9999999}},
        {"clusterName": "a", "networking": {"ipFamily": "v4"}},
        {"clusterName": "a", "networking": {"kubeProxyMode": "none of these"}},
        {"clusterName": "a", "controlPlaneEndpoint": {"host": "h"}},
        {"clusterName": "a", "controlPlaneEndpoint": {"host": "h", "port": 65536}},
    ],
)
def test_invalid_kind_clusters_are_rejected(spec: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        KINDCluster.model_validate({"spec": spec})


def test_cluster_keeps_unknown_fields() -> None:
    given = {"spec": {"paused": False, "topology": {"class": "a"}, "infrastructureRef": {"apiVersion": "g/v1"}}}
    assert Cluster.model_validate(given).model_dump(by_alias=True, exclude_unset=True) == given


def test_addon_requires_cluster_reference() -> None:
    with pytest.raises(ValidationError):
        ClusterAddon.model_validate({"spec": {}})
    made = ClusterAddon.model_validate({"spec": {"clusterRef": {"kind": "Cluster", "name": "c"}}, "status": {}})
    assert made.status is not None
    assert made.status.ready is False
