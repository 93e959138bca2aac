"""S3 as far as it is needed here: addresses, signatures, listings, and the search for keys.

`shared.storage` and the release source `s3` send the requests, each within its own limits. boto3 finds the keys of
roles and files. Its client is not used, since its description of S3 takes 24 MiB of each process.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from shared.settings import SETTINGS

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

DEFAULT_REGION = "us-east-1"

_ENDPOINTS = ("S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_LOCK = Lock()
_HOST_LABEL = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")


class KeysError(Exception):
    """The search for keys failed; the message says why and quotes none. `transient`: a later search may succeed."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


@dataclass(frozen=True)
class Keys:
    """The keys of one account; empty ones are not set. `token` belongs to temporary keys."""

    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    @classmethod
    def in_settings(cls, settings: Mapping[str, str] = SETTINGS) -> Keys:
        """Returns the keys in the settings."""
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        return cls(*(settings.get(name, "") for name in names))


@dataclass(frozen=True)
class Bucket:
    """The address of a bucket.

    Attributes:
        name: Its name.
        endpoint: The URL of the endpoint, which gets the bucket's name in the path; empty: AWS.
        region: The region of the bucket. Other endpoints than AWS mostly ignore it.
    """

    name: str
    endpoint: str = ""
    region: str = DEFAULT_REGION

    def url(self, key: str = "", query: Mapping[str, str] | None = None) -> str:
        """Returns the URL of an object, or of the bucket."""
        tail = f"?{urlencode(query, quote_via=quote)}" if query else ""
        return f"{self._root}/{quote(key, safe='/~')}{tail}"

    @property
    def _root(self) -> str:
        if self.endpoint:
            return f"{self.endpoint.rstrip('/')}/{self.name}"
        domain = f"s3.{self.region}.amazonaws.com{'.cn' if self.region.startswith('cn-') else ''}"
        # Certificates of AWS do not cover names with dots.
        host_names_it = _HOST_LABEL.fullmatch(self.name)
        return f"https://{self.name}.{domain}" if host_names_it else f"https://{domain}/{self.name}"


def region_in(settings: Mapping[str, str] = SETTINGS) -> str:
    """Returns the region in the settings; empty if they have none."""
    return settings.get("AWS_DEFAULT_REGION") or settings.get("AWS_REGION") or ""


def endpoint_in(settings: Mapping[str, str] = SETTINGS) -> str:
    """Returns the endpoint in the settings; empty if they have none."""
    return next(filter(None, (settings.get(name) for name in _ENDPOINTS)), "")


def find(given: Keys, region: str) -> tuple[Keys | None, str]:
    """Returns keys and region: those given, else those that boto3 finds, of a role or in a file.

    The keys are None if there are none. Raises `KeysError`.
    """
    if given.access_key and given.secret_key:
        return given, region or DEFAULT_REGION
    if given.access_key or given.secret_key:
        raise KeysError("one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is not set")
    from botocore import exceptions

    try:
        with _LOCK:
            session = _session()
            found = session.get_credentials()
        keys = found.get_frozen_credentials() if found else None
    except exceptions.ClientError as error:  # of the service that gives out temporary keys
        code = error.response.get("Error", {}).get("Code", "no error code")
        raise KeysError(f"the role gives no keys: {code}", transient=True) from None
    except exceptions.BotoCoreError as error:
        unreachable = (
            exceptions.ConnectionError,
            exceptions.HTTPClientError,
            exceptions.CredentialRetrievalError,
            exceptions.MetadataRetrievalError,
        )
        name = type(error).__name__  # its text may quote a file
        raise KeysError(f"the search for keys failed: {name}", transient=isinstance(error, unreachable)) from None
    region = region or session.region_name or DEFAULT_REGION
    return (Keys(keys.access_key, keys.secret_key, keys.token or "") if keys else None), region


