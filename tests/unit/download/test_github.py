"""Releases on GitHub, from a server with the part of its API that releases need."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from shared.download import Listing, ReleaseNotFound, SourceError
from shared.download.access import Access
from shared.download.github import GitHubReleases
from shared.download.ingest import IngestLimits, ingest
from shared.releases.sources.urls import from_url
from tests.support.http_server import HttpServer, Request, Response, files

TAG, TOKEN = "docker-ferrol-1-27-v1", "ghp_t0ken"
REPOSITORY = "/api/v3/repos/org/repo"
CONTENT = {"metadata.yaml": b"meta", "a.tgz": bytes(300_000)}


def _json(value: Any, **headers: str) -> Response:
    return Response(200, json.dumps(value).encode(), headers)


@dataclass
class GitHub:
    """Assets are kept by another server, as at GitHub; `responses` has other responses by path."""

    storage: HttpServer
    private: bool = True
    releases: list[dict[str, Any]] = field(default_factory=list)
    responses: dict[str, Response] = field(default_factory=dict)
    asset: dict[str, Any] = field(default_factory=dict)
    """The fields of each asset that differ from the truth."""

    def __call__(self, request: Request) -> Response:
        parts = urlsplit(request.path)
        path = parts.path.removeprefix(REPOSITORY)
        if path in self.responses:
            return self.responses[path]
        if self.private and request.authorization != f"Bearer {TOKEN}":
            return Response(404)
        if path == "/releases":
            query = parse_qs(parts.query)
            return self._page(int(query["page"][0]), int(query["per_page"][0]))
        if path == f"/releases/tags/{TAG}":
            return _json({"tag_name": TAG, "name": "a title", "assets": list(map(self._asset, range(len(CONTENT))))})
        if path.startswith("/releases/assets/"):
            if request.headers["Accept"] != "application/octet-stream":
                return _json(self._asset(int(path.rpartition("/")[2])))
            return Response(302, b"", {"Location": f"{self.storage.url}/{path.rpartition('/')[2]}?signature=s1gned"})
        return Response(404)

    def _page(self, page: int, size: int) -> Response:
        found = self.releases[(page - 1) * size : page * size]
        more = len(self.releases) > page * size
        return _json(
            found, **({"Link": '<https://elsewhere/x>; rel="next", <https://e/y>; rel="last"'} if more else {})
        )

    def _asset(self, number: int) -> dict[str, Any]:
        name, data = list(CONTENT.items())[number]
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        truth = {"id": number, "name": name, "size": len(data), "state": "uploaded", "digest": digest}
        return truth | {"url": "https://elsewhere/"} | self.asset


@pytest.fixture
def github() -> Iterator[GitHub]:
    kept = {f"/{number}?signature=s1gned": data for number, data in enumerate(CONTENT.values())}
    with HttpServer(files(kept)) as storage:
        yield GitHub(storage)


@pytest.fixture
def site(github: GitHub) -> Iterator[HttpServer]:
    with HttpServer(github) as site:
        yield site


@pytest.fixture
def source(site: HttpServer) -> GitHubReleases:
    return _source(site)


def _source(site: HttpServer, token: str = TOKEN) -> GitHubReleases:
    source = from_url(f"github+http://{site.host}/org/repo", Access(token=token))
    assert isinstance(source, GitHubReleases)
    return source


def _received(source: GitHubReleases, tag: str = TAG) -> dict[str, bytes]:
    return {file.name: file.data for file in ingest(source.fetch(tag), IngestLimits())}


def test_release_is_fetched_by_its_tag(source: GitHubReleases, site: HttpServer, github: GitHub) -> None:
    assert _received(source) == CONTENT
    assert {asked.authorization for asked in site.requests} == {f"Bearer {TOKEN}"}
    assert [asked.authorization for asked in github.storage.requests] == [None, None]


def test_public_release_needs_no_token(site: HttpServer, github: GitHub) -> None:
    github.private = False
    assert _received(_source(site, "")) == CONTENT
    assert {asked.authorization for asked in site.requests} == {None}


def test_assets_without_digest_are_accepted(source: GitHubReleases, github: GitHub) -> None:
    github.asset = {"digest": None}
    assert _received(source) == CONTENT


def test_list_has_the_tags_of_all_pages(source: GitHubReleases, site: HttpServer, github: GitHub) -> None:
    github.releases = [{"tag_name": f"t{number:03}", "name": f"title {number}"} for number in range(250)]
    github.releases[7] |= {"draft": True}
    github.releases[8] |= {"prerelease": True}
    assert source.list() == [f"t{number:03}" for number in range(250) if number != 7]
    assert len(site.requests) == 3


def test_endless_pages_of_releases_are_limited_and_a_problem_of_the_list() -> None:
    page = Response(body=b'[{"tag_name": "t1"}]', headers={"Link": '</more>; rel="next"'})
    with HttpServer(lambda _: page) as site:
        listed = _source(site, "").list()
        assert len(site.requests) == 100
    assert isinstance(listed, Listing)
    assert (listed, "lists more than 100 pages of releases" in listed.problem) == (("t1",), True)


def test_absent_release_is_not_found(source: GitHubReleases) -> None:
    for tag in ("nope", "../../../user", "a?b", ""):
        with pytest.raises(ReleaseNotFound):
            _received(source, tag)


def test_absent_repository_is_a_permanent_error(site: HttpServer) -> None:
    with pytest.raises(SourceError, match="a private repository needs a token"):
        _source(site, "").list()


@pytest.mark.parametrize("path", ["/releases", f"/releases/tags/{TAG}", "/releases/assets/1"])
@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"Retry-After": "17"}, 17, 17),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "in 600 s"}, 500, 600),
    ],
)
@pytest.mark.parametrize("status", [403, 429])
def test_rate_limit_sets_the_delay_of_the_next_request(
    source: GitHubReleases, github: GitHub, path: str, status: int, headers: dict[str, str], least: float, most: float
) -> None:
    reset = str(int(time.time()) + 600)
    headers = {name: reset if value == "in 600 s" else value for name, value in headers.items()}
    github.responses = {path: Response(status, f'{{"message": "for {TOKEN}"}}'.encode(), headers)}
    with pytest.raises(SourceError, match="limits requests") as caught:
        source.list() if path == "/releases" else _received(source)
    assert caught.value.transient
    assert caught.value.retry_after is not None
    assert least <= caught.value.retry_after <= most
    assert TOKEN not in str(caught.value)


def test_refused_token_is_a_permanent_error(site: HttpServer, github: GitHub) -> None:
    github.responses = {"/releases": Response(401, b"{}")}
    with pytest.raises(SourceError, match="the token is not accepted") as caught:
        _source(site).list()
    assert not caught.value.transient


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (Response(200, b"me", length=4), "does not answer"),
        (Response(200, b"me"), "2 bytes instead of 4"),
        (Response(200, b"mexa"), "does not match its digest"),
        (Response(500), "HTTP 500"),
    ],
)
def test_asset_that_differs_from_size_or_digest_is_refused(
    source: GitHubReleases, github: GitHub, stored: Response, message: str
) -> None:
    github.storage.answer = lambda _: stored
    with pytest.raises(SourceError, match=message) as caught:
        _received(source)
    assert caught.value.transient
    assert "s1gned" not in str(caught.value)


def test_asset_that_is_being_uploaded_is_a_transient_error(source: GitHubReleases, github: GitHub) -> None:
    github.asset = {"state": "starter"}
    with pytest.raises(SourceError, match="still being uploaded") as caught:
        _received(source)
    assert caught.value.transient


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b'{"assets": 1}',
        b'{"assets": [1]}',
        b'{"assets": [{"id": "../x"}]}',
        b"[" * 9999,
    ],
)
def test_answer_of_another_server_is_a_transient_error(source: GitHubReleases, github: GitHub, answer: bytes) -> None:
    github.responses = {
        f"/releases/tags/{TAG}": Response(body=answer),
        "/releases": Response(body=b'{"message": 1}'),
    }
    with pytest.raises(SourceError, match=r"JSON|like GitHub"):
        _received(source)
    with pytest.raises(SourceError, match="like GitHub"):
        source.list()
