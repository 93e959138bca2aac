"""ClusterStack: the releases of a cluster stack to provide in the management cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from shared.api import resources

from .cluster_addon import ObjectReference, V1Beta1Condition
from .custom_resource import AGE, Column, CustomResource, Int64, Model, Timestamp, rule

_WORD = r"^[a-z0-9]{1,63}$"
_VERSION = r"^v(0|[1-9][0-9]{0,8})(-[a-z0-9]{1,63}[.-][a-z0-9]{1,63})?$"
_MINOR = r"^[0-9]\.(0|[1-9][0-9]{0,8})$"


_FIXED = rule("self == oldSelf", "cannot be changed; create another ClusterStack instead")


class SecretReference(Model):
    """A reference to a Secret in the same namespace."""

    name: str = Field(min_length=1, max_length=253)


class ReleaseSource(Model):
    """The URL of a release source, and the Secret with its credentials."""

    url: str = Field(min_length=1, max_length=2048)
    secret_ref: SecretReference | None = None
    """A Secret in the namespace of the ClusterStack. Its annotation `capi-functions.dev/hosts` names the hosts that its
    credentials are for."""


class ClusterStackSpec(Model):
    """The releases of a cluster stack to provide."""

    model_config = ConfigDict(
        json_schema_extra=rule(
            "has(self.providerRef) || (has(self.noProvider) && self.noProvider)",
            "providerRef is needed unless noProvider is true",
        )
    )

    provider: str = Field(pattern=_WORD, json_schema_extra=_FIXED)
    name: str = Field(pattern=_WORD, json_schema_extra=_FIXED)
    """The name of the cluster stack. Like the provider it contains no dash, which separates the parts of a release's
    name."""
    kubernetes_version: str = Field(pattern=_MINOR, json_schema_extra=_FIXED)
    """Major and minor, such as 1.27."""
    channel: Literal["stable", "custom"] = Field("stable", json_schema_extra=_FIXED)
    """`stable` has versions like v3, `custom` all others, like v0-sha.hipstsw."""
    versions: list[Annotated[str, Field(pattern=_VERSION)]] | None = Field(None, max_length=256)
    """Versions to provide in addition to the version of autoSubscribe."""
    auto_subscribe: bool = True
    """Provide the newest release of the channel as soon as it is published."""
    no_provider: bool = False
    """The provider needs no object for a release."""
    provider_ref: ObjectReference | None = Field(None, json_schema_extra={"x-kubernetes-map-type": "atomic"})
    """The `<Provider>ClusterStackReleaseTemplate` from which the provider's object of each release is cloned."""
    sources: list[ReleaseSource] | None = Field(None, max_length=16)
    """The release sources to use instead of the sources in the settings of the functions."""
    allowed_namespaces: list[Annotated[str, Field(min_length=1, max_length=63)]] | None = Field(None, max_length=256)
    """Other namespaces whose Clusters may use the releases of `sources` by referring to a class in this namespace; `*`
    for all. By default only Clusters in this namespace may use them."""


class ReleaseSummary(Model):
    """The progress of one release."""

    name: str
    """The version."""
    ready: bool
    phase: Literal["", "downloading release assets", "provider-specific work", "applying objects", "done"]
    message: str | None = None


class HeldSources(Model):
    """Sources that accept no requests for a while, and why."""

    until: Timestamp | None = None
    sources: str | None = None
    """The hash of the sources; empty for the sources in the functions' configuration."""
    message: str | None = None


class ClusterStackStatus(Model):
    """The observed state of a ClusterStack."""

    observed_generation: Int64 | None = None
    """The generation of the spec that the status is about."""
    latest_release: str | None = None
    """The newest release that is ready, and its Kubernetes version."""
    summary: list[ReleaseSummary] | None = None
    usable_versions: str | None = None
    held: HeldSources | None = None
    conditions: list[V1Beta1Condition] | None = None
    """`Ready` summarizes all others."""


class ClusterStack(Model):
    """A cluster stack and the releases of it to provide."""

    spec: ClusterStackSpec | None = None
    status: ClusterStackStatus | None = None


CLUSTER_STACK = CustomResource(
    resource=resources.CLUSTER_STACK,
    root=ClusterStack,
    short_name="csk",
    columns=(
        Column("Provider", ".spec.provider"),
        Column("ClusterStack", ".spec.name"),
        Column("K8s", ".spec.kubernetesVersion"),
        Column("Channel", ".spec.channel"),
        Column("Autosubscribe", ".spec.autoSubscribe"),
        Column("Usable", ".status.usableVersions"),
        Column("Latest", ".status.latestRelease"),
        AGE,
        Column("Reason", ".status.conditions[?(@.type=='Ready')].reason"),
        Column("Message", ".status.conditions[?(@.type=='Ready')].message"),
    ),
)
