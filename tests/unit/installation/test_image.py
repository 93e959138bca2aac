"""The image: its layers and archive are reproducible; packages are checked; what is pinned fits together."""

import gzip
import hashlib
import io
import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

from infra.image import contents, debian, oci, sbom
from tests.support.http_server import HttpServer, Request, Response

PROJECT = Path(__file__).parents[3]

# -- layers and archive ------------------------------------------------------------------------------------------

LARGE = b"library" * 2000


def files(root: Path, names: list[str]) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(LARGE if ".so" in name else name.encode())
    (root / "run").write_text("#!/x")
    (root / "run").chmod(0o700)
    (root / "link").symlink_to("/usr/lib")
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    return root


def content(layer: oci.Layer) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(layer.path) as archive:
        return {member.name: member for member in archive}


def test_layers_of_the_same_files_have_the_same_digest(tmp_path: Path) -> None:
    names = ["b/two", "a/one", "a/lib.so", "a/lib.so.1"]
    first = oci.write_layer(files(tmp_path / "first", names), tmp_path / "1.tar.gz")
    other = files(tmp_path / "other", names[::-1])
    os.utime(other / "a/one", (1, 1))
    (other / "a/one").chmod(0o600)
    second = oci.write_layer(other, tmp_path / "2.tar.gz")
    assert (first.digest, first.diff_id) == (second.digest, second.diff_id)
    assert first.digest == f"sha256:{hashlib.sha256(first.path.read_bytes()).hexdigest()}"
    assert first.diff_id == f"sha256:{hashlib.sha256(gzip.decompress(first.path.read_bytes())).hexdigest()}"

    (other / "a/one").write_text("changed")
    assert oci.write_layer(other, tmp_path / "3.tar.gz").digest != first.digest


def test_layer_belongs_to_root_is_readable_and_stores_a_library_once(tmp_path: Path) -> None:
    members = content(oci.write_layer(files(tmp_path / "root", ["a/lib.so", "a/lib.so.1"]), tmp_path / "1.tar.gz"))
    assert {(m.uid, m.gid, m.mtime) for m in members.values()} == {(0, 0, 0)}
    modes = {name: oct(member.mode) for name, member in members.items()}
    assert modes["run"] == modes["a"] == "0o755"
    assert (modes["a/lib.so"], modes["tmp"]) == ("0o644", "0o1777")
    assert members["link"].linkname == "/usr/lib"
    assert (members["a/lib.so.1"].islnk(), members["a/lib.so.1"].linkname) == (True, "a/lib.so")


def test_archive_names_each_blob_by_its_digest(tmp_path: Path) -> None:
    def written(name: str) -> str:
        return oci.write_archive(
            tmp_path / name,
            [layer],
            name="docker.io/library/it:1",
            architecture="arm64",
            config={"User": "65532"},
            annotations={"v": "1"},
        )

    layer = oci.write_layer(files(tmp_path / "root", ["a"]), tmp_path / "layer.tar.gz")
    digest = written("one.tar")
    assert digest == written("two.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()

    with tarfile.open(tmp_path / "one.tar") as archive:
        read = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]

    def blob(descriptor: dict[str, Any]) -> bytes:
        found = read["blobs/" + descriptor["digest"].replace(":", "/")]
        assert (hashlib.sha256(found).hexdigest(), len(found)) == (
            descriptor["digest"].removeprefix("sha256:"),
            descriptor["size"],
        )
        return found

    (entry,) = json.loads(read["index.json"])["manifests"]
    assert entry["digest"] == digest
    assert entry["annotations"]["io.containerd.image.name"] == "docker.io/library/it:1"
    manifest = json.loads(blob(entry))
    settings = json.loads(blob(manifest["config"]))
    assert (settings["architecture"], settings["config"]["User"]) == ("arm64", "65532")
    assert settings["rootfs"]["diff_ids"] == [layer.diff_id]
    assert blob(manifest["layers"][0]) == layer.path.read_bytes()


def test_layer_that_cannot_be_compressed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        OSError, match=r"Broken pipe|/bin/false ended with status 1, so the layer 1.tar.gz is incomplete"
    ):
        oci.write_layer(files(tmp_path / "root", ["a"]), tmp_path / "1.tar.gz", ["/bin/false"])


