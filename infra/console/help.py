"""Explains conditions in plain words, by their type."""

from __future__ import annotations

from collections.abc import Mapping

from infra.operations.describe.conditions import is_good

CONDITIONS: Mapping[str, str] = {
    "Available": "The object works now. For a Cluster these are infrastructure, control plane and workers.",
    "Ready": "A summary of the other conditions of the object.",
    "InfrastructureReady": "The infrastructure provider has created network, load balancer and the like.",
    "ControlPlaneInitialized": "The API server of the cluster has answered once. It stays true from then on.",
    "ControlPlaneAvailable": "The API server of the cluster answers, and etcd has enough members.",
    "ControlPlaneMachinesReady": "All Machines of the control plane are ready.",
    "ControlPlaneMachinesUpToDate": "All Machines of the control plane have the version and template of the Cluster.",
    "WorkersAvailable": "Enough worker Machines are available.",
    "WorkerMachinesReady": "All worker Machines are ready.",
    "WorkerMachinesUpToDate": "All worker Machines have the version and template of the Cluster.",
    "RemoteConnectionProbe": "The management cluster reaches the API server of the cluster.",
    "TopologyReconciled": "The objects of the Cluster are as its ClusterClass and its version demand.",
    "CertificatesAvailable": "The Secrets with the certificates of the control plane exist.",
    "KubeconfigAvailable": "The Secret with the kubeconfig of the cluster exists.",
    "RollingOut": "Machines are being replaced. False is the usual state.",
    "ScalingUp": "Machines are being added. False is the usual state.",
    "ScalingDown": "Machines are being removed. False is the usual state.",
    "Remediating": "Unhealthy Machines are being replaced. False is the usual state.",
    "Paused": "Controllers leave the object alone. False is the usual state.",
    "Deleting": "The object is being deleted. False is the usual state.",
    "ClusterReady": "The cluster has a kubeconfig and an API server that answers, so that addons can be applied.",
    "HelmChartApplied": "The addons of the Cluster's class are applied.",
    "HelmChartRendered": "The charts of the addons were rendered with the values of this Cluster.",
    "ObjectsReady": "The applied objects of the addons work: Deployments are available, Jobs are complete.",
    "ClusterStackReleaseAssetsReady": "The files of the release are in the object store.",
    "HelmReleaseReady": "The chart is installed with the wanted values, and its objects are applied.",
    "ClusterAvailable": "The API server of the cluster answers, so that a chart can be installed.",
    "ProviderInstalled": "The components of the provider are applied.",
    "BootstrapConfigReady": "The configuration with which the Machine starts exists.",
    "NodeReady": "The Node of the Machine reports that it is ready.",
    "NodeHealthy": "The Node of the Machine exists, and reports no trouble.",
    "UpToDate": "The Machine has the version and template of its owner.",
}


def explain(type_: object) -> str:
    """Returns the explanation of a condition type; empty for an unknown one."""
    return CONDITIONS.get(type_, "") if isinstance(type_, str) else ""


def condition_state(condition: Mapping[str, object]) -> str:
    """Returns `good`, `bad` or `unknown` for a condition."""
    if is_good(condition):
        return "good"
    return "bad" if condition.get("status") in ("True", "False") else "unknown"
