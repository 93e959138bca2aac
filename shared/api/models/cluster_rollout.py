"""ClusterRollout: moves Clusters to a ClusterClass, wave by wave."""

from __future__ import annotations

from pydantic import Field

from shared.api import resources

from .custom_resource import AGE, Column, CustomResource, Int64, Model
from .label_selector import LabelSelector
from .rollout import Condition, RolloutStatus, RolloutStrategy


class ClassReference(Model):
    """A ClusterClass, in the namespace from which each Cluster takes its class."""

    name: str = Field(min_length=1, max_length=253)


class TargetTopology(Model):
    """The fields of the topology that the Clusters get."""

    class_ref: ClassReference
    version: str | None = Field(None, min_length=1, max_length=256)
    """The Kubernetes version, such as v1.36.2 (default: each Cluster keeps its version). No Cluster is downgraded."""


class ClusterRolloutSpec(Model):
    """The Clusters, their target, and how they reach it."""

    cluster_selector: LabelSelector
    """Selects Clusters of the namespace. An empty selector selects all."""
    topology: TargetTopology
    """The target, as in the Cluster."""
    rollout_strategy: RolloutStrategy
    """How the change reaches the Clusters; an empty strategy changes all at once."""
    allow_downgrade: bool | None = None
    """Also moves Clusters to an older release of their cluster stack."""


class ClusterRolloutStatus(Model):
    """The observed state of a ClusterRollout."""

    conditions: list[Condition] | None = None
    rollout: RolloutStatus | None = None
    observed_generation: Int64 | None = None


class ClusterRollout(Model):
    """Moves the Clusters that a selector matches to a ClusterClass, wave by wave."""

    spec: ClusterRolloutSpec
    status: ClusterRolloutStatus | None = None


CLUSTER_ROLLOUT = CustomResource(
    resource=resources.CLUSTER_ROLLOUT,
    root=ClusterRollout,
    short_name="cro",
    columns=(
        Column("Class", ".spec.topology.classRef.name"),
        Column("Version", ".spec.topology.version"),
        Column("Ready", ".status.conditions[?(@.type=='Ready')].status"),
        Column("Reason", ".status.conditions[?(@.type=='Ready')].reason"),
        Column("Message", ".status.conditions[?(@.type=='Ready')].message", wide=True),
        AGE,
    ),
)
