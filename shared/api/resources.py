"""The resources that functions read and write, in the versions that they use."""

from __future__ import annotations

from shared.kube.resources import OlderVersion, Resource

from . import v1beta1

_CORE = "cluster.x-k8s.io"

_V1BETA1 = OlderVersion("v1beta1", v1beta1.upgrade, v1beta1.downgrade, v1beta1.dropped)
"""Cluster API serves v1beta2 from v1.11 on."""

_NEEDED = "Cluster API v1.7 or later"
"""The software that serves the kinds. Without it requests fail with `NotServed`, never with `NotFound`."""

CLUSTER = Resource(_CORE, "v1beta2", "Cluster", "clusters", needs=_NEEDED, older=_V1BETA1)
CLUSTER_CLASS = Resource(_CORE, "v1beta2", "ClusterClass", "clusterclasses", needs=_NEEDED, older=_V1BETA1)
MACHINE = Resource(_CORE, "v1beta2", "Machine", "machines", needs=_NEEDED, older=_V1BETA1)
MACHINE_DEPLOYMENT = Resource(
    _CORE, "v1beta2", "MachineDeployment", "machinedeployments", needs=_NEEDED, older=_V1BETA1
)
MACHINE_SET = Resource(_CORE, "v1beta2", "MachineSet", "machinesets", needs=_NEEDED, older=_V1BETA1)
MACHINE_POOL = Resource(_CORE, "v1beta2", "MachinePool", "machinepools", needs=_NEEDED, older=_V1BETA1)

CLUSTER_ADDON = Resource("clusterstack.x-k8s.io", "v1alpha1", "ClusterAddon", "clusteraddons")
CLUSTER_STACK = Resource("clusterstack.x-k8s.io", "v1alpha1", "ClusterStack", "clusterstacks")
CLUSTER_STACK_RELEASE = Resource("clusterstack.x-k8s.io", "v1alpha1", "ClusterStackRelease", "clusterstackreleases")
CLUSTER_ROLLOUT = Resource("clusterstack.x-k8s.io", "v1alpha1", "ClusterRollout", "clusterrollouts")
CLUSTERCTL_PROVIDER = Resource("clusterctl.cluster.x-k8s.io", "v1alpha3", "Provider", "providers")
KIND_CLUSTER = Resource("infrastructure.cluster-k8s.io", "v1alpha1", "KINDCluster", "kindclusters")
KIND_CLUSTER_TEMPLATE = Resource(KIND_CLUSTER.group, "v1alpha1", "KINDClusterTemplate", "kindclustertemplates")

_ADDONS = "addons.cluster.x-k8s.io"
HELM_CHART_PROXY = Resource(_ADDONS, "v1alpha1", "HelmChartProxy", "helmchartproxies")
HELM_RELEASE_PROXY = Resource(_ADDONS, "v1alpha1", "HelmReleaseProxy", "helmreleaseproxies")
CLUSTER_RESOURCE_SET = Resource(_ADDONS, "v1beta2", "ClusterResourceSet", "clusterresourcesets", needs=_NEEDED)
CLUSTER_RESOURCE_SET_BINDING = Resource(
    _ADDONS, "v1beta2", "ClusterResourceSetBinding", "clusterresourcesetbindings", needs=_NEEDED
)

NAMESPACE = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
NODE = Resource("", "v1", "Node", "nodes", namespaced=False)
POD = Resource("", "v1", "Pod", "pods")
SERVICE = Resource("", "v1", "Service", "services")
EVENT = Resource("", "v1", "Event", "events")
SECRET = Resource("", "v1", "Secret", "secrets")
CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps")
DEPLOYMENT = Resource("apps", "v1", "Deployment", "deployments")
DAEMON_SET = Resource("apps", "v1", "DaemonSet", "daemonsets")
LEASE = Resource("coordination.k8s.io", "v1", "Lease", "leases")
CLUSTER_ROLE = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    namespaced=False,
)
WEBHOOK_CONFIGURATIONS = (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)
ENDPOINT_SLICE = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
API_SERVER_SOURCE = Resource("sources.knative.dev", "v1", "ApiServerSource", "apiserversources")
