"""ClusterAddon: which addons of which cluster stack a workload cluster has, and how applying them goes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shared.api import resources

from .custom_resource import AGE, Column, CustomResource, Int64, Model, Timestamp


class ObjectReference(Model):
    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class ClusterAddonSpec(Model):
    """Written by functions, not by users: it holds what was last applied."""

    cluster_stack: str | None = None
    """The cluster stack (`<provider>-<name>-<Kubernetes version>-<version>`) whose addons were last applied
    completely; equals the Cluster's class when there is nothing left to do."""
    version: str | None = None
    """The version of the addons that were last applied."""
    hook: str | None = None
    """The lifecycle hook that is under way; empty when idle."""
    cluster_ref: ObjectReference = Field(json_schema_extra={"x-kubernetes-map-type": "atomic"})
    """The Cluster whose addons these are."""


class AppliedResource(Model):
    """An object in the workload cluster that is applied from here, and so pruned from here."""

    group: str | None = None
    version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    status: str | None = None
    """`synced`, `not-synced`, or `kept`: not wanted any more, but not ours alone to delete."""
    error: str | None = None
    """Why the last attempt failed."""
    uid: str | None = None
    """Of the object as it was applied; pruning deletes only this one."""
    hash: str | None = None
    """Of what was applied; the same again needs no write."""
    stage: str | None = None
    """The stage that applied it, in a release with stages."""
    waiting: str | None = None
    """Why it is not ready yet."""
    stored: str | None = None
    """Of what was applied, in the form in which the API server stores it, where that is another one; while the
    object has the same, nobody has changed it."""


class Stage(Model):
    """A stage of an addon release, in the order of its release file."""

    name: str | None = None
    action: Literal["apply", "delete"] | None = None
    phase: (
        Literal["", "Pending", "waitingForPreCondition", "applyingOrDeleting", "waitingForPostCondition", "done"] | None
    ) = None
    since: Timestamp | None = None
    """When this phase began; what waits too long from then on counts as stuck."""


class Applied(Model):
    """Addons that were applied completely."""

    cluster_stack: str
    version: str
    at: Timestamp
    digest: str


class Condition(Model):
    """In Cluster API's v1beta1 shape: reason and severity where the status is False."""

    type: str
    status: str
    severity: str | None = None
    """Error, Warning or Info."""
    reason: str | None = None
    message: str | None = None
    last_transition_time: Timestamp


class ClusterAddonStatus(Model):
    resources: list[AppliedResource] | None = None
    stages: list[Stage] | None = None
    ready: bool = False
    conditions: list[Condition] | None = None
    """`Ready` sums up all others."""
    release: str | None = None
    """The cluster stack that the conditions and `ready` are about: the class that the Cluster had at the last look."""
    rollback_from: str | None = None
    """The same while a rollback from it is asked for."""
    observed_generation: Int64 | None = None
    digest: str | None = None
    """Names the latest rollout, by what it applies: one that was interrupted is resumed, not begun again."""
    kubernetes_version: str | None = None
    """The live version that charts were told; absent where none of them asks. When the cluster has another, they
    are rendered again."""
    history: list[Applied] | None = None
    """The newest first; their manifests are in the Secret `<name>-manifests`, for a rollback."""
    drift: list[str] | None = None
    """What was found changed in the workload cluster at the last look, where it is only reported."""


class ClusterAddon(Model):
    """The addons of one workload cluster."""

    spec: ClusterAddonSpec | None = None
    status: ClusterAddonStatus | None = None


CLUSTER_ADDON = CustomResource(
    resource=resources.CLUSTER_ADDON,
    root=ClusterAddon,
    short_name="caddon",
    columns=(
        Column("Cluster", '.metadata.ownerReferences[?(@.kind=="Cluster")].name'),
        Column("Release", ".status.release"),
        Column("Applied", ".spec.clusterStack", wide=True),
        Column("Ready", ".status.ready", "boolean"),
        AGE,
        Column("Reason", ".status.conditions[?(@.type=='Ready')].reason"),
        Column("Message", ".status.conditions[?(@.type=='Ready')].message"),
    ),
)
