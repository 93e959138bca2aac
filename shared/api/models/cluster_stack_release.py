"""ClusterStackRelease: a release of a cluster stack; its ClusterClass is applied to the management cluster."""

from __future__ import annotations

from pydantic import Field

from shared.api import resources

from .cluster_addon import AppliedResource, ObjectReference, V1Beta1Condition
from .custom_resource import AGE, Column, CustomResource, Model


class ClusterStackReleaseSpec(Model):
    """The desired state of a release."""

    provider_ref: ObjectReference | None = Field(None, json_schema_extra={"x-kubernetes-map-type": "atomic"})
    """The infrastructure provider's object for this release. It must be ready before the ClusterClass is applied."""


class ClusterStackReleaseStatus(Model):
    """The observed state of a release."""

    resources: list[AppliedResource] | None = None
    kubernetes_version: str | None = None
    """The Kubernetes version of the release, such as v1.27.3."""
    ready: bool = False
    conditions: list[V1Beta1Condition] | None = None
    """`Ready` summarizes all others."""


class ClusterStackRelease(Model):
    """A release of a cluster stack; the object has the name of the release."""

    spec: ClusterStackReleaseSpec | None = None
    status: ClusterStackReleaseStatus | None = None


CLUSTER_STACK_RELEASE = CustomResource(
    resource=resources.CLUSTER_STACK_RELEASE,
    root=ClusterStackRelease,
    short_name="cskr",
    columns=(
        Column("K8s Version", ".status.kubernetesVersion"),
        Column("Ready", ".status.ready", "boolean"),
        AGE,
        Column("Reason", ".status.conditions[?(@.type=='Ready')].reason"),
        Column("Message", ".status.conditions[?(@.type=='Ready')].message"),
    ),
)
