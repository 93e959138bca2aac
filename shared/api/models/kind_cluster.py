"""KINDCluster: a workload cluster on this host, as an infrastructure object of Cluster API's contract."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from shared.api import resources

from .custom_resource import AGE, Column, CustomResource, Int32, Int64, Model, Timestamp

_NAME = r"^[a-z0-9.-]+$"
_MINOR = r"^1\.(1[4-9]|[2-9][0-9]|[1-9][0-9]{2})$"
_CONTRACTS = {"cluster.x-k8s.io/v1beta1": "v1alpha1", "cluster.x-k8s.io/v1beta2": "v1alpha1"}


class APIEndpoint(Model):
    """The address of an API server."""

    host: str = Field(max_length=512)
    port: Int32 = Field(ge=0, le=65535)


class ExtraMount(Model):
    """A folder or file of the machine that is mounted into a node."""

    host_path: str = Field(min_length=1, max_length=4096)
    container_path: str = Field(min_length=1, max_length=4096)
    read_only: bool | None = None
    selinux_relabel: bool | None = None
    propagation: Literal["None", "HostToContainer", "Bidirectional"] | None = None


class PortMapping(Model):
    """A port of a node that is published at a port of the machine."""

    container_port: Int32 = Field(ge=1, le=65535)
    host_port: Int32 | None = Field(None, ge=-1, le=65535)
    """0 or -1 is a random port."""
    listen_address: str | None = Field(None, max_length=64)
    protocol: Literal["TCP", "UDP", "SCTP"] | None = None


class PatchJSON6902(Model):
    """A JSON patch (RFC 6902) of one of kubeadm's configurations."""

    kind: str = Field(min_length=1, max_length=64)
    """The kind of the configuration, as in ClusterConfiguration."""
    group: str | None = Field(None, max_length=253)
    """The API group of the configuration (default: any)."""
    version: str | None = Field(None, max_length=64)
    patch: str = Field(min_length=1)
    """The operations, as a list in YAML or JSON."""


class Node(Model):
    """A node of the cluster: a container."""

    role: Literal["control-plane", "worker"] = "control-plane"
    image: str | None = Field(None, min_length=1, max_length=512)
    """The image of this node, if it differs from `spec.image`."""
    labels: dict[str, str] | None = Field(None, max_length=64)
    extra_mounts: list[ExtraMount] | None = Field(None, max_length=32)
    extra_port_mappings: list[PortMapping] | None = Field(None, max_length=64)
    kubeadm_config_patches: list[str] | None = Field(None, max_length=16)
    kubeadm_config_patches_json6902: list[PatchJSON6902] | None = Field(
        None, max_length=16, alias="kubeadmConfigPatchesJSON6902"
    )


class Networking(Model):
    """The networks of the cluster, and the address of its API server."""

    ip_family: Literal["ipv4", "ipv6", "dual"] | None = None
    api_server_address: str | None = Field(None, max_length=64)
    """The address of the machine at which the API server listens (default 127.0.0.1). Others reach the cluster at an
    address of a network that they share with the machine."""
    api_server_port: Int32 | None = Field(None, ge=-1, le=65535)
    """0 lets kind choose a random port, -1 lets the container engine choose."""
    pod_subnet: str | None = Field(None, max_length=128)
    service_subnet: str | None = Field(None, max_length=128)
    disable_default_cni: bool | None = Field(None, alias="disableDefaultCNI")
    kube_proxy_mode: Literal["iptables", "ipvs", "nftables", "none"] | None = None
    dns_search: list[str] | None = Field(None, max_length=32)


class KINDClusterSpec(Model):
    """The desired state of a KINDCluster. The fields from `image` on are for the runtime `kind`."""

    cluster_name: str = Field(min_length=1, max_length=64, pattern=_NAME)
    """The name of the cluster; its kubeconfig is in the Secret `<clusterName>-config`."""
    kubernetes_version: str = Field("1.21", pattern=_MINOR)
    """The requested minor version, 1.14 or later. The runtime `local` runs an installed patch of it, else its
    default."""
    runtime: Literal["local", "kind"] | None = None
    """`local`: a control plane of processes on the machine that runs the functions; `kind`: nodes in containers of that
    machine, which the kind program creates. It must be one of the setting KIND_RUNTIME of the functions; default: the
    first of these, else `local`."""
    control_plane_endpoint: APIEndpoint | None = None
    """The address of the API server; set once it is known."""
    image: str | None = Field(None, min_length=1, max_length=512)
    """The node image, best by digest. Default: the image of the requested version in the docs, by digest."""
    nodes: list[Node] | None = Field(None, min_length=1, max_length=32)
    """Default: one node."""
    networking: Networking | None = None
    endpoint_access: Literal["Host", "Network"] | None = None
    """The address of the API server to publish. `Host` (default): `networking.apiServerAddress`. `Network`: the address
    of the node in the network of the containers, for clients that run in a container of this network."""
    feature_gates: dict[str, bool] | None = Field(None, max_length=64)
    runtime_config: dict[str, str] | None = Field(None, max_length=64)
    kubeadm_config_patches: list[str] | None = Field(None, max_length=16)
    kubeadm_config_patches_json6902: list[PatchJSON6902] | None = Field(
        None, max_length=16, alias="kubeadmConfigPatchesJSON6902"
    )
    """JSON patches of kubeadm's configurations, applied after `kubeadmConfigPatches`, and before a node's patches."""
    containerd_config_patches: list[str] | None = Field(None, max_length=16)
    containerd_config_patches_json6902: list[str] | None = Field(
        None, max_length=16, alias="containerdConfigPatchesJSON6902"
    )
    """JSON patches of containerd's configuration, each a list in YAML or JSON."""


