"""Packs the demo's cluster stack: `python -m infra.demo.build [--check]`.

The same sources give the same bytes, so that a stale release is found by comparing.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import yaml

FOLDER = Path(__file__).parent
STACK = "local-demo-1-36"
KUBERNETES = "v1.36.3"
VERSIONS = ("v1", "v2", "v3")
VALUES = "cluster-addon-values.yaml"

Files = dict[str, bytes]
"""Content by path."""


def sources(version: str) -> Files:
    """The files of one version: those of the versions before, with what each one changes."""
    files: Files = {}
    for step in VERSIONS[: VERSIONS.index(version) + 1]:
        root = FOLDER / "stack" / step
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix == ".removed":
                del files[name.removesuffix(".removed")]
            elif path.is_file():
                files[name] = path.read_bytes()
    for chart in ("addon/Chart.yaml", "class/Chart.yaml"):
        document = yaml.safe_load(files[chart]) | {"version": version}
        files[chart] = yaml.safe_dump(document, sort_keys=False).encode()
    return files


def release(version: str) -> Files:
    """The files of a release folder."""
    files = sources(version)
    metadata = {
        "apiVersion": "metadata.clusterstack.x-k8s.io/v1alpha1",
        "versions": {
            "clusterStack": version,
            "kubernetes": KUBERNETES,
            "components": {"clusterAddon": version, "nodeImage": "v1"},
        },
    }
    return {
        "metadata.yaml": yaml.safe_dump(metadata, sort_keys=False).encode(),
        VALUES: files[VALUES],
        f"{STACK}-cluster-addon-{version}.tgz": chart(f"{STACK}-cluster-addon", "addon/", files),
        f"{STACK}-cluster-class-{version}.tgz": chart(f"{STACK}-cluster-class", "class/", files),
    }


def chart(name: str, prefix: str, files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, content in sorted(files.items()):
            if path.startswith(prefix):
                member = tarfile.TarInfo(f"{name}/{path.removeprefix(prefix)}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    # Stored, not compressed: the bytes of deflate differ between versions of zlib.
    return gzip.compress(buffer.getvalue(), compresslevel=0, mtime=0)


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = []
    for version in VERSIONS:
        folder = FOLDER / "releases" / f"{STACK}-{version}"
        files = release(version)
        present = {path.name: path.read_bytes() for path in folder.glob("*")} if folder.is_dir() else {}
        stale += [
            str(folder / name) for name in sorted(files.keys() | present.keys()) if files.get(name) != present.get(name)
        ]
        if not check:
            folder.mkdir(parents=True, exist_ok=True)
            for name in present.keys() - files.keys():
                (folder / name).unlink()
            for name, content in files.items():
                (folder / name).write_bytes(content)
    if check and stale:
        print("stale, `make generate` writes them anew:", *stale, sep="\n  ", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
