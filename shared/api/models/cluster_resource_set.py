"""ClusterResourceSet and its binding, for runs without Cluster API, whose core brings both kinds.

Both served versions are stored unchanged: the spec is equal, and the status keeps the fields of either version.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from shared.api import resources

from .cluster import Condition
from .custom_resource import AGE, Column, CustomResource, Int64, Model, OpenModel, Timestamp, rule, rules
from .label_selector import LabelSelector

_IMMUTABLE = "cannot change: delete the ClusterResourceSet and create it again"
_HAS_LABELS = "has(self.matchLabels) && size(self.matchLabels) > 0"
_HAS_EXPRESSIONS = "has(self.matchExpressions) && size(self.matchExpressions) > 0"
_SELECTOR_RULES = rules(
    ("self == oldSelf", f"spec.clusterSelector {_IMMUTABLE}"),
    (f"({_HAS_LABELS}) || ({_HAS_EXPRESSIONS})", "spec.clusterSelector must not be empty"),
)
_ATOMIC: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}


class ResourceRef(Model):
    """A Secret or ConfigMap of the namespace that contains objects as YAML or JSON."""

    name: str = Field(min_length=1, max_length=253)
    kind: Literal["Secret", "ConfigMap"]


class ClusterResourceSetSpec(Model):
    """The clusters, and the sources of their objects."""

    model_config = ConfigDict(
        json_schema_extra=rule(
            "!has(oldSelf.strategy) || oldSelf.strategy == '' || "
            "(has(self.strategy) && self.strategy == oldSelf.strategy)",
            f"spec.strategy {_IMMUTABLE}",
        )
    )

    cluster_selector: LabelSelector = Field(json_schema_extra=_SELECTOR_RULES)
    """Selects Clusters of the same namespace. It must not be empty, and cannot change."""
    resources: list[ResourceRef] | None = Field(None, max_length=100, json_schema_extra=_ATOMIC)
    strategy: Literal["", "ApplyOnce", "Reconcile"] | None = None
    """`ApplyOnce` (default) creates objects that do not exist. `Reconcile` also applies later changes."""


class ClusterResourceSetStatus(OpenModel):
    """The observed state of a ClusterResourceSet."""

    conditions: list[Condition] | None = Field(None, max_length=32)
    observed_generation: Int64 | None = Field(None, ge=1)


class ClusterResourceSet(Model):
    """Objects that all workload clusters get that a selector matches."""

    spec: ClusterResourceSetSpec
    status: ClusterResourceSetStatus | None = None


class ResourceBinding(Model):
    """Whether one Secret or ConfigMap is applied."""

    name: str = Field(min_length=1, max_length=253)
    kind: Literal["Secret", "ConfigMap"]
    hash: str | None = None
    """The hash of the content that was applied last."""
    last_applied_time: Timestamp | None = None
    applied: bool


class ResourceSetBinding(Model):
    """The sources that one ClusterResourceSet has applied to the cluster."""

    cluster_resource_set_name: str = Field(min_length=1, max_length=253)
    resources: list[ResourceBinding] | None = Field(None, max_length=100, json_schema_extra=_ATOMIC)


class ClusterResourceSetBindingSpec(Model):
    """The cluster, and the sources that are applied to it."""

    model_config = ConfigDict(
        json_schema_extra=rule(
            "!has(oldSelf.clusterName) || (has(self.clusterName) && self.clusterName == oldSelf.clusterName)",
            "spec.clusterName cannot change",
        )
    )

    cluster_name: str | None = Field(None, min_length=1, max_length=63)
    bindings: list[ResourceSetBinding] | None = Field(None, max_length=100, json_schema_extra=_ATOMIC)


class ClusterResourceSetBinding(Model):
    """The record of all sources that ClusterResourceSets have applied to the Cluster of the same name."""

    spec: ClusterResourceSetBindingSpec | None = None


CLUSTER_RESOURCE_SET = CustomResource(
    resource=resources.CLUSTER_RESOURCE_SET,
    root=ClusterResourceSet,
    columns=(
        Column("Applied", ".status.conditions[?(@.type=='ResourcesApplied')].status"),
        Column("Paused", ".status.conditions[?(@.type=='Paused')].status", wide=True),
        AGE,
    ),
    also=("v1beta1",),
    of_core=True,
)

CLUSTER_RESOURCE_SET_BINDING = CustomResource(
    resource=resources.CLUSTER_RESOURCE_SET_BINDING,
    root=ClusterResourceSetBinding,
    columns=(Column("Cluster", ".spec.clusterName"), AGE),
    also=("v1beta1",),
    of_core=True,
)
