"""The reasons of ClusterAddons, and of references of a Cluster."""

from __future__ import annotations

from .reason import Reason

REASONS = (
    Reason(
        "ClusterAddon",
        "ClusterReady",
        ("ControlPlaneNotReady",),
        "no kubeconfig Secret yet, or the workload API server does not answer or rejects the credentials",
        'wait; if the message is "No program has reconciled this Cluster" (the Cluster has `Available=Unknown` with '
        "the reason `NotReconciled`), start a Cluster API core, or choose a profile with `cluster`; if the condition "
        "persists, check the infrastructure with `describe`, and the Secret `<cluster>-kubeconfig`",
    ),
    Reason(
        "ClusterAddon",
        "ClusterReady",
        ("Paused",),
        "the Cluster is paused",
        "resume it",
    ),
    Reason(
        "ClusterAddon",
        "ClusterStackReleaseDownloaded",
        ("ReleaseAssetsNotDownloadedYet",),
        "the release is being fetched into object storage",
        "wait",
    ),
    Reason(
        "ClusterAddon",
        "ClusterStackReleaseDownloaded",
        ("IssueWithReleaseAssets",),
        "the fetch failed, or the release is incomplete; the message has the reason of the last attempt",
        "publish or fix the release, or give the Cluster another class; the fetch is retried",
    ),
    Reason(
        "ClusterAddon",
        "ClusterStackReleaseDownloaded",
        ("ReleaseNotShared",),
        "the class is in another namespace, whose ClusterStack has its own sources and does not share them with "
        "this namespace",
        "list this namespace in `spec.allowedNamespaces` of that ClusterStack, or use another class",
    ),
    Reason(
        "ClusterAddon",
        "ClusterStackReleaseDownloaded",
        ("NoClusterStack",),
        "the class belongs to no cluster stack; the addons stay unchanged",
        "nothing, or use another class",
    ),
    Reason(
        "ClusterAddon",
        "ClusterAddonConfigValidated",
        ("ParsingClusterAddonConfigFailed",),
        "`clusteraddon.yaml` of the release is not valid; the message names the path",
        "fix the release, or use another",
    ),
    Reason(
        "ClusterAddon",
        "ClusterAddonConfigValidated",
        ("InvalidAnnotation",),
        "an annotation above has an invalid value or a misspelled name",
        "correct it",
    ),
    Reason(
        "ClusterAddon",
        "HelmChartTemplated",
        ("TemplateNewClusterStackFailed",),
        "the chart or its values template fails, or an object that the Cluster refers to does not exist",
        "`capi-functions render` shows the same without a cluster; fix the Cluster, or publish the mended release "
        "as a new version and give the Cluster its class: a release that was fetched [stays as it "
        "is](releases.md#storage)",
    ),
    Reason(
        "ClusterAddon",
        "GeneratedValuesKept",
        ("RenderNotRepeatable",),
        "True: fields of the release differ in each rendering (passwords, certificates, dates); the message names them",
        "nothing: see [what a chart generates or looks up](releases.md#what-charts-generate-and-look-up)",
    ),
    Reason(
        "ClusterAddon",
        "GeneratedValuesKept",
        ("TooLarge",),
        "such fields do not fit into a Secret, so that each rollout writes other values",
        "generate less in the chart, or look up the generated values in it",
    ),
    Reason(
        "ClusterAddon",
        "EvaluatedCEL",
        ("FailedToEvaluatePreCondition", "FailedToEvaluatePostCondition"),
        "a stage waits for its condition, or (severity `Error`) the expression itself fails",
        "check the objects in the expression; fix an expression that fails in the release",
    ),
    Reason(
        "ClusterAddon",
        "EvaluatedCEL",
        ("PreConditionOverdue", "PostConditionOverdue"),
        "the condition is not met within the timeout of the stage",
        "check the objects, or use another release, which starts with its first stage",
    ),
    Reason(
        "ClusterAddon",
        "HelmChartApplied",
        ("ObjectsApplyingOngoing",),
        "objects are being applied, or hooks (Jobs) have to complete first",
        "wait; a failed Job is listed among the objects",
    ),
    Reason(
        "ClusterAddon",
        "HelmChartApplied",
        ("TooManyObjects",),
        "the status cannot hold an inventory of so many objects; nothing was changed. The message has the numbers",
        "divide the chart, and install some of its objects by other means; see [the "
        "limits](scaling.md#the-limits-of-one-api-server)",
    ),
    Reason(
        "ClusterAddon",
        "HelmChartApplied",
        ("FailedToApplyObjects",),
        "some objects could not be applied; `status.resources` and `describe` have the error of each. Nothing is "
        "pruned until all are applied",
        "follow the message: often `conflicts`, `recreate`, or a chart without its CRD. `plan` previews the next "
        "attempt",
    ),
    Reason(
        "ClusterAddon",
        "HelmChartApplied",
        ("RollingBack", "RolledBack"),
        "a rollback is in progress, or complete",
        "`rollback --undo`, or use another class",
    ),
    Reason(
        "ClusterAddon",
        "HelmChartApplied",
        ("RollbackFailed",),
        "there is no manifest to roll back to, or it is damaged",
        "`rollback --undo`, and use another class",
    ),
    Reason(
        "ClusterAddon",
        "HelmChartApplied",
        ("RemovingAddons", "AddonsRemoved"),
        "a removal is in progress, or complete",
        "`addons remove --undo`",
    ),
    Reason(
        "ClusterAddon",
        "ObjectsReady",
        ("WaitingForObjects",),
        "all objects are applied; some are not ready",
        "wait",
    ),
    Reason(
        "ClusterAddon",
        "ObjectsReady",
        ("ObjectsNotReady",),
        "they are not ready after `wait-timeout`",
        'check them in the workload cluster; `rollback`, or `wait: "false"` if they cannot become ready',
    ),
    Reason(
        "Cluster",
        "",
        ("ObjectDoesNotExist",),
        "the object does not exist (yet); of a Cluster with a topology: the reference is not set",
        "create the object; run Cluster API core with its feature gate `ClusterTopology`, or set the references",
    ),
    Reason(
        "Cluster",
        "",
        ("ObjectDeleted",),
        "the object was deleted, the Cluster was not",
        "restore it, or delete the Cluster",
    ),
    Reason(
        "Cluster",
        "",
        ("KindNotServed",),
        "the API server does not serve the kind",
        "install the provider. A deletion continues once the kind is served, or no CRD defines it",
    ),
    Reason(
        "Cluster",
        "",
        ("ReferenceNotAllowed",),
        "the reference is to a cluster-scoped object, an object of a built-in kind, or an object of another Cluster",
        "refer to an object of this Cluster; the referenced one is neither changed nor deleted with the Cluster",
    ),
    Reason(
        "Cluster",
        "",
        ("InternalError",),
        "the object, or an object that belongs to the Cluster, could not be read; the message says why",
        "follow the message",
    ),
    Reason(
        "Cluster",
        "Deleting",
        ("WaitingForClusterAPI",),
        "Cluster API core manages the Cluster and has not reacted to its deletion, for less than ten minutes so far",
        "wait, or start core",
    ),
)
