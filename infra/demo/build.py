"""Builds the releases of the demo and of `bench fleet`: `python -m infra.demo.build [--check]`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from infra.release_tools import build
from infra.release_tools.folder import Files
from shared import charts
from shared.releases.release import Release

FOLDER = Path(__file__).parent
RELEASES = FOLDER / "releases"
VERSIONS = ("v1", "v2", "v3")
"""The versions of the demo's cluster stack, oldest first."""
STACKS = {"stack": VERSIONS, "fleet": ("v1",)}
"""The versions of each cluster stack, by the name of its source folder."""


def sources(version: str, stack: str = "stack") -> Files:
    """Returns the source files of a version.

    The folder of the first version is complete. The folder of a later version has the added and replaced files, and an
    empty file `<path>.removed` for each removed file.
    """
    files: dict[str, bytes] = {}
    for step in STACKS[stack][: STACKS[stack].index(version) + 1]:
        for path, data in build.read_folder(FOLDER / stack / step).items():
            if path.endswith(".removed"):
                del files[path.removesuffix(".removed")]
            else:
                files[path] = data
    return files


def release(version: str, stack: str = "stack") -> tuple[Release, Files]:
    """Builds the release of a version."""
    return build.build(build.parse_stack(sources(version, stack), FOLDER / stack), build.custom_versions(version))


def content(files: Files) -> Mapping[str, object]:
    """Returns files in comparable form: archives as their content, because bytes differ between versions of zlib."""
    return {name: charts.inspect(data, name) if name.endswith(".tgz") else data for name, data in files.items()}


def main() -> int:
    """Writes the changed releases; with `--check` only names them, and returns 1 if there are any."""
    releases = (release(version, stack) for stack, versions in STACKS.items() for version in versions)
    built = {one.name.tag: files for one, files in releases}
    existing = {tag: build.read_folder(RELEASES / tag) for tag in built}
    stale = [tag for tag in built if content(built[tag]) != content(existing[tag])]
    if "--check" in sys.argv[1:]:
        if stale:
            print("these releases are stale; run `make generate`:", *stale, sep="\n  ", file=sys.stderr)
        return 1 if stale else 0
    for tag in stale:
        folder = RELEASES / tag
        folder.mkdir(parents=True, exist_ok=True)
        for name in existing[tag].keys() - built[tag].keys():
            (folder / name).unlink()
        for name, data in built[tag].items():
            (folder / name).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
