"""Releases in a bucket of a real object store."""

from __future__ import annotations

import pytest

from shared.download import ReleaseNotFound, SourceError
from shared.download.access import Access
from shared.download.ingest import IngestLimits, ingest
from shared.releases.sources.s3 import S3Source
from shared.releases.sources.urls import from_env, from_url
from shared.storage import ObjectStore
from tests.support.http_server import HttpServer, Response

TAG = "docker-ferrol-1-27-v1"
CONTENT = {"metadata.yaml": b"meta", "with space+&=ü.tgz": bytes(300_000)}


@pytest.fixture
def bucket(object_store: ObjectStore) -> ObjectStore:
    for name, data in CONTENT.items():
        object_store.put(f"some/prefix/{TAG}/{name}", data, if_absent=False)
    for key in (
        f"some/prefix/{TAG}/deeper/x",
        f"some/prefix/{TAG}0/x",
        f"some/prefix/{TAG}/",
        "some/x",
        f"{TAG}-top/x",
    ):
        object_store.put(key, b"x", if_absent=False)
    return object_store


def _received(source: S3Source, tag: str = TAG) -> dict[str, bytes]:
    return {file.name: file.data for file in ingest(source.fetch(tag), IngestLimits())}


def _source(url: str, access: Access | None = None, *, local: bool = True) -> S3Source:
    source = from_url(url, access, local=local)
    assert isinstance(source, S3Source)
    return source


def test_release_is_fetched_and_listed(bucket: ObjectStore) -> None:
    source = _source(f"s3://{bucket.bucket}/some/prefix/")
    assert _received(source) == CONTENT
    assert source.list() == [TAG, f"{TAG}0"]
    assert from_env({"RELEASE_SOURCE": f"s3://{bucket.bucket}"}).list() == [f"{TAG}-top", "some"]


def test_absent_release_is_not_found(bucket: ObjectStore) -> None:
    for tag in ("nope", TAG[:-1], "", "prefix/x"):
        with pytest.raises(ReleaseNotFound, match=f"in s3://{bucket.bucket}/some"):
            _received(_source(f"s3://{bucket.bucket}/some"), tag)
    with pytest.raises(SourceError, match="the bucket does not exist"):
        _source("s3://other-bucket").list()


def test_objects_of_all_pages_are_listed(bucket: ObjectStore) -> None:
    for number in range(1005):
        bucket.put(f"many/t{number:04}/x", b"", if_absent=False)
    assert _source(f"s3://{bucket.bucket}/many").list() == [f"t{number:04}" for number in range(1005)]


def test_requests_are_signed_with_the_keys_of_the_secret() -> None:
    listing = b"<ListBucketResult><Contents><Key>t/a</Key><Size>1</Size></Contents></ListBucketResult>"
    with HttpServer(lambda request: Response(body=listing if "list-type" in request.path else b"x")) as site:
        access = Access(access_key="AKIA1", secret_key="s3cret", endpoint=site.url, region="eu-x-1")
        assert _received(_source("s3://bucket", access, local=False), "t") == {"a": b"x"}
        assert len(site.requests) == 2
        for asked in site.requests:
            assert (asked.authorization or "").startswith("AWS4-HMAC-SHA256 Credential=AKIA1/")
            assert "/eu-x-1/s3/aws4_request" in (asked.authorization or "")


@pytest.mark.usefixtures("object_store")
def test_source_of_a_user_has_no_credentials_of_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment has keys and an endpoint; neither is used."""
    with HttpServer(lambda _: Response(403)) as site:
        source = _source("s3://bucket", Access(endpoint=site.url), local=False)
        with pytest.raises(SourceError, match="keys are needed"):
            source.list()
        assert [asked.authorization for asked in site.requests] == [None]
    monkeypatch.setenv("S3_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    with pytest.raises(SourceError, match=r"https://bucket\.s3\.eu-x-1\.amazonaws\.com/ does not answer"):
        _source("s3://bucket", Access(region="eu-x-1"), local=False).list()


@pytest.mark.parametrize(
    ("response", "message", "transient"),
    [
        (Response(403), "the keys are not accepted", False),
        (Response(301, headers={"Location": "http://127.0.0.1:1/"}), "set region or endpoint", False),
        (Response(503, headers={"Retry-After": "3"}), "HTTP 503", True),
        (Response(body=b"<html>"), "does not answer like S3", True),
        (Response(body=b'<!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>'), "does not answer like S3", True),
        (
            Response(body=b"<ListBucketResult><Contents><Key>t/../x</Key><Size>0</Size></Contents></ListBucketResult>"),
            "file name '../x' is refused",
            False,
        ),
        (
            Response(body=b"<ListBucketResult><Contents><Key>other/x</Key></Contents></ListBucketResult>"),
            "file name 'other/x' is refused",
            False,
        ),
    ],
)
def test_unusable_answer_is_an_error(response: Response, message: str, transient: bool) -> None:
    with HttpServer(lambda _: response) as site, pytest.raises(SourceError, match=message) as caught:
        _received(_source("s3://bucket", Access(access_key="a", secret_key="s3cret", endpoint=site.url)), "t")
    assert caught.value.transient is transient
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("endpoint", ["file:///etc", "nonsense", "http://"])
def test_invalid_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(SourceError, match="is not an http"):
        _source("s3://bucket", Access(endpoint=endpoint)).list()
