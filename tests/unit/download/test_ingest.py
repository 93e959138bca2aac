"""The checks of names, sizes and digests of a source's files (`shared.download.ingest`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from shared.download import File, SourceError, declared_size
from shared.download.ingest import MIB, IngestLimits, ingest, is_plain_name


@pytest.mark.parametrize("name", ["metadata.yaml", "a-1-27-v0-sha.x.tgz", "..data", "with space", "ünïcode"])
def test_plain_name_is_accepted(name: str) -> None:
    assert is_plain_name(name)


HOSTILE = [
    *("", ".", "..", "/etc/passwd", "../x", "a/b", "a/", "a\\b", "..\\x", "C:\\x"),
    *("a\0b", "a\nb", "a\x1b[2J", "a\x7f", "a\u202eb", "\ud800", "a" * 256, "ü" * 128),
]


@pytest.mark.parametrize("name", HOSTILE)
def test_unsafe_name_is_refused(name: str) -> None:
    assert not is_plain_name(name)
    with pytest.raises(SourceError, match="not a plain name") as caught:
        list(ingest([File(name, [b"x"])], IngestLimits()))
    assert not caught.value.transient
    assert str(caught.value).isprintable()


def test_name_that_occurs_twice_is_refused() -> None:
    with pytest.raises(SourceError, match="twice"):
        list(ingest([File("a", [b"1"]), File("a", [b"1"])], IngestLimits()))


@pytest.mark.parametrize(
    ("text", "size"), [("", None), ("12", 12), ("-1", None), ("1e3", None), ("9" * 5000, 10**18 - 1)]
)
def test_declared_size_is_a_number_of_bytes_however_long(text: str, size: int | None) -> None:
    assert declared_size(text) == size


def test_size_and_digest_of_the_source_are_checked() -> None:
    digest = hashlib.sha256(b"ab").hexdigest()
    [received] = ingest([File("a", [b"a", b"", b"b"], size=2, digest=digest)], IngestLimits())
    assert (received.name, received.data, received.digest) == ("a", b"ab", digest)
    for broken in (File("a", [b"a"], size=2), File("a", [b"ax"], digest=digest)):
        with pytest.raises(SourceError) as caught:
            list(ingest([broken], IngestLimits()))
        assert caught.value.transient


def _zeros(size: int, given: list[int]) -> Iterator[bytes]:
    chunk = bytes(MIB)
    for _ in range(size // MIB):
        given[0] += MIB
        yield chunk


def test_file_beyond_the_limit_is_refused_while_it_is_read() -> None:
    given = [0]
    with pytest.raises(SourceError, match="too large"):
        list(ingest([File("zeros", _zeros(10 * 1024 * MIB, given))], IngestLimits(file=8 * MIB)))
    assert given[0] <= 9 * MIB


def test_announced_size_beyond_the_limit_is_refused_before_the_first_byte() -> None:
    given = [0]
    with pytest.raises(SourceError, match="too large"):
        list(ingest([File("zeros", _zeros(MIB, given), size=10 * 1024 * MIB)], IngestLimits()))
    assert given == [0]


def test_sum_of_files_is_limited() -> None:
    limits = IngestLimits(file=4, release=6)
    assert len(list(ingest([File("a", [b"123"]), File("b", [b"456"])], limits))) == 2
    with pytest.raises(SourceError, match="'b' is too large: over 3 bytes"):
        list(ingest([File("a", [b"123"]), File("b", [b"4567"])], limits))


def test_number_of_files_is_limited() -> None:
    with pytest.raises(SourceError, match="more than 3 files"):
        list(ingest((File(str(n), []) for n in range(10**9)), IngestLimits(files=3)))
