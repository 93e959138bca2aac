"""Parses metadata.yaml: the contract of each release series of a provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from shared import bounded_yaml
from shared.kube.resources import dig

from .errors import IncompatibleVersion

API_VERSION = "clusterctl.cluster.x-k8s.io/v1alpha3"
CONTRACTS = ("v1beta2", "v1beta1")
"""The supported contracts, the best first."""
_MAX_BYTES = 1_000_000
_MAX_SERIES = 10_000


@dataclass(frozen=True)
class Series:
    """One entry of `releaseSeries`."""

    major: int
    minor: int
    contract: str


@dataclass(frozen=True)
class ProviderMetadata:
    """The release series of a provider (clusterctl's Metadata, v1alpha3)."""

    series: tuple[Series, ...]

    def contract(self, major: int, minor: int) -> str:
        """Returns the contract of a release series; empty if it is not listed."""
        return next((one.contract for one in self.series if (one.major, one.minor) == (major, minor)), "")


def parse(data: bytes, where: str) -> ProviderMetadata:
    """Parses the file; `where` is for messages. Raises `IncompatibleVersion`."""
    if len(data) > _MAX_BYTES:
        raise IncompatibleVersion(f"{where}: metadata.yaml is larger than {_MAX_BYTES} bytes")
    try:
        documents = list(islice((one for one in bounded_yaml.load_all(data.decode()) if one is not None), 2))
    except (bounded_yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise IncompatibleVersion(f"{where}: metadata.yaml is not YAML: {' '.join(str(error).split())}") from error
    document = documents[0] if len(documents) == 1 else None
    if not isinstance(document, Mapping):
        raise IncompatibleVersion(f"{where}: metadata.yaml is not a single object")
    if document.get("apiVersion") != API_VERSION or document.get("kind", "Metadata") not in ("Metadata", "", None):
        found = f"{document.get('apiVersion')} {document.get('kind')}"
        raise IncompatibleVersion(f"{where}: metadata.yaml is {found[:80]}, must be {API_VERSION} Metadata")
    listed = dig(document, "releaseSeries")
    if not isinstance(listed, list) or not listed or len(listed) > _MAX_SERIES:
        raise IncompatibleVersion(f"{where}: metadata.yaml: releaseSeries is empty")
    return ProviderMetadata(tuple(_series(entry, number, where) for number, entry in enumerate(listed)))


def _series(entry: Any, number: int, where: str) -> Series:
    numbers = [entry.get(name, 0) if isinstance(entry, Mapping) else None for name in ("major", "minor")]
    contract = entry.get("contract") if isinstance(entry, Mapping) else None
    if not all(type(value) is int for value in numbers) or not isinstance(contract, str):
        raise IncompatibleVersion(
            f"{where}: metadata.yaml: releaseSeries[{number}] must have major, minor and contract"
        )
    return Series(numbers[0], numbers[1], contract)  # type: ignore[arg-type]
