"""What repositories have in common whose URL names host, version and file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from urllib.parse import SplitResult

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
        with HttpSession(self.ca) as session:
            return Files(
                decode_file(self.download(session, version, METADATA, MAX_METADATA), METADATA),
                decode_file(self.download(session, version, self.file, MAX_COMPONENTS), self.file),
            )

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
