"""Which lines of a log are about a function or a Cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.cli.main import app
from infra.operations.log_lines import Filter

TEXT = """\
2026-01-31 12:00:00,000 INFO addon_apply ClusterAddon team/cluster-addon-demo update -> 202 12.3ms cluster=demo no
2026-01-31 12:00:01,000 INFO cluster Cluster team/demo update -> 204 1.0ms
2026-01-31 12:00:02,000 INFO cluster Cluster other/demo update -> 204 1.0ms
2026-01-31 12:00:03,000 WARNING addon_apply ClusterAddon team/b update -> 500 1.0ms cluster=second
Traceback (most recent call last):
  TypeError: broken
2026-01-31 12:00:04,000 INFO the sweep skips a kind
{"function": "cluster", "kind": "Cluster", "namespace": "team", "name": "demo", "message": "x"}
{"function": "addon_apply", "kind": "ClusterAddon", "namespace": "team", "name": "a", "cluster": "demo"}
{"function": "addon_apply"
"""


@pytest.mark.parametrize(
    ("function", "cluster", "numbers"),
    [
        ("", "", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("addon_apply", "", [0, 3, 4, 5, 8]),
        ("", "demo", [0, 1, 2, 7, 8]),
        ("", "team/demo", [0, 1, 7, 8]),
        ("cluster", "other/demo", [2]),
        ("addon_apply", "team/second", [3, 4, 5]),
        ("", "emo", []),
    ],
)
def test_lines_are_selected_with_the_lines_that_continue_them(function: str, cluster: str, numbers: list[int]) -> None:
    selected = Filter(function, cluster)
    assert [number for number, line in enumerate(TEXT.splitlines()) if selected.select(line)] == numbers


def test_log_of_a_run_is_filtered(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "functions.log").write_text(TEXT)
    result = CliRunner().invoke(app, ["logs", "addon-apply", "--cluster", "second", "--dir", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 3
    result = CliRunner().invoke(app, ["logs", "nothing", "--dir", str(tmp_path)])
    assert result.exit_code == 1
    assert "there are: functions" in result.stderr
