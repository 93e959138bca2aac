"""Releases of a GitHub repository: `github://<host>/<organization>/<repository>`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from shared.download.access import Access

from .port import Source, SourceType, SourceUrl, UnusableUrl

_REPOSITORY = re.compile(r"/([A-Za-z0-9_.-]+)/([A-Za-z0-9_.-]+)/?")


def _open(url: SourceUrl, access: Access) -> Source:
    from shared.download.github import GitHubReleases

    parts = url.split_server()
    names = _REPOSITORY.fullmatch(parts.path)
    if not names or {".", ".."} & set(names.groups()):
        raise UnusableUrl("is not of the form github://<host>/<organization>/<repository>")
    public = not url.plain and parts.netloc.lower() == "github.com"
    api = "https://api.github.com" if public else f"{'http' if url.plain else 'https'}://{parts.netloc}/api/v3"
    return GitHubReleases(api, names[1], names[2], access)


def _access(env: Mapping[str, str]) -> Access:
    return Access(token=env.get("GIT_ACCESS_TOKEN", ""))


SOURCE_TYPE = SourceType(("github", "github+http"), _open, _access)
