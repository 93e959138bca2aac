"""clusterctl's record of an installed provider, through which clusterctl's own commands find it."""

from __future__ import annotations

from shared.api import resources

from .custom_resource import AGE, Column, CustomResource, Model


class ClusterctlProvider(Model):
    """An entry in clusterctl's inventory."""

    provider_name: str | None = None
    type: str | None = None
    """The kind, such as InfrastructureProvider."""
    version: str | None = None
    """The installed version."""
    watched_namespace: str | None = None
    """The only namespace that the provider watches; empty for all."""


CLUSTERCTL_PROVIDER = CustomResource(
    resource=resources.CLUSTERCTL_PROVIDER,
    root=ClusterctlProvider,
    columns=(
        AGE,
        Column("Type", ".type"),
        Column("Provider", ".providerName"),
        Column("Version", ".version"),
    ),
)
