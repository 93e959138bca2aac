"""Overrides the images of a provider's containers: `images` as in clusterctl's configuration.

    all:                       {repository: registry.example.com}
    infrastructure-docker:     {tag: v1.2.3}
    infrastructure-docker/foo: {name: my-foo}

Later lines override earlier ones field by field. They select all images, the images of a provider, and one image by its
name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from shared import bounded_yaml
from shared.kube.resources import Object, dig

from .errors import ImageError

_WORKLOADS = ("Deployment", "DaemonSet")
_FIELDS = ("repository", "name", "tag")
_IMAGE = re.compile(
    r"(?P<repository>[a-zA-Z0-9.:\[\]-]+(?:/[a-z0-9._-]+)*)/(?P<name>[a-z0-9._-]+)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@[a-zA-Z][a-zA-Z0-9+._-]*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
"""An image with the host of its registry."""

Overrides = Mapping[str, Mapping[str, str]]


def parse(text: str) -> Overrides:
    """Parses the key `images` of a config Secret. Raises `ImageError`."""
    where = "images of the config Secret"
    try:
        return validate_overrides(bounded_yaml.load(text), where)
    except (bounded_yaml.YAMLError, RecursionError) as error:
        raise ImageError(f"{where}: not YAML: {' '.join(str(error).split())}") from error


def validate_overrides(found: Any, where: str) -> Overrides:
    """Returns the overrides without empty and unknown fields. Raises `ImageError`, which begins with `where`."""
    if not isinstance(found, Mapping | None):
        raise ImageError(f"{where}: must be a mapping")
    return {key: _fields(fields, f"{where}: {key}") for key, fields in (found or {}).items()}


def _fields(fields: Any, where: str) -> dict[str, str]:
    if not isinstance(fields, Mapping | None):
        raise ImageError(f"{where}: must be a mapping with some of {', '.join(_FIELDS)}")
    given = {name: value for name in _FIELDS if (value := dig(fields, name, "")) != ""}
    for name, value in given.items():
        if not isinstance(value, str | int) or isinstance(value, bool):  # no floats: 1.20 would become 1.2
            raise ImageError(f"{where}: {name}: must be a string, in quotes")
    return {name: str(value) for name, value in given.items()}


def override_images(objects: Iterable[Object], overrides: Overrides, label: str) -> list[Object]:
    """Returns the objects with the images of Deployments and DaemonSets overridden; `label` is the provider's.

    Raises `ImageError`.
    """
    return [_overridden(obj, overrides, label) if obj["kind"] in _WORKLOADS else obj for obj in objects]


def _overridden(workload: Object, overrides: Overrides, label: str) -> Object:
    """Returns the Deployment or DaemonSet with its images overridden."""
    workload = deepcopy(workload)
    for field in ("initContainers", "containers"):
        containers = dig(workload, ("spec", "template", "spec", field))
        for container in containers if isinstance(containers, list) else ():
            if not isinstance(image := dig(container, "image"), str):
                continue
            try:
                container["image"] = override_image(image, overrides, label)
            except ImageError as error:
                what = f"{workload['kind']} {workload['metadata']['name']}, container {container.get('name')}"
                raise ImageError(f"{what}: {error}") from error
    return workload


def override_image(image: str, overrides: Overrides, label: str) -> str:
    """Returns the image, overridden; unchanged if no override matches. Raises `ImageError`."""
    found = _IMAGE.fullmatch(_with_registry(image))
    keys = ("all", label, f"{label}/{found['name']}") if found else ("all", label)
    override = {name: value for key in keys for name, value in overrides.get(key, {}).items()}
    if not override:
        return image
    if found is None:
        raise ImageError(f"{image[:255]!r} is not a valid image, so it cannot be overridden")
    repository, name, tag = (override.get(field) or found[field] for field in _FIELDS)
    return f"{repository.removesuffix('/')}/{name}{f':{tag}' if tag else ''}{found['digest'] or ''}"


def _with_registry(image: str) -> str:
    """Returns the image with its registry: Docker Hub for short names."""
    host, slash, _ = image.partition("/")
    if slash and (host == "localhost" or re.search(r"[.:A-Z]", host)):
        return image
    return f"docker.io/{image}" if slash else f"docker.io/library/{image}"
