"""Releases of a GitHub repository: a tag, with the files as assets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .access import Access
from .errors import ReleaseNotFound, SourceError
from .ingest import File

if TYPE_CHECKING:
    from .web import Reply, Web

_PAGES = 100
_PAGE = 100  # releases
_JSON = "application/vnd.github+json"
_NEXT = re.compile(r'rel="?next"?')
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class GitHubReleases:
    """One repository; `api` is the root of the API, without a slash at the end."""

    api: str
    organization: str
    repository: str
    access: Access = field(default_factory=Access)

    def fetch(self, tag: str) -> Iterator[File]:
        """See `Source.fetch`. An asset comes through the API, which redirects to where it is kept."""
        with self._web() as web:
            reply = self._get(web, f"releases/tags/{quote(tag, safe='')}")
            if reply.status == 404:
                reply.close()
                raise ReleaseNotFound(tag, self._name())
            release = self._json(reply)
            if not isinstance(release, dict) or not isinstance(assets := release.get("assets"), list):
                raise self._odd()
            for asset in assets:
                yield self._file(web, asset)

    def list(self) -> Sequence[str]:
        """See `Source.list`. Tags, since a release's name is free text; drafts are not out yet."""
        tags: set[str] = set()
        with self._web() as web:
            for page in range(1, _PAGES + 1):
                reply = self._get(web, f"releases?per_page={_PAGE}&page={page}")
                more = _NEXT.search(reply.headers.get("Link", ""))
                releases = self._json(reply)
                if not isinstance(releases, list):
                    raise self._odd()
                published = (r for r in releases if isinstance(r, dict) and not r.get("draft"))
                tags.update(tag for r in published if isinstance(tag := r.get("tag_name"), str))
                if not more:
                    break
        return sorted(tags)

    def _file(self, web: Web, asset: Any) -> File:
        if not isinstance(asset, dict) or not isinstance(number := asset.get("id"), int):
            raise self._odd()
        name, size = asset.get("name"), asset.get("size")
        if not isinstance(name, str) or not isinstance(size, int):
            raise self._odd()
        if asset.get("state", "uploaded") != "uploaded":
            raise SourceError(f"asset {name!r} in {self._name()} is still being uploaded", transient=True)
        digest = _DIGEST.fullmatch(asset.get("digest") or "")
        return File(name, self._content(web, number), size, digest[1] if digest else None)

    def _content(self, web: Web, number: int) -> Iterator[bytes]:
        reply = self._get(web, f"releases/assets/{number}", accept="application/octet-stream")
        if reply.status != 200:
            raise self._error(reply)
        yield from reply.chunks()

    def _web(self) -> Web:
        from .web import Web

        return Web(self.access.authority)

    def _get(self, web: Web, path: str, accept: str = _JSON) -> Reply:
        url = f"{self.api}/repos/{self.organization}/{self.repository}/{path}"
        return web.get(url, self.access.authorization, accept=accept)

    def _json(self, reply: Reply) -> Any:
        if reply.status != 200:
            raise self._error(reply)
        return reply.json()

    def _error(self, reply: Reply) -> SourceError:
        if reply.status == 404:
            reply.close()
            hint = "" if self.access.token else "; a private one needs a token"
            return SourceError(f"{self._name()} does not exist or may not be read{hint}", transient=False)
        return reply.error("the token is not accepted" if self.access.token else "a token is needed")

    def _odd(self) -> SourceError:
        return SourceError(f"{self._name()} does not answer as GitHub does", transient=True)

    def _name(self) -> str:
        return f"{self.api}/repos/{self.organization}/{self.repository}"
