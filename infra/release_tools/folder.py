"""A release as an author has it: a folder that is named by its tag."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from shared.download.ingest import Limits, ingest
from shared.releases.naming import InvalidName, ReleaseName
from shared.releases.release import METADATA, Blob, Release, assemble
from shared.releases.sources import Source
from shared.releases.sources.folder import FolderSource

SOURCES = "csctl.yaml"
"""The file that sources of releases have, and releases have not."""

Files = Mapping[str, bytes]
"""Content by file name."""


def read(folder: Path) -> tuple[Release, Files]:
    """Raises `InvalidName`, `InvalidRelease` or `SourceError`."""
    path = folder.resolve()
    try:
        name = ReleaseName.parse(path.name)
    except InvalidName as error:
        raise InvalidName(f"{error}{_way_out(folder)}") from error
    files = received(FolderSource(path.parent), path.name)
    return described(name, files), files


def _way_out(folder: Path) -> str:
    """What to name instead of a folder that is no release."""
    if (folder / SOURCES).is_file():
        return f": these are its sources; `capi-functions release build {folder} <folder>` makes a release of them"
    below = sorted(path.name for path in folder.iterdir() if ReleaseName.from_class_name(path.name))
    return f": name a release in it, such as {folder / below[-1]}" if below else ""


def described(name: ReleaseName, files: Files) -> Release:
    """Raises `InvalidRelease` for files that make none."""
    blobs = {file: Blob(hashlib.sha256(data).hexdigest(), len(data)) for file, data in files.items()}
    return assemble(name, blobs, files.get(METADATA))


def received(source: Source, tag: str) -> Files:
    """A release's files, within the limits that hold for the functions, too. Raises `SourceError`."""
    return {file.name: file.data for file in ingest(source.fetch(tag), Limits())}
