"""Names by which a Cluster, its ClusterAddon and its Secrets are found."""

from __future__ import annotations

import pytest

from shared.api import names
from shared.api.addon import reported_release
from shared.kube import Key, Object

DEMO = Key("ns", "demo")


def test_objects_of_a_cluster_are_named_after_it() -> None:
    assert names.addon_of({"metadata": DEMO._asdict()}) == Key("ns", "cluster-addon-demo")
    assert names.ca_secret_of(DEMO) == Key("ns", "demo-ca")
    assert names.kubeconfig_secret_of(DEMO) == Key("ns", "demo-kubeconfig")


@pytest.mark.parametrize(
    ("name", "suffixes", "cluster"),
    [
        ("demo-kubeconfig", ("-kubeconfig",), DEMO),
        ("demo-ca", ("-kubeconfig", "-ca"), DEMO),
        ("demo-ca", ("-kubeconfig",), None),
        ("demo-etcd", ("-kubeconfig", "-ca"), None),
        ("-kubeconfig", ("-kubeconfig",), None),
        ("demo-ca-kubeconfig", ("-kubeconfig", "-ca"), Key("ns", "demo-ca")),
    ],
)
def test_cluster_of_a_secret_is_found_by_the_suffix_of_its_name(
    name: str, suffixes: tuple[str, ...], cluster: Key | None
) -> None:
    assert names.cluster_of_secret({"metadata": {"namespace": "ns", "name": name}}, *suffixes) == cluster


@pytest.mark.parametrize(
    ("addon", "release"),
    [
        ({"status": {"release": "new"}, "spec": {"clusterStack": "old"}}, "new"),
        ({"status": {}, "spec": {"clusterStack": "old"}}, "old"),
        ({"spec": {}}, ""),
    ],
    ids=["by its status", "by upstream's controller", "none"],
)
def test_status_of_an_addon_is_about_a_release(addon: Object, release: str) -> None:
    assert reported_release(addon) == release
