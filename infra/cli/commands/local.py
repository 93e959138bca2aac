"""The commands `local`: control planes of this machine, several side by side, each with a name."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.local_control_plane import ControlPlaneError
from infra.operations.failure import Failure

from ..options import ApiServerFlags, ComponentsOption, EtcdFlags, Family, Format, From, ManagerOption, Output, Yes
from ..terminal.confirm import confirm
from ..terminal.failures import report_failures, usable_folder
from ..terminal.logs import Follow, print_log
from ..terminal.option_groups import App
from ..terminal.output import err, out
from ..terminal.timeline import Timeline
from .binaries import app as binaries
from .binaries import selected

if TYPE_CHECKING:
    from infra.local_control_plane import Status

DEFAULT = "default"
SERVERS = ("kube-apiserver", "etcd", "supervisor")

Name = Annotated[str, typer.Argument(help="Name of the control plane.")]

app = App(
    name="local",
    help="Run control planes on this machine: kube-apiserver and etcd, without Docker, several side by side.",
    no_args_is_help=True,
)
app.add_typer(binaries)


def root() -> Path:
    """Returns the folder of the control planes: $CAPI_FUNCTIONS_PLANES, else one in $XDG_STATE_HOME."""
    if given := os.environ.get("CAPI_FUNCTIONS_PLANES"):
        return Path(given).absolute()
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state, "capi-functions", "planes")


@app.command(examples=["local up", "local up second --controllers --nodes 3"])
def up(
    name: Name = DEFAULT,
    controllers: Annotated[
        bool, typer.Option("--controllers", help="Run kube-controller-manager, the scheduler and kwok too.")
    ] = False,
    nodes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="N nodes of kwok (default: 2); implies --controllers.",
            show_default=False,
        ),
    ] = None,
    crds: Annotated[
        list[Path] | None, typer.Option(help="File or folder with CRDs to install; repeatable.", exists=True)
    ] = None,
    kubernetes_version: Annotated[
        str,
        typer.Option(
            metavar="SELECTOR",
            callback=lambda text: text and selected(text).text,
            help="Version of Kubernetes, as in `local binaries use` (default: the pinned one).",
            show_default=False,
        ),
    ] = "",
    package: From = None,
    ip_family: Family = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="Seconds until it must be ready (default: $KUBEBUILDER_CONTROLPLANE_START_TIMEOUT, else 60).",
            show_default=False,
        ),
    ] = None,
    api_server_flag: ApiServerFlags = None,
    etcd_flag: EtcdFlags = None,
) -> None:
    """Start a control plane. It runs until `down`, and keeps its data."""
    from infra import local_control_plane
    from infra.local_control_plane.control_plane import ControlPlane
    from infra.local_control_plane.controllers import NODES
    from shared.kube import ApiError

    directory = _directory(name)
    controllers = controllers or nodes is not None
    timeline = Timeline(err)
    if package and kubernetes_version:
        raise typer.BadParameter(
            "a package contains one version of Kubernetes: leave out --kubernetes-version", param_hint="--from"
        )
    with (
        report_failures(ControlPlaneError, OSError, ApiError, ValueError),
        usable_folder(root(), "$CAPI_FUNCTIONS_PLANES names another folder"),
    ):
        if local_control_plane.status(directory).phase == "ready":
            timeline.say(f"{name} is already running")
            if controllers or kubernetes_version or package or ip_family or api_server_flag or etcd_flag:
                stop = shlex.join(["capi-functions", "local", "down", name])
                timeline.say(
                    f"it keeps the options of its start; `{stop}` first, to start it with others", style="yellow"
                )
        else:
            local_control_plane.start(
                directory,
                progress=timeline.say,
                timeout=timeout,
                controllers=controllers,
                nodes=NODES if nodes is None else nodes,
                kubernetes_version=kubernetes_version,
                ip_family=ip_family.value if ip_family else "",
                binaries=_unpacked(package, controllers, timeline) if package else None,
                api_server_flags=api_server_flag or (),
                etcd_flags=etcd_flag or (),
            )
        if crds:
            ControlPlane(directory).install_crds(*crds)
            timeline.say("CRDs are installed")
        timeline.say(f"{name} is ready at {local_control_plane.status(directory).url}", mark="✔", style="green")
        _print_environment(directory)


@app.command("package", examples=["local package --output cluster-api.zip"])
def build_package(
    target: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("cluster-api.zip"),
    controllers: Annotated[
        bool, typer.Option("--controllers", help="Add kube-controller-manager, the scheduler and kwok.")
    ] = False,
    providers: Annotated[
        bool, typer.Option(help="Add the managers and components of Cluster API, kubeadm and docker.")
    ] = True,
    manager: ManagerOption = None,
    components: ComponentsOption = None,
) -> None:
    """Build a package for `local up --from` on machines of this platform without Go and network.

    It has kube-apiserver, etcd, helm, and the managers and components of providers, in the versions that this program
    pins, with digests and licences. Needs Go. Only what is missing is built; the same content gives the same bytes.
    """
    from subprocess import CalledProcessError

    from infra.local_control_plane.modules import SourceNotFound
    from infra.operations.providers.local_managers import given_managers
    from infra.packaging.build import build, gather

    timeline = Timeline(err)
    with report_failures(CalledProcessError, OSError, SourceNotFound):
        added = given_managers(manager or [], components).packaged(timeline.say)
        content = gather(timeline.say, controllers=controllers, managers=providers, added=added)
        built = build(target, content, timeline.say)
        size = f"{target.stat().st_size / 1e6:.0f} MB"
        timeline.say(f"{target} {'is written' if built.changed else 'is up to date'}: {size}", mark="✔", style="green")


@app.command(examples=["local down", "local down --all"])
def down(
    name: Name = DEFAULT,
    all_planes: Annotated[bool, typer.Option("--all", help="Stop all control planes.")] = False,
) -> None:
    """Stop a control plane, and keep its data."""
    from infra import local_control_plane

    with report_failures(ControlPlaneError):
        for directory in _directories() if all_planes else [_existing(name)]:
            local_control_plane.stop(directory)
            start = shlex.join(["capi-functions", "local", "up", directory.name])
            out.print(f"{directory.name} is stopped; `{start}` starts it again")
            if str(directory) in os.environ.get("KUBECONFIG", ""):
                out.print("KUBECONFIG still names it; `unset KUBECONFIG` lets commands use other clusters again")


@app.command(examples=["local status", "local status -o json"])
def status(output: Output = Format.text) -> None:
    """List the control planes, with phase and address."""
    from infra import local_control_plane

    found = {directory.name: local_control_plane.status(directory) for directory in _directories()}
    if output is Format.json:
        typer.echo(json.dumps({name: _dump(name, each) for name, each in found.items()}, indent=2))
        return
    if not found:
        out.print(f"no control plane in {root()}; `capi-functions local up` starts one")
    for name, each in found.items():
        out.print(f"{name:<16} {each.phase:<9} {each.url}{f'  {each.error}' if each.error else ''}", markup=False)


@app.command(examples=['eval "$(capi-functions local env)"'])
def env(name: Name = DEFAULT) -> None:
    """Print the shell command that sets KUBECONFIG."""
    with report_failures():
        _print_environment(_existing(name))


@app.command(examples=["local logs --server etcd --follow"])
def logs(
    name: Name = DEFAULT,
    server: Annotated[str, typer.Option(help=f"The server: {', '.join(SERVERS)}, or a controller.")] = SERVERS[0],
    follow: Follow = False,
) -> None:
    """Print the log of a server."""
    with report_failures():
        print_log(_existing(name) / "logs", server, follow=follow)


@app.command(examples=["local reset second --yes"])
def reset(
    name: Name = DEFAULT,
    yes: Yes = False,
) -> None:
    """Stop a control plane and delete its data, certificates and logs."""
    from infra import local_control_plane

    with report_failures(ControlPlaneError, OSError):
        directory = _existing(name)
        if not yes:
            confirm(f"Delete all data of {name} in {directory}?")
        local_control_plane.remove(directory)
        out.print(f"{name} is deleted")


def _unpacked(package: Path, controllers: bool, timeline: Timeline) -> Mapping[str, Path]:
    """Returns the executables of a package. Raises `BinaryNotFound`."""
    from infra.local_control_plane.binaries import EXECUTABLES
    from infra.local_control_plane.controllers import NAMES
    from infra.local_control_plane.package import opened

    wanted = [*EXECUTABLES, *(NAMES if controllers else ())]
    return opened(package, progress=timeline.say).executables(wanted)


def _directory(name: str) -> Path:
    """Returns the folder of a control plane. Raises `BadParameter` for a name that is not a file name."""
    if not name or name.startswith(".") or os.sep in name:
        raise typer.BadParameter(f"{name!r} must be a file name that does not begin with a dot")
    return root() / name


def _existing(name: str) -> Path:
    directory = _directory(name)
    if directory not in _directories():
        names = ", ".join(each.name for each in _directories()) or "none"
        start = shlex.join(["capi-functions", "local", "up", name])
        raise Failure(f"there is no control plane {name}; there are: {names}; `{start}` starts it")
    return directory


def _directories() -> list[Path]:
    """Returns the folders of all control planes, sorted."""
    return sorted(path.parent for path in root().glob("*/state.json"))


def _dump(name: str, status: Status) -> dict[str, object]:
    """Returns the status of a control plane as JSON."""
    from infra import local_control_plane

    return {
        "phase": status.phase,
        "url": status.url,
        "error": status.error,
        "pid": status.pid,
        "kubeconfig": str(local_control_plane.kubeconfig(_directory(name))),
    }


def _print_environment(directory: Path) -> None:
    from infra import local_control_plane

    typer.echo(f"export KUBECONFIG={shlex.quote(str(local_control_plane.kubeconfig(directory)))}")
