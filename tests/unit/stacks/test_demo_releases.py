"""The demo's cluster stack: its sources, and the releases built from them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.cli.main import app
from infra.demo import build
from infra.release_tools.build import read_folder


def test_demo_sources_have_the_layout_of_a_cluster_stack(tmp_path: Path) -> None:
    source = str(build.FOLDER / "stack/v1")
    made = CliRunner().invoke(app, ["release", "build", source, str(tmp_path), "--version", "v33"])
    assert made.exit_code == 0, made.output
    result = CliRunner().invoke(app, ["release", "lint", str(tmp_path / "local-demo-1-36-v33")])
    assert (result.exit_code, result.stdout) == (0, "no findings\n")


def test_stale_demo_releases_are_found_and_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = shutil.copytree(build.RELEASES, tmp_path / "releases")
    monkeypatch.setattr(build, "RELEASES", place)
    monkeypatch.setattr("sys.argv", ["build", "--check"])
    assert build.main() == 0, "`make generate` makes the demo's releases anew"
    (place / "local-demo-1-36-v2/metadata.yaml").write_text("other")
    shutil.rmtree(place / "local-demo-1-36-v3")
    assert build.main() == 1
    monkeypatch.setattr("sys.argv", ["build"])
    assert build.main() == 0
    committed = build.FOLDER / "releases"
    assert [build.content(read_folder(place / tag.name)) for tag in sorted(place.iterdir())] == [
        build.content(read_folder(tag)) for tag in sorted(committed.iterdir())
    ]
