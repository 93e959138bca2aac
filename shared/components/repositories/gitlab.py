"""Generic packages of GitLab: `https://<host>/api/v4/projects/<project>/packages/generic/<package>/<version>/<file>`."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from shared.download import SourceError
from shared.download.web import HttpSession
from shared.redaction import redact_url

from ..errors import ComponentsError
from .addresses import split, validate_version
from .at_url import RepositoryAtUrl
from .port import RepositoryConfig, RepositoryType

_HINT = "give a token that may read it as gitlab-access-token in the Secret of spec.configSecret"


@dataclass(frozen=True)
class GitLabRepository(RepositoryAtUrl):
    """The versions of one generic package."""

    def __post_init__(self) -> None:
        path = self.path
        if len(path) != 9 or path[:3] != ["api", "v4", "projects"] or path[4:6] != ["packages", "generic"]:
            form = "https://<host>/api/v4/projects/<project>/packages/generic/<package>/<version>/<file>"
            raise ComponentsError(f"URL {redact_url(self.url)}: must be {form}")

    @property
    def base(self) -> str:
        """See `RepositoryAtUrl.base`."""
        return f"{self.parts.scheme}://{self.parts.netloc}/{'/'.join(self.path[:7])}"

    @property
    def file(self) -> str:
        """See `RepositoryAtUrl.file`."""
        return self.path[8]

    def default_version(self) -> str:
        """See `Repository.default_version`."""
        return validate_version(self.url, self.path[7])

    def download(self, session: HttpSession, version: str, file: str, limit: int) -> bytes:
        """See `RepositoryAtUrl.download`."""
        url = f"{self.base}/{quote(version, safe='')}/{file}"
        reply = session.get(url, self.authorization)
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
    [token] = config.credentials(split(config.url, "https", "http").netloc, "gitlab-access-token")
    return GitLabRepository(config.url, token, config.variables.get("ca.crt", ""))


REPOSITORY_TYPE = RepositoryType(_serves, _open)
