"""The Cluster for runs without Cluster API; an installation of Cluster API brings its own CRD.

Both served versions are stored unchanged: the schema types the fields that v1beta1 and v1beta2 have in common and keeps
all others. So a v1beta1 object reads unchanged at v1beta2, and `shared.api.cluster` reads either shape. Values that
v1beta2 rejects and v1beta1 does not have are rejected here, too. Fields that only one version requires are optional. So
is the Kubernetes version of a topology, which addons do not need.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from shared.api import resources

from .custom_resource import (
    AGE,
    KEYED_BY_TYPE,
    PRESERVED,
    Column,
    CustomResource,
    Int32,
    Int64,
    Model,
    OpenModel,
    Timestamp,
    rule,
)

_KEYED_BY_NAME: JsonDict = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
_KEYED_BY_CONDITION_TYPE: JsonDict = {
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["conditionType"],
}


class ControlPlaneEndpoint(OpenModel):
    """The address of an API server."""

    host: str | None = Field(None, max_length=512)
    port: Int32 | None = Field(None, ge=0, le=65535)
    """0 counts as unset."""


class Condition(OpenModel):
    """A condition of metav1 or of Cluster API's v1beta1, which differ in severity and observedGeneration."""

    type: str = Field(min_length=1, max_length=316)
    status: str = Field(json_schema_extra={"enum": ["True", "False", "Unknown"]})
    reason: str | None = None
    severity: str | None = None
    message: str | None = None
    last_transition_time: Timestamp | None = None
    observed_generation: Int64 | None = None


_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_KIND = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"


class Reference(OpenModel):
    """A reference to an object in the namespace of the Cluster; with an API group in v1beta2, a version in v1beta1."""

    api_group: str | None = Field(None, min_length=1, max_length=253, pattern=_SUBDOMAIN)
    kind: str | None = Field(None, min_length=1, max_length=63, pattern=_KIND)
    name: str | None = Field(None, min_length=1, max_length=253, pattern=_SUBDOMAIN)


class Blocks(OpenModel):
    """Ranges of addresses, in CIDR notation."""

    cidr_blocks: list[Annotated[str, Field(max_length=43)]] = Field(max_length=100)


class ClusterNetwork(OpenModel):
    """The addresses and the domain of a workload cluster."""

    api_server_port: Int32 | None = Field(None, ge=0, le=65535)
    """0 counts as unset."""
    service_domain: str | None = Field(None, max_length=253)
    pods: Blocks | None = None
    services: Blocks | None = None


class ClassReference(OpenModel):
    """A reference to a ClusterClass."""

    name: str = Field(min_length=1, max_length=253)
    namespace: str | None = Field(None, max_length=63)


class Variable(OpenModel):
    """A value of a variable of the class."""

    name: str = Field(min_length=1, max_length=256)


class Topology(OpenModel):
    """The class of the Cluster and its values; the class is `classRef` in v1beta2, `class` in v1beta1."""

    class_: str | None = Field(None, alias="class", min_length=1, max_length=253)
    class_ref: ClassReference | None = None
    version: str | None = Field(None, min_length=1, max_length=256)
    variables: list[Variable] | None = Field(None, max_length=1000, json_schema_extra=_KEYED_BY_NAME)


class AvailabilityGate(OpenModel):
    """A condition that the condition `Available` summarizes, too."""

    condition_type: str = Field(min_length=1, max_length=316)
    polarity: str | None = Field(None, json_schema_extra={"enum": ["Positive", "Negative", None]})


class ClusterSpec(OpenModel):
    """The desired state of a Cluster; fields that functions do not use are kept."""

    paused: bool | None = None
    """While true, the Cluster is not reconciled; this includes its deletion."""
    control_plane_endpoint: ControlPlaneEndpoint | None = None
    """The address of the API server; copied from the infrastructure or control-plane object unless set."""
    cluster_network: ClusterNetwork | None = None
    infrastructure_ref: Reference | None = None
    control_plane_ref: Reference | None = None
    topology: Topology | None = None
    availability_gates: list[AvailabilityGate] | None = Field(
        None, max_length=32, json_schema_extra=_KEYED_BY_CONDITION_TYPE
    )


