"""What the commands say to wrong input, without a cluster."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

from infra.cli.main import app


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_replay_of_nothing_is_refused(tmp_path: Path) -> None:
    (inputs := tmp_path / "inputs.yaml").write_text("a: 1\n")
    for source, options in ((tmp_path, ()), (inputs, ()), (inputs, ("--to", "http://127.0.0.1:9"))):
        result = run("replay", source, *options)
        assert result.exit_code == 1
        assert "no events" in result.stderr
        assert "events/captured/demo" in result.stderr
    (tmp_path / "inputs.yaml").unlink()
    assert "no events" in run("replay", tmp_path, "--inputs").stderr
