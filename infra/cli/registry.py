"""The credentials of an OCI registry, as options of commands and environment variables name them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shared.download.access import Access

Username = Annotated[str, typer.Option(help="User of the registry.", envvar="OCI_USERNAME")]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input instead of $OCI_PASSWORD.")
]
CaFile = Annotated[
    Path | None, typer.Option(help="Certificates (PEM) to trust beside the system's.", exists=True, dir_okay=False)
]


def registry_access(username: str, ca_file: Path | None = None, *, password_stdin: bool = False) -> Access:
    """Returns the credentials. Raises `OSError` if the file cannot be read."""
    from shared.download.access import Access

    password = sys.stdin.readline().rstrip("\r\n") if password_stdin else os.environ.get("OCI_PASSWORD", "")
    return Access(username=username, password=password, ca=ca_file.read_text() if ca_file else "")
