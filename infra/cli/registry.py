"""The credentials of an OCI registry, as options of commands and environment variables name them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shared.download.access import Access


@dataclass(frozen=True)
class RegistryOptions:
    """The options for a registry that is written to."""

    username: Annotated[str, typer.Option(help="User of the registry.", envvar="OCI_USERNAME")] = ""
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input instead of $OCI_PASSWORD.")
    ] = False
    ca_file: Annotated[
        Path | None, typer.Option(help="Certificates (PEM) to trust beside the system's.", exists=True, dir_okay=False)
    ] = None

    def access(self) -> Access:
        """Returns the credentials. Raises `OSError` if the file cannot be read."""
        from shared.download.access import Access

        password = sys.stdin.readline().rstrip("\r\n") if self.password_stdin else os.environ.get("OCI_PASSWORD", "")
        return Access(username=self.username, password=password, ca=self.ca_file.read_text() if self.ca_file else "")
