"""The lowest layer: Python and the libraries that it loads, from Debian's packages, pinned by version and digest.

There is no shell and no package manager in it. `debian.txt` has the packages of each architecture; `lock` writes it
with apt, which checks Debian's signatures.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from infra.local_control_plane.cache import Progress, cache_directory, partial

LOCK = Path(__file__).with_name("debian.txt")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Debian's and Go's names of architectures by the kernel's names."""

PYTHON = "3.11"
"""The version of Debian's Python."""

_SUITE = "bookworm"
_PACKAGES = (
    *("ca-certificates", "libc6", "libgcc-s1", "libbz2-1.0", "libcrypt1", "libexpat1", "libffi8", "liblzma5"),
    *("libssl3", "libuuid1", "zlib1g"),
    *(f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib", f"python{PYTHON}-minimal"),
)
_ARCHIVES = {"debian": "http://deb.debian.org/debian", "debian-security": "http://deb.debian.org/debian-security"}
_SNAPSHOTS = "http://snapshot.debian.org/archive"  # keeps replaced files of the archives; addressed by time
_LARGEST = 64 * 1024 * 1024  # bytes of a package
_LEFT_OUT = re.compile(
    r"usr/share/(man|doc-base|lintian|locale|applications|pixmaps|binfmts|bug)/|usr/share/doc/.*/(?!copyright$)"
)
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders that Debian's systems have below /usr, with a symbolic link in their old place."""


class PackageError(Exception):
    """A package could not be fetched, or differs from the pinned one; the message has the reason and the remedy."""


@dataclass(frozen=True)
class Package:
    """A pinned package. `archive` is "debian" or "debian-security", `path` the file in it."""

    architecture: str
    name: str
    version: str
    sha256: str
    archive: str
    path: str


def read_lock(text: str) -> tuple[str, list[Package]]:
    """Returns the time of the lock, in the form of snapshot.debian.org, and all packages."""
    first, *lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return first, [Package(*line.split()) for line in lines]


def packages(architecture: str) -> list[Package]:
    """Returns the pinned packages of an architecture."""
    return [package for package in read_lock(LOCK.read_text())[1] if package.architecture == architecture]


def fetch(package: Package, progress: Progress, mirrors: Iterable[str] | None = None) -> bytes:
    """Returns the content of a package, from the cache if it is there.

    Raises PackageError if no mirror has it, or its digest differs.
    """
    cached = cache_directory() / "image" / package.sha256
    if cached.is_file() and _sha256(content := cached.read_bytes()) == package.sha256:
        return content
    when, _ = read_lock(LOCK.read_text())
    tried: list[str] = []
    for mirror in mirrors or (_ARCHIVES[package.archive], f"{_SNAPSHOTS}/{package.archive}/{when}"):
        url = f"{mirror}/{package.path}"
        progress(f"downloading {url}")
        try:
            with urllib.request.urlopen(url, timeout=30) as response:  # noqa: S310 - constants of this module
                content = bytes(response.read(_LARGEST))
        except (OSError, urllib.error.HTTPError) as error:
            tried.append(f"{url}: {error}")
            continue
        if (found := _sha256(content)) != package.sha256:
            tried.append(f"{url}: its digest is sha256:{found}, not sha256:{package.sha256}")
            continue
        cached.parent.mkdir(parents=True, exist_ok=True)
        with partial(cached) as part:
            part.write_bytes(content)
            os.replace(part, cached)
        return content
    raise PackageError(
        f"{package.name} {package.version} could not be fetched:\n  "
        + "\n  ".join(tried)
        + "\nIf Debian has replaced it, `python -m infra.image lock` pins the newest packages."
    )


def unpack(content: bytes, root: Path) -> dict[str, str]:
    """Unpacks the files of a Debian package below `root`, and returns the fields of its control file.

    The files are also listed for scanners of images, which read /var/lib/dpkg/status.d. Scripts are not run.
    """
    members = dict(_members(content))
    with _tar(members, "control.tar") as control:
        found = control.extractfile("./control")
        assert found is not None  # it is a regular file
        text = found.read().decode()
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line and not line.startswith(" "))
    status = root / "var/lib/dpkg/status.d" / fields["Package"]
    status.parent.mkdir(parents=True, exist_ok=True)
    status.write_text(text)
    with _tar(members, "data.tar") as data:
        for member in data:
            name = _merged(member.name.removeprefix("./"))
            if member.isdir() or _LEFT_OUT.match(name):
                continue
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if member.issym():
                target.symlink_to(member.linkname)
            elif member.islnk():
                shutil.copyfile(root / _merged(member.linkname.removeprefix("./")), target)
            elif file := data.extractfile(member):
                target.write_bytes(file.read())
                target.chmod(member.mode & 0o755)
    return fields


def _merged(name: str) -> str:
    return f"usr/{name}" if name.partition("/")[0] in _MERGED else name


