"""Parses `metadata.yaml`: the versions of a release and of its parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared import bounded_yaml
from shared.releases.naming import InvalidName, StackVersion

API_VERSION = "metadata.clusterstack.x-k8s.io/v1alpha1"
MAX_BYTES = 64 * 1024

_KUBERNETES = re.compile(r"v?([0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]+)?)")
_NOTHING = {"", "~", "null"}


class MetadataError(Exception):
    """A metadata.yaml is unusable; the message names the release and the field."""

    def __init__(self, release: str, field: str, problem: str) -> None:
        super().__init__(f"release {release}: metadata.yaml: {field}: {problem}")
        self.release, self.field, self.problem = release, field, problem


@dataclass(frozen=True, slots=True)
class ReleaseMetadata:
    """The versions of a release and its parts; `kubernetes` has all three numbers and the v, as "v1.27.3"."""

    cluster_stack: StackVersion
    kubernetes: str
    cluster_addon: StackVersion
    node_image: StackVersion | None = None


def parse(data: bytes, release: str) -> ReleaseMetadata:
    """Parses the file; `release` is for messages. Versions may be dotted or dashed. Raises `MetadataError`."""
    if len(data) > MAX_BYTES:
        raise MetadataError(release, "(file)", f"larger than {MAX_BYTES} bytes")
    try:
        document = bounded_yaml.load(data, untyped=True)
    except bounded_yaml.YAMLError as error:
        raise MetadataError(release, "(file)", f"not YAML: {_short(error)}") from error

    fields = _Fields(release, {} if document is None else document)
    api_version = fields.text("apiVersion")
    if api_version != API_VERSION:
        raise MetadataError(release, "apiVersion", f"must be {API_VERSION}, found {api_version!r}")
    return ReleaseMetadata(
        cluster_stack=fields.version("versions.clusterStack"),
        kubernetes=fields.kubernetes("versions.kubernetes"),
        cluster_addon=fields.version("versions.components.clusterAddon"),
        node_image=fields.optional_version("versions.components.nodeImage"),
    )


@dataclass(frozen=True, slots=True)
class _Fields:
    """Reads fields by dotted path; errors name the path."""

    release: str
    document: Any

    def find(self, path: str) -> str | None:
        value = self.document
        for at, key in enumerate(parts := path.split(".")):
            if not isinstance(value, Mapping):
                where = ".".join(parts[:at]) or "(file)"
                raise MetadataError(self.release, where, "not a mapping")
            value = value.get(key, "")
            if isinstance(value, str) and value in _NOTHING:
                return None
        if not isinstance(value, str):
            raise MetadataError(self.release, path, "not a string")
        return value

    def text(self, path: str) -> str:
        value = self.find(path)
        if value is None:
            raise MetadataError(self.release, path, "missing")
        return value

    def optional_version(self, path: str) -> StackVersion | None:
        return None if self.find(path) is None else self.version(path)

    def version(self, path: str) -> StackVersion:
        try:
            return StackVersion.parse(self.text(path))
        except InvalidName as error:
            raise MetadataError(self.release, path, str(error)) from None

    def kubernetes(self, path: str) -> str:
        match = _KUBERNETES.fullmatch(text := self.text(path))
        if not match:
            raise MetadataError(self.release, path, f"must be a full version such as v1.27.3, found {text!r}")
        return f"v{match[1]}"


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
