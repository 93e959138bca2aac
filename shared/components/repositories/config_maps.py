"""A repository in ConfigMaps, one for each version: for sites without internet access, as in Cluster API Operator.

The label `provider.cluster.x-k8s.io/version` has the version; without it, the name of the ConfigMap is the version. The
keys are `metadata` and `components`. With the annotation `provider.cluster.x-k8s.io/compressed: "true"` the components
are compressed (gzip), in `binaryData`.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared import semver
from shared.api import provider as provider_api
from shared.download.signatures import PROVIDER_KEY, verifier_in
from shared.kube.resources import Object, dig, key_of, owner_reference

from ..errors import ComponentsError, IncompatibleVersion
from .port import MAX_COMPONENTS, MAX_METADATA, Files, RepositoryConfig, RepositoryType, decode_file

VERSION = f"{provider_api.LABEL_PREFIX}/version"
COMPRESSED = f"{provider_api.LABEL_PREFIX}/compressed"
_LARGE = 2**20
"""If both files together are larger than this, in bytes, the components are compressed."""


@dataclass(frozen=True)
class ConfigMapRepository:
    """The versions in `config_maps`, which the caller has listed with the label selector `selector`."""

    config_maps: Sequence[Mapping[str, Any]]
    selector: str

    @property
    def place(self) -> str:
        """See `Repository.place`."""
        return f"ConfigMaps with {self.selector}"

    def default_version(self) -> str:
        """See `Repository.default_version`."""
        return f"{semver.parse(semver.highest(self._versions()))}"

    def fetch(self, version: str) -> Files:
        """See `Repository.fetch`."""
        if verifier := verifier_in(PROVIDER_KEY):
            raise verifier.refusal([f"ConfigMaps with {self.selector}"], "publish a signed OCI artifact instead")
        available, requested = self._versions(), semver.parse(version)
        matching = [
            config_map
            for config_map, its_version in zip(self.config_maps, available, strict=True)
            if semver.parse(its_version) == requested
        ]
        if not matching:
            raise IncompatibleVersion(
                f"no ConfigMap with {self.selector} has version {version}; available: {', '.join(available)}"
            )
        if len(matching) > 1:
            names = " and ".join(str(key_of(config_map)) for config_map in matching)
            raise ComponentsError(
                f"ConfigMaps {names} with {self.selector} all have version {version}: keep one of them"
            )
        return read(matching[0])

    def _versions(self) -> list[str]:
        if not self.config_maps:
            raise ComponentsError(f"no ConfigMaps found with selector {self.selector}")
        return [version_of(config_map) for config_map in self.config_maps]


def version_of(config_map: Mapping[str, Any]) -> str:
    """Returns the version of a ConfigMap, as written there. Raises `ComponentsError` if it is invalid."""
    key = key_of(config_map)
    label = dig(config_map, ("metadata", "labels", VERSION))
    try:
        semver.parse(label or key.name)
    except ValueError as error:
        where = f"from the Label {VERSION}" if label else "from the Name"
        raise ComponentsError(f"ConfigMap {key} has invalid version {label or key.name!r} ({where}): {error}") from None
    return str(label or key.name)


def read(config_map: Mapping[str, Any]) -> Files:
    """Returns the files in a ConfigMap. Raises `ComponentsError` if one is missing or unreadable."""
    key = key_of(config_map)
    metadata = dig(config_map, "data.metadata")
    if not isinstance(metadata, str) or not metadata:
        raise ComponentsError(f"ConfigMap {key} has no metadata")
    if dig(config_map, ("metadata", "annotations", COMPRESSED)) == "true":
        compressed = dig(config_map, "binaryData.components")
        if not compressed:
            raise ComponentsError(f"ConfigMap {key} Data has no components (in binaryData, because it is compressed)")
        components = decode_file(decompress(compressed, f"ConfigMap {key}"), f"ConfigMap {key}")
    else:
        components = dig(config_map, "data.components")
        if not isinstance(components, str) or not components:
            raise ComponentsError(f"ConfigMap {key} Data has no components")
    return Files(decode_file(metadata.encode(), f"ConfigMap {key}: metadata", MAX_METADATA), components)


def decompress(encoded: str, what: str) -> bytes:
    """Decodes base64 and decompresses gzip. Raises `ComponentsError` if the content is invalid or too large."""
    gzip = zlib.decompressobj(wbits=31)
    try:
        data = gzip.decompress(base64.b64decode(encoded, validate=True), MAX_COMPONENTS + 1)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise ComponentsError(f"{what}: cannot open gzip reader: {error}") from None
    if len(data) > MAX_COMPONENTS:
        raise ComponentsError(f"{what}: the components are larger than {MAX_COMPONENTS} bytes")
    if not gzip.eof:
        raise ComponentsError(f"{what}: the components are truncated")
    return data


def to_config_map(provider: Object, version: str, files: Files, *, oci: str = "", owned: bool = True) -> Object:
    """Returns the ConfigMap for a downloaded version, as Cluster API Operator writes it and `read` reads it.

    Args:
        provider: The provider that the version is of.
        version: The version.
        files: The files of the version.
        oci: The URL of the OCI artifact with these files; empty for other repositories.
        owned: Whether the provider owns the ConfigMap.
    """
    metadata: Object = {
        "name": provider_api.config_map_name(provider, version),
        "namespace": key_of(provider).namespace,
        "labels": provider_api.download_labels(provider, version),
        "annotations": {},
    }
    if owned:
        metadata["ownerReferences"] = [owner_reference(provider)]
    if oci:
        metadata["labels"][f"{provider_api.LABEL_PREFIX}/source"] = "oci"
        metadata["annotations"][f"{provider_api.LABEL_PREFIX}/source"] = oci
    config_map: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}
    config_map["data"]["metadata"] = files.metadata
    if len(files.metadata.encode()) + len(files.components.encode()) > _LARGE:
        metadata["annotations"][COMPRESSED] = "true"
        config_map["binaryData"] = {"components": compress(files.components)}
    else:
        config_map["data"]["components"] = files.components
    return config_map


def compress(components: str) -> str:
    """Compresses with gzip and encodes in base64, without a timestamp: equal components give equal texts."""
    import gzip

    return base64.b64encode(gzip.compress(components.encode(), 9, mtime=0)).decode()


def _serves(config: RepositoryConfig) -> bool:
    return config.selector is not None


def _open(config: RepositoryConfig) -> ConfigMapRepository:
    return ConfigMapRepository(config.config_maps, config.selector or "")


REPOSITORY_TYPE = RepositoryType(_serves, _open)
