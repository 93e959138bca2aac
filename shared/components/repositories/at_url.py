"""The common part of repositories whose URL names host, version and file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from urllib.parse import SplitResult

from shared.download import SourceError
from shared.download.signatures import MAX_SIGNATURE, PROVIDER_KEY, SUFFIX, verifier_in
from shared.download.web import HttpSession

from .addresses import split
from .port import MAX_COMPONENTS, MAX_METADATA, METADATA, Files, decode_file


@dataclass(frozen=True)
class RepositoryAtUrl(ABC):
    """A `Repository` below a URL; `token` and `ca` (PEM) come from the config Secret."""

    url: str
    token: str = ""
    ca: str = ""

    @property
    @abstractmethod
    def base(self) -> str:
        """The URL without version and file."""

    @property
    @abstractmethod
    def file(self) -> str:
        """The name of the file with the components."""

    @abstractmethod
    def download(self, session: HttpSession, version: str, file: str, limit: int) -> bytes:
        """Returns a file of a version, which has at most `limit` bytes. Raises `SourceError`."""

    @property
    def place(self) -> str:
        """See `Repository.place`."""
        return f"{self.base}/{self.file}"

    def fetch(self, version: str) -> Files:
        """See `Repository.fetch`."""
        verifier = verifier_in(PROVIDER_KEY)
        with HttpSession(self.ca) as session:

            def read(file: str, limit: int) -> str:
                data = self.download(session, version, file, limit)
                if verifier:
                    verifier.require(f"{self.base}/{version}/{file}", data, self._signature(session, version, file))
                return decode_file(data, file)

            return Files(read(METADATA, MAX_METADATA), read(self.file, MAX_COMPONENTS))

    def _signature(self, session: HttpSession, version: str, file: str) -> bytes:
        """Returns the signature of a file; empty if it is not published."""
        try:
            return self.download(session, version, f"{file}{SUFFIX}", MAX_SIGNATURE)
        except SourceError as error:
            if error.transient:
                raise
            return b""

    @property
    def parts(self) -> SplitResult:
        """The parts of the URL."""
        return split(self.url, "https", "http")

    @property
    def path(self) -> list[str]:
        """The segments of the URL's path."""
        return self.parts.path.strip("/").split("/")

    @property
    def authorization(self) -> str:
        """The header `Authorization` of requests; empty without a token."""
        return f"Bearer {self.token}" if self.token else ""
