"""The commands `local binaries`: versions of kube-apiserver and etcd on this machine, as in setup-envtest."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.local_control_plane.selectors import ANY

from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import err, out
from ..terminal.timeline import Timeline

if TYPE_CHECKING:
    from infra.local_control_plane.selectors import Selector

app = App(
    name="binaries",
    help="Install, list and delete versions of kube-apiserver and etcd, for `local up --kubernetes-version`, and for "
    "everything that reads $KUBEBUILDER_ASSETS.\n\n"
    "SELECTOR is one of: 1.36 or 1.36.x (the newest patch); 1.36.3; ~1.36.2 (that patch or a later one); <1.36.2; "
    "<=1.36.2; latest; latest-on-disk. An installed version suffices, but `!` after it, and latest, "
    "look for a newer one.",
    no_args_is_help=True,
)


class Print(StrEnum):
    """The output of `use`."""

    overview = "overview"
    path = "path"
    env = "env"


def selected(text: str) -> Selector:
    """Parses a selector. Raises `BadParameter`."""
    from infra.local_control_plane.selectors import parse_selector

    try:
        return parse_selector(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _checked(text: str) -> str:
    return selected(text).text


def _checked_range(text: str) -> str:
    if text in ANY:
        raise typer.BadParameter(f"{text} matches every version here; give a range, such as 1.35 or '<1.36'")
    return _checked(text)


Chosen = Annotated[str, typer.Argument(metavar="SELECTOR", callback=_checked, help="Which versions.")]
InstalledOnly = Annotated[
    bool,
    typer.Option("--installed-only", "-i", envvar="ENVTEST_INSTALLED_ONLY", help="Use no network, and build nothing."),
]
Index = Annotated[
    str,
    typer.Option(
        metavar="URL", help="List of archives to download (default: the list of controller-tools).", show_default=False
    ),
]


@app.command(examples=["local binaries use 1.36.x", 'eval "$(capi-functions local binaries use --print env)"'])
def use(
    selector: Chosen = "latest",
    installed_only: InstalledOnly = False,
    what: Annotated[
        Print, typer.Option("--print", "-p", help="The form of the output; env is for eval.")
    ] = Print.overview,
    index: Index = "",
) -> None:
    """Install a version unless it is installed, check it, and print its folder."""
    from infra.local_control_plane import store
    from infra.local_control_plane.binaries import this_platform

    with report_failures(OSError):
        version, folder = store.use(
            selected(selector), progress=Timeline(err).say, index=index or store.INDEX, installed_only=installed_only
        )
        if what is Print.path:
            typer.echo(folder, nl=False)
        elif what is Print.env:
            typer.echo(f"export KUBEBUILDER_ASSETS={shlex.quote(str(folder))}")
        else:
            out.print(f"Version: {version}\nOS/Arch: {this_platform().replace('-', '/')}\nPath: {folder}", markup=False)


@app.command("list", examples=["local binaries list --installed-only"])
def list_versions(
    selector: Chosen = "latest",
    installed_only: InstalledOnly = False,
    index: Index = "",
) -> None:
    """List versions, the newest first: installed ones, then those that can be downloaded or built, then packages."""
    from infra.local_control_plane import package, store
    from infra.local_control_plane.binaries import this_platform

    with report_failures(OSError):
        found = store.versions(
            selected(selector), progress=Timeline(err).say, index=index or store.INDEX, installed_only=installed_only
        )
        for version, state in found.items():
            out.print(f"({state})".ljust(13), f"{version!s:<10}", this_platform().replace("-", "/"), markup=False)
        for folder, version in package.unpacked().items():
            if selected(selector).matches(version):
                out.print("(package)".ljust(13), f"{version!s:<10}", folder, markup=False)


@app.command(examples=['local binaries cleanup "<1.35"'])
def cleanup(
    selector: Annotated[
        str, typer.Argument(metavar="SELECTOR", callback=_checked_range, help="Which versions.", show_default=False)
    ],
) -> None:
    """Delete the installed versions in a range, and unpacked packages with these versions that are not in use.

    Executables built from source stay in the cache.
    """
    from infra.local_control_plane import package, store

    progress = Timeline(err).say
    with report_failures(OSError):
        for version in store.remove(selected(selector), progress=progress):
            out.print(f"deleted {version}")
        for folder in package.remove(selected(selector), progress=progress):
            out.print(f"deleted {folder}", markup=False)


@app.command(examples=["local binaries sideload 1.36.2 envtest.tar.gz"])
def sideload(
    version: Annotated[str, typer.Argument(help="The version of the executables, such as 1.36.2.")],
    archive: Annotated[
        Path, typer.Argument(help="An archive of envtest for this machine, tar.gz or zip.", exists=True, dir_okay=False)
    ],
) -> None:
    """Install a version from a file, in place of an installed one of that number."""
    from infra.local_control_plane import store
    from infra.local_control_plane.selectors import parse_version

    try:
        number = parse_version(version)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with report_failures(OSError):
        folder = store.sideload(number, archive, progress=Timeline(err).say)
        out.print(f"installed {number} in {folder}", markup=False)
