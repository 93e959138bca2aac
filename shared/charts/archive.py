"""Reads chart archives before an engine opens them.

Archives are not trusted: nothing is written to disk, and entries and unpacked bytes are limited, for the archive and
the subcharts packed in it together.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .errors import ArchiveError

MAX_ENTRIES: Final = 10_000
MAX_BYTES: Final = 64 * 2**20
MAX_NESTING: Final = 8
"""Levels of subcharts packed inside one another."""

_PACKED_SUBCHART = re.compile(r"(^|/)charts/[^/]+\.tgz$")


def inspect(data: bytes, name: str, *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> dict[str, bytes]:
    """Returns the files of a `.tgz` by path.

    A packed subchart (`charts/*.tgz`) appears as itself and, below its own path, with its files.

    Args:
        data: The archive.
        name: The name of the archive, for messages.
        max_entries: The limit of entries, folders included.
        max_bytes: The limit of unpacked bytes, tar headers included.

    Raises:
        ArchiveError: The archive is malformed, unsafe or exceeds a limit; the message names archive and member.
    """
    members: dict[str, bytes] = {}
    _collect(data, name, "", _Budget(max_entries, max_bytes), members)
    return members


def pack(files: Mapping[str, bytes]) -> bytes:
    """Returns a `.tgz` of the files; equal files give equal bytes."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as tar,
    ):
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def folder(members: Mapping[str, bytes], name: str) -> dict[str, bytes]:
    """Returns the files below a folder of an inspected archive, with packed subcharts as files."""
    inside = {path: content for path, content in members.items() if path.startswith(f"{name}/")}
    packed = tuple(f"{path}/" for path in inside if path.endswith(".tgz"))
    return {path: content for path, content in inside.items() if not path.startswith(packed)}


@dataclass
class _Budget:
    """The limits, and what has been read so far."""

    max_entries: int
    max_bytes: int
    entries: int = 0
    bytes: int = 0
    nesting: int = 0


class _Unpacked(io.RawIOBase):
    """The decompressed stream; raises `ArchiveError` beyond the budget."""

    def __init__(self, data: bytes, name: str, budget: _Budget) -> None:
        self._stream = gzip.GzipFile(fileobj=io.BytesIO(data))
        self._name = name
        self._budget = budget

    def read(self, size: int = -1) -> bytes:
        chunk = self._stream.read(size)
        self._budget.bytes += len(chunk)
        if self._budget.bytes > self._budget.max_bytes:
            raise ArchiveError(f"{self._name}: unpacks to more than {self._budget.max_bytes} bytes")
        return chunk


def _collect(data: bytes, name: str, prefix: str, budget: _Budget, members: dict[str, bytes]) -> None:
    if budget.nesting > MAX_NESTING:
        raise ArchiveError(f"{name}: subcharts are nested more than {MAX_NESTING} levels deep")
    try:
        with tarfile.open(fileobj=_Unpacked(data, name, budget), mode="r|") as tar:
            for info in tar:
                path = _checked(info, name, budget)
                if info.isdir():
                    continue
                if prefix + path in members:
                    raise ArchiveError(f"{name}: member {info.name!r} occurs twice")
                file = tar.extractfile(info)
                assert file is not None
                content = members[prefix + path] = file.read()
                if _PACKED_SUBCHART.search(path):
                    budget.nesting += 1
                    _collect(content, f"{name}: {path}", f"{prefix}{path}/", budget, members)
                    budget.nesting -= 1
    except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError, zlib.error) as error:
        raise ArchiveError(f"{name}: not a gzip-compressed tar archive ({error})") from error


def _checked(info: tarfile.TarInfo, name: str, budget: _Budget) -> str:
    """Returns the member's normalized path. Raises `ArchiveError` if it is unsafe or exceeds a limit."""
    budget.entries += 1
    if budget.entries > budget.max_entries:
        raise ArchiveError(f"{name}: has more than {budget.max_entries} entries")
    path = info.name.replace("\\", "/")
    if path.startswith("/"):
        raise ArchiveError(f"{name}: member {info.name!r} has an absolute path")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ArchiveError(f"{name}: member {info.name!r} has a path with '..'")
    if info.issparse() or not (info.isreg() or info.isdir()):
        raise ArchiveError(f"{name}: member {info.name!r} is neither a plain file nor a directory")
    if info.size > budget.max_bytes - budget.bytes + tarfile.RECORDSIZE:
        raise ArchiveError(
            f"{name}: member {info.name!r} has {info.size} bytes, all may have {budget.max_bytes} together"
        )
    return "/".join(parts)
