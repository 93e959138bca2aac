"""The page of annotations and labels: names, values, and what they do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from functions.cluster_stack_release.ownership import STACK_LABEL
from functions.kind_cluster.observe import MANAGED_BY_ANNOTATION
from shared import watch_filter
from shared.api import core, hooks, names, resource_set
from shared.api.cluster import CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, OK_TO_DELETE_ANNOTATION, PAUSED_ANNOTATION
from shared.api.provider import PROVIDER_LABEL
from shared.applier import cascade, policy
from shared.components.repositories import config_maps
from shared.download import access as download
from shared.helm_charts import access as charts
from shared.helm_proxies.names import HCP_NAME_LABEL, INSTALLED, RELEASE_NAME_GENERATED
from shared.providers import annotations as provider
from shared.providers.source_resolution import SOURCE_ANNOTATION

from .markdown import HEAD, table

_HEAD = f"""{HEAD}# Annotations and labels

An invalid value, or a misspelled name that resembles a policy, stops the rollout with reason `InvalidAnnotation`; the
objects stay unchanged.
"""


class Mark(NamedTuple):
    """An annotation or a label."""

    name: str
    on: str
    """The kinds of objects that have it."""
    values: str
    meaning: str
    """The meaning, in Markdown with links from docs/reference."""


def _choices(name: str) -> str:
    first, *others = policy.CHOICES[name]
    return ", ".join([f"`{first}` (default)", *(f"`{value}`" for value in others)])


_ADDONS = "Cluster, ClusterAddon"
_APPLIED = "Cluster, ClusterAddon, provider"

POLICIES = (
    Mark(
        f"{policy.PREFIX}conflicts",
        _APPLIED,
        _choices("conflicts"),
        "For a field of another manager: `force` takes it over; `fail` fails the object, with manager and field in the "
        "message; `yield` leaves it and applies the other fields. The event `FieldConflicts` names the fields.",
    ),
    Mark(
        f"{policy.PREFIX}drift",
        _ADDONS,
        _choices("drift"),
        "Changes of applied objects by others: `ignore` does not detect them; `report` lists them in `status.drift` "
        "and "
        "the event `DriftFound`; `repair` also reverts them. Drift is checked every ten minutes with the forwarder, "
        "each "
        "cluster at its own time, and hourly with Knative's timers.",
    ),
    Mark(
        f"{policy.PREFIX}drift-ignore",
        _ADDONS,
        "paths, separated by commas",
        "Fields that may differ: `spec.replicas`, `Deployment:spec.replicas`, `ConfigMap/ns/name:data.key`. A new "
        "version "
        "of an object still writes these fields.",
    ),
    Mark(
        policy.RECREATE,
        f"{_ADDONS}, object of a chart",
        _choices("recreate"),
        "An object with a changed immutable field is deleted and created again. Kinds that hold data (Namespace, "
        "CustomResourceDefinition, PersistentVolume, PersistentVolumeClaim) need the annotation on the object itself.",
    ),
    Mark(
        f"{policy.PREFIX}prune-crds",
        _ADDONS,
        _choices("prune-crds"),
        "A CRD that a release drops is deleted even if other owners have objects of its kind.",
    ),
    Mark(
        f"{policy.PREFIX}wait",
        _APPLIED,
        _choices("wait"),
        "`true`: addons are ready when all their objects are, and `Ready` follows the health of Deployments, "
        "StatefulSets "
        "and DaemonSets afterwards. The health is checked every ten minutes with the forwarder (`--resync`), hourly "
        "with "
        "Knative's timers, and every 5 s while they are not ready. `false`: addons are ready as soon as all objects "
        "are "
        "applied, and the rollout of a provider does not wait for its workloads.",
    ),
    Mark(
        f"{policy.PREFIX}wait-timeout",
        _APPLIED,
        "seconds, 1 to 86400 (default 600)",
        "How long objects may take to become ready before `ObjectsNotReady` is reported. For a provider: how long "
        "after "
        "the beginning of a rollout webhooks wait for their backends.",
    ),
    Mark(
        cascade.KEEP,
        "object of a chart",
        "`keep`",
        "The object stays in the cluster when a release drops it, together with its namespace and the CRD of its kind, "
        "even if `prune-crds` is `true`.",
    ),
)
REQUESTS = (
    Mark(PAUSED_ANNOTATION, "each kind", "any", "The object is not reconciled; this includes its deletion."),
    Mark(
        names.REMOVE_ANNOTATION,
        "Cluster",
        _choices("remove-addons"),
        "Everything that was applied is removed, and nothing is applied. Set by "
        "[`addons remove`](../operations.md#remove-addons-remove).",
    ),
    Mark(
        names.ROLLBACK_ANNOTATION,
        "ClusterAddon",
        "a class",
        "The class that the addons were rolled back from, which is not applied again. Set by `rollback`.",
    ),
    Mark(
        core.CORE_ANNOTATION,
        "Cluster",
        "`ignore`",
        "Functions reconcile the Cluster even if Cluster API core manages it; see [Clusters](../cluster.md).",
    ),
    Mark(
        hooks.CLEANUP_ANNOTATION,
        "Cluster",
        "`false`",
        "Load balancers and volumes are not [cleaned up](../hooks.md) before the deletion.",
    ),
    Mark(
        OK_TO_DELETE_ANNOTATION,
        "Cluster",
        "any",
        "Cluster API core sets it when the deletion may begin. Functions wait for it if core manages the Cluster.",
    ),
    Mark(
        names.CERTIFICATES_ANNOTATION,
        "Cluster",
        "names, separated by commas; empty: `ca,etcd,proxy,sa`",
        "The [certificates of the control plane](../kubeconfig.md) to generate.",
    ),
    Mark(
        names.RENEW_ANNOTATION,
        "Cluster",
        "days; 0: never",
        "How long before its expiry the [kubeconfig](../kubeconfig.md) is renewed.",
    ),
    Mark(
        names.REGENERATE_ANNOTATION,
        "Cluster",
        "any",
        "Requests a new kubeconfig. The annotation is removed when the kubeconfig exists.",
    ),
    Mark(
        names.ADOPT_ANNOTATION,
        "ClusterStackRelease",
        "`true`",
        "The release takes over existing objects that belong to no stack; see [cluster "
        "stacks](../cluster-stacks.md#whose-objects-are-overwritten-and-deleted).",
    ),
    Mark(
        download.HOSTS,
        "Secret with credentials",
        "hosts, separated by spaces or commas",
        "The hosts that may get the credentials, with a port if it is not 443.",
    ),
    Mark(
        charts.NAMESPACES,
        "Secret with credentials",
        "namespaces, separated by spaces or commas; `*`: all",
        "The other namespaces whose HelmReleaseProxies may use the Secret.",
    ),
    Mark(
        watch_filter.LABEL,
        "Cluster, KINDCluster (label)",
        "a text",
        "An installation with this [watch filter](../installation.md#watch-filter) reconciles only objects with its "
        "value.",
    ),
    Mark(
        MANAGED_BY_ANNOTATION,
        "KINDCluster",
        "any",
        "Another program manages the object: functions leave it alone.",
    ),
)
PROVIDERS = (
    Mark(
        provider.WEBHOOKS,
        "provider",
        "`install` (default), `none`, a URL",
        "`none`, for clusters that do not run its pods: webhook configurations are not applied, and CRDs have no "
        "conversion webhook (a field that only one version has is lost in the other). A URL such as "
        "`https://localhost:9443` or `https://[::1]:9443`: the API server calls a manager that runs beside it at this "
        "URL.",
    ),
    Mark(
        provider.CERTIFICATES,
        "provider",
        ", ".join(f"`{issuer}`" for issuer in provider.ISSUERS),
        "The issuer of the serving certificates. Default: cert-manager if its kinds are served, else own.",
    ),
    Mark(
        provider.FORCE_DELETE,
        "provider",
        "`true`",
        "The provider is [deleted](../providers.md#conditions-and-annotations) with all objects of its kinds.",
    ),
    Mark(
        provider.KEEP_DOWNLOAD,
        "provider",
        ", ".join(f"`{place}`" for place in provider.DOWNLOADS),
        "Downloaded components are also written to a ConfigMap in the provider's namespace.",
    ),
    Mark(
        config_maps.COMPRESSED,
        "ConfigMap with components",
        "`true`",
        "The components are [compressed](../providers.md).",
    ),
    Mark(
        config_maps.VERSION,
        "ConfigMap with components (label)",
        "a version",
        "The version of the provider whose components these are. Default: the name of the ConfigMap.",
    ),
)
RECORDS = (
    Mark(provider.RETRIED, "provider", "a time", "A command that waits has made the functions try again at this time."),
    Mark(SOURCE_ANNOTATION, "ConfigMap with components", "a URL", "The place that the version was downloaded from."),
    Mark(names.STAGE_ANNOTATION, "ClusterAddon", "`created`, `upgraded`", "The last operation on the addons."),
    Mark(
        names.SUCCESSOR_ANNOTATION,
        "ClusterAddon",
        "`true`",
        "The ClusterAddon was created later than its Cluster, possibly after an earlier ClusterAddon.",
    ),
    Mark(
        hooks.WAIT_ANNOTATION,
        "ClusterAddon",
        "hook, target, time",
        "The [hook](../hooks.md) that waits, and since when.",
    ),
    Mark(
        resource_set.OWNED_SOURCES,
        "ClusterResourceSet",
        "`ConfigMap/one Secret/two`",
        "The sources that the set owns or is about to own.",
    ),
    Mark(
        INSTALLED,
        "HelmReleaseProxy",
        "any",
        "The release has been installed; as in Cluster API Addon Provider Helm.",
    ),
    Mark(RELEASE_NAME_GENERATED, "HelmReleaseProxy", "`true`", "The name of the release is generated."),
    Mark(
        HCP_NAME_LABEL, "HelmReleaseProxy (label)", "a name", "The HelmChartProxy that the HelmReleaseProxy belongs to."
    ),
    Mark(
        names.OWNED_LABEL,
        "applied object (label)",
        f"`{names.OWNED}`",
        "The object was applied for a ClusterAddon, a ClusterStackRelease or a provider.",
    ),
    Mark(STACK_LABEL, "applied object (label)", "a stack", "The cluster stack whose class chart contains the object."),
    Mark(
        PROVIDER_LABEL, "applied object (label)", "`infrastructure-docker`", "The provider that the object belongs to."
    ),
    Mark(CLUSTER_NAME_LABEL, "object of a Cluster (label)", "a name", "The Cluster that the object belongs to."),
    Mark(CONTROL_PLANE_LABEL, "Machine (label)", "any", "The Machine is a part of the control plane."),
)
SECTIONS = {
    "How objects are applied": POLICIES,
    "Requests and permissions": REQUESTS,
    "Providers": PROVIDERS,
    "Records of functions and commands": RECORDS,
}


def page() -> str:
    """Returns the text of the page."""
    return _HEAD + "".join(f"\n## {title}\n\n{_rows(marks)}" for title, marks in SECTIONS.items())


def _rows(marks: Iterable[Mark]) -> str:
    rows = ((f"`{mark.name}`", mark.on, mark.values, mark.meaning) for mark in marks)
    return table(("annotation or label", "on", "values", "meaning"), rows)
