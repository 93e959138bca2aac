"""The project's custom resources as pydantic models. They validate manifests, and the CRDs in `infra/manifests/crds`
are generated from them.

Functions work on plain objects and do not import these models; pydantic is imported nowhere else.
"""

from .cluster import CLUSTER
from .cluster_addon import CLUSTER_ADDON
from .cluster_class import CLUSTER_CLASS
from .cluster_resource_set import CLUSTER_RESOURCE_SET, CLUSTER_RESOURCE_SET_BINDING
from .cluster_rollout import CLUSTER_ROLLOUT
from .cluster_stack import CLUSTER_STACK
from .cluster_stack_release import CLUSTER_STACK_RELEASE
from .clusterctl_provider import CLUSTERCTL_PROVIDER
from .custom_resource import Column, CustomResource, Model
from .helm_proxy import HELM_CHART_PROXY, HELM_RELEASE_PROXY
from .kind_cluster import KIND_CLUSTER, KIND_CLUSTER_TEMPLATE
from .provider import PROVIDERS

CUSTOM_RESOURCES = (
    CLUSTER,
    CLUSTER_CLASS,
    CLUSTER_RESOURCE_SET,
    CLUSTER_RESOURCE_SET_BINDING,
    CLUSTER_ADDON,
    CLUSTER_STACK,
    CLUSTER_STACK_RELEASE,
    CLUSTER_ROLLOUT,
    KIND_CLUSTER,
    KIND_CLUSTER_TEMPLATE,
    HELM_CHART_PROXY,
    HELM_RELEASE_PROXY,
    *PROVIDERS,
    CLUSTERCTL_PROVIDER,
)

__all__ = [
    "CLUSTER",
    "CLUSTERCTL_PROVIDER",
    "CLUSTER_ADDON",
    "CLUSTER_CLASS",
    "CLUSTER_ROLLOUT",
    "CLUSTER_STACK",
    "CLUSTER_STACK_RELEASE",
    "CUSTOM_RESOURCES",
    "KIND_CLUSTER",
    "KIND_CLUSTER_TEMPLATE",
    "PROVIDERS",
    "Column",
    "CustomResource",
    "Model",
]
