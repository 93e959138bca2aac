"""The Cluster for runs without Cluster API; an installation of Cluster API brings its own CRD.

Both served versions are stored unchanged: the schema types the fields that v1beta1 and v1beta2 have in common and keeps
all others. So a v1beta1 object reads unchanged at v1beta2, and `shared.api.cluster` reads either shape. Values that
v1beta2 rejects and v1beta1 does not have are rejected here, too.
"""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

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


class ClusterSpec(OpenModel):
    """The desired state of a Cluster; fields that functions do not use are kept."""

    paused: bool | None = None
    """While true, the Cluster is not reconciled; this includes its deletion."""
    control_plane_endpoint: ControlPlaneEndpoint | None = None
    """The address of the API server; copied from the infrastructure or control-plane object unless set."""


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
    """All that exist, also those that are being created or deleted."""
    ready_replicas: Int32 | None = None
    available_replicas: Int32 | None = None
    up_to_date_replicas: Int32 | None = None
    versions: list[StatusVersion] | None = Field(None, max_length=100)


class DeprecatedStatus(OpenModel):
    """What the status of v1beta1 had."""

    conditions: list[Condition] | None = Field(None, max_length=64, json_schema_extra=KEYED_BY_TYPE)
    failure_reason: str | None = None
    """Why a referenced object failed for good, as that object says."""
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


# As in Cluster API's webhook. Only on creation: updates of an older object must still be able to remove its finalizer.
_NAME_OF_LABEL = rule(
    "oldSelf.hasValue() || self.metadata.name.size() <= 63",
    "the name of a Cluster has at most 63 characters, since it is the value of a label",
    optionalOldSelf=True,
)


class Cluster(Model):
    """A workload cluster: its objects and its progress."""

    model_config = ConfigDict(json_schema_extra=_NAME_OF_LABEL)

    spec: ClusterSpec | None = None
    status: ClusterStatus | None = None


CLUSTER = CustomResource(
    resource=resources.CLUSTER,
    also=("v1beta1",),
    root=Cluster,
    short_name="cl",
    columns=(
        Column("Phase", ".status.phase"),
        Column("Infrastructure provisioned", ".status.initialization.infrastructureProvisioned", "boolean"),
        AGE,
    ),
)