@lru_cache(maxsize=1)
def _session() -> Any:
    """Returns the session of this process: it remembers the keys that it found."""
    import boto3.session

    return boto3.session.Session()


def sign(
    method: str,
    url: str,
    keys: Keys,
    region: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    now: datetime | None = None,
) -> dict[str, str]:
    """Returns the headers of a signed request: those given, and those of the signature.

    See "Signature Version 4" in the documentation of AWS. `url` is one of `Bucket`, as the path is signed as it is.
    """
    time = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    added = {"x-amz-content-sha256": digest, "x-amz-date": time} | (
        {"x-amz-security-token": keys.token} if keys.token else {}
    )
    sent = {**(headers or {}), **added}
    scheme, netloc, path, query, _ = urlsplit(url)
    signed = {name.lower(): value.strip() for name, value in sent.items()}
    signed["host"] = netloc.lower().removesuffix(_DEFAULT_PORTS[scheme.lower()])
    names = ";".join(sorted(signed))
    lines = [method, path or "/", "&".join(sorted(query.split("&")))]
    lines += [f"{name}:{signed[name]}" for name in sorted(signed)]
    request = hashlib.sha256("\n".join([*lines, "", names, digest]).encode()).hexdigest()
    scope = (time[:8], region, "s3", "aws4_request")
    secret = f"AWS4{keys.secret_key}".encode()
    for part in (*scope, "\n".join(["AWS4-HMAC-SHA256", time, "/".join(scope), request])):
        secret = hmac.digest(secret, part.encode(), "sha256")
    credential = f"{keys.access_key}/{'/'.join(scope)}"
    signature = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={secret.hex()}"
    return {**sent, "Authorization": signature}


def pages(prefix: str, ask: Callable[[Mapping[str, str]], bytes], *, delimiter: str = "") -> Iterator[Element]:
    """Yields the pages of a listing of a bucket, in order of the keys.

    Args:
        prefix: The beginning of the keys.
        ask: Returns the body of the answer to a GET of the bucket with this query.
        delimiter: Keys with this text behind the prefix are not listed; their beginnings up to it are, once.

    Raises:
        ValueError: An answer is not a listing, or says that there are more keys but not where.
    """
    query = {"list-type": "2", "prefix": prefix} | ({"delimiter": delimiter} if delimiter else {})
    while True:
        page = _parse(ask(query))
        if page.tag.rpartition("}")[2] != "ListBucketResult":
            raise ValueError("not a listing")
        yield page
        if text(page, "IsTruncated") != "true":
            return
        token = text(page, "NextContinuationToken")
        if token in ("", query.get("continuation-token")):
            raise ValueError("the same page again")  # the server knows version 1 of listings only
        query["continuation-token"] = token


def creation(region: str) -> bytes:
    """Returns the body of a request that creates a bucket in this region."""
    if region == DEFAULT_REGION:
        return b""
    from html import escape

    namespace = "http://s3.amazonaws.com/doc/2006-03-01/"
    return (
        f'<CreateBucketConfiguration xmlns="{namespace}"><LocationConstraint>{escape(region)}</LocationConstraint>'
        "</CreateBucketConfiguration>"
    ).encode()


def error_code(body: bytes) -> str:
    """Returns the code in the body of an error's answer; empty if it has none."""
    try:
        return text(_parse(body), "Code")
    except ValueError:
        return ""


def _parse(body: bytes) -> Element:
    """Parses the body of an answer. Raises `ValueError` if it is not XML, or declares entities."""
    from xml.etree import ElementTree

    if b"<!" in body:
        raise ValueError("the XML has declarations")
    try:
        return ElementTree.fromstring(body)  # noqa: S314 - entities cannot be declared
    except ElementTree.ParseError as error:
        raise ValueError(f"not XML: {error}") from None


def text(element: Element, tag: str) -> str:
    """Returns the text of a child in any namespace; empty if there is none."""
    return element.findtext(f"{{*}}{tag}") or ""
