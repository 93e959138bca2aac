"""A folder with components of providers, one file each: `aws-infrastructure-components.yaml`, `core-components.yaml`.

OpenShift's installer uses the same layout. Releases have `metadata.yaml` beside their components; here the file may be
`aws-infrastructure-metadata.yaml`. Without it the contract is the newest one in the labels of the
provider's CRDs.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from shared import semver
from shared.api.provider import ProviderKind
from shared.components.metadata import API_VERSION, CONTRACTS
from shared.components.repositories import Files

from ..failure import Failure

_CONTRACT_LABEL = re.compile(r"^[ \t]+cluster\.x-k8s\.io/(v[a-z0-9]{1,20}):", re.M)
_IMAGE_VERSION = re.compile(
    r"^[ \t]*image:[ \t]*[\"']?\S+:(v[0-9]+\.[0-9]+\.[0-9][\w.-]*)[\"']?[ \t]*$", re.M | re.ASCII
)


def file_of(kind: ProviderKind, name: str) -> str:
    """Returns the name of the file with the components of a provider."""
    return kind.file if kind.is_core else f"{name}-{kind.file}"


def read(folder: Path | None, kind: ProviderKind, name: str) -> str:
    """Returns the components of a provider; "" without a folder or file. Raises `Failure` if it cannot be read."""
    path = folder / file_of(kind, name) if folder else None
    if path is None or not path.exists():
        return ""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path} cannot be read: {error}") from error


def version_in(components: str) -> str:
    """Returns the version of the first image that has one; "" if none has."""
    found = _IMAGE_VERSION.search(components)
    return found[1] if found else ""


def files(folder: Path, kind: ProviderKind, name: str, version: str) -> Files:
    """Returns the components of a provider, and the metadata of this version. Raises `Failure`."""
    components = read(folder, kind, name)
    given = folder / file_of(kind, name).replace("-components.yaml", "-metadata.yaml")
    try:
        metadata = given.read_text() if given.exists() else _metadata(components, version)
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{folder / file_of(kind, name)} cannot be used: {error}") from error
    return Files(metadata, components)


def _metadata(components: str, version: str) -> str:
    major, minor = semver.parse(version).series
    labels = set(_CONTRACT_LABEL.findall(components))
    labelled = [one for one in CONTRACTS if one in labels]
    contract = next(iter(labelled), CONTRACTS[0])
    series = {"major": major, "minor": minor, "contract": contract}
    return json.dumps({"apiVersion": API_VERSION, "kind": "Metadata", "releaseSeries": [series]})
