"""Deletes unused releases from object storage: releases that no object refers to, and blobs that no manifest lists.

Only entries that were last written before a limit are deleted, so a fetch in progress keeps its files. If an object
begins to refer to a release during its deletion, the release is fetched again like any other missing release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared import storage
from shared.api import cluster as cluster_api
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.kube import Object, dig, key_of
from shared.records import LARGEST
from shared.storage import ObjectStore, StoredObject

from .naming import InvalidName, ReleaseName, StackVersion
from .source_resolution import COMMON_SCOPE, scope_of
from .store import BLOBS

REFERRING_KINDS = (CLUSTER_STACK, CLUSTER_STACK_RELEASE, CLUSTER, CLUSTER_ADDON)
"""The kinds whose objects refer to releases."""

MAX_PINS = 1_000
"""The maximum number of unused pins of one scope."""

_RECORD = re.compile(r"(?:scopes/([0-9a-z]+)/)?(releases|failures|pins)/([^/]+)\.json")
"""Keys of records: manifests of releases, failures of fetches, and pins, which tie a tag to its first content."""
_DIGEST = re.compile(rb"[0-9a-f]{64}")


@dataclass(frozen=True)
class References:
    """The tags of the releases that objects refer to, and the scopes of the sources that exist."""

    tags: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset({COMMON_SCOPE})


@dataclass(frozen=True)
class Collected:
    """How many releases and blobs were deleted."""

    releases: int = 0
    blobs: int = 0


def references(objects: Iterable[Object]) -> References:
    """Returns the releases and scopes that these objects, of `REFERRING_KINDS`, refer to."""
    listed = list(objects)
    scopes = {scope_of(obj) for obj in listed if obj["kind"] == CLUSTER_STACK.kind}
    tags = {tag for obj in listed for tag in _tags(obj)}
    return References(frozenset(tags), frozenset({COMMON_SCOPE} | scopes))


def collect_garbage(objects: ObjectStore, references: References, before: datetime) -> Collected:
    """Deletes records and blobs without references, last written before `before`. Raises as `ObjectStore` does."""
    # Blobs are listed before manifests. A release that is stored after this list writes all its blobs anew, and
    # `delete_old` reads the time of the last write again.
    blobs = objects.list_objects(BLOBS, partial=True)
    listed = [objects.list_objects(prefix, partial=True) for prefix in ("releases/", "pins/", "failures/", "scopes/")]
    records = [entry for entries in listed for entry in entries]
    gone = {entry for entry in unreferenced(records, references) if objects.delete_old(entry, before)}
    if any(len(entries) >= storage.MAX_LISTED for entries in listed):  # a manifest that is not listed may need any blob
        return Collected(sum("releases/" in entry.key for entry in gone))
    manifests = [entry for entry in records if entry not in gone and "releases/" in entry.key]
    in_use = {f"{BLOBS}{digest}" for entry in manifests for digest in _digests(objects.get(entry.key, LARGEST))}
    unused = [entry for entry in blobs if entry.key not in in_use]
    return Collected(
        sum("releases/" in entry.key for entry in gone), sum(objects.delete_old(entry, before) for entry in unused)
    )


def unreferenced(records: Iterable[StoredObject], references: References) -> set[StoredObject]:
    """Returns the records without references. A key that `ReleaseStore` does not write always stays.

    A pin stays as long as its source, even if the tag is unused, because a tag must never get other content. Of the
    unused pins of one scope only the newest `MAX_PINS` stay, because the author of a source can publish any number.
    """
    found: set[StoredObject] = set()
    pins: dict[str, list[StoredObject]] = {}
    for record in records:
        match = _RECORD.fullmatch(record.key)
        if match is None:
            continue
        scope, kind, tag = match[1] or COMMON_SCOPE, match[2], match[3]
        if scope not in references.scopes:
            found.add(record)
        elif tag not in references.tags:
            (pins.setdefault(scope, []).append if kind == "pins" else found.add)(record)
    for unused in pins.values():
        found.update(sorted(unused, key=lambda pin: pin.modified, reverse=True)[MAX_PINS:])
    return found


def _digests(manifest: bytes | None) -> Iterator[str]:
    """Yields all texts that may be digests, whatever the manifest's format is; a false match only keeps a blob."""
    return (digest.decode() for digest in _DIGEST.findall(manifest or b""))


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
    """Yields the tags of `spec.versions`. A release that `autoSubscribe` chose has a ClusterStackRelease of its own."""
    spec = dig(stack, "spec", {})
    for version in dig(spec, "versions", []):
        try:
            yield ReleaseName(
                spec["provider"], spec["name"], spec["kubernetesVersion"], StackVersion.parse(version)
            ).tag
        except (InvalidName, KeyError, TypeError):
            continue
