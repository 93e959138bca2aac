"""How commands report failures that a user can act on."""

from __future__ import annotations

import pytest
import typer

from infra.cli.failures import Failure, report_failures
from shared.kube.errors import Unavailable


@pytest.mark.parametrize("error", [Failure("no [file]"), Unavailable("no server"), TimeoutError("no CRD after 30 s")])
def test_expected_failure_is_one_line_and_exit_code_1(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, report_failures():
        raise error
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err.splitlines() == [f"error: {error}"]


def test_interrupted_command_exits_with_130() -> None:
    with pytest.raises(typer.Exit) as ended, report_failures():
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130


def test_unexpected_error_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), report_failures():
        raise ZeroDivisionError