def test_list_of_installed_files_names_those_of_the_image_only(tmp_path: Path) -> None:
    """The digest of a program in it would depend on the path of the Python that installed it."""
    record = tmp_path / "it-1.dist-info" / "RECORD"
    record.parent.mkdir()
    (tmp_path / "it,1.py").touch()
    record.write_text('"it,1.py",sha256=a,2\nbin/it,sha256=b,300\nit-1.dist-info/RECORD,,\n')
    contents.leave_out_missing(record, tmp_path)
    assert record.read_text() == '"it,1.py",sha256=a,2\nit-1.dist-info/RECORD,,\n'


# -- Debian packages ---------------------------------------------------------------------------------------------


def tar_xz(members: dict[str, bytes | str]) -> bytes:
    """Returns an archive of files; a text is the target of a symbolic link."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, value in members.items():
            entry = tarfile.TarInfo(f"./{name}")
            if isinstance(value, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, value
                archive.addfile(entry)
            else:
                entry.size, entry.mode = len(value), 0o4755
                archive.addfile(entry, io.BytesIO(value))
    return lzma.compress(packed.getvalue())


def deb(members: dict[str, bytes | str], name: str = "it") -> bytes:
    control = tar_xz({"control": f"Package: {name}\nVersion: 1\nDescription: x\n more\n".encode(), "postinst": b"#!"})
    result = b"!<arch>\n"
    for part, data in {"debian-binary": b"2.0\n", "control.tar.xz": control, "data.tar.xz": tar_xz(members)}.items():
        result += (
            f"{part:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        )
    return result


def test_package_is_unpacked_without_its_manuals_and_scripts(tmp_path: Path) -> None:
    package = deb(
        {
            "lib/x/libit.so.1": b"library",
            "usr/lib/x/libit.so": "libit.so.1",
            "usr/share/man/man1/it.1": b"manual",
            "usr/share/doc/it/copyright": b"licence",
            "usr/share/doc/it/README": b"read",
        }
    )
    assert debian.unpack(package, tmp_path)["Package"] == "it"
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert found == {
        "usr/lib/x/libit.so.1",  # /lib is a link to /usr/lib
        "usr/lib/x/libit.so",
        "usr/share/doc/it/copyright",
        "var/lib/dpkg/status.d/it",
    }
    assert oct((tmp_path / "usr/lib/x/libit.so").stat().st_mode & 0o7777) == "0o755", "a set-uid bit is not kept"


@pytest.mark.parametrize("content", [b"", b"not an archive", b"!<arch>\n"])
def test_what_is_no_package_is_rejected(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(debian.PackageError):
        debian.unpack(content, tmp_path)


def test_package_with_another_digest_is_rejected_and_the_next_mirror_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPI_FUNCTIONS_CACHE", str(tmp_path))
    package = debian.Package("amd64", "it", "1", hashlib.sha256(b"right").hexdigest(), "debian", "pool/it.deb")

    def answer(request: Request) -> Response:
        return Response(body=b"right" if request.path.startswith("/second/") else b"wrong")

    with HttpServer(answer) as server:
        first, second = f"{server.url}/first", f"{server.url}/second"
        with pytest.raises(
            debian.PackageError, match=r"it 1 could not be fetched(.|\n)*its digest is sha256:(.|\n)*lock"
        ):
            debian.fetch(package, lambda _line: None, [first])
        assert debian.fetch(package, lambda _line: None, [first, second]) == b"right"
        asked = len(server.requests)
        assert debian.fetch(package, lambda _line: None, [first]) == b"right", "from the cache"
        assert len(server.requests) == asked


def test_lock_pins_the_same_packages_for_each_architecture() -> None:
    when, pinned = debian.read_lock(debian.LOCK.read_text())
    assert re.fullmatch(r"\d{8}T\d{6}Z", when)
    names = {arch: sorted(p.name for p in pinned if p.architecture == arch) for arch in ("amd64", "arm64")}
    assert names["amd64"] == names["arm64"]
    assert "ca-certificates" in names["amd64"]
    assert all(re.fullmatch(r"[0-9a-f]{64}", package.sha256) for package in pinned)


# -- Python packages ---------------------------------------------------------------------------------------------


def pins(path: Path) -> dict[str, tuple[str, ...]]:
    """Returns the hashes of each `name==version` of a requirements file."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in re.split(r"\n(?=\S)", path.read_text().strip()):
        name, *hashes = re.split(r"\s*\\\n\s*", entry)
        found[name] = tuple(hashes)
    return found


