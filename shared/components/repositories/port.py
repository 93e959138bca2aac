"""The interface of repositories of components, and what a type of repository declares about itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import ComponentsError

METADATA = "metadata.yaml"
MOST_METADATA = 1_000_000
MOST_COMPONENTS = 10 * 2**20
"""Bytes, unpacked."""


@dataclass(frozen=True)
class Files:
    """The two files of one version, as text."""

    metadata: str
    components: str


class Repository(Protocol):
    """The published versions of one provider.

    All methods raise `SourceError` if the place does not answer, and `ComponentsError` if its content is unusable.
    """

    @property
    def place(self) -> str:
        """The address for messages: without secrets, and without the version."""
        ...

    @property
    def identity(self) -> str:
        """A text that identifies the repository: in most cases its place."""
        ...

    @property
    def private(self) -> bool:
        """Whether the repository is opened with credentials, so that its content is for one namespace alone."""
        ...

    def default_version(self) -> str:
        """Returns the version to install if `spec.version` is empty."""
        ...

    def fetch(self, version: str) -> Files:
        """Returns the files of a version."""
        ...


@dataclass(frozen=True)
class FetchConfig:
    """`spec.fetchConfig` of a provider, with defaults: exactly one of `selector`, `oci` and `url` is not empty.

    `type_name` and `name` are the provider's type (`infrastructure`) and name. `selector` is the text form of the label
    selector, `config_maps` are the ConfigMaps that it selects. `url` is the provider's own, or that of the catalog.
    `variables` are the keys of the Secret of `spec.configSecret`; empty if the catalog has an HTTP URL without TLS.
    `local` allows URLs of folders: for users on their own machine.
    """

    type_name: str
    name: str
    selector: str | None = None
    config_maps: Sequence[Mapping[str, Any]] = ()
    oci: str = ""
    url: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    local: bool = False


@dataclass(frozen=True)
class RepositoryType:
    """What a module of this folder declares.

    `serves` says whether a `FetchConfig` names such a repository. The first type that serves it opens it; `fallback`
    types come last. `open` makes the repository, without a request; it may raise `ComponentsError`.
    """

    serves: Callable[[FetchConfig], bool]
    open: Callable[[FetchConfig], Repository]
    fallback: bool = False


def text(data: bytes, what: str, most: int = MOST_COMPONENTS) -> str:
    """Returns the text of a file. Raises `ComponentsError` if it is not UTF-8, or larger than `most` bytes."""
    if len(data) > most:
        raise ComponentsError(f"{what} is larger than {most} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ComponentsError(f"{what} is not text in UTF-8") from None
