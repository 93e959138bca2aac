"""Images of single programs, made without a registry: OCI archives with the program and the libraries that it loads."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from infra.image import debian, oci
from infra.local_control_plane.binaries import locate
from infra.local_control_plane.cache import Progress, cache_directory, locked, partial

_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_USER = "65532:65532"
_VERSION = "1"  # of the images of this module


def of_program(name: str, program: str, progress: Progress, *, place: str = "") -> Path:
    """Returns an OCI archive whose image runs an executable; once for each content of the executable.

    Args:
        name: The name and tag of the image.
        program: The name of the executable, see `binaries.locate`.
        progress: Called with each line of progress.
        place: The path of the executable in the image. Default: its name in /usr/bin.

    Raises:
        BinaryNotFound: The executable cannot be built.
    """
    return of_file(name, locate([program], progress=progress)[program], progress, place=place)


def of_file(name: str, path: Path, progress: Progress, *, place: str = "") -> Path:
    """Like `of_program`, for an executable file."""
    program = path.name
    place = place or f"/usr/bin/{program}"
    wanted = [path, *_libraries(path), *filter(Path.exists, [_AUTHORITIES])]
    digest = hashlib.sha256(f"{_VERSION} {name} {place}".encode())
    for file in wanted:
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    folder = cache_directory() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{program}-{digest.hexdigest()[:16]}.tar"
    with locked(folder / f".{program}.lock", f"makes the image of {program}", progress):
        if not archive.exists():
            progress(f"making the image of {program}")
            with partial(archive) as part:
                _write(part, name, place, wanted)
                os.replace(part, archive)
    return archive


def _write(target: Path, name: str, place: str, wanted: list[Path]) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        root = Path(temporary, "root")
        for file, path in zip(wanted, [Path(place), *wanted[1:]], strict=True):
            inside = root / path.relative_to("/")
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, inside)
            inside.chmod(0o755)
        oci.write_archive(
            target,
            [oci.write_layer(root, Path(temporary, "layer.tar.gz"))],
            name=name,
            architecture=debian.ARCHITECTURES[platform.machine()],
            config={"User": _USER, "WorkingDir": "/", "Entrypoint": [place], "Env": ["PATH=/usr/bin"]},
            annotations={},
        )


def _libraries(program: Path) -> list[Path]:
    """Returns the loader and the libraries of a program; none if it is linked statically."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return sorted(Path(path) for path in set(re.findall(r"(?<!\S)(/\S+) \(0x", done.stdout)))