def test_image_installs_what_tests_run_with_and_each_package_has_digests() -> None:
    tested, installed = pins(PROJECT / "infra/requirements.txt"), pins(contents.REQUIREMENTS)
    assert installed.items() <= tested.items()
    assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for hashes in tested.values() for one in hashes)
    assert all(tested.values())
    names = {name.partition("==")[0] for name in installed}
    assert {"kubernetes", "functions-framework", "obstore", "opentelemetry-sdk"} <= names
    assert names.isdisjoint({"moto", "pytest", "mypy", "ruff", "uv"})


def test_project_in_the_image_has_its_version_and_programs_but_no_tests(tmp_path: Path) -> None:
    contents.write_project(tmp_path)
    (found,) = distributions(path=[str(tmp_path / contents.HOME)])
    assert (found.metadata["Name"], found.version) == ("capi-functions", contents.version())
    assert {entry.name for entry in found.entry_points.select(group="capi_functions.kind_runtimes")} == {
        "local",
        "kind",
    }
    assert (tmp_path / contents.PROGRAMS / "capi-functions").read_text().startswith("#!/usr/local/bin/python3\n")
    assert (tmp_path / contents.HOME / "functions/main.py").is_file()
    assert not (tmp_path / contents.HOME / "tests").exists()
    assert not [*tmp_path.rglob("__pycache__")]


def test_image_has_no_file_of_a_clone_that_git_does_not_know(tmp_path: Path) -> None:
    files = [Path("infra/kubeconfig"), Path("infra/tracked.py"), Path("tests/test.py")]
    for path in (*files, Path("infra/__pycache__/tracked.pyc")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    assert sorted(contents.sources(tmp_path)) == files[:2], "a folder that is no clone"
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "add", "infra/tracked.py"], check=True)
    assert contents.sources(tmp_path) == [files[1]]


def test_compiler_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("")
    with pytest.raises(contents.ContentError, match="compiled nothing"):
        contents.compile_bytecode(tmp_path, ["false"], {}, tmp_path)
    contents.compile_bytecode(tmp_path, [sys.executable], {}, tmp_path)
    assert [*tmp_path.rglob("module.*.pyc")]


def test_bill_of_materials_names_every_part_with_its_package_url(tmp_path: Path) -> None:
    (tmp_path / "helm").write_bytes(b"program")
    installed = [one for one in distributions() if one.metadata["Name"].lower() in ("pyyaml", "kubernetes")]
    document = json.loads(
        sbom.document(
            "it", "1.0", debian=debian.packages("amd64"), python=installed, helm=("v4.2.4", tmp_path / "helm")
        )
    )
    parts = {part["name"].lower(): part for part in document["packages"]}
    urls = {name: part["externalRefs"][0]["referenceLocator"] for name, part in parts.items()}
    assert urls["helm"] == "pkg:golang/helm.sh/helm/v4@v4.2.4"
    assert re.fullmatch(r"pkg:pypi/pyyaml@[\d.]+", urls["pyyaml"])
    assert urls["libc6"].startswith("pkg:deb/debian/libc6@2.")
    assert parts["helm"]["checksums"][0]["checksumValue"] == hashlib.sha256(b"program").hexdigest()
    identifiers = [part["SPDXID"] for part in document["packages"]]
    assert len(identifiers) == len(set(identifiers))
    contained = {one["relatedSpdxElement"] for one in document["relationships"]}
    assert contained == set(identifiers), "each part is related to the image, and the image to the document"


def test_dockerfile_has_the_configuration_of_the_archive() -> None:
    from infra.image.__main__ import CONFIG

    lines = (PROJECT / "infra/image/Dockerfile").read_text().splitlines()
    (environment,) = [line.removeprefix("ENV ") for line in lines if line.startswith("ENV ")]
    given = dict(part.split("=", 1) for part in environment.split())
    wanted = dict(part.split("=", 1) for part in CONFIG["Env"])
    assert given.pop("PATH").startswith(wanted.pop("PATH").partition(":")[0])
    assert given == wanted
    assert lines[-1] == f"USER {CONFIG['User']}"
    assert f"WORKDIR {CONFIG['WorkingDir']}" in lines
