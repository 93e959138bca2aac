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
from dataclasses import dataclass
from typing import Any

from shared.charts import yamls
from shared.kube.resources import Object, dig

from .errors import ImageError

_WORKLOADS = ("Deployment", "DaemonSet")
_FIELDS = ("repository", "tag", "name")
_IMAGE = re.compile(
    r"(?P<repository>(?=[^/]*[.:]|localhost/)[a-zA-Z0-9.:\[\]-]+(?:/[a-z0-9._-]+)*)/(?P<name>[a-z0-9._-]+)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@sha256:[0-9a-f]{64})?"
)
"""In full: with the host of its registry."""

Overrides = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Image:
    repository: str
    name: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.repository.rstrip('/')}/{self.name}{tag}{self.digest}"


def parse(text: str) -> Overrides:
    """The variable `images` of a config Secret. Raises `ImageError`."""
    try:
        found = next(iter(yamls.load_all(text)), None)
    except (yamls.YAMLError, RecursionError) as error:
        raise ImageError(f"images of the config Secret: not YAML: {' '.join(str(error).split())}") from error
    return checked(found or {}, "images of the config Secret")


def checked(found: Any, where: str) -> Overrides:
    """Raises `ImageError` for what is no mapping of overrides."""
    if not isinstance(found, Mapping):
        raise ImageError(f"{where}: want a mapping")
    for key, fields in found.items():
        known = isinstance(fields, Mapping) and all(isinstance(value, str) for value in fields.values())
        if not known or not set(fields) <= set(_FIELDS):
            raise ImageError(f"{where}: {key}: want some of {', '.join(_FIELDS)}, as texts")
    return found


def overridden(objects: Iterable[Object], overrides: Overrides, label: str) -> list[Object]:
    """The objects with the images of the provider `label` replaced. Raises `ImageError`."""
    result = []
    for obj in objects:
        if overrides and obj["kind"] in _WORKLOADS:
            obj = deepcopy(obj)
            pod = dig(obj, "spec.template.spec") or {}
            for container in [*(pod.get("initContainers") or []), *(pod.get("containers") or [])]:
                container["image"] = replaced(str(container.get("image", "")), overrides, label)
        result.append(obj)
    return result


def replaced(image: str, overrides: Overrides, label: str) -> str:
    """An image that nothing is said of stays as it is, whatever its form."""
    match = _IMAGE.fullmatch(image)
    name = match["name"] if match else image.rpartition("/")[2].partition(":")[0].partition("@")[0]
    said: dict[str, str] = {}
    for key in ("all", label, f"{label}/{name}"):
        said |= overrides.get(key, {})
    if not said:
        return image
    if match is None:
        raise ImageError(f"image {image!r} is not in full, with its registry: it cannot be overridden")
    return str(
        Image(
            said.get("repository") or match["repository"],
            said.get("name") or match["name"],
            said.get("tag") or match["tag"] or "",
            match["digest"] or "",
        )
    )
