"""The reasons of ClusterStacks and their releases."""

from __future__ import annotations

from .reason import Reason

REASONS = (
    Reason(
        "ClusterStack",
        "AssetsClientAPIAvailable",
        ("FailedCreateAssetsClient",),
        "the source of releases is not configured, or its Secret is missing or invalid",
        "set `spec.sources`, or the setting `RELEASE_SOURCE`; the message names what is missing",
    ),
    Reason(
        "ClusterStack",
        "ReleasesSynced",
        ("FailedToSync",),
        "the source of releases does not answer, or rejects the credentials",
        "follow the message; the source is read again by itself, and by `resync stacks`",
    ),
    Reason(
        "ClusterStack",
        "ProviderClusterStackReleasesSynced",
        ("ProviderTemplateNotFound",),
        "the template in `spec.providerRef` does not exist",
        "create the template, or correct the reference",
    ),
    Reason(
        "ClusterStack",
        "",
        ("FailedToCreateOrUpdate",),
        "the API server rejects an object of a release, or it exists with another owner, or `spec.versions` has "
        "an invalid version",
        "follow the message",
    ),
    Reason(
        "ClusterStack",
        "ClusterStackReleasesSynced",
        ("TooManyReleases",),
        "more releases are selected than a ClusterStack may have",
        "set `spec.autoSubscribe` to false, and list the wanted releases in `spec.versions`",
    ),
    Reason(
        "ClusterStack",
        "ClusterStackReleaseAvailable",
        ("NoReleaseReady",),
        "no release is ready yet",
        "see `status.summary`, and `release list`",
    ),
    Reason(
        "ClusterStack or ClusterStackRelease",
        "",
        ("Deleting",),
        "the object is being deleted, and waits for the objects that belong to it",
        "wait; the message names them",
    ),
    Reason(
        "ClusterStackRelease",
        "ClusterStackReleaseDownloaded",
        ("ReleaseAssetsNotDownloadedYet",),
        "the release is being fetched into object storage",
        "wait",
    ),
    Reason(
        "ClusterStackRelease",
        "ClusterStackReleaseDownloaded",
        ("IssueWithReleaseAssets",),
        "the fetch failed, or the release is incomplete",
        "publish or fix the release; the fetch is retried",
    ),
    Reason(
        "ClusterStackRelease",
        "ProviderClusterStackReleaseReady",
        ("ProcessOngoing",),
        "the provider's object of the release does not report `status.ready: true` yet",
        "wait, or check that object and its controller",
    ),
    Reason(
        "ClusterStackRelease",
        "HelmChartApplied",
        ("ObjectsApplyingOngoing",),
        "objects of the class chart are being applied, or the API server rejects some",
        "wait, or follow the message",
    ),
    Reason(
        "ClusterStackRelease",
        "HelmChartDeleted",
        ("ClusterClassInUse",),
        "the release is to be deleted, and Clusters use its class; the message names them",
        "give these Clusters another class, or delete them",
    ),
    Reason(
        "ClusterStackRelease",
        "HelmChartDeleted",
        ("ClustersNotReadable",),
        "the function cannot list Clusters, so the class may be in use",
        "follow the message; the deletion is retried",
    ),
    Reason(
        "ClusterStackRelease",
        "HelmChartDeleted",
        ("FailedToDeleteObjects",),
        "objects of the release cannot be deleted",
        "follow the message; the deletion is retried",
    ),
)
