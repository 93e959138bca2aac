"""The files of a version: twice the same bytes, nothing left out, notes of that version."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml

from infra import version
from infra.local_control_plane.binaries import locate
from infra.publishing import artifacts
from infra.publishing.manifests import KUSTOMIZATIONS
from infra.publishing.notes import NoNotes, notes_of
from shared import charts

PROJECT = Path(__file__).parents[3]
CHANGELOG = "# Changelog\n\n## Unreleased\n\n## 0.3.0 - 2026-12-01\n\n- newer\n\n## 0.2.0 - 2026-11-26\n\n- older\n"


@pytest.mark.parametrize(("wanted", "notes"), [("0.3.0", "- newer\n"), ("0.2.0", "- older\n")])
def test_notes_are_the_section_of_the_version(wanted: str, notes: str) -> None:
    assert notes_of(wanted, CHANGELOG) == notes


def test_a_version_needs_notes() -> None:
    with pytest.raises(NoNotes, match=r"0\.4\.0"):
        notes_of("0.4.0", CHANGELOG)


def test_wheel_has_each_file_of_the_packages(tmp_path: Path) -> None:
    for turn in ("first", "second"):
        artifacts.write_python(tmp_path / turn)
    wheel, again = (next((tmp_path / turn).glob("*.whl")) for turn in ("first", "second"))
    assert {path.name: artifacts.digest(path) for path in (tmp_path / "first").iterdir()} == {
        path.name: artifacts.digest(path) for path in (tmp_path / "second").iterdir()
    }
    known = subprocess.run(
        ["git", "-C", str(PROJECT), "ls-files", "events", "functions", "infra", "shared"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    names = set(zipfile.ZipFile(wheel).namelist())
    assert [name for name in known if name not in names] == []
    assert again.name == f"capi_functions-{version.current()}-py3-none-any.whl"


def test_chart_and_manifests_name_the_image(tmp_path: Path) -> None:
    artifacts.write_chart(tmp_path, "0.2.0")
    artifacts.write_manifests(tmp_path, "0.2.0", "registry.test/team/capi-functions", print)
    artifacts.write_sums(tmp_path)
    chart = charts.inspect((tmp_path / "capi-functions-0.2.0.tgz").read_bytes(), "chart")
    assert {"capi-functions/Chart.yaml", "capi-functions/values.schema.json"} <= set(chart)
    for name in (*(name for name in KUSTOMIZATIONS if name.startswith("install")), "install-direct"):
        text = (tmp_path / f"{name}.yaml").read_text()
        images = {
            line.split("image: ")[1].strip("'\"")
            for line in text.splitlines()
            if line.strip(" -").startswith("image: ")
        }
        assert images == {"registry.test/team/capi-functions:0.2.0"}, name
        kinds = [obj["kind"] for obj in yaml.load_all(text, yaml.CSafeLoader) if obj]
        assert {"Namespace", "CustomResourceDefinition", "ServiceAccount"} <= set(kinds), name
    subprocess.run(["sha256sum", "--check", "--quiet", artifacts.SUMS], cwd=tmp_path, check=True)


def test_helm_reads_the_chart(tmp_path: Path) -> None:
    artifacts.write_chart(tmp_path, "0.2.0")
    helm = locate(["helm"], progress=print)["helm"]
    shown = subprocess.run(
        [helm, "show", "chart", tmp_path / "capi-functions-0.2.0.tgz"], check=True, capture_output=True, text=True
    )
    assert yaml.safe_load(shown.stdout)["version"] == "0.2.0"
