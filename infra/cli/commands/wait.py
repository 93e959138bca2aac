"""The commands `wait`: until objects of a management cluster are ready, have a condition, or are deleted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from infra.operations.waiting import WaitTimeout

from ..options import FormatOptions, Namespace, TargetOptions
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import err
from ..terminal.timeline import Timeline

if TYPE_CHECKING:
    from infra.operations.object_wait import ObjectWait

app = App(
    name="wait",
    help="Wait until objects are ready, have a condition, or are deleted. Exit code 1 after the timeout.",
    no_args_is_help=True,
)

_KINDS = {
    "clusters": "Clusters are available, and the addons of their classes are applied and ready",
    "stacks": "ClusterStacks are ready",
    "releases": "ClusterStackReleases are ready",
    "addons": "ClusterAddons are ready",
    "charts": "HelmChartProxies are ready in all selected Clusters",
    "helm-releases": "HelmReleaseProxies are ready",
    "sets": "ClusterResourceSets are applied",
    "rollouts": "ClusterRollouts have moved all Clusters, and these are ready",
    "providers": "providers are installed, by default in any namespace",
}


def _add(kind: str, text: str) -> None:
    def wait_until(
        *,
        names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names of objects.", show_default=False)],
        goal: Annotated[
            str,
            typer.Option(
                "--for",
                metavar="CONDITION[=STATUS]",
                help="Wait for this condition instead, such as Available=False, or for `delete`.",
                show_default=False,
            ),
        ] = "",
        timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait.")] = 600.0,
        namespace: Namespace = None,
        output: FormatOptions,
        management: TargetOptions,
    ) -> None:
        from infra.operations.listing import KINDS
        from infra.operations.object_wait import ObjectWait, parse_goal

        try:
            wanted = parse_goal(goal)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--for") from error
        with report_failures(), management.open() as target:
            place = "" if KINDS[kind].everywhere and not namespace else target.namespace(namespace)
            timeline = Timeline(err)
            waiting = ObjectWait(target.client, KINDS[kind], place, names, wanted)
            try:
                waiting.run(within=timeout, progress=timeline.say)
            except WaitTimeout:
                _print(waiting, output)
                raise
            _print(waiting, output)
            timeline.say(f"{', '.join(names)}: {wanted}", mark="✔", style="green")

    summary = f"Wait until {text}. The command also waits for objects that do not exist yet."
    examples = [f"wait {kind} NAME --timeout 300", f"wait {kind} NAME -o json", f"wait {kind} NAME --for delete"]
    app.add_for_kind(kind, wait_until, summary, examples)


def _print(waiting: ObjectWait, output: FormatOptions) -> None:
    if output.json:
        typer.echo(json.dumps(waiting.dump(), indent=2))


for _kind, _text in _KINDS.items():
    _add(_kind, _text)
