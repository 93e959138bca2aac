"""An S3 endpoint that lies: each request ends in a declared error, or in an absent object, within time and memory.

Object storage is asked in a process of its own, whose memory is measured. obstore reads bodies of errors and pages of
listings as a whole, so their memory is bounded by the time-out alone, and no row asks for less.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from shared.download import SourceError
from shared.download.access import Access
from shared.releases.sources.s3 import S3Source
from tests.support.hostile import Behaviour, HostileServer, answering, dripping_headers, hanging, redirecting
from tests.support.until import HANGS

KEYS = {"AWS_ACCESS_KEY_ID": "AKIA1", "AWS_SECRET_ACCESS_KEY": "s3cret"}
MIB = 1 << 20
LIMIT = 4 * MIB
"""Bytes that the caller expects at most."""

_WRITTEN = "Last-Modified: Tue, 21 Oct 2025 07:28:00 GMT"
_PAGE = (
    "<ListBucketResult><IsTruncated>true</IsTruncated>"
    "<NextContinuationToken>{}</NextContinuationToken>{}</ListBucketResult>"
)
_ENTRY = "<Contents><Key>k{}</Key><Size>1</Size><LastModified>2025-10-21T07:28:00Z</LastModified></Contents>"

_PROGRAM = """
import json, sys, time
from shared import buckets, storage
buckets.TOTAL_TIMEOUT, buckets.READ_TIMEOUT, buckets.CONNECT_TIMEOUT, storage.MAX_LISTED = 2.0, 1.0, 1.0, 20_000
import asyncio, obstore
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024
settings, method, arguments, options = json.loads(sys.argv[1])
before, started = peak(), time.monotonic()
store = storage.ObjectStore("s3://bucket", settings)
if "data" in options:
    options["data"] = options["data"].encode()
try:
    outcome = repr(getattr(store._place if method == "create" else store, method)(*arguments, **options))
except storage.StorageError as error:
    outcome = f"{type(error).__name__}: {error}"
