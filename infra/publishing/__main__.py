"""`make release`: writes everything that a version publishes to out/release, and checks that the wheel works."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from infra import version
from infra.image.__main__ import NAME
from infra.image.contents import ContentError
from infra.image.debian import PackageError
from infra.local_control_plane.binaries import BinaryNotFound

from . import artifacts
from .notes import NoNotes


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m infra.publishing", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--output", type=Path, default=Path("out/release"), metavar="FOLDER", help="default: %(default)s"
    )
    parser.add_argument("--image", default=NAME, help="the repository of the image that manifests name")
    parser.add_argument("--small", action="store_true", help="leave out the images and cluster-api.zip")
    options = parser.parse_args()
    if changes := artifacts.uncommitted():
        sys.exit("commit or undo these changes first, because a release is made from a commit:\n" + "\n".join(changes))
    try:
        write(options.output, options.image, small=options.small)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error}\n{error.stderr or ''}")
    except (NoNotes, BinaryNotFound, ContentError, PackageError, OSError) as error:
        sys.exit(str(error))


def write(folder: Path, image: str, *, small: bool) -> None:
    """Writes the files of this version into an empty folder."""
    release = version.current()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    artifacts.write_notes(folder, release)
    say("wheel and sdist")
    artifacts.write_python(folder)
    say("the wheel in an empty environment")
    try_wheel(next(folder.glob("*.whl")), release)
    say("chart and manifests")
    artifacts.write_chart(folder, release)
    artifacts.write_manifests(folder, release, image, say)
    if not small:
        artifacts.write_images(folder, release, image, say)
        artifacts.write_package(folder, say)
    artifacts.write_sums(folder)
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {path}")


def try_wheel(wheel: Path, release: str) -> None:
    """Installs the wheel as `uv tool install` does for a user, and runs its command. Raises CalledProcessError."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    with tempfile.TemporaryDirectory() as home:
        places = {"UV_TOOL_DIR": f"{home}/tools", "UV_TOOL_BIN_DIR": f"{home}/bin"}
        environment = {name: text for name, text in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
        python = ["--python", sys.executable]
        subprocess.run(
            [uv, "tool", "install", "--quiet", *python, str(wheel)], check=True, env={**environment, **places}
        )
        command = [f"{home}/bin/capi-functions", "--version"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=home).stdout
        if release not in printed:
            raise OSError(f"`{' '.join(command)}` of the wheel printed {printed!r}, not {release}")


def say(line: str) -> None:
    """Prints a line of progress."""
    print(f"==> {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
