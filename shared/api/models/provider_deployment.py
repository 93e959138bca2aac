"""`spec.deployment` of a provider: fields that replace its Deployment's fields."""

from __future__ import annotations

from pydantic import Field

from .custom_resource import Int64, Model, OpenModel


class Toleration(Model):
    """A toleration of a pod."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: Int64 | None = None


class Affinity(OpenModel):
    """The affinity of a pod."""


class ValueFrom(OpenModel):
    """The source of an environment variable of a container."""


class EnvVar(Model):
    """An environment variable of a container."""

    name: str = Field(min_length=1)
    value: str | None = None
    value_from: ValueFrom | None = None


class Resources(OpenModel):
    """The resources of a container."""


class ContainerSpec(Model):
    """Fields that replace the fields of a container."""

    name: str = Field(min_length=1)
    """The name of a container in the Deployment."""
    image_url: str | None = None
    """The image of the container."""
    args: dict[str, str] | None = None
    """Flags by name, with dashes. Each replaces the flag of the same name, or is added."""
    env: list[EnvVar] | None = None
    """Each entry replaces the variable of the same name, or is added."""
    resources: Resources | None = None
    command: list[str] | None = None


class LocalObjectReference(Model):
    """A reference to an object in the same namespace."""

    name: str = ""


class DeploymentSpec(Model):
    """Fields that replace the fields of the Deployment in the manifest, even if they are empty."""

    replicas: int | None = Field(None, ge=0)
    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None
    affinity: Affinity | None = None
    containers: list[ContainerSpec] | None = None
    service_account_name: str | None = None
    image_pull_secrets: list[LocalObjectReference] | None = None
