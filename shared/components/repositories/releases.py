"""Releases of a code host: `https://<host>/<owner>/<repository>/releases/<latest or tag>/<file>`.

On GitHub, GitHub Enterprise, or any host that is laid out like their downloads. A version that is given is downloaded
and nothing else asked; which one is the latest is asked of the host's API.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote, urlsplit

from shared.releases.sources import SourceError
from shared.releases.sources.web import Reply, Web, shown

from .. import metadata, versions
from ..errors import ComponentsError, IncompatibleVersion
from .port import MOST_COMPONENTS, MOST_METADATA, Files, text

LATEST = "latest"
_PAGES = 10
_HINT = "give a token that may read it as github-token in the Secret of spec.configSecret"


@dataclass(frozen=True)
class ReleaseRepository:
    """`token` and `authority` (PEM) as the config Secret gives them."""

    url: str
    token: str = ""
    authority: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        path = parts.path.strip("/").split("/")
        if len(path) < 5 or path[2] != "releases" or not all(path) or ".." in path:
            form = "https://<host>/<owner>/<repository>/releases/<latest or version>/<file>"
            raise ComponentsError(f"URL {shown(self.url)}: want {form}")

    @property
    def place(self) -> str:
        return f"{self._base}/{self._file}"

    @property
    def identity(self) -> str:
        return self.place

    @property
    def private(self) -> bool:
        return bool(self.token)

    def default_version(self) -> str:
        if self._version != LATEST:
            return self._version
        with Web(self.authority) as web:
            listed = self._listed(web)
            known: dict[str, metadata.Metadata | None] = {}

            def told(version: str) -> metadata.Metadata | None:
                if version not in known:
                    known[version] = self._metadata(web, version)
                return known[version]

            return versions.latest(listed, told, metadata.CONTRACTS)

    def fetch(self, version: str) -> Files:
        with Web(self.authority) as web:
            return Files(
                text(self._download(web, version, "metadata.yaml", MOST_METADATA), "metadata.yaml", MOST_METADATA),
                text(self._download(web, version, self._file, MOST_COMPONENTS), self._file),
            )

    # -- parts of the URL ------------------------------------------------------------------------------------------

    @property
    def _path(self) -> list[str]:
        return urlsplit(self.url).path.strip("/").split("/")

    @property
    def _version(self) -> str:
        return self._path[3]

    @property
    def _file(self) -> str:
        return "/".join(self._path[4:])

    @property
    def _base(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{'/'.join(self._path[:2])}/releases"

    @property
    def _api(self) -> str:
        parts = urlsplit(self.url)
        host = "https://api.github.com" if parts.hostname == "github.com" else f"{parts.scheme}://{parts.netloc}/api/v3"
        return f"{host}/repos/{'/'.join(self._path[:2])}/releases"

    # -- requests --------------------------------------------------------------------------------------------------

    @cached_property
    def _authorization(self) -> str:
        return f"Bearer {self.token}" if self.token else ""

    def _download(self, web: Web, version: str, file: str, most: int) -> bytes:
        tag = quote(version, safe="")
        places = [f"{self._base}/download/{tag}/{file}", f"{self._base}/{tag}/{file}"]
        for url in places:
            reply = web.get(url, self._authorization)
            if reply.status == 200:
                return reply.read(most)
            if reply.status != 404:
                raise reply.error(_HINT)
            reply.close()
        raise SourceError(f"{shown(places[0])} does not exist: no version {version} with {file}", transient=False)

    def _metadata(self, web: Web, version: str) -> metadata.Metadata | None:
        """None for a version that is not published; one that cannot be read counts as saying nothing."""
        reply = web.get(f"{self._base}/download/{quote(version, safe='')}/metadata.yaml", self._authorization)
        if reply.status == 404:
            reply.close()
            return None
        if reply.status != 200:
            raise reply.error(_HINT)
        try:
            return metadata.parse(reply.read(MOST_METADATA), version)
        except IncompatibleVersion:
            return metadata.Metadata(())

    def _listed(self, web: Web) -> list[str]:
        found: list[str] = []
        for page in range(1, _PAGES + 1):
            url = f"{self._api}?per_page=100&page={page}"
            reply: Reply = web.get(url, self._authorization, accept="application/vnd.github+json")
            if reply.status != 200:
                hint = f"{_HINT}; or set spec.version, which needs no list"
                failure = reply.error(hint)
                raise SourceError(
                    f"which version is the latest cannot be told: {failure}; set spec.version",
                    transient=failure.transient,
                    retry_after=failure.retry_after,
                )
            entries = reply.json()
            if not isinstance(entries, list):
                raise SourceError(f"{shown(url)} does not answer with a list of releases", transient=True)
            tags = [entry.get("tag_name") for entry in entries if isinstance(entry, dict) and not entry.get("draft")]
            found += [tag for tag in tags if isinstance(tag, str)]
            if len(entries) < 100:
                break
        return found
