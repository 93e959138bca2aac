"""clusterctl's record of an installed provider: with it, clusterctl's own commands find what is installed here."""

from __future__ import annotations

from shared.api import resources

from .custom_resource import AGE, Column, CustomResource, Model


class ClusterctlProvider(Model):
    """An entry in clusterctl's inventory."""

    provider_name: str | None = None
    type: str | None = None
    """The kind, such as InfrastructureProvider."""
    version: str | None = None
    """The one that is installed."""
    watched_namespace: str | None = None
    """The only one that the provider looks at; empty for all."""


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
