"""The seven provider kinds: the wanted version of a provider, its source, and the customisations of its components.

All kinds share one spec and one status, as in Cluster API Operator, whose objects are accepted unchanged.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from shared.api.provider import CORE_NAME, KINDS, ProviderKind

from .cluster_addon import AppliedResource
from .custom_resource import AGE, KEYED_BY_TYPE, Column, CustomResource, Int64, Model, Timestamp, rule
from .provider_deployment import DeploymentSpec
from .provider_manager import ManagerSpec

_NUMBER, _WORDS = "(0|[1-9][0-9]*)", r"[0-9A-Za-z-]+(\\.[0-9A-Za-z-]+)*"
_SEMVER = rf"^v?{_NUMBER}(\\.{_NUMBER}){{2}}(-{_WORDS})?(\\+{_WORDS})?$"


_VERSION_RULE = rule(f"self == '' || self.matches('{_SEMVER}')", "version must be semantic, such as v1.10.0")
_ONE_SOURCE = rule(
    "[has(self.oci), has(self.url), has(self.selector)].exists_one(given, given)",
    "fetchConfig needs exactly one of oci, url and selector",
)
_ONE_KIND_OF_PATCHES = rule(
    "!(has(self.patches) && has(self.manifestPatches))", "patches and manifestPatches cannot be used together"
)
# Only on creation, because updates of an older object must still be able to remove its finalizer.
_NAME_OF_CORE = rule(
    f"oldSelf.hasValue() || self.metadata.name == '{CORE_NAME}'",
    f"the CoreProvider must be named {CORE_NAME}",
    optionalOldSelf=True,
)


class Reference(Model):
    """A reference to an object by name."""

    name: str = Field(min_length=1, max_length=253)
    namespace: str | None = None
    """By default the provider's own namespace."""


class LabelRequirement(Model):
    """A requirement of a label selector."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] | None = Field(None, json_schema_extra={"x-kubernetes-list-type": "atomic"})


class LabelSelector(Model):
    """A label selector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelRequirement] | None = Field(
        None, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )


class FetchConfig(Model):
    """The source of releases: exactly one of the three fields."""

    model_config = ConfigDict(json_schema_extra=_ONE_SOURCE)

    oci: str | None = Field(None, max_length=2048)
    """An OCI artifact: host/path, with or without a tag."""
    url: str | None = Field(None, max_length=2048)
    """The URL of the components file in a release."""
    selector: LabelSelector | None = Field(None, json_schema_extra={"x-kubernetes-map-type": "atomic"})
    """ConfigMaps in the provider's namespace."""


class PatchTarget(Model):
    """Selects objects; all given fields must match."""

    group: str | None = None
    version: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    label_selector: str | None = None
    """A label selector in kubectl's syntax: a=b,c in (d,e),!f"""


class ComponentPatch(Model):
    """A patch of the components."""

    patch: str = Field(min_length=1)
    """YAML: a list is a JSON patch (RFC 6902), a mapping a merge patch (RFC 7396)."""
    target: PatchTarget | None = None
    """The objects to patch; by default all."""


class Customization(Model):
    """Customisations of one Deployment."""

    manager: ManagerSpec | None = None
    deployment: DeploymentSpec | None = None


class ProviderSpec(Model):
    """The desired state of a provider."""

    model_config = ConfigDict(json_schema_extra=_ONE_KIND_OF_PATCHES)

    version: str | None = Field(None, max_length=128, json_schema_extra=_VERSION_RULE)
    """The release to install. If it is absent, the newest release is chosen and written here."""
    manager: ManagerSpec | None = None
    deployment: DeploymentSpec | None = None
    config_secret: Reference | None = None
    """The Secret with the variables of the components and the credentials of their source."""
    fetch_config: FetchConfig | None = None
    """The source of releases, for providers that are not known by name or use another source."""
    additional_manifests: Reference | None = None
    """The ConfigMap whose entry `manifests` is added to the components."""
    manifest_patches: list[Annotated[str, Field(min_length=1)]] | None = None
    """Merge patches (RFC 7396) in YAML, each for the objects of its own kind, apiVersion, name and namespace."""
    patches: list[ComponentPatch] | None = None
    """Patches, applied in this order."""
    additional_deployments: dict[str, Customization] | None = None
    """Customisations of Deployments other than the provider's main one, by name."""


class MetaV1Condition(Model):
    """metav1.Condition"""

    type: str = Field(min_length=1, max_length=316)
    status: Literal["True", "False", "Unknown"]
    reason: str = Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    message: str = Field(max_length=32768)
    last_transition_time: Timestamp
    observed_generation: Int64 | None = Field(None, ge=0)


class ProviderTarget(Model):
    """The release that was fetched for `spec.version`, and its latest rollout."""

    version: str | None = None
    source: str | None = None
    """The source of the release, without credentials."""
    digest: str | None = None
    """The digest of the files of the release."""
    source_hash: str | None = None
    """The hash of the spec's version and source (fetchConfig) at the time of the fetch. If it differs from the value
    for the present spec, the release is fetched again."""
    contract: str | None = None
    """The Cluster API contract of this version."""
    inputs: str | None = None
    """The hash of all inputs of the objects of the latest rollout."""
    object: str | None = None
    """The hash of the provider's spec and annotations when the latest installation completed."""
    begun: Timestamp | None = None
    """The start of that rollout."""
    renew_at: Timestamp | None = None
    """The time to renew the first of the serving certificates that the functions issued."""


class ProviderStatus(Model):
    """The observed state of a provider."""

    contract: str | None = None
    """The Cluster API contract of the installed version."""
    installed_version: str | None = None
    observed_generation: Int64 | None = None
    conditions: list[MetaV1Condition] | None = Field(None, json_schema_extra=KEYED_BY_TYPE)
    """`Ready` summarizes all others."""
    resources: list[AppliedResource] | None = None
    """The inventory: the applied objects, which are pruned when obsolete and deleted with the provider."""
    target: ProviderTarget | None = None


class Provider(Model):
    """A provider of Cluster API; the object has the provider's name."""

    spec: ProviderSpec | None = None
    status: ProviderStatus | None = None


class CoreProvider(Provider):
    """Cluster API itself."""

    model_config = ConfigDict(json_schema_extra=_NAME_OF_CORE)


def _custom_resource(kind: ProviderKind) -> CustomResource:
    return CustomResource(
        resource=kind.resource,
        root=CoreProvider if kind.is_core else Provider,
        short_name=kind.short_name,
        columns=(
            Column("InstalledVersion", ".status.installedVersion"),
            Column("Ready", ".status.conditions[?(@.type=='Ready')].status"),
            AGE,
            Column("Reason", ".status.conditions[?(@.type=='Ready')].reason"),
            Column("Message", ".status.conditions[?(@.type=='Ready')].message"),
        ),
    )


PROVIDERS = tuple(_custom_resource(kind) for kind in KINDS)
