"""From URLs, and from the environment, to sources.

    /folder, file:///folder                      only the operator's
    https://host/folder, http://host/folder      files below <folder>/<tag>/
    github://github.com/org/repo                 any other host is GitHub Enterprise; github+http:// without TLS
    oci://registry/repository                    oci+http:// without TLS
    s3://bucket/prefix

Settings: `RELEASE_SOURCE`, one or more of these separated by whitespace (a space in a path is %20 in its file URL).
Without it, the variables of cluster-stack-operator: `GIT_ORG_NAME` and `GIT_REPOSITORY_NAME` (with `GIT_PROVIDER`
github, or unset), else `OCI_REGISTRY` and `OCI_REPOSITORY`. In either case credentials come from `GIT_ACCESS_TOKEN`,
and from `OCI_ACCESS_TOKEN` or `OCI_USERNAME` and `OCI_PASSWORD`; they are for the host of the first GitHub
repository, and of the first registry, and for no other.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from shared.download import SourceError
from shared.download.access import Access
from shared.settings import RELEASE_SOURCES, SETTINGS

from .port import Source

_FILE_URL = re.compile(r"file:(?://(?:localhost)?)?(/[^/].*)")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,39}\])(?::[0-9]{1,5})?")
_REPOSITORY = re.compile(r"/([A-Za-z0-9_.-]+)/([A-Za-z0-9_.-]+)/?")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_WANTED = "want a path or one of file:, https:, http:, github:, oci:, s3: URLs"


def from_url(url: str, access: Access | None = None, *, local: bool = True) -> Source:
    """The source at a URL, which is not asked yet. Raises `SourceError` for what is none.

    Without `local` folders are refused: the URL is somebody else's, and the file system is ours.
    """
    scheme = _scheme(url)
    if scheme in ("", "file"):
        return _folder(url, local)
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _unusable(f"{scheme}:", "is no URL") from None
    if scheme == "s3":
        return _s3(parts, access or Access(), ambient=local)
    make = _SCHEMES.get(scheme)
    if make is None:
        raise _unusable(f"{scheme}:", "is not supported")
    _check(parts)
    return make(scheme, parts, access or Access())


def from_env(env: Mapping[str, str] = SETTINGS) -> Source:
    """The sources that the installation is set to, as one. Raises `SourceError`."""
    urls = env.get("RELEASE_SOURCE", "").split() or _other_operator(env)
    if not urls:
        raise SourceError(f"RELEASE_SOURCE is not set: {_WANTED} ({RELEASE_SOURCES.where})", transient=False)
    entitled: dict[str, str] = {}
    sources = []
    for url in urls:
        kind, host = _scheme(url).partition("+")[0], _netloc(url)
        known = kind in _CREDENTIALS and entitled.setdefault(kind, host) == host
        sources.append(from_url(url, _CREDENTIALS[kind](env) if known else None))
    if len(sources) == 1:
        return sources[0]
    from .several import Several

    return Several(tuple(sources))


def _folder(url: str, local: bool) -> Source:
    if not local:
        raise SourceError("a release source that is a folder is for the operator's environment only", transient=False)
    from .folder import FolderSource

    if file := _FILE_URL.fullmatch(url):
        return FolderSource(Path(unquote(file[1])))
    if url and not _SCHEME.match(url):
        return FolderSource(Path(url))
    raise _unusable(_scheme(url), "is no file:///<folder>")


def _http(scheme: str, parts: SplitResult, access: Access) -> Source:
    from .http import HttpSource

    return HttpSource(f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}", access)


def _github(scheme: str, parts: SplitResult, access: Access) -> Source:
    from shared.download.github import GitHubSource

    names = _REPOSITORY.fullmatch(parts.path)
    if not names or {".", ".."} & set(names.groups()):
        raise _unusable(f"{scheme}:", "is no github://<host>/<organization>/<repository>")
    public = scheme == "github" and parts.netloc.lower() == "github.com"
    api = "https://api.github.com" if public else f"{_transport(scheme)}://{parts.netloc}/api/v3"
    return GitHubSource(api, names[1], names[2], access)


def _oci(scheme: str, parts: SplitResult, access: Access) -> Source:
    from .oci import OciSource

    if not parts.path.strip("/"):
        raise _unusable(f"{scheme}:", "is no oci://<registry>/<repository>")
    return OciSource(parts.netloc, parts.path.strip("/"), access, plain=_transport(scheme) == "http")


def _s3(parts: SplitResult, access: Access, *, ambient: bool) -> Source:
    from .s3 import S3Source

    if not _BUCKET.fullmatch(parts.netloc) or parts.query or parts.fragment:
        raise _unusable("s3:", "is no s3://<bucket>/<prefix>")
    return S3Source(parts.netloc, parts.path.strip("/"), access, ambient)


_SCHEMES: Mapping[str, Callable[[str, SplitResult, Access], Source]] = {
    "http": _http,
    "https": _http,
    "github": _github,
    "github+http": _github,
    "oci": _oci,
    "oci+http": _oci,
}


def _github_access(env: Mapping[str, str]) -> Access:
    return Access(token=env.get("GIT_ACCESS_TOKEN", ""))


def _oci_access(env: Mapping[str, str]) -> Access:
    token = env.get("OCI_ACCESS_TOKEN", "")
    return Access(
        token=base64.b64encode(token.encode()).decode(),  # as cluster-stack-operator hands it to registries
        username=env.get("OCI_USERNAME", ""),
        password=env.get("OCI_PASSWORD", ""),
    )


_CREDENTIALS: Mapping[str, Callable[[Mapping[str, str]], Access]] = {"github": _github_access, "oci": _oci_access}


def _other_operator(env: Mapping[str, str]) -> list[str]:
    organization, repository = env.get("GIT_ORG_NAME", ""), env.get("GIT_REPOSITORY_NAME", "")
    if organization and repository:
        provider = env.get("GIT_PROVIDER", "github")
        if provider != "github":
            raise SourceError(f"GIT_PROVIDER is {provider!r}, only github is known", transient=False)
        return [f"github://github.com/{organization}/{repository}"]
    registry, name = env.get("OCI_REGISTRY", ""), env.get("OCI_REPOSITORY", "")
    # There the repository is often written with the registry in front.
    return [f"oci://{registry}/{name.removeprefix(f'{registry}/')}"] if registry and name else []


def _scheme(url: str) -> str:
    match = _SCHEME.match(url)
    return match[1].lower() if match else ""


def _netloc(url: str) -> str:
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def _transport(scheme: str) -> str:
    return "http" if scheme.endswith("+http") else "https"


def _check(parts: SplitResult) -> None:
    """Raises `SourceError`. No part is quoted, since a token may be in any."""
    if "@" in parts.netloc:
        raise _unusable(f"{parts.scheme}:", "has credentials in it; they belong into a Secret or the environment")
    if parts.query or parts.fragment or not _HOST.fullmatch(parts.netloc):
        raise _unusable(f"{parts.scheme}:", "has no host, or something after its path")


def _unusable(what: str, problem: str) -> SourceError:
    return SourceError(f"release source {what!r} {problem}: {_WANTED}", transient=False)
