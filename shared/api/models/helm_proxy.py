"""HelmChartProxy and HelmReleaseProxy: a Helm chart in the workload clusters that a selector matches.

All fields of Cluster API Addon Provider Helm exist. Further fields are optional. Rules that its webhook
checks are validation rules here.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from shared.api import resources
from shared.api.provider import COMPONENT_LABEL

from .cluster_addon import AppliedResource, ObjectReference
from .custom_resource import AGE, Column, CustomResource, Int64, Model, rule, rules
from .label_selector import LabelSelector
from .rollout import Condition, RolloutStatus, RolloutStrategy

_ATOMIC_MAP: JsonDict = {"x-kubernetes-map-type": "atomic"}
_LABELS = {COMPONENT_LABEL: "", "visualizer.cluster.x-k8s.io": ""}
"""For `clusterctl move`, and for visualizers. The label of a provider would say that clusterctl manages these CRDs."""
_URL = "self.matches('^(?:[hH][tT][tT][pP][sS]|oci)://[^/?#:@]')"
_URL_MESSAGE = "repoURL must start with https:// or oci:// and contain a host"
_OF = "(has({0}.reconcileStrategy) ? {0}.reconcileStrategy : '')"
_UNCHANGED = f"{_OF.format('self')} == {_OF.format('oldSelf')}"
_UP_TO_A_DAY = "duration(self) >= duration('0s') && duration(self) <= duration('24h')"
_UP_TO_A_DAY_MESSAGE = "timeout must be a duration of at most 24h, such as 10m"
# CEL reserves the word `namespace`, so a field of that name is escaped.
_NAMESPACE = "(has({0}.__namespace__) && {0}.__namespace__ != '' ? {0}.__namespace__ : 'default')"
_SAME_NAMESPACE = f"{_NAMESPACE.format('self')} == {_NAMESPACE.format('oldSelf')}"
_OF_RELEASE = "cannot change: change the HelmChartProxy"
_STRATEGY = "spec.reconcileStrategy cannot change: delete the HelmChartProxy and create it again"


class SecretReference(Model):
    """A Secret; the namespace is by default the namespace of the HelmChartProxy."""

    model_config = ConfigDict(json_schema_extra=_ATOMIC_MAP)

    name: str | None = None
    namespace: str | None = None


class Credentials(Model):
    """Credentials for the repository."""

    secret: SecretReference
    key: str
    """The key of a Docker `config.json` in the Secret; `config.json` if it is empty."""


class TLSConfig(Model):
    """How the certificate of the repository is checked."""

    ca_secret: SecretReference | None = None
    """A Secret with the key `ca.crt`."""
    insecure_skip_tls_verify: bool | None = Field(None, alias="insecureSkipTLSVerify")
    """Accepts any certificate."""


class InstallOptions(Model):
    """Options of installations."""

    create_namespace: bool = True
    """Creates the release namespace if it does not exist. It is never deleted."""
    include_crds: bool | None = Field(None, alias="includeCRDs")
    """Makes the objects of the folder `crds/` part of the release, so that upgrades change them. They are never
    deleted."""


class UpgradeOptions(Model):
    """Options of upgrades."""

    force: bool | None = None
    """Deletes and recreates objects whose change the API server rejects as immutable."""
    reset_values: bool | None = None
    reuse_values: bool | None = None
    reset_then_reuse_values: bool | None = None
    recreate: bool | None = None
    """Has no effect: Helm no longer has this option."""
    max_history: int = 10
    """How many revisions of the release are stored; 0 is no limit."""
    cleanup_on_fail: bool | None = None
    """Has no effect: a failed upgrade is continued."""


class UninstallOptions(Model):
    """Options of uninstallations."""

    keep_history: bool | None = None
    """Keeps the records of the release."""
    description: str | None = None
    """A text for the record of the release."""


class HelmOptions(Model):
    """Options of Helm's actions. A change of options alone makes no new revision."""

    disable_hooks: bool | None = None
    wait: bool | None = None
    """Waits until the objects are ready, or gone."""
    wait_for_jobs: bool | None = None
    dependency_update: bool | None = None
    """Has no effect: charts in repositories contain their dependencies."""
    timeout: str | None = None
    """The limit of each wait and each hook, as in `10m` (the default)."""
    skip_crds: bool | None = Field(None, alias="skipCRDs")
    """Does not create the objects of the folder `crds/`."""
    options: bool | None = None
    """Has no effect: the record has no notes of subcharts."""
    disable_open_api_validation: bool | None = Field(None, alias="disableOpenAPIValidation")
    """Has no effect: the API server checks all fields of server-side apply."""
    atomic: bool | None = None
    """Implies `wait`. A failed installation is removed, and a failed upgrade rolled back; neither is tried again with
    the same chart, values and options."""
    enable_client_cache: bool = False
    """Has no effect: each chart is fetched once."""
    take_ownership: bool | None = None
    """Takes over objects that exist and do not belong to the release."""
    install: InstallOptions | None = None
    upgrade: UpgradeOptions | None = None
    uninstall: UninstallOptions | None = None


