"""Errors of components, with the condition reasons of Cluster API Operator."""

from __future__ import annotations

from shared.api.conditions import truncate
from shared.download.errors import SourceError


class ComponentsError(ValueError):
    """Components are unusable; the message names the field, variable or object. `reason` is for ProviderInstalled."""

    reason = "ComponentsFetchError"

    def __str__(self) -> str:
        return truncate(super().__str__())


class UnknownProvider(ComponentsError):
    """A provider is not in the catalog and has no source of its own."""

    reason = "UnknownProvider"


class IncompatibleVersion(ComponentsError):
    """metadata.yaml lacks the version, or the version has no supported contract."""

    reason = "CAPIVersionIncompatibility"


class CustomizationError(ComponentsError):
    """spec.manager, spec.deployment or spec.additionalDeployments do not fit the components."""

    reason = "ComponentsCustomizationError"


class PatchError(ComponentsError):
    """spec.patches or spec.manifestPatches do not fit the components."""

    reason = "ComponentsPatchError"


class ImageError(ComponentsError):
    """An image, or its override, is invalid."""

    reason = "ComponentsImageOverrideError"


class InvalidToken(SourceError):
    """GitHub rejects the provider's token. `reason` is for PreflightCheckPassed."""

    reason = "InvalidGithubTokenError"

    def __init__(self, message: str) -> None:
        super().__init__(message, transient=False)
