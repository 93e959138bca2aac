"""`python -m infra.image build`: writes the image of all functions as an OCI archive, without docker or podman."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import distributions
from pathlib import Path
from site import getsitepackages
from typing import Any

from infra.local_control_plane.binaries import BinaryNotFound, build_reproducibly, locate
from infra.local_control_plane.modules import module_of

from . import contents, debian, oci, sbom

NAME = "capi-functions"
HERE = debian.ARCHITECTURES.get(platform.machine(), platform.machine())
USER = "65532:65532"
CONFIG: dict[str, Any] = {
    "User": USER,
    "WorkingDir": f"/{contents.HOME}",
    "Env": [
        f"PATH=/{contents.PROGRAMS}:/usr/local/bin:/usr/bin",
        "HOME=/tmp",
        "PYTHONDONTWRITEBYTECODE=1",
        "PYTHONUNBUFFERED=1",
    ],
}
_SBOM = "usr/share/sbom/capi-functions.spdx.json"


def build(output: Path, name: str, progress: Callable[[str], None], architecture: str = HERE) -> str:
    """Writes the image for an architecture to `output`, and its SBOM beside it.

    Returns the digest of the image. Raises PackageError, ContentError, BinaryNotFound, OSError.
    """
    version = contents.version()
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".image-") as folder:
        roots = [Path(folder, name) for name in ("debian", "dependencies", "helm", "project")]
        base, dependencies, helm, project = roots
        packages = debian.write_root(base, architecture, progress)
        path_file = base / f"usr/local/lib/python{debian.PYTHON}/dist-packages/{NAME}.pth"
        path_file.parent.mkdir(parents=True)
        path_file.write_text(contents.PATHS)
        progress("installing the dependencies")
        contents.write_dependencies(dependencies, architecture, debian.PYTHON)
        program = contents.write_helm(helm, build_reproducibly("helm", architecture, progress=progress))
        contents.write_project(project)
        document = sbom.document(
            NAME,
            version,
            debian=packages,
            python=[*distributions(path=[str(dependencies / contents.PACKAGES)])],
            helm=(module_of("helm").version, program),
        )
        (project / _SBOM).parent.mkdir(parents=True)
        (project / _SBOM).write_text(document)
        progress("compiling bytecode")
        runnable = base
        if architecture != HERE:  # bytecode is the same for all architectures
            runnable = Path(folder, "here")
            debian.write_root(runnable, HERE, progress)
        interpreter, environment = debian.interpreter(runnable)
        for root, below in ((base, "usr/lib"), (dependencies, contents.PACKAGES), (project, contents.HOME)):
            contents.compile_bytecode(root / below, interpreter, environment, root)
        progress("compressing")
        layers = [
            oci.write_layer(root, Path(folder, f"{root.name}.tar.gz"), interpreter, environment) for root in roots
        ]
        annotations = {
            "org.opencontainers.image.title": NAME,
            "org.opencontainers.image.version": version,
            "org.opencontainers.image.licenses": "Apache-2.0",
        }
        archive = Path(folder, "archive.tar")
        digest = oci.write_archive(
            archive, layers, name=name, architecture=architecture, config=CONFIG, annotations=annotations
        )
        output.with_suffix(".spdx.json").write_text(document)
        archive.replace(output)
    return digest


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m infra.image", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    building = commands.add_parser("build", help="write the image and its SBOM")
    building.add_argument("--output", type=Path, default=Path("out/capi-functions.tar"), metavar="FILE")
    building.add_argument("--architecture", choices=["amd64", "arm64"], default=HERE, help="default: %(default)s")
    building.add_argument("--name", default=None, help="repository and tag that the archive names")
    files = commands.add_parser("files", help="write the files below /app, for the Dockerfile")
    files.add_argument("root", type=Path, metavar="FOLDER")
    commands.add_parser("lock", help="pin the newest Debian packages; needs apt")
    options = parser.parse_args(arguments)
    try:
        if options.command == "lock":
            debian.LOCK.write_text(debian.lock())
        elif options.command == "files":
            _write_files(options.root)
        else:
            options.output.parent.mkdir(parents=True, exist_ok=True)
            name = options.name or f"docker.io/library/{NAME}:{contents.version()}"
            digest = build(options.output, name, _progress, options.architecture)
            size = options.output.stat().st_size
            print(f"{options.output}: {name}, {size / 1e6:.0f} MB, {digest}")
    except (debian.PackageError, contents.ContentError, BinaryNotFound, OSError) as error:
        sys.exit(str(error))


def _write_files(root: Path) -> None:
    """Writes the files that the Dockerfile adds to its base image, compiled by this Python."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    contents.write_helm(root, locate(["helm"], progress=_progress)["helm"])
    contents.write_dependencies(root, HERE, version)
    contents.write_project(root)
    contents.compile_bytecode(root / contents.HOME, [sys.executable], {}, root)
    path_file = root / getsitepackages()[0].lstrip("/") / f"{NAME}.pth"
    path_file.parent.mkdir(parents=True)
    path_file.write_text(contents.PATHS)


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
