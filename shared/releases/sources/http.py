"""Downloads releases from any web server: `https://<host>/<folder>`, with the files in `<folder>/<tag>/`.

Web servers need not list folders. So the source requests the files that a release must have, the optional files (404 if
this release lacks one), and the files in `SHA256SUMS`, the output of sha256sum. If a release has that file, it must
list all other files, except signatures. `<folder>/index.json` lists the releases: {"releases": ["<tag>", ...]}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from shared.download import File, ReleaseNotFound, SourceError, checksums, declared_size
from shared.download.access import Access
from shared.download.checksums import SUMS
from shared.download.signatures import RELEASE_KEY, SUFFIX
from shared.settings import SETTINGS

from ..metadata import MAX_BYTES, MetadataError, parse
from ..naming import InvalidName, ReleaseName
from ..release import METADATA, STAGES, VALUES_TEMPLATE
from .port import SourceType, SourceUrl

if TYPE_CHECKING:
    from shared.download.web import HttpResponse, HttpSession

INDEX = "index.json"

_ABSENT = {404, 410}


@dataclass(frozen=True, slots=True)
class HttpSource:
    """The releases below one folder; `root` is its URL, without a trailing slash."""

    root: str
    access: Access = field(default_factory=Access)

    def fetch(self, tag: str) -> Iterator[File]:
        """See `Source.fetch`."""
        try:
            name = ReleaseName.parse(tag)
        except InvalidName:
            raise ReleaseNotFound(tag, self.root) from None
        with self._session() as session:
            metadata = self._get(session, tag, METADATA)
            if metadata is None:
                raise ReleaseNotFound(tag, self.root)
            data = metadata.read(MAX_BYTES + 1)
            listed, sums = self._sums(session, tag)
            yield File(METADATA, [data], len(data), self._digest(sums, METADATA))
            signs_sums = bool(listed and SETTINGS.get(RELEASE_KEY))
            if signs_sums:
                yield File(SUMS, [listed], len(listed))
            files = _files(name, data, sums)
            if signs_sums or SETTINGS.get(RELEASE_KEY):
                files += [f"{file}{SUFFIX}" for file in ([SUMS] if signs_sums else [METADATA, *files])]
            for file in files:
                reply = self._get(session, tag, file)
                if reply is not None:
                    yield File(file, reply.chunks(), _length(reply), self._digest(sums, file))
                elif file in sums:
                    raise SourceError(f"{self.root}/{tag}: {file!r} is in {SUMS} but does not exist", transient=True)

    def list(self) -> Sequence[str]:
        """See `Source.list`."""
        with self._session() as session:
            reply = session.get(f"{self.root}/{INDEX}", self.access.authorization)
            if reply.status in _ABSENT:
                reply.close()
                problem = f'{self.root} has no {INDEX}, which would list the releases: {{"releases": ["<tag>", ...]}}'
                raise SourceError(problem, transient=False)
            if reply.status != 200:
                raise self._error(reply)
            document = reply.json()
        releases = document.get("releases") if isinstance(document, dict) else None
        if not isinstance(releases, list) or not all(isinstance(tag, str) for tag in releases):
            raise SourceError(f'{self.root}/{INDEX} is not {{"releases": ["<tag>", ...]}}', transient=False)
        return sorted(set(releases))

    def _sums(self, session: HttpSession, tag: str) -> tuple[bytes, Mapping[str, str]]:
        """Returns the content of SHA256SUMS, and the sha256 of each file in it; empty without SHA256SUMS."""
        reply = self._get(session, tag, SUMS)
        if reply is None:
            return b"", {}
        data = reply.read()
        try:
            sums = checksums.parse(data)
        except ValueError as error:
            raise SourceError(f"{self.root}/{tag}/{error}", transient=False) from None
        return data, {file: digest for file, digest in sums.items() if file != SUMS}

    def _digest(self, sums: Mapping[str, str], file: str) -> str | None:
        if sums and file not in sums and not file.endswith(SUFFIX):
            raise SourceError(f"{self.root}: {file!r} exists but is not in {SUMS}", transient=False)
        return sums.get(file)

    def _get(self, session: HttpSession, tag: str, file: str) -> HttpResponse | None:
        reply = session.get(f"{self.root}/{tag}/{quote(file, safe='')}", self.access.authorization)
        if reply.status in _ABSENT:
            reply.close()
            return None
        if reply.status != 200:
            raise self._error(reply)
        return reply

    def _error(self, reply: HttpResponse) -> SourceError:
        return reply.error(
            "the credentials are not accepted" if self.access.authorization else "credentials are needed"
        )

    def _session(self) -> HttpSession:
        from shared.download.web import HttpSession

        return HttpSession(self.access.ca)


def _files(name: ReleaseName, metadata: bytes, sums: Mapping[str, str]) -> list[str]:
    """Returns the files to request after metadata.yaml. Raises `SourceError` if `metadata`, the content, is invalid."""
    try:
        version = parse(metadata, name.tag).cluster_addon
    except MetadataError as error:
        raise SourceError(str(error), transient=False) from error
    expected = [
        name.class_chart,
        name.addon_chart(version),
        VALUES_TEMPLATE,
        STAGES,
        f"topology-{name.provider}.yaml",
        "node-images.yaml",
        "hashes.json",
    ]
    return [file for file in dict.fromkeys([*expected, *sums]) if file != METADATA]


def _length(reply: HttpResponse) -> int | None:
    length = reply.headers.get("Content-Length", "")
    return declared_size(length) if "Content-Encoding" not in reply.headers else None


def _open(url: SourceUrl, access: Access) -> HttpSource:
    parts = url.split_server()
    return HttpSource(f"{url.scheme}://{parts.netloc}{parts.path.rstrip('/')}", access)


SOURCE_TYPE = SourceType(("http", "https"), _open)