class Initialization(OpenModel):
    """Facts about the first provisioning of a Cluster; once true, they stay true."""

    model_config = ConfigDict(json_schema_extra={**PRESERVED, "minProperties": 1})

    infrastructure_provisioned: bool | None = None
    """Once true, always true."""
    control_plane_initialized: bool | None = None
    """Once true, always true."""


class StatusVersion(OpenModel):
    """A Kubernetes version and the number of Machines that have it."""

    version: str = Field(min_length=1, max_length=256)
    replicas: Int32 | None = Field(None, ge=1)


class Replicas(OpenModel):
    """The numbers of a Cluster's Machines, of its control plane or of its workers."""

    desired_replicas: Int32 | None = None
    replicas: Int32 | None = None
    """All that exist, including objects that are being created or deleted."""
    ready_replicas: Int32 | None = None
    available_replicas: Int32 | None = None
    up_to_date_replicas: Int32 | None = None
    versions: list[StatusVersion] | None = Field(None, max_length=100)


class DeprecatedStatus(OpenModel):
    """The fields of the status of v1beta1."""

    conditions: list[Condition] | None = Field(None, max_length=64, json_schema_extra=KEYED_BY_TYPE)
    failure_reason: str | None = None
    """Why a referenced object failed for good, in the words of that object."""
    failure_message: str | None = None


class Deprecated(OpenModel):
    """Fields of the status that are deprecated."""

    v1beta1: DeprecatedStatus | None = None


class ClusterStatus(OpenModel):
    """The observed state of a Cluster."""

    conditions: list[Condition] | None = Field(None, max_length=64, json_schema_extra=KEYED_BY_TYPE)
    initialization: Initialization | None = None
    failure_domains: Any | None = Field(None, json_schema_extra={**PRESERVED, "minItems": 1, "maxItems": 100})
    """A list with at least one entry in v1beta2; a map in v1beta1."""
    control_plane: Replicas | None = None
    """The Machines of the control plane, as its object reports them or as they are counted."""
    workers: Replicas | None = None
    """The Machines of all MachineDeployments, MachineSets and MachinePools, and those without an owner of that kind."""
    deprecated: Deprecated | None = None
    """Fields of v1beta1, for tools that read nothing else."""
    phase: str | None = None
    """Pending, Provisioning, Provisioned or Deleting; for users, not for programs."""
    observed_generation: Int64 | None = None


# As in Cluster API's webhook. Only on creation, because updates of an older object must still be able to remove its
# finalizer.
_NAME_OF_LABEL = rule(
    "oldSelf.hasValue() || self.metadata.name.size() <= 63",
    "the name of a Cluster must have at most 63 characters, because labels have it as their value",
    optionalOldSelf=True,
)


class Cluster(Model):
    """A workload cluster: its objects and its progress."""

    model_config = ConfigDict(json_schema_extra=_NAME_OF_LABEL)

    spec: ClusterSpec | None = None
    status: ClusterStatus | None = None


_STATUS_OF = '.status.conditions[?(@.type=="{}")].status'


def _replicas(prefix: str, field: str) -> Iterator[Column]:
    """Yields the columns of the counters of the control plane, or of the workers."""
    for name, counter, wide in (
        ("Desired", "desiredReplicas", False),
        ("Current", "replicas", True),
        ("Ready", "readyReplicas", True),
        ("Available", "availableReplicas", False),
        ("Up-to-date", "upToDateReplicas", False),
    ):
        yield Column(f"{prefix} {name}", f".status.{field}.{counter}", "integer", wide)


CLUSTER = CustomResource(
    resource=resources.CLUSTER,
    also=("v1beta1",),
    of_core=True,
    root=Cluster,
    short_name="cl",
    columns=(
        # The names and the order of the columns are as in Cluster API's CRD, version v1beta2.
        Column("ClusterClass", ".spec.topology.classRef.name"),
        Column("Available", _STATUS_OF.format("Available")),
        *_replicas("CP", "controlPlane"),
        *_replicas("W", "workers"),
        Column("Paused", _STATUS_OF.format("Paused"), wide=True),
        Column("Phase", ".status.phase"),
        AGE,
        Column("Version", ".spec.topology.version"),
    ),
)
