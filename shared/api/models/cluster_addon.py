"""ClusterAddon: the addons of a cluster stack in a workload cluster, and the progress of applying them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shared.api import resources
from shared.api.provider import COMPONENT_LABEL

from .custom_resource import AGE, Column, CustomResource, Int64, Model, Timestamp


class ObjectReference(Model):
    """A reference to an object."""

    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class ClusterAddonSpec(Model):
    """Written by functions, not by users: the addons that were last applied."""

    cluster_stack: str | None = None
    """The cluster stack (`<provider>-<name>-<Kubernetes version>-<version>`) whose addons were last applied
    completely; equal to the Cluster's class unless a rollout is pending."""
    version: str | None = None
    """The version of the addons that were last applied."""
    hook: str | None = None
    """The lifecycle hook in progress; empty if there is none."""
    cluster_ref: ObjectReference = Field(json_schema_extra={"x-kubernetes-map-type": "atomic"})
    """The Cluster whose addons these are."""


class AppliedResource(Model):
    """An entry of the inventory: an object in the workload cluster that was applied, and is pruned when obsolete."""

    group: str | None = None
    version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    status: str | None = None
    """`synced`, `not-synced`, or `kept`: obsolete, but not deleted, because it may belong to others as well."""
    error: str | None = None
    """Why the last attempt failed."""
    uid: str | None = None
    """The uid of the applied object; pruning deletes no other object of the same name."""
    hash: str | None = None
    """The hash of the applied manifest; an unchanged manifest needs no write."""
    stage: str | None = None
    """The stage that applied the object, in a release with stages."""
    waiting: str | None = None
    """Why the object is not ready yet."""
    stored: str | None = None
    """The hash of the applied fields as the API server stores them; absent if it equals `hash`. While
    the live object has this hash, nobody else has changed it."""
    revision: str | None = None
    """The resourceVersion of the object as it was applied: while the object has it, it is pruned without a read. Absent
    for an object with a status, which controllers change, and for an object that is annotated to be kept."""


class StageStatus(Model):
    """The progress of one stage of an addon release. Stages are listed in the order in which they are carried out."""

    name: str | None = None
    action: Literal["apply", "delete"] | None = None
    phase: (
        Literal["", "Pending", "waitingForPreCondition", "applyingOrDeleting", "waitingForPostCondition", "done"] | None
    ) = None
    since: Timestamp | None = None
    """The start of this phase, from which timeouts count."""


class Applied(Model):
    """Addons that were applied completely."""

    cluster_stack: str
    version: str
    at: Timestamp
    digest: str
    stages: list[str] | None = None
    """The stages whose charts are installed, so that an upgrade runs the install hooks of a new one. Absent without
    stages."""


class V1Beta1Condition(Model):
    """A condition in the shape of Cluster API's v1beta1: with a severity if the status is False."""

    type: str
    status: str
    severity: str | None = None
    """Error, Warning or Info."""
    reason: str | None = None
    message: str | None = None
    last_transition_time: Timestamp


class ClusterAddonStatus(Model):
    """The observed state of the addons."""

    resources: list[AppliedResource] | None = None
    stages: list[StageStatus] | None = None
    ready: bool = False
    conditions: list[V1Beta1Condition] | None = None
    """`Ready` summarizes all others."""
    release: str | None = None
    """The cluster stack that the conditions and `ready` are about: the Cluster's class at the last reconciliation."""
    rollback_from: str | None = None
    """The cluster stack that the addons are rolled back from. Absent if no rollback is requested."""
    observed_generation: Int64 | None = None
    digest: str | None = None
    """Identifies the content of the latest rollout, so that an interrupted rollout is resumed and not begun anew."""
    kubernetes_version: str | None = None
    """The workload cluster's Kubernetes version that charts were rendered with; absent if no chart uses it. The charts
    are rendered again when the version changes."""
    history: list[Applied] | None = None
    """The newest first; their manifests are in the Secret `<name>-manifests`, for a rollback."""
    drift: list[str] | None = None
    """The fields that were changed by others, as found by the last check. Only with the drift policy `report`."""


class ClusterAddon(Model):
    """The addons of one workload cluster."""

    spec: ClusterAddonSpec | None = None
    status: ClusterAddonStatus | None = None


CLUSTER_ADDON = CustomResource(
    resource=resources.CLUSTER_ADDON,
    root=ClusterAddon,
    short_name="caddon",
    labels={COMPONENT_LABEL: ""},  # `clusterctl move` takes objects of kinds with this label along with their owners
    columns=(
        Column("Cluster", '.metadata.ownerReferences[?(@.kind=="Cluster")].name'),
        Column("Wanted", ".status.release"),
        Column("Applied", ".spec.clusterStack"),
        Column("Ready", ".status.ready", "boolean"),
        AGE,
        Column("Reason", ".status.conditions[?(@.type=='Ready')].reason"),
        Column("Message", ".status.conditions[?(@.type=='Ready')].message"),
    ),
)
