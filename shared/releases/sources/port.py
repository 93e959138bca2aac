"""The interface of release sources, and what a type of source declares about itself.

Sources are not trusted: `shared.download.ingest` checks names, sizes and digests of the files of all sources alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from shared.download import File
from shared.download.access import Access

_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,39}\])(?::[0-9]{1,5})?")


class Source(Protocol):
    """A place that releases are fetched from: a folder, web server, GitHub repository, OCI registry or S3 bucket."""

    def fetch(self, tag: str) -> Iterator[File]:
        """Returns the files of a release; read each to its end before taking the next.

        Args:
            tag: Name of the release in its dash form, such as `docker-ferrol-1-27-v1`.

        Raises:
            ReleaseNotFound: The source answers and does not have the release. Raised by the call or by any file.
            SourceError: The source fails. Raised by the call or by any file.
        """
        ...

    def list(self) -> Sequence[str]:
        """Returns the names of all releases, sorted, as a `Listing` if some may be missing.

        Names of other things may be among them. Raises `SourceError`.
        """
        ...


class UnusableUrl(ValueError):
    """A URL does not name a source.

    The message completes the sentence "release source 'https:' ...", and quotes no part of the URL, because it may be a
    token.
    """


@dataclass(frozen=True, slots=True)
class SourceUrl:
    """The URL of a source.

    `scheme` is in lower case, and empty for a path. A `trusted` URL is the operator's. Others may neither name a folder
    nor be opened with the credentials of the process.
    """

    text: str
    scheme: str
    trusted: bool

    @property
    def plain(self) -> bool:
        """Whether the URL selects HTTP without TLS, as in `oci+http:`."""
        return self.scheme.endswith("+http")

    def split(self) -> SplitResult:
        """Returns the parts of the URL. Raises `UnusableUrl`."""
        try:
            return urlsplit(self.text)
        except ValueError:
            raise UnusableUrl("is not a URL") from None

    def split_server(self) -> SplitResult:
        """Returns the parts of a URL that names a server and a path, and nothing else. Raises `UnusableUrl`."""
        parts = self.split()
        if "@" in parts.netloc:
            raise UnusableUrl("has credentials in it; they belong in a Secret or the environment")
        if parts.query or parts.fragment or not _HOST.fullmatch(parts.netloc):
            raise UnusableUrl("has no host, or something after its path")
        return parts


def no_access(_env: Mapping[str, str]) -> Access:
    """Returns an `Access` without credentials."""
    return Access()


def server_of(url: str) -> str:
    """Returns the host of a URL in lower case, with its port."""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def no_server(_url: str) -> str:
    """Returns "": for a type whose URLs name no server."""
    return ""


@dataclass(frozen=True, slots=True)
class SourceType:
    """The declaration of one type of source, as `SOURCE_TYPE` of a module in this folder.

    `schemes` belong to its URLs; the first one is the name of the type. `server` returns the host and port of the
    server that a URL names, or "". `open` creates the source without a request;
    it may raise `UnusableUrl` or `SourceError`. `access_from` reads credentials from the settings, for the first host
    in `RELEASE_SOURCE` that has a source of this type.
    """

    schemes: tuple[str, ...]
    open: Callable[[SourceUrl, Access], Source]
    access_from: Callable[[Mapping[str, str]], Access] = no_access
    server: Callable[[str], str] = server_of
