"""Fetches charts from https repositories, with an `index.yaml`, and from OCI registries.

Repositories and charts are not trusted: their sizes, URLs, digests and archives are checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit, urlunsplit

from shared import bounded_yaml
from shared.charts import archive
from shared.charts.errors import ArchiveError, ChartError
from shared.clients import Clients
from shared.download import File, SourceError, declared_size
from shared.download.access import Access, is_allowed
from shared.download.ingest import IngestLimits, ingest
from shared.download.registry import ImageManifest, NotInRegistry, Registry
from shared.download.web import HttpResponse, HttpSession, resolve_url
from shared.network import origin
from shared.redaction import redact_url
from shared.settings import HELM_CHARTS, SETTINGS

from .access import read_access
from .index import IndexEntry, InvalidIndex, parse_index
from .request import ChartRequest
from .store import MAX_ARCHIVE
from .versions import InvalidRange, is_exact, newest, parse_version

INDEX = "index.yaml"
MAX_INDEX = 24 << 20
"""Bytes of an index."""

CONFIG = "application/vnd.cncf.helm.config.v1+json"
CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_LAYERS = (CONTENT, "application/tar+gzip")
"""The media types of a chart's layer; early versions of Helm pushed the second."""

_LIMITS = IngestLimits(file=MAX_ARCHIVE, release=MAX_ARCHIVE, files=1)
_FILE = "chart.tgz"


@dataclass(frozen=True)
class FetchedChart:
    """A checked chart, with the name and version in its `Chart.yaml`."""

    name: str
    version: str
    archive: bytes


def fetch_chart(clients: Clients, request: ChartRequest) -> FetchedChart:
    """Fetches the chart of a request.

    Raises:
        SourceError: The repository fails or is refused, or has no such chart or version.
        ChartError: The archive is no chart.
    """
    parts = _repository(request.repo_url)
    access = read_access(clients, request, parts.netloc)
    try:
        if parts.scheme == "oci":
            data = _from_registry(parts.netloc, f"{parts.path}/{request.chart_name}", request.version, access)
        else:
            data = _from_web(parts, request, access)
    except InvalidRange as error:
        raise SourceError(f"spec.version {error}", transient=False) from None
    name, version = chart_version(data, str(request))
    return FetchedChart(name, version, data)


def chart_version(data: bytes, where: str) -> tuple[str, str]:
    """Returns name and version in the `Chart.yaml` of an archive; `where` is for messages. Raises `ChartError`."""
    members = archive.inspect(data, where)
    files = [content for path, content in members.items() if path.count("/") == 1 and path.endswith("/Chart.yaml")]
    if len(files) != 1:
        raise ArchiveError(f"{where}: the archive has no Chart.yaml in its only folder")
    try:
        document = bounded_yaml.load(files[0], untyped=True)
    except bounded_yaml.YAMLError as error:
        raise ChartError(f"{where}: Chart.yaml is not YAML: {' '.join(str(error).split())[:300]}") from None
    found = document if isinstance(document, dict) else {}
    name, version = found.get("name"), found.get("version")
    if not isinstance(name, str) or not name or not isinstance(version, str) or parse_version(version) is None:
        raise ChartError(f"{where}: Chart.yaml has no name, or no semantic version")
    return name, version


def _repository(url: str) -> SplitResult:
    """Returns the parts of a repository's URL. Raises `SourceError` for a URL that is invalid or not allowed."""
    if not is_allowed(url, SETTINGS.get("CHART_ALLOWED_SOURCES", "")):
        raise SourceError(
            f"repository {redact_url(url)[:200]} is refused because CHART_ALLOWED_SOURCES does not list it "
            f"({HELM_CHARTS.where})",
            transient=False,
        )
    try:
        parts = urlsplit(url)
        origin(urlunsplit(parts._replace(scheme="https")))
    except ValueError:
        raise SourceError(f"repoURL {redact_url(url)[:200]} is not a URL", transient=False) from None
    if parts.scheme not in ("https", "oci"):
        raise SourceError(f"repoURL {redact_url(url)[:200]} must begin with https:// or oci://", transient=False)
    if "@" in parts.netloc:
        raise SourceError("repoURL contains credentials: put them into the Secret of spec.credentials", transient=False)
    return parts


