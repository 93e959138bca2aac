"""Clears object storage of what nobody needs any more: releases that no object names, blobs that no release has.

Only of what is older than a limit, so that what is just being fetched stays. A release that comes to be named in the
moment in which it goes is found missing, like any other, and fetched again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.api import cluster as cluster_api
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.kube import Object, dig, key_of
from shared.storage import ObjectStore, StoredObject

from .naming import InvalidName, ReleaseName, Version
from .origin import ENVIRONMENT, scope_of
from .store import BLOBS

NAMING = (CLUSTER_STACK, CLUSTER_STACK_RELEASE, CLUSTER, CLUSTER_ADDON)
"""The kinds that name releases."""

_RECORD = re.compile(r"(?:scopes/([0-9a-z]+)/)?(releases|failures|pins)/([^/]+)\.json")
_DIGEST = re.compile(rb"[0-9a-f]{64}")


@dataclass(frozen=True)
class Needed:
    """The releases that objects name, by tag, and the scopes of the sources that there are."""

    tags: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset({ENVIRONMENT})


@dataclass(frozen=True)
class Collected:
    """How many were deleted."""

    releases: int = 0
    blobs: int = 0


def needed(objects: Iterable[Object]) -> Needed:
    """What ClusterStacks, ClusterStackReleases, Clusters and ClusterAddons name. Pure."""
    listed = list(objects)
    scopes = {scope_of(obj) for obj in listed if obj["kind"] == CLUSTER_STACK.kind}
    tags = {tag for obj in listed for tag in _tags(obj)}
    return Needed(frozenset(tags), frozenset({ENVIRONMENT} | scopes))


def collect(objects: ObjectStore, needed: Needed, before: datetime) -> Collected:
    """Deletes what is not needed and was last written earlier than `before`. Raises as `ObjectStore` does."""
    # First of all: a manifest that appears after this names blobs that are younger, or written again.
    blobs = objects.list_objects(BLOBS)
    records = [
        entry for prefix in ("releases/", "pins/", "failures/", "scopes/") for entry in objects.list_objects(prefix)
    ]
    superfluous = {entry for entry in records if _is_superfluous(entry.key, needed)}
    gone = {entry for entry in superfluous if _delete_old(objects, entry, before)}
    manifests = [entry for entry in records if entry not in gone and "releases/" in entry.key]
    in_use = {f"{BLOBS}{digest}" for entry in manifests for digest in _digests(objects.get(entry.key))}
    unused = [entry for entry in blobs if entry.key not in in_use]
    return Collected(
        sum("releases/" in entry.key for entry in gone), sum(_delete_old(objects, entry, before) for entry in unused)
    )


def _is_superfluous(key: str, needed: Needed) -> bool:
    """Not so for what is none of ours."""
    match = _RECORD.fullmatch(key)
    if match is None:
        return False
    if (match[1] or ENVIRONMENT) not in needed.scopes:
        return True
    # A tag means the same for as long as its source is there, also to who asks for it later.
    return match[2] != "pins" and match[3] not in needed.tags


def _digests(manifest: bytes | None) -> Iterator[str]:
    """Whatever may be one, also in a manifest of another format: too many do no harm."""
    return (digest.decode() for digest in _DIGEST.findall(manifest or b""))


def _delete_old(objects: ObjectStore, entry: StoredObject, before: datetime) -> bool:
    if entry.modified >= before:
        return False
    modified = objects.modified(entry.key)  # it may have been written again since it was listed
    if modified is None or modified >= before:
        return False
    objects.delete(entry.key)
    return True


def _tags(obj: Mapping[str, Any]) -> Iterator[str]:
    if obj["kind"] == CLUSTER_STACK.kind:
        yield from _listed(obj)
        return
    if obj["kind"] == CLUSTER.kind:
        text = cluster_api.class_name(obj)
    elif obj["kind"] == CLUSTER_ADDON.kind:
        text = dig(obj, "spec.clusterStack")
    else:
        text = key_of(obj).name
    name = ReleaseName.from_class_name(text) if isinstance(text, str) else None
    if name:
        yield name.tag


def _listed(stack: Mapping[str, Any]) -> Iterator[str]:
    """The releases in a ClusterStack's `spec.versions`; what it subscribes to has a ClusterStackRelease."""
    spec = stack.get("spec") or {}
    for version in spec.get("versions") or ():
        try:
            yield ReleaseName(spec["provider"], spec["name"], spec["kubernetesVersion"], Version.parse(version)).tag
        except (InvalidName, KeyError, TypeError):
            continue
