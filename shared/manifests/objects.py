"""The identity of an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shared.kube.resources import split_api_version


class Identity(NamedTuple):
    """The identity of an object; `group` is empty for the core group. The version is not part of it."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind} {self.namespace}/{self.name}" if self.namespace else f"{kind} {self.name}"


def identity(obj: Mapping[str, Any]) -> Identity:
    """Returns the identity of an object that has `apiVersion`, `kind` and a name."""
    metadata = obj["metadata"]
    group, _ = split_api_version(obj["apiVersion"])
    return Identity(group, obj["kind"], metadata.get("namespace") or "", metadata["name"])
