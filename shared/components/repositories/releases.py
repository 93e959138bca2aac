"""Releases of a code host: `https://<host>/<owner>/<repository>/releases/<latest or tag>/<file>`.

The host is GitHub, GitHub Enterprise, or one with the same download paths. Files of a given
version are downloaded from these URLs. The host's API is used to find the latest version, and for the assets of private
repositories.

Environment: `GITHUB_URL` and `GITHUB_API_URL` name a host that stands in for github.com.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from shared.download import Listing, ReleaseNotFound, SourceError
from shared.download.access import HOSTS, Access
from shared.download.github import GitHubReleases
from shared.download.ingest import IngestLimits, ingest
from shared.download.web import HttpSession
from shared.network import origin
from shared.redaction import redact_url
from shared.settings import SETTINGS

from .. import catalog, metadata, versions
from ..errors import ComponentsError, IncompatibleVersion, InvalidToken
from .addresses import split, validate_version
from .at_url import RepositoryAtUrl
from .port import MAX_METADATA, METADATA, RepositoryConfig, RepositoryType

LATEST = "latest"
GITHUB_API = "https://api.github.com"
_GITHUB = origin(catalog.GITHUB)
_REMEDY = (
    "put a valid token into github-token of the Secret of spec.configSecret, or without that key into GITHUB_TOKEN of "
    "the functions; public releases need no token"
)
_HINT = (
    "give a token that may read it as github-token in the Secret of spec.configSecret, whose annotation "
    f"{HOSTS} names the host if that is not github.com"
)


@dataclass(frozen=True)
class ReleaseRepository(RepositoryAtUrl):
    """The releases of one repository."""

    def __post_init__(self) -> None:
        path = self.path
        if len(path) < 5 or path[2] != "releases" or not all(path) or ".." in path:
            form = "https://<host>/<owner>/<repository>/releases/<latest or version>/<file>"
            raise ComponentsError(f"URL {redact_url(self.url)}: must be {form}")

    def default_version(self) -> str:
        """See `Repository.default_version`. `latest` is the newest release with the best contract."""
        version = self.path[3]
        if version != LATEST:
            return validate_version(self.url, version)
        listed = self._listed()
        known: dict[str, metadata.ProviderMetadata | None] = {}
        with HttpSession(self.ca) as session:

            def metadata_of(version: str) -> metadata.ProviderMetadata | None:
                if version not in known:
                    known[version] = self._metadata(session, version)
                return known[version]

            return versions.latest(listed, metadata_of, metadata.CONTRACTS)

    # -- parts of the URL ------------------------------------------------------------------------------------------

    @property
    def file(self) -> str:
        """See `RepositoryAtUrl.file`."""
        return "/".join(self.path[4:])

    @property
    def _origin(self) -> str:
        return f"{self.parts.scheme}://{self.parts.netloc}"

    @property
    def base(self) -> str:
        """See `RepositoryAtUrl.base`."""
        return f"{self._origin}/{'/'.join(self.path[:2])}/releases"

    @property
    def _host(self) -> GitHubReleases:
        api = f"{self._origin}/api/v3"
        if self._origin == catalog.GITHUB:
            api = GITHUB_API
        if self._origin == catalog.github_url():
            api = SETTINGS.get("GITHUB_API_URL", api).rstrip("/")
        owner, repository = self.path[:2]
        return GitHubReleases(api, owner, repository, Access(token=self.token, ca=self.ca))

    # -- requests --------------------------------------------------------------------------------------------------

    def download(self, session: HttpSession, version: str, file: str, limit: int) -> bytes:
        """See `RepositoryAtUrl.download`."""
        data = self._find(session, version, file, limit)
        if data is None:
            hint = "" if self.token else "; for a private repository, " + _HINT
            where = f"{self.base}/download/{version}/{file}"
            raise SourceError(f"{where} does not exist: no version {version} with {file}{hint}", transient=False)
        return data

    def _find(self, session: HttpSession, version: str, file: str, limit: int) -> bytes | None:
        """Returns the content of a published file; None if it is not published."""
        tag = quote(version, safe="")
        for place in (f"{self.base}/download/{tag}", f"{self.base}/{tag}"):
            reply = session.get(f"{place}/{file}", self.authorization)
            if reply.status == 200:
                return reply.read(limit)
            if reply.status != 404:
                raise self._rejection(reply.error(_HINT))
            reply.close()
        return self._asset(version, file, limit) if self.token else None

    def _asset(self, version: str, file: str, limit: int) -> bytes | None:
        """Returns an asset through the API: the URLs of private repositories answer 404 even with a token."""
        assets = (asset for asset in self._host.fetch(version) if asset.name == file)
        try:
            found = next(ingest(assets, IngestLimits(file=limit, release=limit)), None)
        except ReleaseNotFound:
            return None
        except SourceError as error:
            raise self._rejection(error) from None
        return found.data if found else None

    def _rejection(self, error: SourceError) -> SourceError:
        """Returns the error of a token that the host does not accept; any other error unchanged."""
        if not (self.token and error.unauthorized):
            return error
        return InvalidToken(f"{self._origin} does not accept the token (HTTP 401): {_REMEDY}")

    def _metadata(self, session: HttpSession, version: str) -> metadata.ProviderMetadata | None:
        """Returns the metadata of a version; None if it is not published, and empty metadata if it is invalid."""
        data = self._find(session, version, METADATA, MAX_METADATA)
        try:
            return None if data is None else metadata.parse(data, version)
        except IncompatibleVersion:
            return metadata.ProviderMetadata(())

    def _listed(self) -> list[str]:
        try:
            found = self._host.list()
            if isinstance(found, Listing) and found.problem:
                raise SourceError(found.problem, transient=False)
            return list(found)
        except SourceError as error:
            if isinstance(rejection := self._rejection(error), InvalidToken):
                raise rejection from None
            message = f"cannot find the latest version: {error}; set spec.version, which needs no list"
            raise SourceError(message, transient=error.transient, retry_after=error.retry_after) from None


def _serves(config: RepositoryConfig) -> bool:
    return bool(config.url)


def _open(config: RepositoryConfig) -> ReleaseRepository:
    host = split(config.url, "https", "http").netloc
    # Without hosts the token is only for the host to which Cluster API Operator sends it.
    known = config.hosts is not None or origin(config.url)[1:] == _GITHUB[1:]
    [token] = config.credentials(host, "github-token") if known else [""]
    if not token and origin(config.url) == _GITHUB:
        token = SETTINGS.get("GITHUB_TOKEN", "")  # the installation's token, which is for no other host
    return ReleaseRepository(config.url, token, config.variables.get("ca.crt", ""))


REPOSITORY_TYPE = RepositoryType(_serves, _open, fallback=True)
