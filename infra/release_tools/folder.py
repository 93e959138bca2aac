"""Reads a release from a folder, whose name is the tag of the release."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from shared.download.ingest import IngestLimits, ingest
from shared.releases.naming import InvalidName, ReleaseName
from shared.releases.release import METADATA, Blob, Release, assemble
from shared.releases.sources import Source
from shared.releases.sources.folder import FolderSource

SOURCES = "csctl.yaml"
"""The file that sources of cluster stacks have, and releases do not have."""

Files = Mapping[str, bytes]
"""The content of files by their names."""


def read_release(folder: Path) -> tuple[Release, Files]:
    """Returns the release in a folder, and its files. Raises `InvalidName`, `InvalidRelease` or `SourceError`."""
    path = folder.resolve()
    try:
        name = ReleaseName.parse(path.name)
    except InvalidName as error:
        raise InvalidName(f"{error}{_hint(folder)}") from error
    files = fetch_files(FolderSource(path.parent), path.name)
    return assemble_release(name, files), files


def _hint(folder: Path) -> str:
    """Returns a hint for a folder that is not a release."""
    if (folder / SOURCES).is_file():
        return f": these are its sources; `capi-functions release build {folder} <folder>` makes a release of them"
    below = sorted(path.name for path in folder.iterdir() if ReleaseName.from_class_name(path.name))
    return f": name a release in it, such as {folder / below[-1]}" if below else ""


def assemble_release(name: ReleaseName, files: Files) -> Release:
    """Returns the release that files make. Raises `InvalidRelease`."""
    blobs = {file: Blob(hashlib.sha256(data).hexdigest(), len(data)) for file, data in files.items()}
    return assemble(name, blobs, files.get(METADATA))


def fetch_files(source: Source, tag: str) -> Files:
    """Returns the files of a release, read within the limits of the functions. Raises `SourceError`."""
    return {file.name: file.data for file in ingest(source.fetch(tag), IngestLimits())}
