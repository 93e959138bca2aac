"""The commands about all addons of one cluster: remove."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from ..options import TargetOptions, Yes
from ..terminal.confirm import confirm
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import out
from ..terminal.timeline import Timeline
from .clusters import ClusterOptions

app = App(name="addons", help="Remove the addons of a cluster.", no_args_is_help=True)


@app.command(examples=["addons remove demo", "addons remove demo --undo"])
def remove(
    *,
    cluster: ClusterOptions,
    undo: Annotated[bool, typer.Option("--undo", help="End the removal: apply the addons again.")] = False,
    yes: Yes = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done.")] = True,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 120.0,
    management: TargetOptions,
) -> None:
    """Remove the addons from a workload cluster. Lasts until undone, whatever class the Cluster gets."""
    from infra.operations.addons import removal, rollback
    from shared.api import cluster as cluster_api
    from shared.kube import key_of

    with report_failures(), management.open() as target:
        found = cluster.find(target)
        timeline = Timeline()
        timeline.say(f"management cluster: {target}")
        addon = rollback.addon_of_cluster(target.client, found)
        if undo:
            removal.cancel_removal(target.client, found)
            timeline.say("applying the addons of the Cluster's class again")
        else:
            what = removal.summarize(addon)
            if not yes:
                confirm(f"Remove {what} of the addons from the workload cluster {key_of(found)}?")
            removal.request_removal(target.client, found)
            timeline.say(f"removing {what}")
        obstacle = rollback.wait_obstacle(found)
        if undo and not cluster_api.class_name(found):
            obstacle = "the Cluster has no class"
        if not wait or obstacle:
            timeline.say(f"requested{f', not waited for: {obstacle}' if obstacle else ''}")
            return
        rollback.wait_until_applied(target.client, key_of(found), within=timeout, progress=timeline.say, before=addon)
        if not undo:
            for line in removal.what_stays(rollback.addon_of_cluster(target.client, found)):
                out.print(f"  {escape(line)}")
        timeline.say(
            "done" if undo else "done; the same command with --undo applies them again", mark="✔", style="green"
        )