class ValuesSource(Model):
    """Values of the chart in a ConfigMap or Secret of the namespace of the HelmChartProxy."""

    kind: Literal["ConfigMap", "Secret"]
    name: str = Field(min_length=1, max_length=1024)
    """A Go template with the roots of `valuesTemplate`, so that each cluster can have values of its own, as in
    `values-{{ .Cluster.metadata.name }}`."""
    key: str = Field("values.yaml", min_length=1, max_length=253)
    optional: bool | None = None
    """Whether the values are left out if the object or the key does not exist."""


class ClusterDeletion(Model):
    """Whether the chart is uninstalled before a Cluster is deleted."""

    policy: Literal["Leave", "Uninstall"]
    """`Leave` deletes the Cluster with the chart in it (default). `Uninstall` uninstalls the chart first."""
    timeout: str | None = Field(None, max_length=32, json_schema_extra=rule(_UP_TO_A_DAY, _UP_TO_A_DAY_MESSAGE))
    """How long the deletion of the Cluster waits for the chart, as in `10m` (the default), at most `24h`."""


class _ChartSpec(Model):
    chart_name: str
    """The name of the chart in the repository."""
    repo_url: str = Field(alias="repoURL", json_schema_extra=rule(_URL, _URL_MESSAGE))
    """The URL of the repository: `https://` or `oci://`."""
    release_name: str | None = None
    """The name of the Helm release, up to 53 characters (default: a generated name)."""
    namespace: str | None = Field(None, max_length=63)
    """The namespace of the Helm release in the workload cluster (default: `default`)."""
    version: str | None = None
    """A version of the chart, or a range of versions (default: the newest that is no prerelease)."""
    reconcile_strategy: Literal["", "InstallOnce", "Continuous"] | None = None
    """`InstallOnce` installs the chart and then leaves it alone (default: Continuous). It cannot change."""
    options: HelmOptions | None = None
    credentials: Credentials | None = None
    tls_config: TLSConfig | None = None
    apply_method: Literal["ServerSide", "Helm"] | None = None
    """`ServerSide` applies changed objects only, repairs drift, prunes and reports conflicts (default). `Helm` is
    refused."""
    values_from: list[ValuesSource] | None = Field(None, max_length=16)
    """Values below the values of the template; a later source replaces values of an earlier one."""
    tier: int | None = Field(None, ge=1, le=2147483647)
    """Which of two charts of a cluster owns an object that both have: the chart in the lower tier (default: 100). In
    equal tiers the first chart keeps the object."""
    cluster_deletion: ClusterDeletion | None = None
    """Whether the chart is uninstalled before a Cluster is deleted."""


