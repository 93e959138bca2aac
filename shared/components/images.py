"""Other places for a provider's images: `images` as clusterctl's configuration has them.

    all:                       {repository: registry.example.com}
    infrastructure-docker:     {tag: v1.2.3}
    infrastructure-docker/foo: {name: my-foo}

Later lines win field by field: what is said of all, of a provider, of one of its images by its name.
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
"""In full: with the host of its registry."""

Overrides = Mapping[str, Mapping[str, str]]


def parse(text: str) -> Overrides:
    """The variable `images` of a config Secret. Raises `ImageError`."""
    where = "images of the config Secret"
    try:
        return checked(bounded_yaml.load(text), where)
    except (bounded_yaml.YAMLError, RecursionError) as error:
        raise ImageError(f"{where}: not YAML: {' '.join(str(error).split())}") from error


def checked(found: Any, where: str) -> Overrides:
    """Fields that say nothing are left out, as are unknown ones. Raises `ImageError`, which begins with `where`."""
    if not isinstance(found, Mapping | None):
        raise ImageError(f"{where}: want a mapping")
    return {key: _fields(fields, f"{where}: {key}") for key, fields in (found or {}).items()}


def _fields(fields: Any, where: str) -> dict[str, str]:
    if not isinstance(fields, Mapping | None):
        raise ImageError(f"{where}: want a mapping with some of {', '.join(_FIELDS)}")
    said = {name: value for name in _FIELDS if (value := dig(fields, name, "")) != ""}
    for name, value in said.items():
        if not isinstance(value, str | int) or isinstance(value, bool):  # 1.20 would become 1.2
            raise ImageError(f"{where}: {name}: want a text, in quotes")
    return {name: str(value) for name, value in said.items()}


def overridden(objects: Iterable[Object], overrides: Overrides, label: str) -> list[Object]:
    """The objects with the images of the provider `label` replaced. Raises `ImageError`."""
    return [_overridden(obj, overrides, label) if obj["kind"] in _WORKLOADS else obj for obj in objects]


def _overridden(workload: Object, overrides: Overrides, label: str) -> Object:
    workload = deepcopy(workload)
    for field in ("initContainers", "containers"):
        containers = dig(workload, ("spec", "template", "spec", field))
        for container in containers if isinstance(containers, list) else ():
            if not isinstance(image := dig(container, "image"), str):
                continue
            try:
                container["image"] = replaced(image, overrides, label)
            except ImageError as error:
                what = f"{workload['kind']} {workload['metadata']['name']}, container {container.get('name')}"
                raise ImageError(f"{what}: {error}") from error
    return workload


def replaced(image: str, overrides: Overrides, label: str) -> str:
    """An image that nothing is said of stays as it is, whatever its form. Raises `ImageError`."""
    found = _IMAGE.fullmatch(_in_full(image))
    keys = ("all", label, f"{label}/{found['name']}") if found else ("all", label)
    said = {name: value for key in keys for name, value in overrides.get(key, {}).items()}
    if not said:
        return image
    if found is None:
        raise ImageError(f"{image[:255]!r} is no image, and cannot be taken from elsewhere")
    repository, name, tag = (said.get(field) or found[field] for field in _FIELDS)
    return f"{repository.removesuffix('/')}/{name}{f':{tag}' if tag else ''}{found['digest'] or ''}"


def _in_full(image: str) -> str:
    """Short names are of Docker Hub."""
    host, slash, _ = image.partition("/")
    if slash and (host == "localhost" or re.search(r"[.:A-Z]", host)):
        return image
    return f"docker.io/{image}" if slash else f"docker.io/library/{image}"
