"""The image of the project for tests on a real node, built once for each content of the project."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from infra.image.__main__ import build
from infra.local_control_plane.cache import cache_directory, locked, partial

PROJECT = Path(__file__).parents[2]
NAME = "docker.io/library/capi-functions:0.2.0"
"""What `capi-functions:0.2.0` in the generated manifests means to a container runtime."""
_SOURCES = ("events", "functions", "infra", "shared")
_KEPT = 2


def archive() -> Path:
    """Returns the OCI archive."""
    folder = cache_directory() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"capi-functions-{_digest()}.tar"
    with locked(folder / ".capi-functions.lock", "builds the image", print):
        if not target.exists():
            with partial(folder / "capi-functions") as part:  # the builder writes a bill of materials beside it
                part.mkdir()
                build(part / target.name, NAME, print)
                os.replace(part / target.name, target)
        target.touch()
        for old in sorted(folder.glob("capi-functions-*.tar"), key=os.path.getmtime)[:-_KEPT]:
            old.unlink()
    return target


def _digest() -> str:
    digest = hashlib.sha256((PROJECT / "pyproject.toml").read_bytes())
    for source in _SOURCES:
        for path in sorted((PROJECT / source).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(str(path.relative_to(PROJECT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
