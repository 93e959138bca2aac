"""`release`: what authors of cluster stacks do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from .failures import failures
from .output import out

app = typer.Typer(name="release", help="Lint and publish releases of cluster stacks.", no_args_is_help=True)

Folder = Annotated[
    Path, typer.Argument(help="Folder of one release, named like its tag.", exists=True, file_okay=False)
]


@app.command()
def lint(
    folder: Folder,
    cluster: Annotated[
        list[Path] | None,
        typer.Option(
            help="File with a Cluster and the objects it refers to, instead of the built-in samples; may be repeated.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print findings as a JSON list.")] = False,
) -> None:
    """Check a release without a cluster: a line for each finding, exit code 1 if one is an error."""
    import json
    from dataclasses import asdict

    from infra.releases.lint import lint as check
    from infra.releases.samples import of_file

    with failures(ValueError, OSError):
        findings = check(folder, [of_file(path) for path in cluster or ()])
    if as_json:
        sys.stdout.write(json.dumps([asdict(finding) for finding in findings], indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{finding}\n" for finding in findings)
    raise typer.Exit(1 if any(finding.severity == "error" for finding in findings) else 0)


@app.command()
def push(
    folder: Folder,
    to: Annotated[
        str, typer.Argument(help="A folder, s3://<bucket>/<prefix>, oci:// or oci+http://<registry>/<name>.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace a different release of the same name.")] = False,
    username: Annotated[str, typer.Option(help="For the registry.", envvar="OCI_USERNAME")] = "",
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password here, not from $OCI_PASSWORD.")
    ] = False,
    ca_file: Annotated[
        Path | None, typer.Option(help="Certificates (PEM) to trust beside the system's.", exists=True, dir_okay=False)
    ] = None,
) -> None:
    """Publish a release: complete or invisible, and never over a different one. S3 takes the usual AWS variables."""
    import os

    from infra.releases.push import PushError
    from infra.releases.push import push as publish
    from shared.releases.naming import InvalidName
    from shared.releases.release import InvalidRelease
    from shared.releases.sources import SourceError
    from shared.releases.sources.access import Access
    from shared.storage import StorageError

    with failures(PushError, InvalidName, InvalidRelease, SourceError, StorageError, OSError):
        password = sys.stdin.readline().rstrip("\r\n") if password_stdin else os.environ.get("OCI_PASSWORD", "")
        authority = ca_file.read_text() if ca_file else ""
        access = Access(username=username, password=password, authority=authority)
        outcome = publish(folder, to, access, force=force)
        out.print(f"{outcome}: {escape(folder.resolve().name)} in {escape(to)}")
