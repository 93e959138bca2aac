"""S3 without a server: addresses, and where keys and region come from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest

from shared import s3
from shared.s3 import Bucket, Keys, KeysError
from tests.support.http_server import HttpServer, Request, Response

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ROLE = {"AccessKeyId": "ROLE", "SecretAccessKey": "secret", "Token": "token", "Expiration": "2099-01-01T00:00:00Z"}
STS = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ROLE</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>
<SessionToken>token</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>
<AssumedRoleUser><Arn>a</Arn><AssumedRoleId>i</AssumedRoleId></AssumedRoleUser></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""
REFUSED = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>secret text</Message></Error></ErrorResponse>"


@pytest.mark.parametrize(
    ("bucket", "url"),
    [
        (Bucket("b-1", "http://127.0.0.1:9/"), "http://127.0.0.1:9/b-1/a/%C3%BC%20%2B~%3F"),
        (Bucket("b-1"), "https://b-1.s3.us-east-1.amazonaws.com/a/%C3%BC%20%2B~%3F"),
        (Bucket("b-1", region="cn-north-1"), "https://b-1.s3.cn-north-1.amazonaws.com.cn/a/%C3%BC%20%2B~%3F"),
        (Bucket("with.dot"), "https://s3.us-east-1.amazonaws.com/with.dot/a/%C3%BC%20%2B~%3F"),
    ],
)
def test_address_of_an_object(bucket: Bucket, url: str) -> None:
    assert bucket.url("a/ü +~?") == url


@pytest.mark.parametrize(
    ("method", "url", "keys", "headers", "body"),
    [
        ("GET", Bucket("b").url("a/ü +~?"), Keys("k", "s"), {}, b""),
        ("GET", Bucket("b", "http://127.0.0.1:9").url("k"), Keys("k", "s", "t"), {}, b""),
        ("HEAD", Bucket("b", "http://STORE:80").url(), Keys("k", "s"), {}, b""),
        ("GET", Bucket("b").url(query={"prefix": "a/b &=", "list-type": "2"}), Keys("k", "s"), {}, b""),
        ("PUT", Bucket("b").url("k"), Keys("k", "s"), {"If-None-Match": "*"}, b"data"),
    ],
)
def test_signature_is_that_of_botocore(
    monkeypatch: pytest.MonkeyPatch, method: str, url: str, keys: Keys, headers: dict[str, str], body: bytes
) -> None:
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: NOW)
    request = AWSRequest(method, url, headers=headers, data=body)
    botocore.auth.S3SigV4Auth(keys, "s3", "eu-x-1").add_auth(request)
    ours = s3.sign(method, url, keys, "eu-x-1", headers=headers, body=body, now=NOW)
    assert ours["Authorization"] == request.headers["Authorization"]
    assert {name.lower(): value for name, value in ours.items()} == {
        name.lower(): value for name, value in request.headers.items()
    }


@pytest.fixture
def nothing_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """An environment without keys; returns what sets its variables."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    files = {"AWS_SHARED_CREDENTIALS_FILE": "credentials", "AWS_CONFIG_FILE": "config"}
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name, file in files.items():
        monkeypatch.setenv(name, str(tmp_path / file))

    def use(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    s3._session.cache_clear()
    yield use
    s3._session.cache_clear()


def test_given_keys_are_used() -> None:
    assert s3.find(Keys("k", "s", "t"), "") == (Keys("k", "s", "t"), s3.DEFAULT_REGION)
    with pytest.raises(KeysError, match="one of"):
        s3.find(Keys("k"), "r")


def test_without_any_there_are_no_keys(nothing_found: Callable[..., None]) -> None:
    assert s3.find(Keys(), "") == (None, s3.DEFAULT_REGION)
    nothing_found(AWS_PROFILE="absent")
    s3._session.cache_clear()
    with pytest.raises(KeysError, match="the search for keys failed: ProfileNotFound") as caught:
        s3.find(Keys(), "")
    assert not caught.value.transient


def test_keys_and_region_of_a_profile(nothing_found: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("[mine]\naws_access_key_id = FILE\naws_secret_access_key = s\n")
    (tmp_path / "config").write_text("[profile mine]\nregion = eu-x-1\n")
    nothing_found(AWS_PROFILE="mine")
    assert s3.find(Keys(), "") == (Keys("FILE", "s"), "eu-x-1")
    assert s3.find(Keys(), "given")[1] == "given"


def test_keys_of_a_pod_identity(nothing_found: Callable[..., None]) -> None:
    with HttpServer(lambda _: Response(body=json.dumps(ROLE).encode())) as site:
        nothing_found(AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{site.url}/creds")
        assert s3.find(Keys(), "r") == (Keys("ROLE", "secret", "token"), "r")
        assert s3.find(Keys(), "r")[0] is not None
        assert len(site.requests) == 1, "they are valid for long"


def test_keys_of_a_web_identity(nothing_found: Callable[..., None], tmp_path: Path) -> None:
    answers = [Response(403, body=REFUSED.encode()), Response(body=STS.encode())]

    def answer(_: Request) -> Response:
        return answers.pop(0)

    (tmp_path / "token").write_text("a.b.c")
    with HttpServer(answer) as site:
        nothing_found(
            AWS_ENDPOINT_URL_STS=site.url,
            AWS_ROLE_ARN="arn:aws:iam::1:role/r",
            AWS_WEB_IDENTITY_TOKEN_FILE=str(tmp_path / "token"),
            AWS_DEFAULT_REGION="eu-west-1",
        )
        with pytest.raises(KeysError, match="the role gives no keys: AccessDenied") as caught:
            s3.find(Keys(), "")
        assert caught.value.transient
        assert s3.find(Keys(), "") == (Keys("ROLE", "secret", "token"), "eu-west-1")


@pytest.mark.parametrize("token", ["", "<NextContinuationToken>t</NextContinuationToken>"])
def test_listing_that_does_not_go_on_is_an_error(token: str) -> None:
    """A server that knows version 1 of listings only gives no token; the first page would come for ever."""
    page = f"<ListBucketResult><IsTruncated>true</IsTruncated>{token}</ListBucketResult>".encode()
    with pytest.raises(ValueError, match="the same page again"):
        list(s3.pages("", lambda _query: page))
