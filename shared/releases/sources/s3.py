"""Downloads releases from an S3 bucket, `s3://<bucket>/<prefix>`: each file is `<prefix>/<tag>/<file>`.

`shared.download.web` sends the requests within its limits, since the endpoint may be a user's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from shared import s3
from shared.download import File, ReleaseNotFound, SourceError, declared_size
from shared.download.access import Access

from .port import SourceType, SourceUrl, UnusableUrl, no_server

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from shared.download.web import HttpResponse, HttpSession

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_MAX_PAGES = 100


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
            entries = [entry for page in self._pages(session, folder) for entry in page.iterfind("{*}Contents")]
            if not entries:
                raise ReleaseNotFound(tag, str(self))
            for entry in entries:
                name, size = s3.text(entry, "Key").removeprefix(folder), s3.text(entry, "Size")
                if name:  # S3 consoles represent a folder by an object whose key is that of the folder
                    yield File(name, self._content(session, folder + name), declared_size(size))

    def list(self) -> Sequence[str]:
        """See `Source.list`."""
        with self._session() as session:
            root = self._key()
            pages = self._pages(session, root)
            folders = (s3.text(entry, "Prefix") for page in pages for entry in page.iterfind("{*}CommonPrefixes"))
            return sorted({folder.removeprefix(root).rstrip("/") for folder in folders} - {""})

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    def _key(self, *parts: str) -> str:
        return "".join(f"{part}/" for part in (self.prefix, *parts) if part)

    def _content(self, session: HttpSession, key: str) -> Iterator[bytes]:
        yield from self._get(session, key).chunks()

    def _pages(self, session: HttpSession, prefix: str) -> Iterator[Element]:
        try:
            found = s3.pages(prefix, lambda query: self._get(session, query=query).read(), delimiter="/")
            yield from islice(found, _MAX_PAGES)
        except ValueError:
            raise SourceError(f"{self}: the endpoint does not answer as S3 does", transient=True) from None

    def _get(self, session: HttpSession, key: str = "", query: Mapping[str, str] | None = None) -> HttpResponse:
        """Sends a GET, signed if there are keys. Raises `SourceError` for any status but 200."""
        keys, region = self._keys()
        url = s3.Bucket(self.bucket, self._endpoint(), region).url(key, query)
        reply = session.request("GET", url, s3.sign("GET", url, keys, region) if keys else {})
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

    def _keys(self) -> tuple[s3.Keys | None, str]:
        """Returns the keys, None for unsigned requests, and the region."""
        region = self.access.region or (s3.region_in() if self.ambient else "")
        if self.access.access_key or not self.ambient:
            keys = s3.Keys(self.access.access_key, self.access.secret_key)
            return keys if keys.access_key else None, region or s3.DEFAULT_REGION
        try:
            return s3.find(s3.Keys.in_settings(), region)
        except s3.KeysError as error:
            raise SourceError(f"{self}: {error}", transient=error.transient) from None

    def _endpoint(self) -> str:
        from shared.network import origin
        from shared.redaction import redact_url

        endpoint = self.access.endpoint or (s3.endpoint_in() if self.ambient else "")
        try:
            return redact_url(endpoint) if endpoint and origin(endpoint) else ""
        except ValueError:
            raise SourceError(f"the S3 endpoint of {self} is not an http(s) URL", transient=False) from None

    def _session(self) -> HttpSession:
        from shared.download.web import HttpSession

        return HttpSession(self.access.ca)


def _open(url: SourceUrl, access: Access) -> S3Source:
    parts = url.split()
    if not _BUCKET.fullmatch(parts.netloc) or parts.query or parts.fragment:
        raise UnusableUrl("is not of the form s3://<bucket>/<prefix>")
    return S3Source(parts.netloc, parts.path.strip("/"), access, url.trusted)


SOURCE_TYPE = SourceType(("s3",), _open, server=no_server)
