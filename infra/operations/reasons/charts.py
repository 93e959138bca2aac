"""The reasons of HelmChartProxies, HelmReleaseProxies and ClusterResourceSets."""

from __future__ import annotations

from .reason import Reason

REASONS = (
    *(
        Reason(
            kind,
            "Ready",
            ("IssuesReported", "UnknownReported"),
            "one of the conditions that the message names is not True",
            f"`describe {command} NAME`, and the reason of that condition",
        )
        for kind, command in (("HelmChartProxy", "charts"), ("HelmReleaseProxy", "helm-releases"))
    ),
    Reason(
        "HelmChartProxy",
        "HelmReleaseProxySpecsUpToDate",
        ("ClusterSelectionFailed",),
        "`spec.clusterSelector` is not valid, or the Clusters cannot be listed",
        "correct the selector, or follow the message",
    ),
    Reason(
        "HelmChartProxy",
        "HelmReleaseProxySpecsUpToDate",
        ("ValueParsingFailed",),
        "`spec.valuesTemplate` fails for a Cluster, or gives no YAML; the message names the Cluster",
        "correct the template, or the fields of the Cluster that it reads",
    ),
    Reason(
        "HelmChartProxy",
        "HelmReleaseProxySpecsUpToDate",
        ("HelmReleaseProxySpecsUpdating",),
        "HelmReleaseProxies are being created or changed",
        "wait",
    ),
    Reason(
        "HelmChartProxy",
        "HelmReleaseProxySpecsUpToDate",
        ("HelmReleaseProxyCreationFailed",),
        "the API server rejects a HelmReleaseProxy; the message names the Cluster",
        "follow the message; the creation is retried",
    ),
    Reason(
        "HelmChartProxy",
        "HelmReleaseProxySpecsUpToDate",
        ("HelmReleaseProxyDeletionFailed",),
        "a HelmReleaseProxy of a Cluster that is no longer selected cannot be deleted",
        "follow the message; the deletion is retried",
    ),
    Reason(
        "HelmChartProxy",
        "HelmReleaseProxySpecsUpToDate",
        ("HelmReleaseProxyReinstalling",),
        "a change of chart, name or namespace needs a new release: the old one is being uninstalled",
        "wait",
    ),
    Reason(
        "HelmChartProxy",
        "HelmReleaseProxySpecsUpToDate",
        ("RolloutWaiting",),
        "clusters wait for their partition, for others to become ready, or for a dependency",
        "see `rollout status`; make the clusters that are not ready healthy",
    ),
    Reason(
        "HelmChartProxy",
        "HelmReleaseProxySpecsUpToDate",
        ("RolloutPaused",),
        "`rolloutStrategy.paused` is true",
        "`rollout resume`",
    ),
    Reason(
        "HelmChartProxy",
        "HelmReleaseProxySpecsUpToDate",
        ("DependencyCycle",),
        "the HelmChartProxies in the message depend on each other",
        "remove one of the dependencies",
    ),
    Reason(
        "HelmChartProxy",
        "RolloutStrategyAccepted",
        ("InvalidWindow",),
        "a window of `rolloutStrategy` has an invalid schedule, duration or time zone, and never opens",
        "correct the window; the message names the field",
    ),
    Reason(
        "HelmChartProxy",
        "RolloutStrategyAccepted",
        ("PartitionsDoNotFit",),
        "a partition of `rolloutStrategy` selects no Cluster, or two select the same Cluster",
        "correct the selectors of the partitions",
    ),
    Reason(
        "HelmReleaseProxy",
        "ClusterAvailable",
        ("NotAvailable",),
        "the control plane of the Cluster is not initialized",
        "wait, or check the Cluster with `describe cluster`",
    ),
    Reason(
        "HelmReleaseProxy",
        "ClusterAvailable",
        ("GetClusterFailed",),
        "the Cluster does not exist, or cannot be read",
        "create the Cluster, or delete the HelmReleaseProxy",
    ),
    Reason(
        "HelmReleaseProxy",
        "ClusterAvailable",
        ("GetKubeconfigFailed",),
        "the kubeconfig Secret is missing or invalid, or the workload API server does not answer",
        "check the Secret `<cluster>-kubeconfig` and the network",
    ),
    Reason(
        "HelmReleaseProxy",
        "HelmReleaseReady",
        ("PreparingToHelmInstall",),
        "the chart is being fetched, or the release is about to be installed",
        "wait",
    ),
    Reason(
        "HelmReleaseProxy",
        "HelmReleaseReady",
        ("HelmReleasePending",),
        "the operation is in progress, or its objects are not ready yet",
        "wait; the message names the objects",
    ),
    Reason(
        "HelmReleaseProxy",
        "HelmReleaseReady",
        ("HelmReleaseGetFailed",),
        "the record of the release in the workload cluster cannot be read",
        "follow the message",
    ),
    Reason(
        "HelmReleaseProxy",
        "HelmReleaseReady",
        ("HelmInstallOrUpgradeFailed",),
        "the chart cannot be fetched or rendered, or the workload cluster rejects an object",
        "follow the message; correct the chart, its values or its options",
    ),
    Reason(
        "HelmReleaseProxy",
        "HelmReleaseReady",
        ("HelmReleaseDeletionFailed",),
        "the release cannot be uninstalled; the message has the error",
        "follow the message; the deletion is retried",
    ),
    Reason(
        "ClusterResourceSet",
        "ResourcesApplied",
        ("WrongSecretType",),
        "a Secret among the resources has another type than `addons.cluster.x-k8s.io/resource-set`",
        "create the Secret with this type, because the type of a Secret is immutable",
    ),
    Reason(
        "ClusterResourceSet",
        "ResourcesApplied",
        ("NotApplied",),
        "a workload cluster does not answer yet, or rejects an object",
        "wait, or follow the message",
    ),
    Reason(
        "ClusterResourceSet",
        "ResourcesApplied",
        ("InternalError",),
        "a ConfigMap or Secret does not exist, the selector is invalid, or a cluster cannot be connected to",
        "create the source, or follow the message",
    ),
)
