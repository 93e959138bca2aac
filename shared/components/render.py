"""The objects of a provider: its components with all that its spec, its Secret and the configuration make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.api import provider as provider_api
from shared.kube.resources import Object, key_of

from . import catalog, images, manifests
from .customize import customized
from .patches import patched
from .substitute import substitute, variables

IMAGES = "images"
"""The key of the config Secret that holds image overrides."""


@dataclass(frozen=True)
class Rendered:
    """`objects` in the order of installation; of `variables` each with its default, None where it has none."""

    objects: list[Object]
    variables: Mapping[str, str | None] = field(default_factory=dict)


def generated(components: str, values: Mapping[str, str], *, namespace: str, label: str) -> list[Object]:
    """What clusterctl generates of the components of the provider `label`. Raises `ComponentsError`."""
    objects = manifests.parse(substitute(components, values))
    overrides = images.parse(values[IMAGES]) if values.get(IMAGES) else {}
    objects = images.overridden(objects, overrides, label)
    objects = manifests.into_namespace(_with_namespace(objects, namespace), namespace)
    return manifests.ordered(manifests.labelled(objects, label))


def render(components: str, *, provider: Object, values: Mapping[str, str], additional: str = "") -> Rendered:
    """What is to be in the cluster: without the namespace, which is there already, the provider being in it.

    `values` are those of its config Secret, `additional` more YAML, which is treated like the components. Raises
    `ComponentsError`.
    """
    text = f"{components}\n---\n{additional}" if additional else components
    label = provider_api.label_of(provider)
    objects = generated(text, values, namespace=key_of(provider).namespace, label=label)
    objects = [obj for obj in objects if obj["kind"] != "Namespace"]
    objects = customized(objects, provider)
    objects = patched(objects, provider)
    objects = images.overridden(objects, images.checked(catalog.images(), "images of the configuration"), label)
    return Rendered(objects, variables(text))


def _with_namespace(objects: list[Object], namespace: str) -> list[Object]:
    if any(obj["kind"] == "Namespace" for obj in objects):
        return objects
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, *objects]
