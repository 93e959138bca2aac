"""Releases in an S3 bucket, `s3://<bucket>/<prefix>`: files are `<prefix>/<tag>/<file>`.

botocore only signs the requests, and `shared.download.web` sends them within its limits, since the endpoint may be a
user's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from shared.download import File, ReleaseNotFound, SourceError
from shared.download.access import Access
from shared.settings import SETTINGS

from .port import SourceType, SourceUrl, UnusableUrl

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from shared.download.web import HttpResponse, HttpSession

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_PAGES = 100
_ENDPOINTS = ("S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


@dataclass(frozen=True, slots=True)
class S3Source:
    """The releases in one bucket. `prefix` has no slash at either end.

    With `ambient`, credentials and endpoint that `access` does not have come from AWS variables, files and roles.
    Without it, requests without keys are sent unsigned: a user's bucket must not be read with the operator's rights.
    """

    bucket: str
    prefix: str
    access: Access = field(default_factory=Access)
    ambient: bool = False

    def fetch(self, tag: str) -> Iterator[File]:
        """See `Source.fetch`. Objects in subfolders of the release's folder are left out."""
        if not tag or "/" in tag:
            raise ReleaseNotFound(tag, str(self))
        with self._session() as session:
            folder = self._key(tag)
            found = [entry for page in self._pages(session, folder) for entry in page.iterfind("{*}Contents")]
            if not found:
                raise ReleaseNotFound(tag, str(self))
            for entry in found:
                name, size = _text(entry, "Key").removeprefix(folder), _text(entry, "Size")
                if name:  # a folder made in a console is an object without a name
                    yield File(name, self._content(session, folder + name), int(size) if size.isdecimal() else None)

    def list(self) -> Sequence[str]:
        """See `Source.list`."""
        with self._session() as session:
            root = self._key()
            pages = self._pages(session, root)
            folders = (_text(entry, "Prefix") for page in pages for entry in page.iterfind("{*}CommonPrefixes"))
            return sorted({folder.removeprefix(root).rstrip("/") for folder in folders} - {""})

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    def _key(self, *parts: str) -> str:
        return "".join(f"{part}/" for part in (self.prefix, *parts) if part)

    def _content(self, session: HttpSession, key: str) -> Iterator[bytes]:
        yield from self._ask(session, quote(key)).chunks()

    def _pages(self, session: HttpSession, prefix: str) -> Iterator[Element]:
        query = {"list-type": "2", "delimiter": "/", "prefix": prefix}
        for _ in range(_PAGES):
            page = _parse(self._ask(session, f"?{urlencode(query, quote_via=quote)}"))
            yield page
            if _text(page, "IsTruncated") != "true":
                return
            query["continuation-token"] = _text(page, "NextContinuationToken")

    def _ask(self, session: HttpSession, path: str) -> HttpResponse:
        """Sends a signed GET. Raises `SourceError` for any status but 200."""
        url = f"{self._endpoint()}/{self.bucket}/{path}"
        reply = session.request("GET", url, self._signature(url))
        if 300 <= reply.status < 400:
            reply.close()
            problem = f"bucket {self.bucket!r} is in another region or at another endpoint: set region or endpoint"
            raise SourceError(problem, transient=False)
        if reply.status == 404:
            reply.close()
            raise SourceError(f"{self}: the bucket does not exist, or a file was deleted meanwhile", transient=True)
        if reply.status != 200:
            raise reply.error("the keys are not accepted" if self._keys() else "keys are needed")
        return reply

    def _signature(self, url: str) -> Mapping[str, str]:
        """Returns the headers that sign a GET of `url`; none without credentials."""
        keys = self._keys()
        if keys is None:
            return {}
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest

        request = AWSRequest("GET", url)
        S3SigV4Auth(keys, "s3", self._region()).add_auth(request)
        return dict(request.headers.items())

    def _keys(self) -> Any:
        """Returns credentials of botocore; None for an unsigned request."""
        if self.access.access_key:
            from botocore.credentials import Credentials

            return Credentials(self.access.access_key, self.access.secret_key)
        return _ambient_keys() if self.ambient else None

    def _endpoint(self) -> str:
        from shared.network import origin
        from shared.redaction import redact_url

        env = [SETTINGS.get(name, "") for name in _ENDPOINTS] if self.ambient else []
        endpoint = next(filter(None, (self.access.endpoint, *env)), f"https://s3.{self._region()}.amazonaws.com")
        try:
            origin(endpoint)
        except ValueError:
            raise SourceError(f"the S3 endpoint of {self} is not an http(s) URL", transient=False) from None
        return redact_url(endpoint).rstrip("/")

    def _region(self) -> str:
        env = [SETTINGS.get(name, "") for name in ("AWS_REGION", "AWS_DEFAULT_REGION")] if self.ambient else []
        return next(filter(None, (self.access.region, *env)), "us-east-1")

    def _session(self) -> HttpSession:
        from shared.download.web import HttpSession

        return HttpSession(self.access.ca)


def _ambient_keys() -> Any:
    from botocore.credentials import Credentials
    from botocore.session import Session

    if key := SETTINGS.get("AWS_ACCESS_KEY_ID"):
        secret, token = SETTINGS.get("AWS_SECRET_ACCESS_KEY", ""), SETTINGS.get("AWS_SESSION_TOKEN") or None
        return Credentials(key, secret, token)
    credentials = Session().get_credentials()
    return credentials.get_frozen_credentials() if credentials else None


def _parse(reply: HttpResponse) -> Element:
    from xml.etree import ElementTree

    data = reply.read()
    try:
        if b"<!" in data:
            raise ValueError("declarations")
        return ElementTree.fromstring(data)  # noqa: S314 - of bounded size, and entities cannot be declared
    except (ElementTree.ParseError, ValueError):
        raise SourceError(f"{reply.url.partition('?')[0]} does not answer as S3 does", transient=True) from None


def _text(element: Element, tag: str) -> str:
    return element.findtext(f"{{*}}{tag}") or ""


def _open(url: SourceUrl, access: Access) -> S3Source:
    parts = url.split()
    if not _BUCKET.fullmatch(parts.netloc) or parts.query or parts.fragment:
        raise UnusableUrl("is not of the form s3://<bucket>/<prefix>")
    return S3Source(parts.netloc, parts.path.strip("/"), access, url.trusted)


SOURCE_TYPE = SourceType(("s3",), _open)
