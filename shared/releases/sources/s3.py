"""Downloads releases from an S3 bucket, `s3://<bucket>/<prefix>`: each file is `<prefix>/<tag>/<file>`.

`shared.download.web` sends the requests within its limits, because the endpoint may be a user's. obstore, which serves
object storage, neither bounds listings and errors nor checks the addresses that it connects to. botocore signs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from shared.buckets import DEFAULT_REGION, Bucket, StorageError, StorageUnavailable, endpoint_in, region_in, relevant
from shared.download import File, ReleaseNotFound, SourceError, declared_size
from shared.download.access import Access
from shared.settings import SETTINGS

from .port import SourceType, SourceUrl, UnusableUrl, no_server

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from obstore.store import S3Credential

    from shared.download.web import HttpResponse, HttpSession

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_MAX_PAGES = 100
_KEYS = ("access_key_id", "secret_access_key", "session_token")


@dataclass(frozen=True, slots=True)
class S3Source:
    """The releases in one bucket. `prefix` has no slash at either end.

    If `ambient`, missing credentials and a missing endpoint come from AWS variables, files and roles. Otherwise
    requests without keys are unsigned, because a user's bucket must not be read with the operator's rights.
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
            entries = [entry for page in self._pages(session, folder) for entry in page.iterfind("{*}Contents")]
            if not entries:
                raise ReleaseNotFound(tag, str(self))
            for entry in entries:
                name, size = _text(entry, "Key").removeprefix(folder), _text(entry, "Size")
                if name:  # S3 consoles represent a folder by an object with the folder's key
                    yield File(name, self._content(session, folder + name), declared_size(size))

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
        yield from self._get(session, key).chunks()

    def _pages(self, session: HttpSession, prefix: str) -> Iterator[Element]:
        """Yields the pages of a listing: at most `_MAX_PAGES`, each within the limit of a document."""
        query = {"list-type": "2", "prefix": prefix, "delimiter": "/"}
        for _ in range(_MAX_PAGES):
            page = parse_listing(self._get(session, query=query).read())
            if page is None:
                break
            yield page
            if _text(page, "IsTruncated") != "true":
                return
            token = _text(page, "NextContinuationToken")
            if token in ("", query.get("continuation-token")):
                break  # the server knows version 1 of listings only
            query["continuation-token"] = token
        else:
            raise SourceError(f"{self}: the listing has more than {_MAX_PAGES} pages", transient=False)
        raise SourceError(f"{self}: the endpoint does not answer like S3", transient=True)

    def _get(self, session: HttpSession, key: str = "", query: Mapping[str, str] | None = None) -> HttpResponse:
        """Sends a GET, signed if there are keys. Raises `SourceError` for any status but 200."""
        keys, region = self._keys()
        url = Bucket(f"s3://{self.bucket}", {"S3_ENDPOINT_URL": self._endpoint()}).root(region)
        url += quote(key, safe="/~") + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        reply = session.request("GET", url, _signed(url, keys, region) if keys else {})
        if 300 <= reply.status < 400:
            reply.close()
            problem = f"bucket {self.bucket!r} is in another region or at another endpoint: set region or endpoint"
            raise SourceError(problem, transient=False)
        if reply.status == 404:
            reply.close()
            raise SourceError(f"{self}: the bucket does not exist, or a file was deleted meanwhile", transient=True)
        if reply.status != 200:
            raise reply.error("the keys are not accepted" if keys else "keys are needed")
        return reply

    def _keys(self) -> tuple[S3Credential | None, str]:
        """Returns the keys, None for unsigned requests, and the region."""
        region = self.access.region or (region_in(SETTINGS) if self.ambient else "")
        if self.access.access_key or not self.ambient:
            return _credential(self.access.access_key, self.access.secret_key), region or DEFAULT_REGION
        bucket = Bucket(str(self), relevant(SETTINGS))
        try:
            if keys := bucket.keys:
                given = _credential(*(keys.get(f"aws_{name}", "") for name in _KEYS))
                return given, region or DEFAULT_REGION
            found = bucket.find_keys()
            return (found() if found else None), region or bucket.region
        except StorageError as error:
            raise SourceError(f"{self}: {error}", transient=isinstance(error, StorageUnavailable)) from None

    def _endpoint(self) -> str:
        from shared.network import origin
        from shared.redaction import redact_url

        endpoint = self.access.endpoint or (endpoint_in(SETTINGS) if self.ambient else "")
        try:
            return redact_url(endpoint) if endpoint and origin(endpoint) else ""
        except ValueError:
            raise SourceError(f"the S3 endpoint of {self} is not an http(s) URL", transient=False) from None

    def _session(self) -> HttpSession:
        from shared.download.web import HttpSession

        return HttpSession(self.access.ca)


def parse_listing(body: bytes) -> Element | None:
    """Parses a page of a listing; None for other text, XML that declares entities, or text that is not UTF-8."""
    from xml.etree import ElementTree

    try:
        text = body.decode()  # in another encoding the check would miss declarations
        page = ElementTree.fromstring(body) if "<!" not in text else None  # noqa: S314 - entities cannot be declared
    except (UnicodeDecodeError, ElementTree.ParseError, LookupError, ValueError):
        return None
    return page if page is not None and page.tag.rpartition("}")[2] == "ListBucketResult" else None


def _text(element: Element, tag: str) -> str:
    """Returns the text of a child in any namespace; empty if there is none."""
    return element.findtext(f"{{*}}{tag}") or ""


def _credential(access_key: str, secret_key: str, token: str = "") -> S3Credential | None:
    if not access_key:
        return None
    return {"access_key_id": access_key, "secret_access_key": secret_key, "token": token or None, "expires_at": None}


def _signed(url: str, keys: S3Credential, region: str) -> dict[str, str]:
    """Returns the headers of a signed GET (AWS, Signature Version 4)."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    request = AWSRequest("GET", url)
    found = Credentials(keys["access_key_id"], keys["secret_access_key"], keys.get("token"))
    S3SigV4Auth(found, "s3", region).add_auth(request)
    return dict(request.headers)


def _open(url: SourceUrl, access: Access) -> S3Source:
    parts = url.split()
    if not _BUCKET.fullmatch(parts.netloc) or parts.query or parts.fragment:
        raise UnusableUrl("is not of the form s3://<bucket>/<prefix>")
    return S3Source(parts.netloc, parts.path.strip("/"), access, url.trusted)


SOURCE_TYPE = SourceType(("s3",), _open, server=no_server)
