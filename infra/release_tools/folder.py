"""Reads a release from a folder. The name of the folder is the tag of the release."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from shared.download.ingest import IngestLimits, ingest
from shared.releases.naming import InvalidName, ReleaseName
from shared.releases.release import METADATA, Blob, Release, assemble
from shared.releases.sources import Source
from shared.releases.sources.folder import FolderSource

CONFIG = "csctl.yaml"
"""The configuration of csctl. The sources of a cluster stack have this file, releases do not."""

Files = Mapping[str, bytes]
"""The content of files by name."""


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
    """Returns a hint on the folder to name instead of a folder that is not a release."""
    if (folder / CONFIG).is_file():
        build = f"`capi-functions release build {folder} <folder>`"
        return f": the folder has the sources of a cluster stack; {build} builds a release"
    below = sorted(path.name for path in folder.iterdir() if ReleaseName.from_class_name(path.name))
    return f": name a folder below it, such as {folder / below[-1]}" if below else ""


def assemble_release(name: ReleaseName, files: Files) -> Release:
    """Returns the release with these files. Raises `InvalidRelease`."""
    blobs = {file: Blob(hashlib.sha256(data).hexdigest(), len(data)) for file, data in files.items()}
    return assemble(name, blobs, files.get(METADATA))


def fetch_files(source: Source, tag: str) -> Files:
    """Returns the files of a release, read within the limits of the functions. Raises `SourceError`."""
    return {file.name: file.data for file in ingest(source.fetch(tag), IngestLimits())}
