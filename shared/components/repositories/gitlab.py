"""Generic packages of GitLab: `https://<host>/api/v4/projects/<project>/packages/generic/<package>/<version>/<file>`."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, quote, urlsplit

from shared.download import SourceError
from shared.download.web import HttpSession
from shared.redaction import redact_url

from ..errors import ComponentsError
from .addresses import split, validate_version
from .port import MAX_COMPONENTS, MAX_METADATA, METADATA, Files, RepositoryConfig, RepositoryType, decode_file

_HINT = "give a token that may read it as gitlab-access-token in the Secret of spec.configSecret"


@dataclass(frozen=True)
class GitLabRepository:
    """The versions of one generic package; `token` and `ca` (PEM) come from the config Secret."""

    url: str
    token: str = ""
    ca: str = ""

    def __post_init__(self) -> None:
        path = self._path
        if len(path) != 9 or path[:3] != ["api", "v4", "projects"] or path[4:6] != ["packages", "generic"]:
            form = "https://<host>/api/v4/projects/<project>/packages/generic/<package>/<version>/<file>"
            raise ComponentsError(f"URL {redact_url(self.url)}: must be {form}")

    @property
    def place(self) -> str:
        """See `Repository.place`."""
        return f"{self._base}/{self._path[8]}"

    @property
    def identity(self) -> str:
        """See `Repository.identity`."""
        return self.place

    @property
    def private(self) -> bool:
        """See `Repository.private`."""
        return bool(self.token or self.ca)

    def default_version(self) -> str:
        """See `Repository.default_version`."""
        return validate_version(self.url, self._path[7])

    def fetch(self, version: str) -> Files:
        """See `Repository.fetch`."""
        with HttpSession(self.ca) as session:
            return Files(
                decode_file(self._download(session, version, METADATA, MAX_METADATA), METADATA),
                decode_file(self._download(session, version, self._path[8], MAX_COMPONENTS), self._path[8]),
            )

    @property
    def _parts(self) -> SplitResult:
        return split(self.url, "https", "http")

    @property
    def _path(self) -> list[str]:
        return self._parts.path.strip("/").split("/")

    @property
    def _base(self) -> str:
        return f"{self._parts.scheme}://{self._parts.netloc}/{'/'.join(self._path[:7])}"

    def _download(self, session: HttpSession, version: str, file: str, limit: int) -> bytes:
        url = f"{self._base}/{quote(version, safe='')}/{file}"
        reply = session.get(url, f"Bearer {self.token}" if self.token else "")
        if reply.status == 404:
            reply.close()
            raise SourceError(f"{redact_url(url)} does not exist: no version {version} with {file}", transient=False)
        if reply.status != 200:
            raise reply.error(_HINT)
        return reply.read(limit)


def _serves(config: RepositoryConfig) -> bool:
    try:
        parts = urlsplit(config.url)
    except ValueError:
        return False
    return "/api/v4/projects/" in parts.path or (parts.hostname or "").startswith(("gitlab.", "gitlab-"))


def _open(config: RepositoryConfig) -> GitLabRepository:
    variables = config.variables
    return GitLabRepository(config.url, variables.get("gitlab-access-token", ""), variables.get("ca.crt", ""))


REPOSITORY_TYPE = RepositoryType(_serves, _open)