def _members(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields name and content of the files in an `ar` archive. Raises PackageError if it is not one."""
    if not content.startswith(b"!<arch>\n"):
        raise PackageError("a package is not an ar archive")
    position = 8
    while position + 60 <= len(content):
        head = content[position : position + 60]
        size = int(head[48:58])
        yield head[:16].decode().strip().rstrip("/"), content[position + 60 : position + 60 + size]
        position += 60 + size + size % 2


def _tar(members: dict[str, bytes], name: str) -> tarfile.TarFile:
    packed = next((content for member, content in members.items() if member == f"{name}.xz"), None)
    if packed is None:
        raise PackageError(f"a package has no {name}.xz: {', '.join(members)}")
    return tarfile.open(fileobj=io.BytesIO(lzma.decompress(packed)))


def write_root(root: Path, architecture: str, progress: Progress) -> list[Package]:
    """Writes the layer's files below `root`, and returns the packages that they come from."""
    pinned = packages(architecture)
    if not pinned:
        raise PackageError(f"{LOCK.name} has no packages for {architecture}")
    for package in pinned:
        unpack(fetch(package, progress), root)
    for folder in _MERGED:
        if (root / "usr" / folder).is_dir():
            (root / folder).symlink_to(f"usr/{folder}")
    (root / "usr/local/bin").mkdir(parents=True)
    for name in ("python", "python3"):
        (root / "usr/local/bin" / name).symlink_to(f"/usr/bin/python{PYTHON}")
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    # Does the work of the packages' scripts: writes all authorities to the file that OpenSSL reads.
    authorities = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = "".join(path.read_text().strip() + "\n" for path in authorities)
    _write(root / "etc/ssl/certs/ca-certificates.crt", bundle)
    (root / "usr/lib/ssl").mkdir(parents=True, exist_ok=True)
    (root / "usr/lib/ssl/cert.pem").symlink_to("/etc/ssl/certs/ca-certificates.crt")
    _write(root / "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    _write(root / "etc/passwd", "root:x:0:0:root:/:/none\nnonroot:x:65532:65532:nonroot:/tmp:/none\n")
    _write(root / "etc/group", "root:x:0:\nnonroot:x:65532:\n")
    return pinned


def interpreter(root: Path) -> tuple[list[str], dict[str, str]]:
    """Returns the command that runs the layer's Python on a machine of its architecture, and its environment."""
    (loader,) = [*(root / "usr/lib64").glob("ld-linux-*.so.*"), *(root / "usr/lib").glob("ld-linux-*.so.*")][:1]
    (libraries,) = (root / "usr/lib").glob("*-linux-gnu")
    program = [str(loader), "--library-path", str(libraries), str(root / f"usr/bin/python{PYTHON}")]
    return program, {"PYTHONHOME": str(root / "usr"), "PYTHONHASHSEED": "0"}


def lock(architectures: Sequence[str] = tuple(ARCHITECTURES.values())) -> str:
    """Returns the content of `debian.txt` with the newest versions, which apt determines in a folder of its own."""
    when = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    found = [package for architecture in architectures for package in _newest(architecture)]
    head = (
        "# Debian packages of the image: architecture, name, version, SHA-256, archive, file.\n"
        "# Written by `python -m infra.image lock`, at the time below.\n"
    )
    rows = (f"{p.architecture} {p.name} {p.version} {p.sha256} {p.archive} {p.path}\n" for p in found)
    return head + f"{when}\n" + "".join(rows)


def _newest(architecture: str) -> Iterator[Package]:
    with tempfile.TemporaryDirectory() as folder:
        sources = "".join(
            f"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {_ARCHIVES[archive]} {suite} main\n"
            for archive, suite in (("debian", _SUITE), ("debian-security", f"{_SUITE}-security"))
        )
        Path(folder, "sources.list").write_text(sources)
        Path(folder, "status").touch()
        for name in ("lists/partial", "cache/archives/partial"):
            Path(folder, name).mkdir(parents=True)
        options = {
            "Dir::Etc::sourcelist": f"{folder}/sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": f"{folder}/lists",
            "Dir::State::status": f"{folder}/status",
            "Dir::Cache": f"{folder}/cache",
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "APT::Sandbox::User": "",
        }
        given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
        subprocess.run(["apt-get", *given, "-qq", "update"], check=True, stdin=subprocess.DEVNULL)
        shown = subprocess.run(
            ["apt-cache", *given, "--no-all-versions", "show", *_PACKAGES], check=True, capture_output=True, text=True
        )
    for paragraph in shown.stdout.strip().split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.M))
        path = fields["Filename"]
        archive = "debian-security" if path.startswith("pool/updates/") else "debian"
        yield Package(architecture, fields["Package"], fields["Version"], fields["SHA256"], archive, path)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
