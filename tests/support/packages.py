"""Packages as `capi-functions local package` builds them, with scripts that run executables of this machine.

The executables themselves would take long to compress.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from infra.local_control_plane import package
from infra.local_control_plane.binaries import this_platform
from infra.packaging.build import Content, build


def package_of(
    target: Path,
    executables: Mapping[str, Path],
    components: Path | None = None,
    versions: Mapping[str, str] | None = None,
) -> Path:
    """Writes a package with these executables and the components in a folder, and returns its path."""
    scripts = {f"{package.BIN}/{name}": f'#!/bin/sh\nexec "{path}" "$@"\n' for name, path in executables.items()}
    described = json.dumps({"format": package.FORMAT, "platform": this_platform(), "versions": versions or {}})
    content: dict[str, Path | bytes] = {name: text.encode() for name, text in scripts.items()}
    files = [path for path in components.rglob("*") if path.is_file()] if components else []
    content |= {f"{package.COMPONENTS}/{path.relative_to(components or path)}": path for path in files}
    whole: Content = {**content, package.DESCRIPTION: described.encode()}
    return build(target, whole, print).path
