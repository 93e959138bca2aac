"""The commands `rollout`: how a chart or a class reaches its Clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from infra.operations.text import plain

from ..options import FormatOptions, Namespace, TargetOptions
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import out, print_either
from ..terminal.text import columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infra.operations.rollouts import RolloutReport

app = App(
    name="rollout",
    help="Show, plan, pause and resume the rollout of a chart or a class over many Clusters.",
    no_args_is_help=True,
)

Name = Annotated[
    str,
    typer.Argument(metavar="[KIND/]NAME", help="Name of a HelmChartProxy, or clusterrollout/NAME.", show_default=False),
]


@app.command(examples=["rollout status ingress -n fleet", "rollout status clusterrollout/next -o json"])
def status(*, name: Name, namespace: Namespace = None, output: FormatOptions, management: TargetOptions) -> None:
    """Show which Cluster has which version of the chart or class, which Clusters wait, and why. Changes nothing."""
    _report(name, namespace, output, management, _status_lines)


@app.command(examples=["rollout plan ingress -n fleet", "rollout plan clusterrollout/next -o json"])
def plan(*, name: Name, namespace: Namespace = None, output: FormatOptions, management: TargetOptions) -> None:
    """Show which Clusters change together, step after step, if all become ready. Changes nothing."""
    _report(name, namespace, output, management, _plan_lines)


@app.command(examples=["rollout pause ingress -n fleet", "rollout pause clusterrollout/next"])
def pause(*, name: Name, namespace: Namespace = None, management: TargetOptions) -> None:
    """Pause a rollout: no release or Cluster is changed until `rollout resume`."""
    _set_paused(name, namespace, management, paused=True)


@app.command(examples=["rollout resume ingress -n fleet", "rollout resume clusterrollout/next"])
def resume(*, name: Name, namespace: Namespace = None, management: TargetOptions) -> None:
    """Resume a paused rollout."""
    _set_paused(name, namespace, management, paused=False)


def _report(
    name: str,
    namespace: str | None,
    output: FormatOptions,
    management: TargetOptions,
    lines: Callable[[RolloutReport], Iterator[str]],
) -> None:
    from infra.operations.rollouts import parse_subject, read_rollout
    from shared.kube import Key

    with report_failures(), management.open() as target:
        resource, own_name = parse_subject(name)
        report = read_rollout(target.client, resource, Key(target.namespace(namespace), own_name))
        print_either(report.dump(), (*_heading(report), *lines(report)), as_json=output.json)


def _set_paused(name: str, namespace: str | None, management: TargetOptions, *, paused: bool) -> None:
    from infra.operations.rollouts import parse_subject, set_paused
    from shared.kube import Key

    with report_failures(), management.open() as target:
        resource, own_name = parse_subject(name)
        set_paused(target.client, resource, Key(target.namespace(namespace), own_name), paused=paused)
        out.print(f"the rollout of {name} is {'paused' if paused else 'resumed'}", markup=False)


def _heading(report: RolloutReport) -> Iterator[str]:
    done = sum(one.up_to_date and one.ready for one in report.members)
    version = plain(report.version) or "the newest version"
    yield f"{report.key.name}: {version} is ready in {done} of {len(report.members)} Clusters"
    if report.paused:
        yield f"paused: {report.paused}"
    for problem in report.problems:
        yield plain(problem)
    if report.removed:
        yield f"removed from Clusters that are no longer selected: {', '.join(report.removed)}"


def _status_lines(report: RolloutReport) -> Iterator[str]:
    rows = [
        (one.name, one.partition, plain(one.version, most=40) or "-", str(one.up_to_date), str(one.ready), one.reason)
        for one in report.members
    ]
    if rows:
        yield from columns([("CLUSTER", "PARTITION", "VERSION", "UP TO DATE", "READY", "REASON"), *rows])


def _plan_lines(report: RolloutReport) -> Iterator[str]:
    members = {one.name: one for one in report.members}
    rows = []
    for number, step in enumerate(report.steps, 1):
        for one in (members[name] for name in step):
            rows.append((str(number), one.partition, one.name, one.change, plain(one.version, most=40) or "-"))
    if rows:
        yield from columns([("STEP", "PARTITION", "CLUSTER", "CHANGE", "PRESENT VERSION"), *rows])
    elif not report.stuck:
        yield "nothing to change"
    for one in report.stuck:
        yield f"not planned: {one.name}: {one.reason}"
