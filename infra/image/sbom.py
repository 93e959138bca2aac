"""The software bill of materials of the image, as an SPDX 2.3 document in JSON.

https://spdx.github.io/spdx-spec/v2.3/
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .debian import Package

_ROOT = "SPDXRef-image"


def document(
    name: str,
    version: str,
    *,
    debian: Sequence[Package] = (),
    python: Sequence[Distribution] = (),
    helm: tuple[str, Path] | None = None,
) -> str:
    """Returns the document of an image.

    Args:
        name: The project.
        version: Of the project.
        debian: The Debian packages.
        python: The Python packages.
        helm: Version and file of the helm program.
    """
    parts = [
        _part("deb", p.name, p.version, f"pkg:deb/debian/{p.name}@{quote(p.version)}?arch={p.architecture}", p.sha256)
        for p in debian
    ]
    parts += [
        _part(
            "pypi", one.metadata["Name"], one.version, f"pkg:pypi/{_normalized(one)}@{one.version}", None, _license(one)
        )
        for one in sorted(python, key=_normalized)
    ]
    if helm is not None:
        version_of_helm, program = helm
        with program.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        url = f"pkg:golang/helm.sh/helm/v{version_of_helm.lstrip('v').split('.')[0]}@{version_of_helm}"
        parts.append(_part("golang", "helm", version_of_helm, url, digest, "Apache-2.0"))
    image = _part("image", name, version, f"pkg:oci/{name}@{version}", None, "Apache-2.0") | {"SPDXID": _ROOT}
    related = [("SPDXRef-DOCUMENT", "DESCRIBES", _ROOT), *((_ROOT, "CONTAINS", part["SPDXID"]) for part in parts)]
    content = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{name}-{version}",
        "creationInfo": {"created": "1970-01-01T00:00:00Z", "creators": [f"Tool: {name}-{version}"]},
        "packages": [image, *parts],
        "relationships": [
            {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
            for one, kind, other in related
        ],
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    content["documentNamespace"] = f"https://spdx.org/spdxdocs/{name}-{version}-{digest}"
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def _part(
    kind: str, name: str, version: str, url: str, sha256: str | None, license_: str = "NOASSERTION"
) -> dict[str, Any]:
    return {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", f"{kind}-{name}"),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": license_,
        "copyrightText": "NOASSERTION",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}],
        **({"checksums": [{"algorithm": "SHA256", "checksumValue": sha256}]} if sha256 else {}),
    }


def _normalized(distribution: Distribution) -> str:
    return re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()


def _license(distribution: Distribution) -> str:
    """Returns the SPDX expression that a package declares; older packages have texts in any form."""
    return str(distribution.metadata.json.get("license_expression", "NOASSERTION"))
