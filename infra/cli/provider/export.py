"""`provider export`: versions of providers, as a site without a way out takes them: in ConfigMaps, or in a registry."""

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
from .requests import Wanted, namespace_named

_LIKE_REGISTRY = re.compile(
    r"([A-Za-z0-9.-]+:[0-9]+|localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+\.[A-Za-z]{2,}|[0-9.]{7,})/"
)
"""How images are named; no scheme says that it is one."""
_NO_TLS = re.compile("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE")
_IMAGE = re.compile(r"^[ \t-]*image:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)


@dataclass(frozen=True)
class Exported:
    """One version of a provider; `source` is for people."""

    provider: Object
    version: str
    files: Files
    source: str

    def config_map(self) -> Object:
        return config_maps.as_config_map(self.provider, self.version, self.files, owned=False)

    def layers(self) -> tuple[Layer, Layer]:
        word, name = provider_api.kind_of(self.provider).type_name, key_of(self.provider).name
        return oci.layers_of(word, name, self.version, self.files)

    def images(self) -> list[str]:
        """What its pods need, as the components have it: variables may stand in for parts."""
        return sorted(set(_IMAGE.findall(self.files.components)))

    def __str__(self) -> str:
        return f"{self.provider['kind']} {key_of(self.provider).name} {self.version}"


# -- where they come from ------------------------------------------------------------------------------------------


def asked_for(wanted: Wanted) -> Exported:
    """From the catalog. Raises `SourceError` or `ComponentsError`."""
    provider = wanted.dump()
    source = repository_of(provider, Inputs(), local=True)
    version = wanted.version or source.default_version()
    return Exported(provider, version, source.fetch(version), source.place)


def installed(client: Client, provider: Object) -> Exported:
    """As the functions have it, or would fetch it. Raises `Failure`, `SourceError` or `ComponentsError`."""
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
        return _of_folder(provider, read, version, error)
    if bundle := resolved.bundle:
        return Exported(provider, resolved.version, Files(bundle.metadata, bundle.components), bundle.source)
    repository = resolved.source.repository
    return Exported(provider, resolved.version, repository.fetch(resolved.version), repository.place)


def _of_folder(provider: Object, read: Inputs, version: str, problem: ComponentsError | SourceError) -> Exported:
    """The functions read no folders; who exports may. Raises `problem` where the source is none."""
    source = repository_of(provider, read, local=True)
    if not isinstance(source, FolderRepository):
        raise problem
    version = version or source.default_version()
    return Exported(provider, version, source.fetch(version), source.place)


# -- where they go -------------------------------------------------------------------------------------------------


def target(to: str) -> Path | oci.Reference:
    """A folder, or a place in a registry. Raises `Failure` or `ComponentsError`."""
    if to.startswith(("oci://", "oci+http://")):
        reference = oci.parse(to.replace("oci+http://", "http://", 1))
        if reference.digest:
            raise Failure(f"--to {to}: a digest is what an artifact gets, not where it is pushed")
        return reference
    if "://" in to:
        raise Failure(f"--to {to!r}: want a folder, or oci:// or oci+http://<registry>/<name>[:<tag>]")
    if _LIKE_REGISTRY.match(to):
        raise Failure(f"--to {to}: for a registry it is oci://{to}, or oci+http://{to} without TLS; a folder is ./{to}")
    return Path(to)


def to_folder(folder: Path, exported: Sequence[Exported], *, layers: bool, tell: Callable[[str], None]) -> None:
    """A ConfigMap in YAML each, with its namespace, or the files of an artifact as `oras push` takes them.

    Raises `OSError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for one in exported:
        config_map = one.config_map()
        both = [namespace_named(config_map["metadata"]["namespace"]), config_map]
        files = {f"{config_map['metadata']['name']}.yaml": manifests.dump(both).encode()}
        if layers:
            files = {layer.name: layer.data for layer in one.layers()}
        for name, data in files.items():
            (folder / name).write_bytes(data)
            tell(f"{one} of {one.source}: {folder / name}")


def to_registry(
    reference: oci.Reference, exported: Sequence[Exported], access: Access, *, force: bool, tell: Callable[[str], None]
) -> None:
    """One artifact for all of a version, under that as its tag unless the reference has one.

    Raises `SourceError`, and `Failure` for an artifact that has other files, unless that is to be.
    """
    where = _named(reference)
    by_tag = sorted(((reference.tag or one.version, one) for one in exported), key=lambda pair: pair[0])
    for tag, group in groupby(by_tag, key=lambda pair: pair[0]):
        those = [one for _, one in group]
        layers = [layer for one in those for layer in one.layers()]
        with _opened(reference, access) as registry:
            others = _others(registry, tag, layers)
            if others and not force:
                hint = "export all that is to be in it at once, give it another tag, or replace it with --force"
                raise Failure(f"{where} has {tag} with {', '.join(others)}, which would be lost; {hint}")
            digest = registry.push(tag, layers, artifact_type=oci.ARTIFACT_TYPE)
        for one in those:
            tell(f"{one} of {one.source}: spec.fetchConfig.oci {where}:{tag}, {digest}")


def _named(reference: oci.Reference) -> str:
    """As `spec.fetchConfig.oci` takes it."""
    return f"{'http://' if reference.plain else ''}{reference.host}/{reference.repository}"


@contextmanager
def _opened(reference: oci.Reference, access: Access) -> Iterator[Registry]:
    try:
        with Registry(reference.host, reference.repository, access, reference.plain) as registry:
            yield registry
    except SourceError as error:
        if reference.plain or not _NO_TLS.search(str(error)):
            raise
        raise Failure(f"{error}; it has no TLS: --to oci+http://{_named(reference)}") from error


def _others(registry: Registry, tag: str, layers: Sequence[Layer]) -> list[str]:
    """The files that are under the tag, and would not be any more."""
    try:
        manifest = registry.manifest(tag)
    except NotInRegistry:
        return []
    return sorted({layer.name for layer in manifest.layers} - {layer.name for layer in layers})
