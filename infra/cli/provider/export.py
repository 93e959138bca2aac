"""`provider export`: writes versions of providers to ConfigMaps or a registry, for sites without internet access."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from shared.api import provider as provider_api
from shared.clients import Clients
from shared.components.bundles import BundleStore
from shared.components.errors import ComponentsError
from shared.components.repositories import Files, config_maps, oci
from shared.components.repositories.folder import FolderRepository
from shared.download import SourceError
from shared.download.access import Access
from shared.download.registry import Layer, NotInRegistry, Registry
from shared.kube import Client, Object, deleting, key_of
from shared.providers import inputs
from shared.providers.inputs import Inputs
from shared.providers.source_resolution import repository_of, resolve

from .. import manifests
from ..failures import Failure
from .dry_run import scratch_storage
from .requests import ProviderRequest, namespace_object

_LIKE_REGISTRY = re.compile(
    r"([A-Za-z0-9.-]+:[0-9]+|localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+\.[A-Za-z]{2,}|[0-9.]{7,})/"
)
"""The form of image names, which have no scheme."""
_NO_TLS = re.compile("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE")
_IMAGE = re.compile(r"^[ \t-]*image:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)


@dataclass(frozen=True)
class ExportedVersion:
    """One version of a provider, and the text form of its source."""

    provider: Object
    version: str
    files: Files
    source: str

    def config_map(self) -> Object:
        """Returns the ConfigMap for this version."""
        return config_maps.to_config_map(self.provider, self.version, self.files, owned=False)

    def layers(self) -> tuple[Layer, Layer]:
        """Returns the layers of an OCI artifact for this version."""
        word, name = provider_api.kind_of(self.provider).type_name, key_of(self.provider).name
        return oci.layers_of(word, name, self.version, self.files)

    def images(self) -> list[str]:
        """Returns the images in the components, as written there: parts may be variables."""
        return sorted(set(_IMAGE.findall(self.files.components)))

    def __str__(self) -> str:
        return f"{self.provider['kind']} {key_of(self.provider).name} {self.version}"


# -- sources -------------------------------------------------------------------------------------------------------


def from_catalog(wanted: ProviderRequest) -> ExportedVersion:
    """Fetches a provider from the source in the catalog.

    Raises:
        SourceError: The source does not answer.
        ComponentsError: The catalog has no such provider, or the files are invalid.
    """
    provider = wanted.dump()
    source = repository_of(provider, Inputs(), local=True)
    version = wanted.version or source.default_version()
    return ExportedVersion(provider, version, source.fetch(version), source.place)


def from_cluster(client: Client, provider: Object) -> ExportedVersion:
    """Returns the version of a provider object as the functions have stored it, or as they would fetch it.

    Raises:
        Failure: The provider is being deleted, or references an object that does not exist.
        SourceError: The source does not answer.
        ComponentsError: There is no source, or the files are invalid.
    """
    clients, who = Clients(client), f"{provider['kind']} {key_of(provider)}"
    clients.components = BundleStore(scratch_storage())
    if deleting(provider):
        raise Failure(f"{who} is being deleted")
    read = inputs.read(clients, provider)
    if read.problem:
        raise Failure(f"{who}: {read.problem}")
    version = provider_api.spec_version(provider) or provider_api.installed_version(provider)
    try:
        resolved = resolve(clients, {**provider, "spec": {**provider.get("spec", {}), "version": version}}, read)
    except (ComponentsError, SourceError) as error:
        return _read_folder(provider, read, version, error)
    if bundle := resolved.bundle:
        return ExportedVersion(provider, resolved.version, Files(bundle.metadata, bundle.components), bundle.source)
    repository = resolved.source.repository
    return ExportedVersion(provider, resolved.version, repository.fetch(resolved.version), repository.place)


def _read_folder(
    provider: Object, read: Inputs, version: str, problem: ComponentsError | SourceError
) -> ExportedVersion:
    """Reads a version from a folder, a source that functions do not use. Raises `problem` for any other source."""
    source = repository_of(provider, read, local=True)
    if not isinstance(source, FolderRepository):
        raise problem
    version = version or source.default_version()
    return ExportedVersion(provider, version, source.fetch(version), source.place)


# -- targets -------------------------------------------------------------------------------------------------------


def parse_target(to: str) -> Path | oci.ArtifactReference:
    """Parses `--to`: a folder, or a reference in a registry.

    Raises:
        Failure: The text is neither.
        ComponentsError: The reference is invalid.
    """
    if to.startswith(("oci://", "oci+http://")):
        reference = oci.parse(to.replace("oci+http://", "http://", 1))
        if reference.digest:
            raise Failure(f"--to {to}: an artifact cannot be pushed to a digest; give a tag, or none")
        return reference
    if "://" in to:
        raise Failure(f"--to {to!r}: must be a folder, or oci:// or oci+http://<registry>/<name>[:<tag>]")
    if _LIKE_REGISTRY.match(to):
        raise Failure(f"--to {to}: for a registry it is oci://{to}, or oci+http://{to} without TLS; a folder is ./{to}")
    return Path(to)


def to_folder(
    folder: Path, exported: Sequence[ExportedVersion], *, layers: bool, progress: Callable[[str], None]
) -> None:
    """Writes each version to a folder: as a YAML file with ConfigMap and namespace, or as files for `oras push`.

    Args:
        folder: Created if it does not exist.
        exported: The versions.
        layers: Whether to write the files of an artifact.
        progress: Receives a line for each file.

    Raises:
        OSError: A file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for one in exported:
        config_map = one.config_map()
        both = [namespace_object(config_map["metadata"]["namespace"]), config_map]
        files = {f"{config_map['metadata']['name']}.yaml": manifests.dump(both).encode()}
        if layers:
            files = {layer.name: layer.data for layer in one.layers()}
        for name, data in files.items():
            (folder / name).write_bytes(data)
            progress(f"{one} of {one.source}: {folder / name}")


