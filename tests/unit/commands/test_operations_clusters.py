"""The read model of Clusters, for commands and consoles."""

from infra.operations.clusters import ClusterSummary, summarize
from shared.api.names import addon_of
from shared.kube import Key, Object


def _cluster(name: str, **parts: Object) -> Object:
    return {"kind": "Cluster", "metadata": {"name": name, "namespace": "team"}, **parts}


def test_clusters_are_summarized_in_order_with_their_addons() -> None:
    topology = {"classRef": {"name": "demo-1-36-v2"}, "version": "v1.36.2"}
    upgraded = _cluster("b", spec={"topology": topology, "paused": True}, status={"phase": "Provisioned"})
    addon = {"spec": {"clusterStack": "demo-1-36-v1"}, "status": {"ready": False}}
    assert summarize([upgraded, _cluster("a")], {addon_of(upgraded): addon}) == [
        ClusterSummary(Key("team", "a"), "", "", "", "", None, paused=False, deleting=False),
        ClusterSummary(
            Key("team", "b"),
            "Provisioned",
            "demo-1-36-v2",
            "v1.36.2",
            "demo-1-36-v1",
            False,
            paused=True,
            deleting=False,
        ),
    ]


def test_summary_has_the_condition_that_a_cluster_waits_for() -> None:
    since = "2026-01-01T00:00:00Z"
    infrastructure = {
        "type": "InfrastructureReady",
        "status": "False",
        "message": "no capacity",
        "lastTransitionTime": since,
    }
    waiting = _cluster("a", status={"conditions": [infrastructure, {"type": "Available", "status": "False"}]})
    (alone,) = summarize([waiting], {})
    assert (alone.waiting_for, alone.since) == ("InfrastructureReady: no capacity", since)
    ready = {"type": "Ready", "status": "False", "message": "no kubeconfig", "lastTransitionTime": since}
    (with_addon,) = summarize([waiting], {addon_of(waiting): {"status": {"conditions": [ready]}}})
    assert with_addon.waiting_for == "Ready: no kubeconfig"
    (reconciled,) = summarize([_cluster("a", status={"conditions": [{**infrastructure, "status": "True"}]})], {})
    assert (reconciled.waiting_for, reconciled.since) == ("", "")
