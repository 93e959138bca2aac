"""Releases on a real web server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

import pytest

from shared.download import ReleaseNotFound, SourceError
from shared.download.access import Access
from shared.download.ingest import IngestLimits, ingest
from shared.releases.sources import Source
from shared.releases.sources.http import HttpSource
from tests.support.http_server import HttpServer, Response, files

TAG = "docker-ferrol-1-27-v2"
CLASS, ADDON = "docker-ferrol-1-27-cluster-class-v2.tgz", "docker-ferrol-1-27-cluster-addon-v1.tgz"
METADATA = b"""\
apiVersion: metadata.clusterstack.x-k8s.io/v1alpha1
versions: {clusterStack: v2, kubernetes: v1.27.3, components: {clusterAddon: v1}}
"""
FILES = {"metadata.yaml": METADATA, CLASS: b"class", ADDON: b"addon", "clusteraddon.yaml": b"stages"}


def received(source: Source, tag: str = TAG) -> dict[str, bytes]:
    return {file.name: file.data for file in ingest(source.fetch(tag), IngestLimits())}


def sums(content: Mapping[str, bytes]) -> bytes:
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in content.items()).encode()


@pytest.fixture
def site() -> Iterator[HttpServer]:
    with HttpServer(files({})) as site:
        yield site


def _serve(site: HttpServer, content: Mapping[str, bytes], **more: bytes) -> HttpSource:
    below = {f"/some/folder/{TAG}/{name}": data for name, data in content.items()}
    site.answer = files(below | {f"/some/folder/{name}": data for name, data in more.items()})
    return HttpSource(f"{site.url}/some/folder", Access(token="t0ken"))


def test_required_and_optional_files_are_fetched(site: HttpServer) -> None:
    assert received(_serve(site, FILES)) == FILES
    paths = [asked.path.rpartition("/")[2] for asked in site.requests]
    assert paths == [
        *("metadata.yaml", "SHA256SUMS", CLASS, ADDON, "cluster-addon-values.yaml", "clusteraddon.yaml"),
        *("topology-docker.yaml", "node-images.yaml", "hashes.json"),
    ]
    assert {asked.authorization for asked in site.requests} == {"Bearer t0ken"}


def test_sha256sums_is_checked_and_names_further_files(site: HttpServer) -> None:
    content = FILES | {"read me.md": b"more"}
    assert received(_serve(site, content | {"SHA256SUMS": sums(content)})) == content


@pytest.mark.parametrize(
    ("changed", "listed", "message", "transient"),
    [
        ({ADDON: b"other"}, FILES, "does not match its digest", True),
        ({"metadata.yaml": METADATA + b"\n"}, FILES, "'metadata.yaml' does not match its digest", True),
        ({"hashes.json": b"{}"}, FILES, r"'hashes.json' exists but is not in SHA256SUMS", False),
        ({}, FILES | {"gone.tgz": b""}, "'gone.tgz' is in SHA256SUMS but does not exist", True),
        ({}, FILES | {"../x": b""}, "'../x' is in SHA256SUMS but does not exist", True),
    ],
)
def test_sha256sums_that_contradicts_the_files_is_an_error(
    site: HttpServer, changed: dict[str, bytes], listed: dict[str, bytes], message: str, transient: bool
) -> None:
    source = _serve(site, FILES | changed | {"SHA256SUMS": sums(listed)})
    with pytest.raises(SourceError, match=message) as caught:
        received(source)
    assert caught.value.transient is transient


@pytest.mark.parametrize("text", [b"", b"\n", b"<html>", sums(FILES) + b"junk\n", sums(FILES) + sums(FILES), b"\xff"])
def test_malformed_sha256sums_is_an_error(site: HttpServer, text: bytes) -> None:
    with pytest.raises(SourceError, match="is not the output of sha256sum"):
        received(_serve(site, FILES | {"SHA256SUMS": text}))


def test_absent_release_is_not_found(site: HttpServer) -> None:
    source = _serve(site, FILES)
    for tag in ("docker-ferrol-1-27-v3", "nonsense", "../x"):
        with pytest.raises(ReleaseNotFound):
            received(source, tag)


@pytest.mark.parametrize("metadata", [b"", b"[", b"a" * 70_000])
def test_malformed_metadata_is_an_error(site: HttpServer, metadata: bytes) -> None:
    with pytest.raises(SourceError, match=r"metadata\.yaml|more than") as caught:
        received(_serve(site, FILES | {"metadata.yaml": metadata}))
    assert not caught.value.transient


@pytest.mark.parametrize(("status", "transient"), [(500, True), (401, False)])
def test_refused_file_is_an_error_not_absence(site: HttpServer, status: int, transient: bool) -> None:
    source = _serve(site, FILES)
    given = site.answer
    site.answer = lambda request: Response(status) if request.path.endswith("hashes.json") else given(request)
    with pytest.raises(SourceError, match=f"HTTP {status}") as caught:
        received(source)
    assert caught.value.transient is transient


def test_releases_are_listed_by_index_json(site: HttpServer) -> None:
    index = json.dumps({"releases": ["b", "a", "b"], "more": 1}).encode()
    assert _serve(site, {}, **{"index.json": index}).list() == ["a", "b"]


@pytest.mark.parametrize("index", [None, b"", b"[]", b'{"releases": [1]}', b"[" * 100_000])
def test_server_without_index_json_cannot_list(site: HttpServer, index: bytes | None) -> None:
    source = _serve(site, {}, **({} if index is None else {"index.json": index}))
    with pytest.raises(SourceError, match=r"index\.json"):
        source.list()
