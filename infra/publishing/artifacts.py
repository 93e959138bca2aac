"""Writes each file of a version into a folder. The same commit gives the same bytes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from infra.image.__main__ import NAME
from infra.image.__main__ import build as build_image
from infra.local_control_plane.binaries import locate, this_platform
from infra.packaging import build as packaging
from shared.charts import pack

from .manifests import CHART, KUSTOMIZATIONS, PROJECT, direct, kustomized
from .notes import notes_of

Progress = Callable[[str], None]

ARCHITECTURES = ("amd64", "arm64")
NOTES, SUMS = "release-notes.md", "SHA256SUMS"


def write_python(folder: Path) -> None:
    """Writes wheel and sdist. Raises CalledProcessError."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    subprocess.run(
        [uv, "build", "--quiet", "--no-build-isolation", "--out-dir", str(folder), str(PROJECT)],
        check=True,
        env=_dated(),
    )
    (folder / ".gitignore").unlink(missing_ok=True)


def _dated() -> dict[str, str]:
    """Returns the environment in which archives get the time of the commit, instead of the present time."""
    command = ["git", "-C", str(PROJECT), "log", "-1", "--format=%ct"]
    return {
        **os.environ,
        "SOURCE_DATE_EPOCH": subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip(),
    }


def write_chart(folder: Path, version: str) -> None:
    """Writes the Helm chart as an archive."""
    files = {path.relative_to(CHART): path.read_bytes() for path in sorted(CHART.rglob("*")) if path.is_file()}
    archive = pack({f"{NAME}/{path}": content for path, content in files.items()})
    (folder / f"{NAME}-{version}.tgz").write_bytes(archive)


def write_manifests(folder: Path, version: str, repository: str, progress: Progress) -> None:
    """Writes the manifests of each mode. Raises BinaryNotFound, CalledProcessError."""
    programs = locate(["helm", "kubectl"], progress=progress)
    for name, kustomizations in KUSTOMIZATIONS.items():
        (folder / f"{name}.yaml").write_bytes(kustomized(kustomizations, repository, version, programs["kubectl"]))
    (folder / "install-direct.yaml").write_bytes(direct(repository, version, programs["helm"]))


def write_images(folder: Path, version: str, repository: str, progress: Progress) -> None:
    """Writes the image of each architecture with its SBOM. Raises as `infra.image` does."""
    for architecture in ARCHITECTURES:
        progress(f"image for {architecture}")
        archive = folder / f"{NAME}-{version}-{architecture}.tar"
        build_image(archive, f"{repository}:{version}", progress, architecture)


def write_package(folder: Path, progress: Progress) -> None:
    """Writes the package for machines without network, for the platform of this machine. Raises as `packaging` does."""
    target = folder / f"cluster-api-{this_platform()}.zip"
    packaging.build(target, packaging.gather(progress), progress)


def write_notes(folder: Path, version: str) -> None:
    """Writes the notes of the version. Raises NoNotes."""
    (folder / NOTES).write_text(notes_of(version, (PROJECT / "CHANGELOG.md").read_text()))


def write_sums(folder: Path) -> None:
    """Writes the SHA-256 digests of all files of a folder, as `sha256sum --check` reads them."""
    lines = [f"{digest(path)}  {path.name}\n" for path in sorted(folder.iterdir()) if path.name != SUMS]
    (folder / SUMS).write_text("".join(lines))


def digest(path: Path) -> str:
    """Returns the SHA-256 digest of a file in hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def uncommitted() -> Iterable[str]:
    """Returns the changes that no commit has, as git prints them. A release is made from a commit."""
    command = [
        "git",
        "-C",
        str(PROJECT),
        "status",
        "--porcelain",
        "--",
        *(str(path) for path in ("pyproject.toml", "events", "functions", "infra", "shared")),
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
