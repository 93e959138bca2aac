"""Why components cannot be used. Each kind of trouble has the reason that Cluster API Operator's users look for."""

from __future__ import annotations

from shared.api.conditions import truncate


class ComponentsError(ValueError):
    """The message names the field, variable or object at fault. `reason` is that of condition ProviderInstalled."""

    reason = "ComponentsFetchError"

    def __str__(self) -> str:
        return truncate(super().__str__())


class UnknownProvider(ComponentsError):
    """Neither in the catalog nor with a source of its own."""

    reason = "UnknownProvider"


class IncompatibleVersion(ComponentsError):
    """metadata.yaml does not tell of this version, or of a contract that is supported."""

    reason = "CAPIVersionIncompatibility"


class CustomizationError(ComponentsError):
    """spec.manager, spec.deployment or spec.additionalDeployments do not fit the components."""

    reason = "ComponentsCustomizationError"


class PatchError(ComponentsError):
    """spec.patches or spec.manifestPatches do not fit the components."""

    reason = "ComponentsPatchError"


class ImageError(ComponentsError):
    """An image, or its override, cannot be read."""

    reason = "ComponentsImageOverrideError"
