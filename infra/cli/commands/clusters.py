"""The commands for the addons of one cluster: render, rollback."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from infra.cli.terminal.output import progress
from infra.operations.failure import Failure
from infra.operations.helm import helm_when_needed
from infra.operations.management_cluster import ManagementCluster
from shared.api.conditions import counted

from ..options import Hook, Namespace, TargetOptions
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import err
from ..terminal.timeline import Timeline

if TYPE_CHECKING:
    from shared.kube import Object

app = App()


@dataclass(frozen=True)
class ClusterOptions:
    """The options that name one Cluster. Raises `BadParameter` if they name none or two."""

    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the Cluster.", show_default=False)] = ""
    cluster: Annotated[str, typer.Option("--cluster", help="Same as NAME.", show_default=False)] = ""
    namespace: Namespace = None

    def __post_init__(self) -> None:
        if bool(self.name) is bool(self.cluster):
            raise typer.BadParameter("name one Cluster, as in `demo`, or `--cluster demo`")

    def find(self, target: ManagementCluster) -> Object:
        """Returns the Cluster. Raises `Failure` if it does not exist."""
        return find_cluster(target, self.namespace, self.name or self.cluster)


@app.command(examples=["render --release releases/local-demo-1-36-v1 --cluster cluster.yaml"])
def render(
    release: Annotated[Path, typer.Option(help="Folder of one release, named like its tag.", file_okay=False)],
    cluster: Annotated[
        Path, typer.Option(help="File with the Cluster and the objects that it refers to.", exists=True, dir_okay=False)
    ],
    control_plane: Annotated[Path | None, typer.Option(help="File with the control-plane object.", exists=True)] = None,
    infra: Annotated[Path | None, typer.Option(help="File with the infrastructure object.", exists=True)] = None,
    kube_version: Annotated[str | None, typer.Option(help="Kubernetes version (default: the release's).")] = None,
    hook: Annotated[Hook, typer.Option(help="For releases with stages: the hook to render.")] = (Hook.FIRST),
) -> None:
    """Print the addon manifests of a release for a Cluster as YAML. Needs no running cluster."""
    from infra.operations.addons.render import remarks, siblings
    from infra.operations.addons.render import render as render_files
    from infra.operations.manifests import dump
    from shared.charts import ChartError
    from shared.download import ReleaseNotFound, SourceError
    from shared.releases.naming import InvalidName
    from shared.releases.release import InvalidRelease

    with (
        report_failures(ChartError, InvalidName, InvalidRelease, SourceError, OSError, ValueError),
        helm_when_needed(progress),
    ):
        if not release.is_dir():
            raise ReleaseNotFound(release.name, *siblings(release))
        objects = render_files(
            release, cluster, control_plane=control_plane, infra=infra, kube_version=kube_version, hook=hook
        )
        for remark in remarks(release):
            err.print(f"note: {escape(remark)}")
        sys.stdout.write(dump(objects))


@app.command(examples=["rollback demo", "rollback demo --undo"])
def rollback(
    *,
    cluster: ClusterOptions,
    undo: Annotated[bool, typer.Option("--undo", help="End a rollback: roll out the Cluster's class again.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done.")] = True,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 120.0,
    management: TargetOptions,
) -> None:
    """Roll back to the former addons, without their release. Lasts until undone, or until the class changes."""
    from infra.operations.addons import rollback as back
    from shared.kube import key_of

    with report_failures(), management.open() as target:
        found = cluster.find(target)
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


def find_cluster(target: ManagementCluster, namespace: str | None, name: str) -> Object:
    """Returns the Cluster; raises `Failure` if it does not exist."""
    from infra.operations.clusters import get_cluster
    from shared.kube import Key

    try:
        return get_cluster(target.client, Key(target.namespace(namespace), name))
    except Failure as error:
        where = "choose the namespace with `-n`, the management cluster with `--kubeconfig` and `--context`"
        raise Failure(f"{error}; {where}") from error
