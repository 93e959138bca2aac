"""Writes layers and an OCI archive. The same files give the same bytes, whatever their times, owners and order."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_CREATED = "1970-01-01T00:00:00Z"
_COMPRESS = """
import gzip, shutil, sys
with gzip.GzipFile("", "wb", 6, sys.stdout.buffer, mtime=0) as packer:  # level 9 takes twice as long for 1 % less
    shutil.copyfileobj(sys.stdin.buffer, packer, 1 << 20)
"""
_ALIKE = 4096  # bytes; larger files with the same content are stored once


@dataclass(frozen=True)
class Layer:
    """A compressed layer: the file, its digest, and the digest of its uncompressed content (`sha256:...`)."""

    path: Path
    digest: str
    diff_id: str


class _Hashing(io.RawIOBase):
    """Passes on all written bytes, and computes their SHA-256."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self._digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._digest.update(data)
        self._target.write(data)
        return len(data)

    @property
    def digest(self) -> str:
        return f"sha256:{self._digest.hexdigest()}"


def write_layer(
    root: Path,
    path: Path,
    interpreter: Sequence[str] = (sys.executable,),
    environment: Mapping[str, str] | None = None,
) -> Layer:
    """Writes all files below `root` as a compressed layer to `path`.

    The Python of the command `interpreter` compresses, because the bytes depend on its version of zlib.

    Everything belongs to root and is readable for everybody. A large file with the content of an earlier file becomes a
    hard link to it, because packages contain the same library under several names.
    """
    command = [*interpreter, "-c", _COMPRESS]
    with (
        path.open("wb") as file,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, env=environment) as packer,
    ):
        assert packer.stdin is not None
        content = _Hashing(packer.stdin)
        with tarfile.open(mode="w|", fileobj=content, format=tarfile.PAX_FORMAT) as archive:
            _add_all(archive, root)
        packer.stdin.close()
    if packer.returncode:
        raise OSError(f"{interpreter[0]} ended with status {packer.returncode}, so the layer {path.name} is incomplete")
    with path.open("rb") as written:
        return Layer(path, f"sha256:{hashlib.file_digest(written, 'sha256').hexdigest()}", content.digest)


def _add_all(archive: tarfile.TarFile, root: Path) -> None:
    stored: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        entry = tarfile.TarInfo(name)
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, os.readlink(path), 0o777
        elif stat.S_ISDIR(mode):
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if mode & stat.S_ISVTX else 0o755
        else:
            entry.mode = 0o755 if mode & stat.S_IXUSR else 0o644
            entry.size = path.stat().st_size
            if entry.size > _ALIKE:
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                if (first := stored.setdefault(f"{digest}{entry.mode}", name)) != name:
                    entry.type, entry.linkname, entry.size = tarfile.LNKTYPE, first, 0
        if entry.isreg():
            with path.open("rb") as file:
                archive.addfile(entry, file)
        else:
            archive.addfile(entry)


def write_archive(
    path: Path,
    layers: Sequence[Layer],
    *,
    name: str,
    architecture: str,
    config: Mapping[str, Any],
    annotations: Mapping[str, str],
) -> str:
    """Writes an image as an OCI archive, as `podman load`, `ctr images import` and `skopeo copy oci-archive:` read it.

    Args:
        path: The file to write.
        layers: From the lowest to the uppermost.
        name: Repository and tag.
        architecture: By Go's name, such as "amd64".
        config: Environment, user, and more fields of the image's `config`.
        annotations: Of the manifest; also the labels of the image.

    Returns:
        The digest of the manifest, `sha256:...`.
    """
    platform = {"architecture": architecture, "os": "linux"}
    settings: dict[str, Any] = {
        "architecture": architecture,
        "os": "linux",
        "created": _CREATED,
        "config": {**config, "Labels": dict(annotations)},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [{"created": _CREATED, "created_by": layer.path.name} for layer in layers],
    }
    blobs: dict[str, bytes | Path] = {layer.digest: layer.path for layer in layers}

    def described(media_type: str, content: Mapping[str, Any]) -> dict[str, Any]:
        data = _json(content)
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        blobs[digest] = data
        return {"mediaType": media_type, "digest": digest, "size": len(data)}

    manifest = described(
        _MANIFEST,
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": described(_CONFIG, settings),
            "layers": [
                {"mediaType": _LAYER, "digest": layer.digest, "size": layer.path.stat().st_size} for layer in layers
            ],
            "annotations": dict(annotations),
        },
    )
    names = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    index = {"schemaVersion": 2, "manifests": [{**manifest, "annotations": names, "platform": platform}]}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        _store(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _store(archive, "index.json", _json(index))
        for digest, blob in sorted(blobs.items()):
            _store(archive, f"blobs/{digest.replace(':', '/')}", blob)
    return str(manifest["digest"])


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _store(archive: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode = 0o644
    if isinstance(content, Path):
        entry.size = content.stat().st_size
        with content.open("rb") as file:
            archive.addfile(entry, file)
    else:
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