class HistoryEntry(Model):
    """A condition, or a past event. Both have the fields of a condition, because generic clients cannot read the list
    otherwise."""

    type: str | None = None
    """Ready or Paused for a condition; ClusterCreated or ClusterNotCreated for a past event."""
    status: str | None = None
    """Always True for a past event."""
    observed_generation: Int64 | None = None
    last_transition_time: Timestamp | None = None
    timestamp: Timestamp | None = None
    message: str | None = None
    reason: str | None = None


class KINDClusterInitialization(Model):
    """Facts about the first provisioning, as Cluster API's contract defines them."""

    provisioned: bool | None = None
    """Set to true once the cluster is provisioned; never set back."""


class KINDClusterStatus(Model):
    """The observed state of a KINDCluster."""

    ready: bool | None = None
    failure_message: str | None = None
    conditions: list[HistoryEntry] | None = Field(None, max_length=32)
    """Ready and Paused, and after them the latest events, the oldest first."""
    initialization: KINDClusterInitialization | None = None
    phase: str | None = None


_CREATED_WITH = (
    *("image", "nodes", "networking", "endpointAccess", "featureGates", "runtimeConfig"),
    *("kubeadmConfigPatches", "kubeadmConfigPatchesJSON6902"),
    *("containerdConfigPatches", "containerdConfigPatchesJSON6902"),
)
"""The fields of the spec that a running cluster was created with. `kubernetesVersion` may change, as upstream."""
_IDENTITY = ("clusterName", "runtime")
"""The fields of the spec by which an instance is found, from the first attempt to create it on."""
_PROVISIONED = (
    "has(oldSelf.status) && has(oldSelf.status.initialization) && has(oldSelf.status.initialization.provisioned)"
    " && oldSelf.status.initialization.provisioned"
)


def _keep(name: str, since: str = "", unless: str = "") -> JsonDict:
    """Returns the rule that a field of the spec does not change, unless an expression holds."""
    new, old = f"self.spec.{name}", f"oldSelf.spec.{name}"
    return {
        "rule": f"{unless}(has({new}) == has({old}) && (!has({new}) || {new} == {old}))",
        "message": f"spec.{name} cannot change{since}: delete the KINDCluster and create it again",
    }


_FIXED: JsonDict = {
    "x-kubernetes-validations": [
        *map(_keep, _IDENTITY),
        *(_keep(name, " once the cluster runs", f"!({_PROVISIONED}) || ") for name in _CREATED_WITH),
    ]
}


class KINDCluster(Model):
    """A workload cluster on the machine that runs the functions."""

    model_config = ConfigDict(json_schema_extra=_FIXED)

    spec: KINDClusterSpec
    status: KINDClusterStatus | None = None


KIND_CLUSTER = CustomResource(
    resource=resources.KIND_CLUSTER,
    root=KINDCluster,
    short_name="kc",
    columns=(
        Column("KubernetesVersion", ".spec.kubernetesVersion"),
        Column("ClusterName", ".spec.clusterName"),
        Column("Ready", ".status.ready"),
        Column("Phase", ".status.phase"),
        Column("Endpoint", ".spec.controlPlaneEndpoint.host", wide=True),
        Column("Reason", ".status.conditions[?(@.type=='Ready')].reason", wide=True),
        AGE,
    ),
    labels=_CONTRACTS,
)


class TemplateMetadata(Model):
    """The metadata of the KINDClusters of a template."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class TemplatedSpec(KINDClusterSpec):
    """The spec of the KINDClusters of a template. A class with several Clusters sets `clusterName` by a patch."""

    cluster_name: str | None = Field(None, min_length=1, max_length=64, pattern=_NAME)  # type: ignore[assignment]
    kubernetes_version: str | None = Field(None, pattern=_MINOR)  # type: ignore[assignment]


class KINDClusterTemplateResource(Model):
    """The content of the KINDClusters of a template."""

    metadata: TemplateMetadata | None = None
    spec: TemplatedSpec


class KINDClusterTemplateSpec(Model):
    """The content of a template."""

    template: KINDClusterTemplateResource


_IMMUTABLE: JsonDict = {
    "x-kubernetes-validations": [
        {
            "rule": "self.spec.template.spec == oldSelf.spec.template.spec",
            "message": "spec.template.spec cannot change: create another template, and name it in the ClusterClass",
        }
    ]
}


class KINDClusterTemplate(Model):
    """A template of KINDClusters for a ClusterClass."""

    model_config = ConfigDict(json_schema_extra=_IMMUTABLE)

    spec: KINDClusterTemplateSpec


KIND_CLUSTER_TEMPLATE = CustomResource(
    resource=resources.KIND_CLUSTER_TEMPLATE,
    root=KINDClusterTemplate,
    short_name="kct",
    columns=(AGE,),
    labels=_CONTRACTS,
)
