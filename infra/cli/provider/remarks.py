"""What a provider asks for that comes to nothing, and is no error: most often it is misspelled."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from shared import bounded_yaml
from shared.api.provider import additional_manifests
from shared.components import catalog
from shared.components.patches import patched
from shared.components.render import render
from shared.components.substitute import variables
from shared.kube import Object, dig, key_of

_PATCHES = ("patches", "manifestPatches")


def remarks(provider: Object, components: str, values: Mapping[str, str], additional: str) -> Iterator[str]:
    """For a provider that can be rendered of these inputs."""
    spec = {name: value for name, value in dig(provider, "spec", {}).items() if name not in _PATCHES}
    objects = render(components, provider={**provider, "spec": spec}, values=values, additional=additional).objects
    there = {key_of(obj).name for obj in objects if obj["kind"] == "Deployment"}
    for name in spec.get("additionalDeployments") or {}:
        if name not in there:
            known = ", ".join(sorted(there)) or "none"
            yield f"spec.additionalDeployments.{name}: there is no such Deployment, there are {known}"
    for field in _PATCHES:
        for index, patch in enumerate(dig(provider, ("spec", field)) or []):
            before, objects = objects, patched(objects, {**provider, "spec": {field: [patch]}})
            if all(one is other for one, other in zip(before, objects, strict=True)):
                yield f"spec.{field}[{index}] is for none of the objects, and changes nothing"


def nothing_added(provider: Object, additional: str) -> Iterator[str]:
    """For a provider whose ConfigMap was read."""
    if (key := additional_manifests(provider)) and not additional:
        yield f"ConfigMap {key} (spec.additionalManifests) has nothing under its key manifests"


def not_read(components: str, values: Mapping[str, str]) -> Iterator[str]:
    """Variables of the components that the environment or clusterctl's configuration has, and the Secret has not."""
    try:
        configured = next(iter(bounded_yaml.load_all(catalog.overrides_text())), None)
    except bounded_yaml.YAMLError:
        configured = None
    for name in sorted(variables(components).keys() - values.keys()):
        where = "of the environment" if name in os.environ else "of $CLUSTERCTL_CONFIG"
        if name in os.environ or (isinstance(configured, Mapping) and name in configured):
            yield f"variable {name} {where} is not read: only those of the Secret of spec.configSecret are"
