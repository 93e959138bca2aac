"""How commands report failures that a user can act on."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from infra.cli.terminal.failures import report_failures, usable_folder
from infra.operations.failure import Failure
from shared.kube.errors import Unavailable


@pytest.mark.parametrize("error", [Failure("no [file]"), Unavailable("no server"), TimeoutError("no CRD after 30 s")])
def test_expected_failure_is_one_line_and_exit_code_1(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, report_failures():
        raise error
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err.splitlines() == [f"error: {error}"]


def test_failure_passes_no_escape_sequence_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), report_failures():
        raise Failure("class has the patch \x1b]0;title\x07\x1b[2J\u202e, and\na second line")
    shown = capsys.readouterr().err
    assert shown == "error: class has the patch \\x1b]0;title\\x07\\x1b[2J\\x202e, and\na second line\n"


def test_interrupted_command_exits_with_130() -> None:
    with pytest.raises(typer.Exit) as ended, report_failures():
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130


def test_unexpected_error_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), report_failures():
        raise ZeroDivisionError


@pytest.mark.parametrize("below", ["", "/folder"])
def test_folder_that_is_a_file_is_a_failure_with_the_remedy(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    folder = Path(f"{tmp_path}/file{below}")
    with pytest.raises(Failure, match=f"{folder}: .*; choose another"), usable_folder(folder, "choose another"):
        folder.mkdir(parents=True)


def test_folder_below_proc_is_a_failure_with_the_remedy() -> None:
    folder = Path("/proc/no-such-folder")
    with (
        pytest.raises(Failure, match=r"/proc/no-such-folder: .*; choose another"),
        usable_folder(folder, "choose another"),
    ):
        folder.mkdir(parents=True)


def test_missing_file_elsewhere_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), usable_folder(tmp_path / "run", "choose another"):
        (tmp_path / "other").read_text()
