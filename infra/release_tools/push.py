"""Publishes a release to a folder, a bucket or a registry: visible only when complete."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Literal

from shared.download import ReleaseNotFound, SourceError
from shared.download.access import Access
from shared.releases.naming import ReleaseName
from shared.releases.release import METADATA, Release
from shared.releases.sources import Source
from shared.releases.sources.folder import FolderSource
from shared.releases.sources.oci import ARTIFACT_TYPE, OciSource, media_type
from shared.releases.sources.s3 import S3Source
from shared.releases.sources.urls import from_url

from .folder import Files, fetch_files, read_release

Outcome = Literal["pushed", "replaced", "unchanged"]
Destination = FolderSource | S3Source | OciSource

_PLACES = (
    "releases are pushed to a folder, s3://<bucket>/<prefix>, oci://<registry>/<repository> or, without TLS, "
    "oci+http://<registry>/<repository>"
)


class PushError(Exception):
    """The release was not published; the message has the remedy."""


def push(folder: Path, url: str, access: Access | None = None, *, force: bool = False) -> Outcome:
    """Publishes the release in `folder`. Raises as `publish` does, and `InvalidName` or `InvalidRelease`."""
    release, files = read_release(folder)
    return publish(release, files, url, access, force=force)


def publish(release: Release, files: Files, url: str, access: Access | None = None, *, force: bool = False) -> Outcome:
    """Publishes a release at `url`, which is then a source for functions.

    Returns "pushed", "replaced" (a different release had the name), or "unchanged" (the same release was there).

    Args:
        release: The release.
        files: Its files.
        url: A path, or an `s3:`, `oci:` or `oci+http:` URL.
        access: Credentials for the URL.
        force: Whether to replace a different release of the same name.

    Raises:
        PushError: There is a different release, or the URL cannot be pushed to.
        SourceError: The registry or bucket fails.
        StorageError: The bucket fails.
        OSError: The folder cannot be written.
    """
    target = _target(url, access)
    if isinstance(target, FolderSource):
        target.root.mkdir(parents=True, exist_ok=True)
    try:
        there = _published(target, release.name.tag)
    except SourceError as error:
        raise PushError(f"{error}{_hint(target, str(error))}") from error
    if there == files:
        return "unchanged"
    if there is not None and not force:
        raise PushError(
            f"{url} has a different release {release.name.tag} ({_difference(there, files)}); "
            "build it with a new version, or replace it with --force"
        )
    match target:
        case FolderSource():
            _to_folder(target, release.name, files)
        case S3Source():
            _to_bucket(target, release.name, files)
        case OciSource():
            _to_registry(target, release, files)
    return "pushed" if there is None else "replaced"


def _target(url: str, access: Access | None) -> Destination:
    target: Source | None
    try:
        target = from_url(url, access)
    except SourceError:
        target = None
    if not isinstance(target, Destination):
        shown = "the URL must have no credentials, ? or #" if set(url) & set("@?#") else url
        raise PushError(f"{shown}: {_PLACES}")
    return target


def _hint(target: Destination, problem: str) -> str:
    """Returns a hint for servers without TLS, or with an unknown certificate."""
    if not isinstance(target, OciSource):
        return ""
    if "is not trusted" in problem:
        return "; --ca-file takes the certificates to trust"
    return f"; without TLS it is oci+http://{target.host}/{target.repository}" if "[SSL" in problem else ""


def _published(target: Destination, tag: str) -> Files | None:
    """Returns the published files of a release; None if there are none, or only files of an interrupted push."""
    try:
        files = fetch_files(target, tag)
    except ReleaseNotFound:
        return None
    return files if METADATA in files else None


def _difference(there: Files, here: Files) -> str:
    return ", ".join(file for file in sorted({*there, *here}) if there.get(file) != here.get(file))


def _to_folder(target: FolderSource, name: ReleaseName, files: Files) -> None:
    place = target.root / name.tag
    # Folders with a leading dot are not releases, and a rename within a folder is atomic.
    with tempfile.TemporaryDirectory(prefix=f".{name.tag}-", dir=target.root) as scratch:
        new = Path(scratch, "new")
        new.mkdir()
        for file, data in files.items():
            (new / file).write_bytes(data)
        if place.exists():
            place.rename(Path(scratch, "old"))
        try:
            new.rename(place)
        except OSError:
            if (old := Path(scratch, "old")).exists() and not place.exists():
                shutil.move(old, place)
            raise


def _to_bucket(target: S3Source, name: ReleaseName, files: Files) -> None:
    from shared.storage import ObjectStore

    store = ObjectStore(f"s3://{target.bucket}")
    prefix = "".join(f"{part}/" for part in (target.prefix, name.tag) if part)
    # A release without metadata does not exist, so the metadata is deleted first and written last.
    store.delete(prefix + METADATA)
    for key in store.list(prefix):
        if key.removeprefix(prefix) not in files:
            store.delete(key)
    for file in sorted(files, key=lambda file: (file == METADATA, file)):
        store.put(prefix + file, files[file], if_absent=False)


def _to_registry(target: OciSource, release: Release, files: Files) -> None:
    from shared.download.registry import Layer, Registry

    layers = [Layer(file, files[file], media_type(file)) for file in sorted(files)]
    annotations = {"kubernetesVersion": release.metadata.kubernetes} | _hash(files)
    with Registry(target.host, target.repository, target.access, target.plain) as registry:
        registry.push(release.name.tag, layers, artifact_type=ARTIFACT_TYPE, annotations=annotations)


def _hash(files: Files) -> dict[str, str]:
    try:
        return {"hash": str(json.loads(files["hashes.json"])["clusterStack"])[:7]}
    except (KeyError, TypeError, ValueError):
        return {}
