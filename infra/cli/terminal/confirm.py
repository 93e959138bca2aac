"""Asks for confirmations."""

from __future__ import annotations

import sys

import typer

from infra.operations.failure import Failure


def confirm(question: str) -> None:
    """Asks the user. Raises `Failure` without a yes or without a terminal."""
    if not sys.stdin.isatty():
        raise Failure(f"{question} Nothing was changed, because there is no terminal for an answer: confirm with --yes")
    if not typer.confirm(question, err=True):
        raise Failure("nothing was changed")
