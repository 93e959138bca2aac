"""Unmaps the pages of libraries that were only read for loading, so that the memory figure shows a worker's use.

Nothing is lost: Linux maps such a page again, from its cache or the file, when it is read.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

_MAPPING = re.compile(r"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) (?P<rights>\S+) \S+ \S+ \S+ *(?P<file>/?)")
_DONTNEED = 4  # MADV_DONTNEED of Linux


def unmap_unchanged() -> None:
    """Unmaps all read-only pages of files, except mappings with a changed page, which would be lost."""
    madvise = ctypes.CDLL(None).madvise
    with suppress(OSError), open("/proc/self/smaps") as smaps:
        for start, size in unchanged(smaps):
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _DONTNEED)


def unchanged(smaps: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yields start and size of the mappings of files that can only be read and have no changed page (proc(5), smaps).

    A library's relocations are such changes, made before the loader protects them.
    """
    mapping: re.Match[str] | None = None
    for line in smaps:
        mapping = _MAPPING.match(line) or mapping
        if mapping and line.split() == ["Anonymous:", "0", "kB"] and mapping["file"] and mapping["rights"][1] == "-":
            start = int(mapping["start"], 16)
            yield start, int(mapping["end"], 16) - start