class HelmChartProxySpec(_ChartSpec):
    """The chart, the clusters that get it, and how."""

    model_config = ConfigDict(json_schema_extra=rule(_UNCHANGED, _STRATEGY))

    cluster_selector: LabelSelector
    """Selects Clusters of the namespace of the HelmChartProxy. Leaving the selection uninstalls the chart."""
    values_template: str | None = None
    """The values of the chart: a Go template with the roots `.Cluster`, `.ControlPlane` and `.InfraCluster`."""
    rollout_strategy: RolloutStrategy | None = None
    """How changes reach the Clusters (default: all at once)."""
    depends_on: list[Annotated[str, Field(min_length=1, max_length=253)]] | None = Field(
        None, max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """Names of HelmChartProxies of the namespace whose releases must be ready in a Cluster before it is changed."""


class HelmChartProxyStatus(Model):
    """The observed state of a HelmChartProxy."""

    conditions: list[Condition] | None = None
    matching_clusters: list[ObjectReference] | None = None
    """The selected Clusters."""
    rollout: RolloutStatus | None = None
    observed_generation: Int64 | None = None


class HelmChartProxy(Model):
    """A Helm chart in all workload clusters that a selector matches."""

    spec: HelmChartProxySpec
    status: HelmChartProxyStatus | None = None


class HelmReleaseProxySpec(_ChartSpec):
    """The release of one cluster; written by the HelmChartProxy."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("self.chartName == oldSelf.chartName", f"spec.chartName {_OF_RELEASE}"),
            ("self.repoURL == oldSelf.repoURL", f"spec.repoURL {_OF_RELEASE}"),
            (_SAME_NAMESPACE, f"spec.namespace {_OF_RELEASE}"),
            (_UNCHANGED, f"spec.reconcileStrategy {_OF_RELEASE}"),
        )
    )

    cluster_ref: ObjectReference
    values: str | None = None
    """The rendered values of the template."""


class HelmReleaseProxyStatus(Model):
    """The observed state of a Helm release."""

    conditions: list[Condition] | None = None
    status: str | None = None
    """The status of the release, in the words of Helm."""
    revision: int | None = None
    observed_generation: Int64 | None = None
    resources: list[AppliedResource] | None = None
    """The inventory: the objects of the release."""
    digest: str | None = None
    """Identifies chart and values that were applied last."""
    record_digest: str | None = None
    """The SHA-256 of the manifests in Helm's record of the revision. A record with other manifests is not applied."""
    former_record_digest: str | None = None
    """The SHA-256 of the manifests in the record of the deployed revision, while a later revision is not deployed. A
    rollback applies only a record with this digest."""
    failed_attempt: str | None = None
    """Identifies chart, values and options that have failed with `atomic`, and are not tried again."""
    chart_version: str | None = None
    """The version of the chart that was applied last."""


class HelmReleaseProxy(Model):
    """The release of a HelmChartProxy in one workload cluster."""

    spec: HelmReleaseProxySpec
    status: HelmReleaseProxyStatus | None = None


_READY = (
    Column("Ready", ".status.conditions[?(@.type=='Ready')].status"),
    Column("Reason", ".status.conditions[?(@.type=='Ready')].reason"),
    Column("Message", ".status.conditions[?(@.type=='Ready')].message", wide=True),
)

HELM_CHART_PROXY = CustomResource(
    resource=resources.HELM_CHART_PROXY,
    root=HelmChartProxy,
    short_name="hcp",
    columns=(*_READY, AGE),
    labels={**_LABELS, "clusterctl.cluster.x-k8s.io/move-hierarchy": "true"},
)

HELM_RELEASE_PROXY = CustomResource(
    resource=resources.HELM_RELEASE_PROXY,
    root=HelmReleaseProxy,
    short_name="hrp",
    columns=(
        Column("Cluster", ".spec.clusterRef.name"),
        *_READY,
        Column("Status", ".status.status"),
        Column("Revision", ".status.revision"),
        AGE,
    ),
    labels=_LABELS,
)
