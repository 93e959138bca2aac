"""The command `bench fleet`."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.operations.bench import PROGRESS_INTERVAL
from infra.operations.failure import Failure
from infra.operations.management_cluster import ManagementCluster
from infra.operations.waiting import WaitTimeout
from shared.api.conditions import counted

from ..options import FormatOptions, TargetOptions
from ..terminal.confirm import confirm
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import err, out
from ..terminal.timeline import Timeline

if TYPE_CHECKING:
    from infra.operations.bench.load import Load, WorkloadCluster

RELEASE = "local-fleet-1-36-v1"
"""The release for loads, in infra/demo/releases: small objects in a namespace for each Cluster, no pods."""

app = App(name="bench", help="Load a management cluster of yours, and measure.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Declares a group, which has one command so far."""


@app.command(examples=["bench fleet --clusters 100", "bench fleet --clean-up --yes"])
def fleet(
    *,
    clusters: Annotated[int, typer.Option(min=1, max=100_000, help="Number of Clusters.")] = 10,
    release: Annotated[
        str,
        typer.Option(
            metavar="[NAMESPACE/]CLASS",
            help="Class of the Clusters: names the release that is rolled out, and which must be published.",
        ),
    ] = RELEASE,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the Clusters, which is created.")
    ] = "capi-functions-bench",
    workload_kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="The cluster that all Clusters stand for (default: the management cluster itself).",
            exists=True,
            dir_okay=False,
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before writing.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Delete nothing at the end; the next run does.")] = False,
    clean_up: Annotated[bool, typer.Option("--clean-up", help="Only delete leftovers of a former run.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for readiness, and again for deletion.")] = 900.0,
    output: FormatOptions,
    management: TargetOptions,
) -> None:
    """Create Clusters, wait until the addons of all are Ready, print the time, and delete the created objects.

    All Clusters have kubeconfigs of one workload cluster. Leftovers of a killed run are deleted first.
    """
    from infra.operations.bench.load import Load, WorkloadCluster
    from infra.operations.bench.removal import remove

    timeline = Timeline(err if output.json else out)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # deletes as Ctrl-C does
    with report_failures(), management.open() as target:
        class_namespace, _, class_name = release.rpartition("/")
        load = Load(clusters, namespace, class_name, class_namespace)
        if clean_up:
            _ask(yes, timeline, [f"deletes namespace {namespace}, if it is of a load, in {target}"])
            remove(target.client, namespace, timeline.say, timeout)
            timeline.say("nothing is left", mark="✔", style="green")
            return
        if workload_kubeconfig is None and class_name != RELEASE:
            raise Failure(
                f"{class_name} would be rolled out to the management cluster itself: "
                "name a workload cluster with --workload-kubeconfig"
            )
        workload = (
            WorkloadCluster.load(workload_kubeconfig) if workload_kubeconfig else WorkloadCluster.of(target.kubeconfig)
        )
        _ask(yes, timeline, _intentions(load, target, workload))
        remove(target.client, namespace, timeline.say, timeout)
        with nullcontext() if keep else _deleted_after(load, target, timeline, timeout):
            found = _measure(load, target, workload, timeline, timeout)
            timeline.say(_summary(clusters, found), mark="✔", style="bold")
        if output.json:
            typer.echo(json.dumps({"clusters": clusters, **found}, indent=2))


def _intentions(load: Load, target: ManagementCluster, workload: WorkloadCluster) -> list[str]:
    content = f"{counted(load.clusters, 'Cluster')} of class {load.class_name} and their Secrets"
    return [
        f"management cluster: {target}",
        f"  creates namespace {load.namespace} with {content}",
        f"workload cluster: {workload.name}",
        "  the functions apply the release to it once for each Cluster",
    ]


def _ask(yes: bool, timeline: Timeline, lines: list[str]) -> None:
    """Prints what will be written, and requests a confirmation unless `--yes` is given. Raises `Failure` without it."""
    for line in lines:
        timeline.say(line)
    if not yes:
        confirm("Continue?")


def _measure(
    load: Load, target: ManagementCluster, workload: WorkloadCluster, timeline: Timeline, timeout: float
) -> dict[str, float]:
    from infra.operations.bench.load import create_clusters, create_namespaces, create_secrets
    from infra.operations.bench.readiness import Readiness, figures

    client = workload.client()
    try:
        version = client.version().partition("+")[0]
        create_namespaces(load, target.client, client)
    finally:
        client.close()
    create_secrets(load, target.client, workload, _progress(timeline, load.clusters, "Secrets"))
    with Readiness(target.client, load) as readiness:
        created = create_clusters(load, target.client, version, _progress(timeline, load.clusters, "Clusters"))
        readiness.wait(timeout, timeline.say)
        return {name: round(seconds, 3) for name, seconds in figures(created, readiness.ready).items()}


@contextmanager
def _deleted_after(load: Load, target: ManagementCluster, timeline: Timeline, timeout: float) -> Iterator[None]:
    """Deletes the load after the block. A failure of the block takes precedence."""
    from infra.operations.bench.removal import remove
    from shared.kube import ApiError

    failed = True
    try:
        yield
        failed = False
    finally:
        timeline.say("deleting; Ctrl-C leaves the rest to the next run")
        try:
            remove(target.client, load.namespace, timeline.say, timeout)
            timeline.say("nothing is left", mark="✔", style="green")
        except (ApiError, Failure, WaitTimeout) as problem:
            if not failed:
                raise
            timeline.say(f"not deleted: {problem}", mark="✘", style="red")


def _progress(timeline: Timeline, total: int, what: str) -> Callable[[int], None]:
    """Returns a function that prints the number of created objects, at most every `PROGRESS_INTERVAL` seconds."""
    reported_at = timeline.now

    def done(number: int) -> None:
        nonlocal reported_at
        if number == total or timeline.now - reported_at > PROGRESS_INTERVAL:
            reported_at = timeline.now
            timeline.say(f"{number} of {total} {what} created")

    return done


def _summary(clusters: int, found: dict[str, float]) -> str:
    rate = clusters / found["seconds"]
    return (
        f"{counted(clusters, 'Cluster')} Ready in {found['seconds']:.2f} s ({rate:.1f} a second); "
        f"one Cluster: p50 {found['p50']:.2f} s, p99 {found['p99']:.2f} s, slowest {found['slowest']:.2f} s"
    )
