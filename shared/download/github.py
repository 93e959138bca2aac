"""Downloads releases of a GitHub repository: each has a tag, and its files are assets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .access import Access
from .errors import ReleaseNotFound, SourceError
from .ingest import File, Listing

if TYPE_CHECKING:
    from .web import HttpResponse, HttpSession

_MAX_PAGES = 100
_PAGE_SIZE = 100  # releases
_JSON = "application/vnd.github+json"
_NEXT = re.compile(r'rel="?next"?')
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class GitHubReleases:
    """A source: the published releases of one repository. `api` is the URL of the API, without a trailing slash."""

    api: str
    organization: str
    repository: str
    access: Access = field(default_factory=Access)

    def fetch(self, tag: str) -> Iterator[File]:
        """See `Source.fetch`. Downloads the assets with the API, which redirects to their storage."""
        with self._session() as session:
            reply = self._get(session, f"releases/tags/{quote(tag, safe='')}")
            if reply.status == 404:
                reply.close()
                raise ReleaseNotFound(tag, self._name())
            release = self._json(reply)
            if not isinstance(release, dict) or not isinstance(assets := release.get("assets"), list):
                raise self._unexpected_response()
            for asset in assets:
                yield self._file(session, asset)

    def list(self) -> Sequence[str]:
        """Returns the tags of the releases, sorted, as a `Listing` if some may be missing. Drafts are left out.

        Names of releases are free text. Raises `SourceError`.
        """
        tags: set[str] = set()
        with self._session() as session:
            for page in range(1, _MAX_PAGES + 1):
                reply = self._get(session, f"releases?per_page={_PAGE_SIZE}&page={page}")
                more = _NEXT.search(reply.headers.get("Link", ""))
                releases = self._json(reply)
                if not isinstance(releases, list):
                    raise self._unexpected_response()
                published = (r for r in releases if isinstance(r, dict) and not r.get("draft"))
                tags.update(tag for r in published if isinstance(tag := r.get("tag_name"), str))
                if not more:
                    return sorted(tags)
        return Listing(sorted(tags), f"{self._name()} lists more than {_MAX_PAGES} pages of releases")

    def _file(self, session: HttpSession, asset: Any) -> File:
        if not isinstance(asset, dict) or not isinstance(number := asset.get("id"), int):
            raise self._unexpected_response()
        name, size = asset.get("name"), asset.get("size")
        if not isinstance(name, str) or not isinstance(size, int):
            raise self._unexpected_response()
        if asset.get("state", "uploaded") != "uploaded":
            raise SourceError(f"asset {name!r} in {self._name()} is still being uploaded", transient=True)
        digest = _DIGEST.fullmatch(asset.get("digest") or "")
        return File(name, self._content(session, number), size, digest[1] if digest else None)

    def _content(self, session: HttpSession, number: int) -> Iterator[bytes]:
        reply = self._get(session, f"releases/assets/{number}", accept="application/octet-stream")
        if reply.status != 200:
            raise self._error(reply)
        yield from reply.chunks()

    def _session(self) -> HttpSession:
        from .web import HttpSession

        return HttpSession(self.access.ca)

    def _get(self, session: HttpSession, path: str, accept: str = _JSON) -> HttpResponse:
        url = f"{self.api}/repos/{self.organization}/{self.repository}/{path}"
        return session.get(url, self.access.authorization, accept=accept)

    def _json(self, reply: HttpResponse) -> Any:
        if reply.status != 200:
            raise self._error(reply)
        return reply.json()

    def _error(self, reply: HttpResponse) -> SourceError:
        if reply.status == 404:
            reply.close()
            hint = "" if self.access.token else "; a private repository needs a token"
            return SourceError(f"{self._name()} does not exist or may not be read{hint}", transient=False)
        return reply.error("the token is not accepted" if self.access.token else "a token is needed")

    def _unexpected_response(self) -> SourceError:
        """Returns the error for a response of an unexpected shape."""
        return SourceError(f"{self._name()} does not answer like GitHub", transient=True)

    def _name(self) -> str:
        return f"{self.api}/repos/{self.organization}/{self.repository}"
