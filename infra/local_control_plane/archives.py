"""Downloads archives of executables, and unpacks them; both may be hostile. An incomplete file is never visible."""

import errno
import gzip
import hashlib
import http.client
import lzma
import os
import stat
import tarfile
import urllib.request
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from infra.local_control_plane.cache import partial

LARGEST = 400 * 1024 * 1024
"""The maximum number of bytes of one executable, and of an archive that is downloaded."""
LARGEST_UNPACKED = 1024 * 1024 * 1024
"""The maximum number of bytes of an archive's content, files that are not unpacked included."""

SUMS: Final = "SHA512SUMS"
"""The name of a file with digests, which `sha512sum --check` understands."""

_TOO_LARGE = "its content is larger than {} bytes"
_FOLDER = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR)
_CONNECT = 4.0  # seconds to connect; if the host cannot be reached, the executable is built
_CHUNK = 1 << 20


class UnusableArchive(Exception):
    """An archive cannot be downloaded or unpacked; the message says why."""


@contextmanager
def unusable() -> Iterator[None]:
    """Raises UnusableArchive for errors of the network and of the format of an archive in the block.

    An OSError passes if the folder is the reason (no space, no rights).
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FOLDER:
            raise
        raise UnusableArchive(str(error)) from error
    except (
        EOFError,
        ValueError,
        NotImplementedError,  # a compression method of zip
        RuntimeError,  # an encrypted zip
        http.client.HTTPException,
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
    ) as error:
        raise UnusableArchive(str(error) or type(error).__name__) from error


def download(url: str, target: Path, wanted: str) -> None:
    """Downloads a file and checks its digest, `algorithm:hex`. Raises UnusableArchive or OSError."""
    algorithm = wanted.partition(":")[0]
    digest = hashlib.new(algorithm)
    with urllib.request.urlopen(url, timeout=_CONNECT) as response, target.open("wb") as file:  # noqa: S310
        while chunk := response.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
            if file.tell() > LARGEST:
                raise UnusableArchive(f"larger than {LARGEST} bytes")
    found = f"{algorithm}:{digest.hexdigest()}"
    if found != wanted:
        raise UnusableArchive(f"its digest is {found}, not {wanted}")


def unpack(archive: Path, names: Collection[str], directory: Path) -> list[str]:
    """Unpacks the executables of a tar.gz or zip archive into a folder; returns their names.

    These are the regular files with one of the base names `names`. Everything else is ignored: folders, links, paths.

    Raises UnusableArchive for a damaged archive and for one above the limits, OSError for the folder.
    """
    found = []
    with unusable():
        for name, size, content in _members(archive):
            if name not in names:
                continue
            if name in found:
                raise UnusableArchive(f"it contains two files {name}")
            if size > LARGEST:
                raise UnusableArchive(f"{name} is larger than {LARGEST} bytes")
            with partial(directory / name) as part:
                with part.open("wb") as file:
                    copy(content, file, LARGEST)
                install(part, directory / name)
            found.append(name)
    return found


def install(part: Path, target: Path) -> None:
    """Makes the file executable and renames it to `target`, after its content is on disk."""
    part.chmod(0o755)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(part, target)


def copy(source: IO[bytes], target: IO[bytes], most: int) -> None:
    """Copies a stream. Raises UnusableArchive if it has more than `most` bytes."""
    left = most
    while chunk := source.read(_CHUNK):
        left -= len(chunk)
        if left < 0:
            raise UnusableArchive(f"a file in it is larger than {most} bytes")
        target.write(chunk)


def sha512(path: Path) -> str:
    """Returns the digest of a file in hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha512").hexdigest()


def _members(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Yields base name, declared size and content of each regular file."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            if sum(info.file_size for info in zipped.infolist()) > LARGEST_UNPACKED:
                raise UnusableArchive(_TOO_LARGE.format(LARGEST_UNPACKED))
            for info in zipped.infolist():
                kind = stat.S_IFMT(info.external_attr >> 16)  # 0 if the archive was not written on Unix
                if kind in (0, stat.S_IFREG) and not info.is_dir():
                    with zipped.open(info) as content:
                        yield Path(info.filename).name, info.file_size, content
        return
    with gzip.open(archive) as stream, tarfile.open(fileobj=_Bounded(stream), mode="r|") as members:  # type: ignore[call-overload]
        for member in members:
            regular = members.extractfile(member) if member.isreg() else None
            if regular is not None:
                yield Path(member.name).name, member.size, regular


class _Bounded:
    """Reads a stream up to LARGEST_UNPACKED bytes, because a small archive may contain much more."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self._left = LARGEST_UNPACKED

    def read(self, size: int) -> bytes:
        chunk = self._stream.read(size)
        self._left -= len(chunk)
        if self._left < 0:
            raise UnusableArchive(_TOO_LARGE.format(LARGEST_UNPACKED))
        return chunk
