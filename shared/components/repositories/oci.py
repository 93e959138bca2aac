"""Components as an OCI artifact: `[http://]<host>[:port]/<path>[:<tag>|@<digest>]`, a layer for each file.

One artifact can have files of several providers: their names then contain the provider.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.download import File, SourceError
from shared.download.access import Access
from shared.download.ingest import IngestLimits, ingest
from shared.download.registry import ImageManifest, Layer, NotInRegistry, Registry
from shared.download.signatures import PROVIDER_KEY, verifier_in

from ..errors import ComponentsError
from .addresses import validate_version
from .port import MAX_COMPONENTS, MAX_METADATA, METADATA, Files, RepositoryConfig, RepositoryType, decode_file

_REFERENCE = re.compile(
    r"(?P<plain>http://|https://|oci://)?(?P<host>[A-Za-z0-9.:\[\]-]+?)(?P<path>(?:/[A-Za-z0-9._-]+)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)

ARTIFACT_TYPE = "application/vnd.capi-functions.components.v1"
_YAML = "application/yaml"


@dataclass(frozen=True)
class ArtifactReference:
    """A parsed URL of an artifact; `tag` and `digest` are empty if the URL has none."""

    host: str
    repository: str
    tag: str = ""
    digest: str = ""
    plain: bool = False


def parse(url: str) -> ArtifactReference:
    """Parses the URL of an artifact; a bare name is an official image of Docker Hub. Raises `ComponentsError`."""
    match = _REFERENCE.fullmatch(url)
    if match is None:
        raise ComponentsError(f"OCI URL {url[:200]!r}: must be [http://]<host>[:port]/<path>[:<tag>|@<digest>]")
    host, path, tag = match["host"], match["path"].lstrip("/"), match["tag"] or ""
    if not path:
        host, path = "docker.io", f"library/{host}"
    return ArtifactReference(host, path, tag, match["digest"] or "", match["plain"] == "http://")


def canonical_url(url: str) -> str:
    """Returns the URL of an artifact with its scheme, without tag and digest. Raises `ComponentsError`."""
    reference = parse(url)
    return f"oci{'+http' if reference.plain else ''}://{reference.host}/{reference.repository}"


@dataclass(frozen=True)
class OciRepository:
    """The versions of one provider in a repository; `type_name` and `name` select its files in an artifact."""

    url: str
    type_name: str
    name: str
    access: Access = field(default_factory=Access)

    def __post_init__(self) -> None:
        parse(self.url)

    @property
    def place(self) -> str:
        """See `Repository.place`."""
        return self.url

    def default_version(self) -> str:
        """See `Repository.default_version`."""
        tag = parse(self.url).tag
        if not tag:
            raise ComponentsError(f"OCI URL {self.url} names no tag: set spec.version")
        return validate_version(self.url, tag)

    def fetch(self, version: str) -> Files:
        """See `Repository.fetch`."""
        reference = parse(self.url)
        with Registry(reference.host, reference.repository, self.access, reference.plain) as registry:
            try:
                manifest = registry.manifest(reference.digest or reference.tag or version)
            except NotInRegistry as error:
                raise SourceError(f"OCI artifact {self.url} of version {version}: {error}", transient=False) from None
            verifier = verifier_in(PROVIDER_KEY)
            if verifier and not verifier.signs_artifact(manifest.digest, registry.signatures(manifest.digest)):
                artifact = f"{reference.host}/{reference.repository}@{manifest.digest}"
                raise verifier.refusal([f"OCI artifact {artifact}"], f"cosign sign {artifact}")
            return Files(
                self._file(registry, manifest, metadata_names(self.type_name, self.name, version), MAX_METADATA),
                self._file(registry, manifest, components_names(self.type_name, self.name, version), MAX_COMPONENTS),
            )

    def _file(self, registry: Registry, manifest: ImageManifest, names: Sequence[str], limit: int) -> str:
        layers = {layer.name: layer for layer in manifest.layers}
        found = next((layers[name] for name in names if name in layers), None)
        if found is None:
            raise ComponentsError(f"OCI artifact {self.url} has none of the files {', '.join(names)}")
        file = File(found.name, registry.blob(found), found.size, found.digest.removeprefix("sha256:"))
        [received] = ingest([file], IngestLimits(file=limit, release=limit))
        return decode_file(received.data, found.name)


def layers_of(type_name: str, name: str, version: str, files: Files) -> tuple[Layer, Layer]:
    """Returns the layers of one provider's version, for `Registry.push`."""
    return (
        Layer(metadata_names(type_name, name, version)[0], files.metadata.encode(), _YAML),
        Layer(components_names(type_name, name, version)[0], files.components.encode(), _YAML),
    )


def metadata_names(type_name: str, name: str, version: str) -> tuple[str, ...]:
    """Returns the possible names of metadata.yaml in an artifact, the most specific first."""
    return f"{type_name}-{name}-{version}-{METADATA}", METADATA


def components_names(type_name: str, name: str, version: str) -> tuple[str, ...]:
    """Returns the possible names of the components in an artifact, the most specific first."""
    return f"{type_name}-{name}-{version}-components.yaml", f"{type_name}-components.yaml", "components.yaml"


def _serves(config: RepositoryConfig) -> bool:
    return bool(config.oci)


def _open(config: RepositoryConfig) -> OciRepository:
    username, password, refresh_token, token = config.credentials(  # the keys of Cluster API Operator
        parse(config.oci).host, "OCI_USERNAME", "OCI_PASSWORD", "OCI_REFRESH_TOKEN", "OCI_ACCESS_TOKEN"
    )
    access = Access(token, username, password or refresh_token, config.variables.get("ca.crt", ""))
    return OciRepository(config.oci, config.type_name, config.name, access)


REPOSITORY_TYPE = RepositoryType(_serves, _open)
