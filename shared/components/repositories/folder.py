"""A folder as clusterctl lays it out: `file:///<root>/<label of the provider>/<version or latest>/<file>`.

For the command line alone, because functions must not open paths that users name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from shared import semver
from shared.download import SourceError
from shared.download.signatures import MAX_SIGNATURE, PROVIDER_KEY, SUFFIX, verifier_in

from ..errors import ComponentsError
from .addresses import split, validate_version
from .port import MAX_COMPONENTS, MAX_METADATA, METADATA, Files, RepositoryConfig, RepositoryType, decode_file

LATEST = "latest"


@dataclass(frozen=True)
class FolderRepository:
    """The versions of one provider in a folder of clusterctl's layout."""

    url: str

    @property
    def place(self) -> str:
        """See `Repository.place`."""
        return f"file://{self._path.parent.parent}/{self._path.name}"

    def default_version(self) -> str:
        """See `Repository.default_version`."""
        version = self._path.parent.name
        if version != LATEST:
            return validate_version(self.url, version)
        folder = self._path.parent.parent
        try:
            found = [entry.name for entry in folder.iterdir() if semver.try_parse(entry.name)]
        except OSError as error:
            raise SourceError(f"{folder} cannot be read: {error.strerror}", transient=False) from None
        if not found:
            raise ComponentsError(f"{folder} has no folder whose name is a version")
        return semver.highest(found)

    def fetch(self, version: str) -> Files:
        """See `Repository.fetch`."""
        folder = self._path.parent.parent / validate_version(self.url, version)
        verifier = verifier_in(PROVIDER_KEY)

        def read(file: str, limit: int) -> str:
            data = _read(folder / file, limit)
            if verifier:
                signature = folder / f"{file}{SUFFIX}"
                verifier.require(
                    f"{folder}/{file}", data, _read(signature, MAX_SIGNATURE) if signature.exists() else b""
                )
            return decode_file(data, file)

        return Files(read(METADATA, MAX_METADATA), read(self._path.name, MAX_COMPONENTS))

    @property
    def _path(self) -> Path:
        return Path(unquote(split(self.url, "file").path))


def _read(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}", transient=False) from None
    if len(data) > limit:
        raise ComponentsError(f"{path} is larger than {limit} bytes")
    return data


def _serves(config: RepositoryConfig) -> bool:
    return config.local and config.url.startswith("file:")


def _open(config: RepositoryConfig) -> FolderRepository:
    return FolderRepository(config.url)


REPOSITORY_TYPE = RepositoryType(_serves, _open)
