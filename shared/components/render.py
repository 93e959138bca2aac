"""Renders the objects of a provider from its components, its spec, its config Secret and clusterctl's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.api import provider as provider_api
from shared.kube.resources import Object, key_of

from . import catalog, images
from .customize import customize
from .objects import add_labels, move_to_namespace, parse, sort_for_install
from .patches import apply_patches
from .substitute import substitute, variables

IMAGES = "images"
"""The key of image overrides in the config Secret."""


@dataclass(frozen=True)
class RenderedComponents:
    """`objects` in the order of installation; `variables` with their defaults, None without a default."""

    objects: list[Object]
    variables: Mapping[str, str | None] = field(default_factory=dict)


def generate_components(components: str, values: Mapping[str, str], *, namespace: str, label: str) -> list[Object]:
    """Returns the objects that `clusterctl generate provider` gives for the components.

    Args:
        components: The YAML text of the components.
        values: Values of variables; key `images` has image overrides.
        namespace: The namespace of the provider.
        label: The label of the provider, such as `infrastructure-docker`.

    Raises:
        ComponentsError: The components, a variable or an override is unusable.
    """
    objects = parse(substitute(components, values))
    overrides = images.parse(values[IMAGES]) if values.get(IMAGES) else {}
    objects = images.override_images(objects, overrides, label)
    objects = move_to_namespace(_with_namespace(objects, namespace), namespace)
    return sort_for_install(add_labels(objects, label))


def render(components: str, *, provider: Object, values: Mapping[str, str], additional: str = "") -> RenderedComponents:
    """Returns the objects to apply for a provider, without its Namespace, which exists already.

    Args:
        components: The YAML text of the components.
        provider: The provider; its spec customizes the objects.
        values: The keys of its config Secret, decoded.
        additional: The YAML text of `spec.additionalManifests`, treated like the components.

    Raises:
        ComponentsError: The components, a variable, a customization, a patch or an override is unusable.
    """
    text = f"{components}\n---\n{additional}" if additional else components
    label = provider_api.label_of(provider)
    objects = generate_components(text, values, namespace=key_of(provider).namespace, label=label)
    objects = [obj for obj in objects if obj["kind"] != "Namespace"]
    objects = customize(objects, provider)
    objects = apply_patches(objects, provider)
    objects = images.override_images(
        objects, images.validate_overrides(catalog.image_overrides(), "images of the configuration"), label
    )
    return RenderedComponents(objects, variables(text))


def _with_namespace(objects: list[Object], namespace: str) -> list[Object]:
    if any(obj["kind"] == "Namespace" for obj in objects):
        return objects
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, *objects]
