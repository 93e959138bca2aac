"""The interface of repositories of components, and the declaration of a type of repository."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from shared.download.access import not_sent, without_default_port

from ..errors import ComponentsError

METADATA = "metadata.yaml"
MAX_METADATA = 1_000_000
MAX_COMPONENTS = 10 * 2**20
"""The largest files, in bytes after decompression."""


@dataclass(frozen=True)
class Files:
    """The two files of one version, as text."""

    metadata: str
    components: str


class Repository(Protocol):
    """The published versions of one provider.

    All methods raise `SourceError` if the repository does not answer, and `ComponentsError` if its content is unusable.
    """

    @property
    def place(self) -> str:
        """The address of the repository for messages, without secrets and without a version."""
        ...

    def default_version(self) -> str:
        """Returns the version to install if `spec.version` is empty."""
        ...

    def fetch(self, version: str) -> Files:
        """Returns the files of a version."""
        ...


@dataclass(frozen=True)
class RepositoryConfig:
    """Where a provider's versions are published: `spec.fetchConfig` of the provider, else its entry in the catalog.

    Exactly one of `selector`, `oci` and `url` is not empty. `type_name` and `name` are the provider's type
    (`infrastructure`) and name. `selector` is the text form of the label selector, and `config_maps` are the ConfigMaps
    that it selects. `variables` are the decoded keys of the Secret in `spec.configSecret`; they are empty if the URL of
    the catalog has no TLS, so that no credentials are sent to it. `hosts` get the credentials of this Secret; the
    Secret names them, else the catalog, else None. `local` allows URLs of folders: for commands on the user's machine.
    """

    type_name: str
    name: str
    selector: str | None = None
    config_maps: Sequence[Mapping[str, Any]] = ()
    oci: str = ""
    url: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    hosts: Collection[str] | None = None
    local: bool = False

    def credentials(self, host: str, *names: str) -> list[str]:
        """Returns the values of keys of the Secret, "" for absent ones.

        Raises:
            ComponentsError: The Secret names its hosts, but not `host` (with its port).
        """
        found = [self.variables.get(name, "") for name in names]
        if any(found) and self.hosts is not None and without_default_port(host) not in self.hosts:
            raise ComponentsError(not_sent("the Secret of spec.configSecret", without_default_port(host)))
        return found


@dataclass(frozen=True)
class RepositoryType:
    """The declaration of one type of repository, as `REPOSITORY_TYPE` of a module in this folder.

    `serves` returns whether a `RepositoryConfig` names a repository of this type. The first type whose `serves` returns
    True opens the repository; types with `fallback` are tried last. `open` creates the repository without a request; it
    may raise `ComponentsError`.
    """

    serves: Callable[[RepositoryConfig], bool]
    open: Callable[[RepositoryConfig], Repository]
    fallback: bool = False


def decode_file(data: bytes, what: str, limit: int = MAX_COMPONENTS) -> str:
    """Returns the text of a file. Raises `ComponentsError` if it is not UTF-8, or larger than `limit` bytes."""
    if len(data) > limit:
        raise ComponentsError(f"{what} is larger than {limit} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ComponentsError(f"{what} is not text in UTF-8") from None
