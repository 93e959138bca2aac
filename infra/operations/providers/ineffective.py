"""Finds settings of a provider that have no effect and cause no error; most of them are misspelled."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from shared import bounded_yaml
from shared.api.provider import additional_manifests
from shared.components import catalog
from shared.components.patches import apply_patches
from shared.components.render import render
from shared.components.substitute import variables
from shared.kube import Object, dig, key_of

_PATCHES = ("patches", "manifestPatches")


def ineffective_settings(
    provider: Object, components: str, values: Mapping[str, str], additional: str
) -> Iterator[str]:
    """Yields a note for each `additionalDeployments` entry without a Deployment, and each patch without a target.

    Args:
        provider: A provider that can be rendered from these inputs.
        components: The components file.
        values: The variables.
        additional: YAML of `spec.additionalManifests`.
    """
    spec = {name: value for name, value in dig(provider, "spec", {}).items() if name not in _PATCHES}
    objects = render(components, provider={**provider, "spec": spec}, values=values, additional=additional).objects
    deployments = {key_of(obj).name for obj in objects if obj["kind"] == "Deployment"}
    for name in spec.get("additionalDeployments") or {}:
        if name not in deployments:
            known = ", ".join(sorted(deployments)) or "none"
            yield f"spec.additionalDeployments.{name}: no such Deployment; the components have {known}"
    for field in _PATCHES:
        for index, patch in enumerate(dig(provider, ("spec", field)) or []):
            before, objects = objects, apply_patches(objects, {**provider, "spec": {field: [patch]}})
            if all(one is other for one, other in zip(before, objects, strict=True)):
                yield f"spec.{field}[{index}] matches no object and changes nothing"


def empty_additional_manifests(provider: Object, additional: str) -> Iterator[str]:
    """Yields a note if the ConfigMap of `spec.additionalManifests` has no manifests."""
    if (key := additional_manifests(provider)) and not additional:
        yield f"ConfigMap {key} (spec.additionalManifests) has an empty key manifests, or none"


def unread_variables(components: str, values: Mapping[str, str]) -> Iterator[str]:
    """Yields a note for each variable that only the environment or clusterctl's configuration has, not the Secret."""
    try:
        configured = next(iter(bounded_yaml.load_all(catalog.configuration_text())), None)
    except bounded_yaml.YAMLError:
        configured = None
    for name in sorted(variables(components).keys() - values.keys()):
        where = "the environment" if name in os.environ else "$CLUSTERCTL_CONFIG"
        if name in os.environ or (isinstance(configured, Mapping) and name in configured):
            yield f"variable {name} in {where} is not used: variables come from the Secret of spec.configSecret only"
