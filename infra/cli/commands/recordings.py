"""The commands for recorded events: capture, replay."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from infra.cli.terminal.output import progress
from infra.operations.failure import Failure
from infra.operations.helm import helm_when_needed
from infra.operations.local_runs import token_for
from infra.operations.text import plain
from shared.api.conditions import counted

from ..options import TargetOptions
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import err, out
from ..terminal.signals import until_signal

if TYPE_CHECKING:
    from events.capture import Recording
    from shared.event import Event
    from shared.kube import Client
    from shared.runtime.answer import Answer

app = App()

_FIRST_LISTS = 60.0
"""Seconds to wait for the first list of every kind."""
LONGEST_WAIT = 31.0
"""Seconds: a replay waits for requeues up to this interval; longer ones wait for a user's action."""


@app.command(examples=["capture ./recording --seconds 60"])
def capture(
    *,
    folder: Annotated[Path, typer.Argument(help="New folder for the recording.")],
    management: TargetOptions,
    seconds: Annotated[float | None, typer.Option(help="Stop after so many seconds (default: at Ctrl-C).")] = None,
) -> None:
    """Record the CloudEvents of a management cluster and its users' objects, until Ctrl-C."""
    from events.capture import Capture
    from functions import catalog
    from infra.local import cluster_checks

    with report_failures(OSError), management.open() as target:
        everything = catalog.triggers()
        declared = cluster_checks.watchable(target.client, everything)
        if not declared:
            raise Failure("no right to list and watch any kind that functions watch: use another account")
        if denied := cluster_checks.not_in(declared, everything):
            err.print(f"[yellow]no right to list and watch {', '.join(denied)}: not recorded[/yellow]")
        recording = Capture(folder, target.client, declared)
        recording.start()
        recording.wait_synced(_FIRST_LISTS)
        until_signal(seconds, ready=lambda: out.print(f"recording into {escape(str(folder))}; Ctrl-C ends it"))
        result = recording.stop()
        out.print(f"{_content(result)} in {escape(str(folder))}")


@app.command(examples=["replay ./recording --inputs --shuffle 1"])
def replay(
    *,
    source: Annotated[Path, typer.Argument(help="Folder of a recording, or one of its files.", exists=True)],
    to: Annotated[
        str | None, typer.Option(help="Post the events to this URL (default: call the functions in this process).")
    ] = None,
    management: TargetOptions,
    inputs: Annotated[bool, typer.Option("--inputs", help="Apply the recorded objects of users first.")] = False,
    double: Annotated[bool, typer.Option("--double", help="Send each event twice.")] = False,
    shuffle: Annotated[int | None, typer.Option(help="Send the events in random order, with this seed.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds until everything must be reconciled.")] = 120.0,
) -> None:
    """Send recorded events again. In the cluster that they come from this changes nothing."""
    from events import replay as player
    from events.capture import load
    from shared.event import EventError

    with report_failures(EventError, OSError):
        recording = load(source)
        if not recording.events and not (inputs and recording.inputs):
            raise Failure(
                f"{source} contains no events: name a file of events, or the folder of a recording, which has them in "
                "events/ (the demo's recording is events/captured/demo)"
            )
        out.print(f"{_content(recording)} in {escape(str(source))}")
        with ExitStack() as stack:
            if inputs or to is None:
                target = stack.enter_context(management.open())
                out.print(f"management cluster: {escape(str(target))}")
                if inputs:
                    player.apply_inputs(target.client, recording.inputs)
            if to is not None:
                _send(recording, to, token_for(to, management.directory))
                return
            own = {"KUBECONFIG": os.pathsep.join(map(str, target.kubeconfig.files))}
            os.environ |= target.settings | own
            with helm_when_needed(progress):
                _call_functions(recording, target.client, double=double, shuffle=shuffle, timeout=timeout)


def _content(recording: Recording) -> str:
    return f"{counted(len(recording.events), 'event')} and {counted(len(recording.inputs), 'input')}"


def _send(recording: Recording, url: str, token: Path | None) -> None:
    from events import replay as player

    if not url.startswith(("http://", "https://")):
        raise typer.BadParameter(f"{url} must begin with http:// or https://", param_hint="--to")

    def tell(event: Event, answer: Answer) -> None:
        if answer.status >= 300:
            out.print(escape(f"{event.kind} {event.key}: {answer.status} {plain(answer.message)}"))

    statuses = player.replay_to(url, recording.events, token=token, progress=tell)
    out.print(", ".join(f"{count} x {status}" for status, count in sorted(statuses.items())))
    refused = sum(count for status, count in statuses.items() if status >= 300)
    if refused:
        raise Failure(f"{url} refused {refused} of {counted(len(recording.events), 'event')}")


def _call_functions(recording: Recording, client: Client, *, double: bool, shuffle: int | None, timeout: float) -> None:
    """Replays events with the functions in this process. Raises `Failure` if not everything is reconciled in time."""
    from events import replay as player
    from events.delivery import InProcessDelivery
    from events.dispatcher import Dispatcher
    from functions import catalog
    from shared.clients import Clients

    dispatcher = Dispatcher(catalog.triggers(), InProcessDelivery(catalog.handler, Clients(client)))
    try:
        idle = player.replay(
            recording.events,
            dispatcher,
            double=double,
            shuffle_seed=shuffle,
            timeout=timeout,
            ignore_waits_above=LONGEST_WAIT,
        )
        stats = dispatcher.stats
    finally:
        dispatcher.stop()
    answers = ", ".join(f"{count} x {status}" for status, count in sorted(stats.by_status.items()))
    out.print(f"{stats.delivered} calls: {answers}")
    if not idle:
        raise Failure(f"not everything is reconciled after {timeout:g} s; raise `--timeout`")
