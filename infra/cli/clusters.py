"""The commands for the addons of one cluster: render, plan, describe, rollback."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from shared.api.conditions import counted

from .connection import ManagementCluster, open_management_cluster
from .failures import Failure, report_failures
from .options import (
    ClusterName,
    ClusterOption,
    Context,
    Format,
    Hook,
    Json,
    Kubeconfig,
    Namespace,
    Output,
    RunDir,
)
from .output import Timeline, err, out
from .programs import helm_when_needed

if TYPE_CHECKING:
    from shared.kube import Object

Release = Annotated[
    str | None,
    typer.Option(help="Tag or folder of the release (default: that of the Cluster's class).", show_default=False),
]
ExitCode = Annotated[
    bool,
    typer.Option("--exit-code", help="Exit with 3 if the release would change something."),
]


def render(
    release: Annotated[Path, typer.Option(help="Folder of one release, named like its tag.", file_okay=False)],
    cluster: Annotated[
        Path, typer.Option(help="File with the Cluster and the objects that it refers to.", exists=True, dir_okay=False)
    ],
    control_plane: Annotated[Path | None, typer.Option(help="File with the control-plane object.", exists=True)] = None,
    infra: Annotated[Path | None, typer.Option(help="File with the infrastructure object.", exists=True)] = None,
    kube_version: Annotated[str | None, typer.Option(help="Kubernetes version (default: that of the release).")] = None,
    hook: Annotated[Hook, typer.Option(help="For releases with stages: the hook to render.")] = (Hook.FIRST),
) -> None:
    """Print the addon manifests of a release for a Cluster as YAML. Needs no running cluster."""
    from shared.charts import ChartError
    from shared.download import ReleaseNotFound, SourceError
    from shared.releases.naming import InvalidName
    from shared.releases.release import InvalidRelease

    from .manifests import dump
    from .render import remarks, siblings
    from .render import render as render_files

    with report_failures(ChartError, InvalidName, InvalidRelease, SourceError, OSError, ValueError), helm_when_needed():
        if not release.is_dir():
            raise ReleaseNotFound(release.name, *siblings(release))
        objects = render_files(
            release, cluster, control_plane=control_plane, infra=infra, kube_version=kube_version, hook=hook
        )
        for remark in remarks(release):
            err.print(f"note: {escape(remark)}")
        sys.stdout.write(dump(objects))


def plan(
    name: ClusterName = "",
    cluster: ClusterOption = "",
    namespace: Namespace = None,
    release: Release = None,
    output: Output = Format.text,
    as_json: Json = False,
    exit_code: ExitCode = False,
    directory: RunDir = None,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> None:
    """Show what a release would change in a cluster. Uses dry runs, and changes nothing."""
    from . import plan as planning
    from . import plan_text

    cluster_name = one_name(name, cluster)
    with report_failures(), helm_when_needed(), open_management_cluster(directory, kubeconfig, context) as target:
        os.environ |= target.settings
        plan = planning.plan(target.client, find_cluster(target, namespace, cluster_name), release)
        if as_json or output is Format.json:
            typer.echo(json.dumps(plan.dump(), indent=2))
        else:
            for line in plan_text.lines(plan):
                out.print(line)
    raise typer.Exit(plan.exit_code if exit_code or plan.is_blocked else 0)


def describe_cluster(
    name: Annotated[str, typer.Argument(help="Name of the Cluster.")],
    namespace: Namespace = None,
    output: Output = Format.text,
    as_json: Json = False,
    directory: RunDir = None,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> None:
    """Show a Cluster, the objects it refers to, its addons, and what they are waiting for."""
    from datetime import UTC, datetime

    from .describe.cluster_objects import gather
    from .describe.document import document
    from .describe.tree import show

    with report_failures(), open_management_cluster(directory, kubeconfig, context) as target:
        found = document(gather(target.client, find_cluster(target, namespace, name)), datetime.now(UTC))
        if as_json or output is Format.json:
            typer.echo(json.dumps(found, indent=2))
        else:
            show(out, found)


def rollback(
    name: ClusterName = "",
    cluster: ClusterOption = "",
    namespace: Namespace = None,
    undo: Annotated[bool, typer.Option("--undo", help="End a rollback: roll out the Cluster's class again.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done.")] = True,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 120.0,
    directory: RunDir = None,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> None:
    """Roll back to the former addons, without their release. Lasts until undone, or until the class changes."""
    from shared.kube import key_of

    from . import rollback as back

    cluster_name = one_name(name, cluster)
    with report_failures(), open_management_cluster(directory, kubeconfig, context) as target:
        found = find_cluster(target, namespace, cluster_name)
        addon = back.addon_of_cluster(target.client, found)
        timeline = Timeline()
        timeline.say(f"management cluster: {target}")
        if undo:
            timeline.say(f"rolling out again: {back.cancel_rollback(target.client, found, addon)}")
        else:
            manifest = back.request_rollback(target.client, found, addon)
            size = f"addons {manifest.version}, {counted(len(manifest.objects), 'object')}"
            timeline.say(f"rolling back to {manifest.class_name} ({size})")
        obstacle = back.wait_obstacle(found)
        if not wait or obstacle:
            timeline.say(f"requested{f', not waited for: {obstacle}' if obstacle else ''}")
            return
        back.wait_until_applied(target.client, key_of(found), within=timeout, progress=timeline.say, before=addon)
        timeline.say(
            "done" if undo else "done; the same command with --undo ends the rollback", mark="✔", style="green"
        )


def one_name(name: str, option: str) -> str:
    """Returns the Cluster's name, given as argument or as option; raises `BadParameter` for none or both."""
    if bool(name) is bool(option):
        raise typer.BadParameter("name one Cluster, as in `demo`, or `--cluster demo`")
    return name or option


def find_cluster(target: ManagementCluster, namespace: str | None, name: str) -> Object:
    """Returns the Cluster; raises `Failure` if it does not exist."""
    from shared.api.resources import CLUSTER
    from shared.kube import Key

    key = Key(target.namespace(namespace), name)
    found = target.client.find(CLUSTER, key)
    if found is None:
        where = "choose the namespace with `-n`, the management cluster with `--kubeconfig` and `--context`"
        raise Failure(f"Cluster {key} does not exist; {where}")
    return found


def register(app: typer.Typer) -> None:
    """Adds plan, describe and rollback to `app`."""
    describe = typer.Typer(help="Show the state of an object.", no_args_is_help=True)
    describe.command("cluster")(describe_cluster)
    app.command()(plan)
    app.add_typer(describe, name="describe")
    app.command()(rollback)
