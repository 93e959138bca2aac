"""KINDCluster: a workload cluster on this host, as an infrastructure object of Cluster API's contract."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shared.api import resources

from .custom_resource import Column, CustomResource, Int32, Model, Timestamp


class APIEndpoint(Model):
    """The address of an API server."""

    host: str = Field(max_length=512)
    port: Int32 = Field(ge=0, le=65535)


class KINDClusterSpec(Model):
    """The desired state of a KINDCluster."""

    cluster_name: str = Field(min_length=1, max_length=64, pattern=r"^[a-z0-9.-]+$")
    """The name of the cluster; its kubeconfig is in the Secret `<clusterName>-config`."""
    kubernetes_version: str = Field("1.21", pattern=r"^1\.(1[4-9]|[2-9][0-9]|[1-9][0-9]{2})$")
    """The requested minor version, 1.14 or later. The runtime `local` has a single version and runs that one."""
    runtime: Literal["local"] | None = None
    """`local`, the only runtime: a control plane of processes on the machine that runs the functions."""
    control_plane_endpoint: APIEndpoint | None = None
    """The address of the API server; set once it is known."""


class HistoryEntry(Model):
    """An entry of the history in `status.conditions`. It has the fields of a condition, since generic clients cannot
    read the list otherwise."""

    type: str | None = None
    """ClusterCreated or ClusterNotCreated."""
    status: str | None = None
    """Always True."""
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
    """The history: the latest entries, the oldest first."""
    initialization: KINDClusterInitialization | None = None
    phase: str | None = None


class KINDCluster(Model):
    """A workload cluster on the machine that runs the functions: a control plane of local processes."""

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
    ),
    labels={"cluster.x-k8s.io/v1beta1": "v1alpha1", "cluster.x-k8s.io/v1beta2": "v1alpha1"},
)