print(json.dumps([outcome, time.monotonic() - started, peak() - before]))
"""


@dataclass(frozen=True)
class Outcome:
    """What a request ends in. `text` is the result, or the name of the error and its message."""

    text: str
    seconds: float
    mib: int


def ask(url: str, method: str) -> Outcome:
    """Sends one request to object storage at a URL, in a process of its own."""
    options: dict[str, dict[str, object]] = {"put": {"data": "x", "if_absent": True}, "get": {"limit": LIMIT}}
    arguments = [] if method in ("list", "create") else ["k"]
    asked = json.dumps([{"S3_ENDPOINT_URL": url, **KEYS}, method, arguments, options.get(method, {})])
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, asked], capture_output=True, text=True, check=True, timeout=HANGS
    )
    return Outcome(*json.loads(done.stdout))


def head(*lines: str) -> bytes:
    return "\r\n".join(("HTTP/1.1 200 OK", _WRITTEN, 'ETag: "x"', *lines, "", "")).encode()


def flooding(*lines: str) -> Behaviour:
    """An endless body, as fast as the client reads."""

    def behaviour(_path: str, closing: threading.Event) -> Iterator[bytes]:
        yield head(*lines)
        while not closing.is_set():
            yield b"10000\r\n" + b"x" * 65536 + b"\r\n"

    return behaviour


def dripping(*lines: str, status: str = "200 OK") -> Behaviour:
    """An endless body, each byte of which arrives in time."""

    def behaviour(_path: str, closing: threading.Event) -> Iterator[bytes]:
        yield head(*lines).replace(b"200 OK", status.encode())
        while not closing.wait(0.02):
            yield b" "

    return behaviour


def cut(answer: bytes) -> Behaviour:
    """These bytes, and the end of the connection."""

    def behaviour(_path: str, _closing: threading.Event) -> Iterator[bytes]:
        yield answer
        raise OSError("the connection ends here")

    return behaviour


def endless_pages(entries: int, *, same: bool = False) -> Behaviour:
    """A listing that always has another page, of so many objects."""
    page = [0]

    def behaviour(_path: str, closing: threading.Event) -> Iterator[bytes]:
        page[0] += 1
        keys = "".join(_ENTRY.format(f"{page[0]:06}-{number}") for number in range(entries))
        yield from answering(_PAGE.format("t" if same else page[0], keys).encode())("", closing)

    return behaviour


LISTING = "<ListBucketResult><IsTruncated>false</IsTruncated>{}</ListBucketResult>"
UTF_16 = ('<?xml version="1.0" encoding="UTF-16"?>' + LISTING.format(_ENTRY)).encode("utf-16")
ENTITIES = (
    "<!DOCTYPE l ["
    + '<!ENTITY a0 "aaaaaaaaaa">'
    + "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9))
    + f"]>{LISTING.format('<Contents><Key>&a9;</Key></Contents>')}"
).encode()
HIDDEN_ENTITIES = ('<?xml version="1.0" encoding="UTF-16"?>' + ENTITIES.decode()).encode("utf-16")

UNAVAILABLE, FAILED, ABSENT = "StorageUnavailable: ", "StorageError: ", "None"
ATTACKS: dict[str, tuple[str, Behaviour, str]] = {
    "listing in UTF-16": ("list", answering(UTF_16), FAILED),
    "listing with entities": ("list", answering(ENTITIES), FAILED),
    "listing in UTF-16 with entities": ("list", answering(HIDDEN_ENTITIES), FAILED),
    "listing with endless pages": ("list", endless_pages(1000), FAILED),
    "listing with the same page again": ("list", endless_pages(1000, same=True), FAILED),
    "listing with endless empty pages": ("list", endless_pages(0), UNAVAILABLE),
    "listing that drips": ("list", dripping("Content-Length: 1000000"), UNAVAILABLE),
    "object larger than expected": ("get", flooding(f"Content-Length: {LIMIT + 1}"), ABSENT),
    "object of 50 GiB": ("get", flooding(f"Content-Length: {50 << 30}"), ABSENT),
    "object without a length": ("get", flooding("Transfer-Encoding: chunked"), FAILED),
    "object with two lengths": ("get", flooding("Content-Length: 5", "Transfer-Encoding: chunked"), ""),
    "object that is shorter than its length": ("get", cut(head("Content-Length: 1000") + b"short"), ""),
    "object with an invalid length": ("get", answering(b"x", "200 OK", "Content-Length: -1"), ""),
    "object that drips": ("get", dripping("Content-Length: 1000000"), UNAVAILABLE),
    "answer without an end": ("get", dripping_headers, UNAVAILABLE),
    "no answer": ("get", hanging, UNAVAILABLE),
    "no answer to a write": ("put", hanging, UNAVAILABLE),
    "error that drips": ("get", dripping("Content-Length: 1000000", status="403 Forbidden"), ""),
    "redirect to another host": ("get", redirecting("http://127.0.0.2:1/latest/meta-data"), FAILED),
    "redirect to the metadata": ("exists", redirecting("http://169.254.169.254/latest/meta-data"), FAILED),
    "redirect for ever": ("get", redirecting("/bucket/k"), ""),
    "write that is redirected": ("put", redirecting("http://127.0.0.2:1/bucket/k"), FAILED),
    "internal error": ("get", answering(b"", "500 Internal Server Error"), UNAVAILABLE),
    "overload": ("put", answering(b"", "503 Slow Down"), UNAVAILABLE),
    "creation that drips": ("create", dripping("Content-Length: 1000000", status="403 Forbidden"), ""),
    "creation without an end": ("create", dripping_headers, UNAVAILABLE),
    "creation that is redirected": ("create", redirecting("http://127.0.0.2:1/bucket"), FAILED),
    "creation that floods": ("create", flooding("Transfer-Encoding: chunked"), ""),
    "conflict": ("put", answering(b"", "409 Conflict"), UNAVAILABLE),
    "not HTTP": ("get", cut(b"220 smtp.example.com ESMTP\r\n"), ""),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_lying_store_ends_in_a_declared_error_within_time_and_memory(attack: str) -> None:
    method, behaviour, expected = ATTACKS[attack]
    with HostileServer(behaviour) as server:
        outcome = ask(server.url, method)
    assert outcome.text.startswith(expected or (UNAVAILABLE, FAILED, ABSENT)), outcome
    assert outcome.seconds < 60, "one attempt takes at most 2 s here"
    assert outcome.mib < 64, outcome
    assert "s3cret" not in outcome.text


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "2852039166", "100.100.100.200"])
def test_endpoint_at_a_metadata_address_is_refused(host: str) -> None:
    outcome = ask(f"http://{host}", "get")
    assert outcome.text.startswith(FAILED)
    assert "is a link-local or metadata address, which is refused" in outcome.text


SOURCE_ATTACKS: dict[str, tuple[Behaviour, str]] = {
    "listing in UTF-16": (answering(UTF_16), "does not answer like S3"),
    "listing with entities": (answering(ENTITIES), "does not answer like S3"),
    "listing in UTF-16 with entities": (answering(HIDDEN_ENTITIES), "does not answer like S3"),
    "listing with endless pages": (endless_pages(10), "more than 100 pages"),
    "listing with the same page again": (endless_pages(10, same=True), "does not answer like S3"),
    "listing without an end": (flooding("Transfer-Encoding: chunked"), "answers with more than"),
    "redirect to the metadata": (redirecting("http://169.254.169.254/"), "set region or endpoint"),
}


@pytest.mark.parametrize("attack", SOURCE_ATTACKS)
@pytest.mark.parametrize("ask_source", [S3Source.list, lambda source: [*source.fetch("t")]], ids=["list", "fetch"])
def test_lying_source_of_releases_ends_in_a_declared_error(
    attack: str, ask_source: Callable[[S3Source], object]
) -> None:
    behaviour, message = SOURCE_ATTACKS[attack]
    with HostileServer(behaviour) as server:
        source = S3Source("bucket", "", Access(access_key="AKIA1", secret_key="s3cret", endpoint=server.url))
        started = time.monotonic()
        with pytest.raises(SourceError, match=message):
            ask_source(source)
        assert time.monotonic() - started < 60
        assert server.sent < 64 * MIB
