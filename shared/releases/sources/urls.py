"""Creates release sources from URLs and from settings.

    /folder, file:///folder                      only from the operator, not from objects of users
    https://host/folder, http://host/folder      files below <folder>/<tag>/
    github://github.com/org/repo                 any other host is GitHub Enterprise; github+http:// without TLS
    oci://registry/repository                    oci+http:// without TLS
    s3://bucket/prefix

The setting `RELEASE_SOURCE` has one or more of these, separated by whitespace (a space in a path is %20 in its file
URL). Without it the variables of cluster-stack-operator are used: `GIT_ORG_NAME` and `GIT_REPOSITORY_NAME` (with
`GIT_PROVIDER` github, or unset), else `OCI_REGISTRY` and `OCI_REPOSITORY`. In either case credentials come from the
settings that each type of source declares. Only the first host of each type receives them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shared.download import File, Listing, ReleaseNotFound, SourceError
from shared.download.access import Access
from shared.registration import registered
from shared.settings import RELEASE_SOURCES, SETTINGS

from .port import Source, SourceType, SourceUrl, UnusableUrl, server_of


@dataclass(frozen=True, slots=True)
class SourceChain:
    """Sources in order: a release comes from the first that has it."""

    sources: tuple[Source, ...]

    def fetch(self, tag: str) -> Iterator[File]:
        """See `Source.fetch`.

        The next source is tried only if the previous source answers that it does not have the release. If a source
        fails, the chain fails, because a later source may have another release under this tag, which would stay in
        storage.
        """
        absences = []
        for source in self.sources:
            files = source.fetch(tag)
            try:
                first = next(files, None)
            except ReleaseNotFound as absence:
                absences.append(str(absence))
                continue
            if first is not None:
                yield first
                yield from files
            return
        raise ReleaseNotFound(tag, "any source: " + "; ".join(absences))

    def list(self) -> Sequence[str]:
        """See `Source.list`. Sources that fail are left out, unless all fail."""
        names: set[str] = set()
        problems: list[SourceError] = []
        for source in self.sources:
            try:
                listed = source.list()
            except SourceError as error:
                problems.append(error)
                continue
            names.update(listed)
            if isinstance(listed, Listing) and listed.problem:
                problems.append(SourceError(listed.problem, transient=True))
        if problems and len(problems) == len(self.sources) and not names:
            # The chain can be retried as soon as one source accepts requests again.
            raise min(problems, key=lambda problem: problem.retry_after or 0.0)
        return Listing(sorted(names), "; ".join(map(str, problems)))


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def from_url(url: str, access: Access | None = None, *, local: bool = True) -> Source:
    """Returns the source at a URL or path, without a request to it.

    Args:
        url: A path, or a URL of one of the registered schemes.
        access: Credentials for the source.
        local: Whether the URL may name a folder: True for settings, False for URLs in objects of users.

    Raises:
        SourceError: The URL is unusable. The message quotes only its scheme, because other parts may contain a token.
    """
    parsed = SourceUrl(url, _scheme(url), local)
    source_type = _types().get(parsed.scheme)
    try:
        if source_type is None:
            raise UnusableUrl("is not supported")
        return source_type.open(parsed, access or Access())
    except UnusableUrl as error:
        scheme = f"{parsed.scheme}:" if parsed.scheme else ""
        raise SourceError(f"release source {scheme!r} {error}: {_supported_forms()}", transient=False) from None


def from_env(env: Mapping[str, str] = SETTINGS) -> Source:
    """Returns the source that the settings name, or a chain of all if there are several. Raises `SourceError`."""
    urls = _urls_in(env)
    if not urls:
        raise SourceError(f"RELEASE_SOURCE is not set: {_supported_forms()} ({RELEASE_SOURCES.where})", transient=False)
    hosts_with_credentials: dict[str, str] = {}
    sources = []
    for url in urls:
        access, source_type = None, _types().get(_scheme(url))
        if source_type is not None:
            first_host = hosts_with_credentials.setdefault(source_type.schemes[0], server_of(url))
            access = source_type.access_from(env) if server_of(url) == first_host else None
        sources.append(from_url(url, access))
    if len(sources) == 1:
        return sources[0]

    return SourceChain(tuple(sources))


def server(url: str) -> str:
    """Returns the host, and the port if there is one, of the server that a source's URL names; "" if it names none."""
    source_type = _types().get(_scheme(url))
    return source_type.server(url) if source_type else ""


def servers_in_settings() -> frozenset[str]:
    """Returns the servers that the sources of the settings name. Raises `SourceError` if the settings are invalid."""
    return frozenset(map(server, _urls_in(SETTINGS)))


def _urls_in(env: Mapping[str, str]) -> list[str]:
    return env.get("RELEASE_SOURCE", "").split() or _urls_of_cluster_stack_operator(env)


def _types() -> dict[str, SourceType]:
    """Returns the registered types of sources by their schemes."""
    types: tuple[SourceType, ...] = registered(__package__, "SOURCE_TYPE")
    return {scheme: source_type for source_type in types for scheme in source_type.schemes}


def _supported_forms() -> str:
    schemes = [f"{scheme}:" for scheme in sorted(_types()) if scheme and not scheme.endswith("+http")]
    return f"must be a path or one of {', '.join(schemes)} URLs"


def _urls_of_cluster_stack_operator(env: Mapping[str, str]) -> list[str]:
    """Returns the URL for the variables of cluster-stack-operator, as a list; empty if they are not set."""
    organization, repository = env.get("GIT_ORG_NAME", ""), env.get("GIT_REPOSITORY_NAME", "")
    if organization and repository:
        provider = env.get("GIT_PROVIDER", "github")
        if provider != "github":
            raise SourceError(f"GIT_PROVIDER is {provider!r}, only github is supported", transient=False)
        return [f"github://github.com/{organization}/{repository}"]
    registry, name = env.get("OCI_REGISTRY", ""), env.get("OCI_REPOSITORY", "")
    # In these variables the repository often begins with the registry.
    return [f"oci://{registry}/{name.removeprefix(f'{registry}/')}"] if registry and name else []


def _scheme(url: str) -> str:
    match = _SCHEME.match(url)
    return match[1].lower() if match else ""