# -- https ---------------------------------------------------------------------------------------------------------


def _from_web(parts: SplitResult, request: ChartRequest, access: Access) -> bytes:
    with HttpSession(access.ca, insecure=access.insecure) as session:
        index = urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{INDEX}", fragment=""))
        try:
            entries = parse_index(_ok(session.get(index, access.authorization)).read(MAX_INDEX), request.chart_name)
        except InvalidIndex as error:
            raise SourceError(f"{redact_url(index)} {error}", transient=False) from None
        entry = _chosen(entries, request, redact_url(index))
        url = resolve_url(index, entry.url)
        if parts.query and not urlsplit(entry.url).scheme:
            url = urlunsplit(urlsplit(url)._replace(query=parts.query))
        if url.startswith("oci://"):
            return _from_other_registry(url)
        authorization = access.authorization if _same_origin(url, index) else ""
        reply = _ok(session.get(url, authorization))
        size = declared_size(reply.headers.get("Content-Length", ""))
        return next(ingest([File(_FILE, reply.chunks(), size, entry.digest or None)], _LIMITS)).data


def _chosen(entries: Sequence[IndexEntry], request: ChartRequest, where: str) -> IndexEntry:
    if not entries:
        raise SourceError(f"{where} has no chart {request.chart_name[:253]!r}", transient=False)
    version = newest(request.version, [entry.version for entry in entries])
    if version is None:
        raise _no_version(request.version, where)
    return next(entry for entry in entries if entry.version == version)


def _ok(reply: HttpResponse) -> HttpResponse:
    if reply.status != 200:
        raise reply.error("its credentials are in the Secret of spec.credentials")
    return reply


def _same_origin(url: str, other: str) -> bool:
    try:
        return origin(url) == origin(other)
    except ValueError:
        return False


# -- OCI -----------------------------------------------------------------------------------------------------------


def _from_other_registry(url: str) -> bytes:
    """Returns the chart that an index refers to, as `oci://<host>/<repository>:<tag>`, without credentials."""
    parts = _repository(url)
    repository, _, tag = parts.path.rpartition(":")
    return _from_registry(parts.netloc, repository, tag.replace("_", "+"), Access())


def _from_registry(host: str, path: str, version: str, access: Access) -> bytes:
    repository = "/".join(filter(None, path.split("/")))
    where = f"oci://{host}/{repository}"
    with Registry(host, repository, access) as registry:
        manifest = _manifest(registry, version, where)
        layers = [layer for layer in manifest.layers if layer.media_type in _LAYERS]
        if manifest.config_type != CONFIG or not layers:
            raise SourceError(f"{where} is not a chart, but {manifest.config_type[:100]!r}", transient=False)
        layer = layers[0]
        file = File(_FILE, registry.blob(layer), layer.size, layer.digest.removeprefix("sha256:"))
        return next(ingest([file], _LIMITS)).data


def _manifest(registry: Registry, version: str, where: str) -> ImageManifest:
    """Returns the manifest of the version's tag, else of the newest tag in the range. Tags have `_` in place of `+`."""
    if parse_version(version) is not None:
        try:
            return registry.manifest(version.replace("+", "_"), titled=False)
        except NotInRegistry:
            if is_exact(version):
                raise _no_version(version, where) from None
    newest(version, ())  # an invalid range needs no request
    tags = registry.tags()
    found = newest(version, [text for tag in tags if is_exact(text := tag.replace("_", "+"))])
    if found is None:
        raise _no_version(version, where, getattr(tags, "problem", ""))
    return registry.manifest(found.replace("+", "_"), titled=False)


def _no_version(version: str, where: str, problem: str = "") -> SourceError:
    wanted = f"version {version[:100]!r}" if version else "version that is no prerelease"
    return SourceError(f"{where} has no {wanted}" + (f"; {problem}" if problem else ""), transient=False)
