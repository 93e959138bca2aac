"""Cluster, for runs without Cluster API; where that is installed, its own CRD is there instead.

Both served versions are stored as they come: typed is only what v1beta1 and v1beta2 agree on, all else is kept. So a
v1beta1 object reads unchanged at v1beta2, and `shared.api.cluster` reads either shape. What v1beta2 refuses and v1beta1
does not know is refused here, too.
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
)


class Endpoint(OpenModel):
    host: str | None = Field(None, max_length=512)
    port: Int32 | None = Field(None, ge=0, le=65535)
    """0 is not set."""


class Condition(OpenModel):
    """Of metav1 or of Cluster API's v1beta1, which differ in severity, observedGeneration and what may be absent."""

    type: str = Field(min_length=1, max_length=316)
    status: str = Field(json_schema_extra={"enum": ["True", "False", "Unknown"]})
    reason: str | None = None
    severity: str | None = None
    message: str | None = None
    last_transition_time: Timestamp | None = None
    observed_generation: Int64 | None = None


class ClusterSpec(OpenModel):
    paused: bool | None = None
    """Nothing is done for this Cluster while set, deletion included."""
    control_plane_endpoint: Endpoint | None = None
    """Where the API server is; taken from the infrastructure or control-plane object unless set."""


class Initialization(OpenModel):
    model_config = ConfigDict(json_schema_extra={**PRESERVED, "minProperties": 1})

    infrastructure_provisioned: bool | None = None
    """Once true, always true."""
    control_plane_initialized: bool | None = None
    """Once true, always true."""


class ClusterStatus(OpenModel):
    conditions: list[Condition] | None = Field(None, max_length=64, json_schema_extra=KEYED_BY_TYPE)
    initialization: Initialization | None = None
    failure_domains: Any | None = Field(None, json_schema_extra={**PRESERVED, "minItems": 1, "maxItems": 100})
    """A list in v1beta2, which holds something; a map in v1beta1."""
    phase: str | None = None
    """Pending, Provisioning, Provisioned or Deleting; for people, not for programs."""
    observed_generation: Int64 | None = None


class Cluster(Model):
    """A workload cluster: what it consists of and how far it is."""

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