def to_registry(
    reference: oci.ArtifactReference,
    exported: Sequence[ExportedVersion],
    access: Access,
    *,
    force: bool,
    progress: Callable[[str], None],
) -> None:
    """Pushes one artifact for all providers of a version; its tag is the version, unless the reference has one.

    Args:
        reference: The repository, with or without a tag.
        exported: The versions.
        access: Credentials and certificates for the registry.
        force: Whether to replace an artifact that has other files.
        progress: Receives a line for each version.

    Raises:
        SourceError: The registry does not answer, or refuses the push.
        Failure: The tag has other files, and `force` is not set; or the registry has no TLS.
    """
    where = _repository_url(reference)
    by_tag = sorted(((reference.tag or one.version, one) for one in exported), key=lambda pair: pair[0])
    for tag, group in groupby(by_tag, key=lambda pair: pair[0]):
        versions = [one for _, one in group]
        layers = [layer for one in versions for layer in one.layers()]
        with _open_registry(reference, access) as registry:
            others = _others(registry, tag, layers)
            if others and not force:
                hint = "export all providers of the tag at once, give another tag, or replace it with --force"
                raise Failure(f"{where}:{tag} has {', '.join(others)}, which would be lost; {hint}")
            digest = registry.push(tag, layers, artifact_type=oci.ARTIFACT_TYPE)
        for one in versions:
            progress(f"{one} of {one.source}: spec.fetchConfig.oci {where}:{tag}, {digest}")


def _repository_url(reference: oci.ArtifactReference) -> str:
    """Returns the repository as `spec.fetchConfig.oci` takes it."""
    return f"{'http://' if reference.plain else ''}{reference.host}/{reference.repository}"


@contextmanager
def _open_registry(reference: oci.ArtifactReference, access: Access) -> Iterator[Registry]:
    try:
        with Registry(reference.host, reference.repository, access, reference.plain) as registry:
            yield registry
    except SourceError as error:
        if reference.plain or not _NO_TLS.search(str(error)):
            raise
        raise Failure(f"{error}; the registry has no TLS: use --to oci+http://{_repository_url(reference)}") from error


def _others(registry: Registry, tag: str, layers: Sequence[Layer]) -> list[str]:
    """Returns the files of the tag's artifact that the new one does not have."""
    try:
        manifest = registry.manifest(tag)
    except NotInRegistry:
        return []
    return sorted({layer.name for layer in manifest.layers} - {layer.name for layer in layers})
