"""`capi-functions local package` with a real program that is built here, its modules' licences, and all digests."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.cli.main import app
from infra.local_control_plane.modules import module_of

NAME = "kind"
"""In the place of etcd, kube-apiserver and helm, which take half a minute to compress."""


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is needed to find licences")
def test_package_has_programs_with_their_licences_and_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.packaging.build.PLANE", (NAME,))
    target = tmp_path / "cluster-api.zip"

    def build() -> str:
        done = CliRunner().invoke(app, ["local", "package", "--no-providers", "--output", str(target)])
        assert done.exit_code == 0, done.stderr
        return " ".join(done.stderr.split())

    assert f"{target.name} is written" in build()
    with zipfile.ZipFile(target) as zipped:
        content = {name: zipped.read(name) for name in zipped.namelist()}
    module = module_of(NAME)
    lines = content.pop("SHA512SUMS").decode().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert sums == {name: hashlib.sha512(data).hexdigest() for name, data in content.items()}
    assert json.loads(content["package.json"])["versions"] == {NAME: module.version}
    assert {name.partition("/")[0] for name in content} == {"bin", "licenses", "package.json"}
    assert [name for name in content if name.startswith("bin/")] == [f"bin/{NAME}"]
    licences = [name for name in content if name.startswith("licenses/")]
    assert f"licenses/sigs.k8s.io/kind@{module.version}/LICENSE" in licences
    assert [name for name in licences if name.startswith("licenses/go/")]
    assert len(licences) > 10
    assert f"{target.name} is up to date" in build()
