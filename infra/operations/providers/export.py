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
from ..failure import Failure
from .dry_run import overlay_storage
from .requests import ProviderRequest, namespace_object

_IMAGE_NAME = re.compile(r"([A-Za-z0-9.-]+:[0-9]+|localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+\.[A-Za-z]{2,}|[0-9.]{7,})/")
"""The form of an image name: a registry without a scheme, and a path."""
_NO_TLS = re.compile("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE")
_IMAGE = re.compile(r"^[ \t-]*image:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)


@dataclass(frozen=True)
class ExportedVersion:
    """The files of one version of a provider; `source` names their source for users."""

    provider: Object
    version: str
    files: Files
    source: str

    def config_map(self) -> Object:
        """Returns the ConfigMap for this version."""
        return config_maps.to_config_map(self.provider, self.version, self.files, owned=False)

    def layers(self) -> tuple[Layer, Layer]:
        """Returns the layers of an OCI artifact for this version."""
        type_name, name = provider_api.kind_of(self.provider).type_name, key_of(self.provider).name
        return oci.layers_of(type_name, name, self.version, self.files)

    def images(self) -> list[str]:
        """Returns the images in the components, as written there; they may contain variables."""
        return sorted(set(_IMAGE.findall(self.files.components)))

    def __str__(self) -> str:
        return f"{self.provider['kind']} {key_of(self.provider).name} {self.version}"


# -- sources -------------------------------------------------------------------------------------------------------


def from_catalog(request: ProviderRequest) -> ExportedVersion:
    """Fetches a version of a provider from its repository in the catalog.

    Raises:
        SourceError: The repository does not answer.
        ComponentsError: The catalog has no such provider, or the files are invalid.
    """
    provider = request.dump()
    repository = repository_of(provider, Inputs(), local=True)
    version = request.version or repository.default_version()
    return ExportedVersion(provider, version, repository.fetch(version), repository.place)


def from_cluster(client: Client, provider: Object) -> ExportedVersion:
    """Returns the version of a provider object that the functions have stored, or would fetch.

    Raises:
        Failure: The provider is being deleted, or references an object that does not exist.
        SourceError: The source does not answer.
        ComponentsError: There is no source, or the files are invalid.
    """
    clients, subject = Clients(client), f"{provider['kind']} {key_of(provider)}"
    clients.components = BundleStore(overlay_storage())
    if deleting(provider):
        raise Failure(f"{subject} is being deleted, so that it cannot be exported: create it again first")
    read = inputs.read(clients, provider)
    if read.problem:
        raise Failure(f"{subject}: {read.problem}")
    version = provider_api.spec_version(provider) or provider_api.installed_version(provider)
    try:
        resolved = resolve(clients, {**provider, "spec": {**provider.get("spec", {}), "version": version}}, read)
    except (ComponentsError, SourceError) as error:
        return _read_folder(provider, read, version, error)
    if bundle := resolved.bundle:
        return ExportedVersion(provider, resolved.version, Files(bundle.metadata, bundle.components), bundle.source)
    repository = resolved.repository
    return ExportedVersion(provider, resolved.version, repository.fetch(resolved.version), repository.place)


def _read_folder(
    provider: Object, read: Inputs, version: str, problem: ComponentsError | SourceError
) -> ExportedVersion:
    """Reads a version from a folder, which functions do not read. Raises `problem` for any other repository."""
    repository = repository_of(provider, read, local=True)
    if not isinstance(repository, FolderRepository):
        raise problem
    version = version or repository.default_version()
    return ExportedVersion(provider, version, repository.fetch(version), repository.place)


# -- targets -------------------------------------------------------------------------------------------------------


def parse_target(to: str) -> Path | oci.ArtifactReference:
    """Parses `--to`: a folder, or a reference in a registry.

    Raises:
        Failure: The text is neither of these.
        ComponentsError: The reference is invalid.
    """
    if to.startswith(("oci://", "oci+http://")):
        reference = oci.parse(to.replace("oci+http://", "http://", 1))
        if reference.digest:
            raise Failure(f"--to {to}: an artifact cannot be pushed to a digest; give a tag, or none")
        return reference
    if "://" in to:
        raise Failure(f"--to {to!r}: must be a folder, or oci:// or oci+http://<registry>/<name>[:<tag>]")
    if _IMAGE_NAME.match(to):
        raise Failure(
            f"--to {to}: write oci://{to} for a registry, oci+http://{to} for one without TLS, or ./{to} for a folder"
        )
    return Path(to)


def to_folder(
    folder: Path, exported: Sequence[ExportedVersion], *, layers: bool, progress: Callable[[str], None]
) -> None:
    """Writes each version to a folder: as a YAML file with ConfigMap and namespace, or as files for `oras push`.

    Args:
        folder: The folder; it is created if it does not exist.
        exported: The versions.
        layers: Whether to write the files of an artifact.
        progress: Receives a line for each file.

    Raises:
        OSError: A file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for one in exported:
        config_map = one.config_map()
        objects = [namespace_object(config_map["metadata"]["namespace"]), config_map]
        files = {f"{config_map['metadata']['name']}.yaml": manifests.dump(objects).encode()}
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
    """Pushes the versions with the tag of the reference, else their version. Versions of one tag share an artifact.

    Args:
        reference: The repository, with or without a tag.
        exported: The versions.
        access: Credentials and certificates for the registry.
        force: Whether to replace an artifact that has other files.
        progress: Receives a line for each version.

    Raises:
        SourceError: The registry does not answer, or refuses the push.
        Failure: The tag has files that would be lost, and `force` is not set; or the registry has no TLS.
    """
    url = _repository_url(reference)
    by_tag = sorted(((reference.tag or one.version, one) for one in exported), key=lambda pair: pair[0])
    for tag, group in groupby(by_tag, key=lambda pair: pair[0]):
        versions = [one for _, one in group]
        layers = [layer for one in versions for layer in one.layers()]
        with _open_registry(reference, access) as registry:
            lost = _files_to_lose(registry, tag, layers)
            if lost and not force:
                hint = "export all providers of the tag at once, give another tag, or replace it with --force"
                raise Failure(f"{url}:{tag} has {', '.join(lost)}, which would be lost; {hint}")
            digest = registry.push(tag, layers, artifact_type=oci.ARTIFACT_TYPE)
        for one in versions:
            progress(f"{one} of {one.source}: spec.fetchConfig.oci {url}:{tag}, {digest}")


def _repository_url(reference: oci.ArtifactReference) -> str:
    """Returns the URL of the repository in the form of `spec.fetchConfig.oci`."""
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


def _files_to_lose(registry: Registry, tag: str, layers: Sequence[Layer]) -> list[str]:
    """Returns the files of the artifact with this tag that the new artifact does not have."""
    try:
        manifest = registry.manifest(tag)
    except NotInRegistry:
        return []
    return sorted({layer.name for layer in manifest.layers} - {layer.name for layer in layers})
