"""Components as an OCI artifact: `[http://]<host>[:port]/<path>[:<tag>|@<digest>]`, a layer for each file.

One artifact can hold files of several providers, which then carry their names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.download import File, SourceError
from shared.download.access import Access
from shared.download.ingest import Limits, ingest
from shared.download.registry import Layer, Manifest, NotInRegistry, Registry

from ..errors import ComponentsError
from .addresses import version_in
from .port import METADATA, MOST_COMPONENTS, MOST_METADATA, FetchConfig, Files, RepositoryType, text

_REFERENCE = re.compile(
    r"(?P<plain>http://|https://|oci://)?(?P<host>[A-Za-z0-9.:\[\]-]+?)(?P<path>(?:/[A-Za-z0-9._-]+)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)

ARTIFACT_TYPE = "application/vnd.capi-functions.components.v1"
_YAML = "application/yaml"


@dataclass(frozen=True)
class Reference:
    """`tag` and `digest` are empty where the URL names none."""

    host: str
    repository: str
    tag: str = ""
    digest: str = ""
    plain: bool = False


def parse(url: str) -> Reference:
    """Raises `ComponentsError`. What has no path is a repository of Docker Hub, as everywhere."""
    match = _REFERENCE.fullmatch(url)
    if match is None:
        raise ComponentsError(f"OCI URL {url[:200]!r}: want [http://]<host>[:port]/<path>[:<tag>|@<digest>]")
    host, path, tag = match["host"], match["path"].lstrip("/"), match["tag"] or ""
    if not path:
        host, path = "docker.io", f"library/{host}"
    return Reference(host, path, tag, match["digest"] or "", match["plain"] == "http://")


@dataclass(frozen=True)
class OciRepository:
    """`word` and `name` tell the provider's files apart from others'."""

    url: str
    word: str
    name: str
    access: Access = field(default_factory=Access)

    def __post_init__(self) -> None:
        parse(self.url)

    @property
    def place(self) -> str:
        return self.url

    @property
    def identity(self) -> str:
        return self.place

    @property
    def private(self) -> bool:
        return bool(self.access.authorization or self.access.authority)

    def default_version(self) -> str:
        tag = parse(self.url).tag
        if not tag:
            raise ComponentsError(f"OCI URL {self.url} names no tag: set spec.version")
        return version_in(self.url, tag)

    def fetch(self, version: str) -> Files:
        reference = parse(self.url)
        with Registry(reference.host, reference.repository, self.access, reference.plain) as registry:
            try:
                manifest = registry.manifest(reference.digest or reference.tag or version)
            except NotInRegistry as error:
                raise SourceError(f"OCI artifact {self.url} of version {version}: {error}", transient=False) from None
            return Files(
                self._file(registry, manifest, metadata_names(self.word, self.name, version), MOST_METADATA),
                self._file(registry, manifest, components_names(self.word, self.name, version), MOST_COMPONENTS),
            )

    def _file(self, registry: Registry, manifest: Manifest, names: Sequence[str], most: int) -> str:
        layers = {layer.name: layer for layer in manifest.layers}
        found = next((layers[name] for name in names if name in layers), None)
        if found is None:
            raise ComponentsError(f"OCI artifact {self.url} has none of the files {', '.join(names)}")
        file = File(found.name, registry.blob(found), found.size, found.digest.removeprefix("sha256:"))
        [received] = ingest([file], Limits(file=most, release=most))
        return text(received.data, found.name)


def layers_of(word: str, name: str, version: str, files: Files) -> tuple[Layer, Layer]:
    """One provider's part of an artifact: for `Registry.push`, alone or with those of others."""
    return (
        Layer(metadata_names(word, name, version)[0], files.metadata.encode(), _YAML),
        Layer(components_names(word, name, version)[0], files.components.encode(), _YAML),
    )


def metadata_names(word: str, name: str, version: str) -> tuple[str, ...]:
    return f"{word}-{name}-{version}-{METADATA}", METADATA


def components_names(word: str, name: str, version: str) -> tuple[str, ...]:
    return f"{word}-{name}-{version}-components.yaml", f"{word}-components.yaml", "components.yaml"


def _serves(config: FetchConfig) -> bool:
    return bool(config.oci)


def _open(config: FetchConfig) -> OciRepository:
    variables = config.variables
    access = Access(  # the keys of Cluster API Operator
        username=variables.get("OCI_USERNAME", ""),
        password=variables.get("OCI_PASSWORD", "") or variables.get("OCI_REFRESH_TOKEN", ""),
        token=variables.get("OCI_ACCESS_TOKEN", ""),
        authority=variables.get("ca.crt", ""),
    )
    return OciRepository(config.oci, config.type_name, config.name, access)


REPOSITORY_TYPE = RepositoryType(_serves, _open)
