"""The page of the Kubernetes events that belong to no condition."""

from __future__ import annotations

from typing import Literal, NamedTuple

from .markdown import HEAD, table

_HEAD = f"""{HEAD}# Kubernetes events

`kubectl describe` and [`capi-functions events`](../operations.md#events) show them. Most [reasons of
conditions](reasons.md) are also recorded as events, when they occur and when their message changes. Repeating an event
increments the count of the first. The following events belong to no condition. CloudEvents, which start functions, are
on [another page](../triggers.md).

"""


class Recorded(NamedTuple):
    """A Kubernetes event."""

    reason: str
    type: Literal["Normal", "Warning"]
    on: str
    """The kind of the object."""
    meaning: str


EVENTS = (
    Recorded("StageDone", "Normal", "ClusterAddon", "A stage is complete."),
    Recorded(
        "AddonsReady",
        "Normal",
        "ClusterAddon",
        "All objects are ready that the rollout had to wait for; not recorded if it did not wait.",
    ),
    Recorded("AddonsApplied", "Normal", "ClusterAddon", "Objects of an applied release were written or pruned again."),
    Recorded("ObjectsKept", "Normal", "ClusterAddon", "Objects that a release dropped stay in the cluster."),
    Recorded(
        "ManifestNotKept",
        "Warning",
        "ClusterAddon",
        "The manifest of a release is too large to be stored, or its Secret has another owner, so a rollback to this "
        "release is not possible.",
    ),
    Recorded("FieldConflicts", "Normal", "ClusterAddon", "Fields of other managers, with the managers."),
    Recorded("DriftFound", "Warning", "ClusterAddon", "Objects that others changed in the workload cluster."),
    Recorded(
        "InventoryLost",
        "Warning",
        "ClusterAddon",
        "A moved Cluster came without the manifest of its addons. Objects that the next release does not contain stay "
        "in the workload cluster.",
    ),
    Recorded(
        "ManagedByClusterAPI",
        "Normal",
        "Cluster, ClusterResourceSet",
        "Cluster API core runs and reconciles the object, so functions leave it alone.",
    ),
    Recorded(
        "ClusterAPIGone", "Warning", "Cluster", "Core managed the Cluster and runs no more: functions reconcile it."
    ),
    Recorded(
        "KindNotWatched",
        "Warning",
        "Cluster",
        "No event source watches a kind that the Cluster refers to: apply the output of `capi-functions sources`.",
    ),
    Recorded(
        "NotReconciled",
        "Warning",
        "Cluster",
        "No program has reconciled the Cluster since its creation: start a Cluster API core, or the function "
        "`cluster`.",
    ),
    Recorded("InfrastructureReady", "Normal", "Cluster", "The infrastructure is provisioned."),
    Recorded("ControlPlaneInitialized", "Normal", "Cluster", "The control plane is initialized."),
    Recorded("Provisioning", "Normal", "Cluster", "The phase of the Cluster; so are `Provisioned` and `Deleting`."),
    Recorded(
        "ChartsNotUninstalled",
        "Warning",
        "Cluster",
        "The Cluster is deleted although [charts](../helm-charts.md) of it could not be uninstalled in time.",
    ),
    Recorded("KubeconfigGenerated", "Normal", "Cluster", "The Secret with the kubeconfig was created."),
    Recorded("KubeconfigRenewed", "Normal", "Cluster", "The Secret with the kubeconfig was renewed, with the cause."),
    Recorded(
        "CertificatesGenerated", "Normal", "Cluster", "Secrets with certificates of the control plane were created."
    ),
    Recorded("ClusterCreated", "Normal", "KINDCluster", "The cluster runs, with its address and version."),
    Recorded("ClusterNotCreated", "Warning", "KINDCluster", "The cluster cannot be created, with the cause."),
    Recorded("ClusterStackReleaseCreated", "Normal", "ClusterStack", "A release was found and its object created."),
    Recorded(
        "ClusterStackReleaseDeleted", "Normal", "ClusterStack", "The object of a release is obsolete and not used."
    ),
    Recorded("ClusterStackReleaseReady", "Normal", "ClusterStackRelease", "The classes of the release are applied."),
    Recorded("ReleaseDeployed", "Normal", "HelmReleaseProxy", "A revision of the release is installed."),
    Recorded(
        "ObjectsTakenOver",
        "Warning",
        "provider",
        "Objects that existed before belong to the provider now, and are deleted with it.",
    ),
    Recorded(
        "EventNotHandled",
        "Warning",
        "each kind",
        "A function did not handle an event about the object: see [dead letters](../operations.md#dead-letters).",
    ),
    Recorded(
        "ReconcileFailed",
        "Warning",
        "each kind",
        "The API server rejects a write of a function, with its message.",
    ),
    Recorded(
        "BeforeClusterUpgradeOverdue",
        "Warning",
        "ClusterAddon",
        "The deadline of a [hook](../hooks.md) has passed: Cluster API continues. The reason begins with the name of "
        "the hook.",
    ),
)


def page() -> str:
    """Returns the text of the page."""
    rows = ((f"`{event.reason}`", event.type, event.on, event.meaning) for event in EVENTS)
    return _HEAD + table(("event", "type", "on", "meaning"), rows)
