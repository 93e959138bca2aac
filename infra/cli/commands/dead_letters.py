"""`dead-letter`: the commands for events that no function handled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from infra.operations.failure import Failure
from infra.operations.local_runs import DEFAULT_DIR, running, token_for
from infra.operations.management_cluster import open_management_cluster
from infra.operations.text import age, plain
from shared.settings import NAMESPACE

from ..options import Context, EventsTo, Format, Output, require_url
from ..terminal.failures import report_failures
from ..terminal.option_groups import App
from ..terminal.output import err, out, print_either
from ..terminal.text import columns

if TYPE_CHECKING:
    from shared.dead_letters import DeadLetter, DeadLetters

app = App(
    name="dead-letter",
    help="List, show, send again and drop the events that no function handled.",
    no_args_is_help=True,
)

Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids of letters.", show_default=False)]
All = Annotated[bool, typer.Option("--all", help="All letters.")]
RunDir = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        "-d",
        help="Use the run in this folder (default: the object store of $CAPI_FUNCTIONS_STORE, or of "
        "$S3_ENDPOINT_URL and $CAPI_FUNCTIONS_BUCKET, else the run in .capi-functions).",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class StoreOptions:
    """The options that name the object store of a command."""

    directory: RunDir = None
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="Kubeconfig of a management cluster: use the store that its functions use.", show_default=False
        ),
    ] = None
    context: Context = ""
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the functions.")] = NAMESPACE

    def settings(self) -> Mapping[str, str]:
        """Returns the settings that name the object store. Raises `Failure` if nothing does."""
        if self.kubeconfig is None and not self.context:
            return _settings(self.directory)
        from infra.operations.deployed_store import store_settings

        with open_management_cluster(None, self.kubeconfig, self.context) as target:
            return _settings(target.run) if target.run else store_settings(target.client, self.namespace)


@app.command("list", examples=["dead-letter list", "dead-letter list --context management -o json"])
def list_letters(*, output: Output = Format.text, store: StoreOptions) -> None:
    """List the letters, the newest first."""
    from shared.storage import StorageError

    with report_failures(StorageError):
        letters = _letters(store.settings()).list()
    lines = table(letters, datetime.now(UTC))
    print_either([letter.dump() for letter in letters], lines, as_json=output is Format.json)


@app.command(examples=["dead-letter show 3f2a9c"])
def show(
    *,
    name: Annotated[str, typer.Argument(metavar="ID", help="Id of a letter.", show_default=False)],
    store: StoreOptions,
) -> None:
    """Show one letter as YAML: which event, which answer, when and how often."""
    from infra.operations.manifests import dump
    from shared.storage import StorageError

    with report_failures(StorageError):
        [letter] = _chosen(_letters(store.settings()), [name], every=False)
    typer.echo(dump([letter.dump()]), nl=False)


@app.command(examples=["dead-letter replay 3f2a9c", "dead-letter replay --all"])
def replay(
    *,
    names: Ids = None,
    every: All = False,
    to: EventsTo = "",
    store: StoreOptions,
) -> None:
    """Make functions look at the objects of letters again, and drop the letters.

    The sent event names the object without its content, so an old letter is harmless.

    An event that is rejected again becomes a letter again.
    """
    from shared.storage import StorageError

    with report_failures(StorageError):
        settings = store.settings()
        kept = _letters(settings)
        url = require_url(to or settings.get("K_SINK", ""))
        token = token_for(url, store.directory)
        left = [letter.id for letter in _chosen(kept, names, every=every) if not _replay(kept, letter, url, token)]
        if left:
            raise Failure(f"not sent, and still stored: {', '.join(left)}")


@app.command(examples=["dead-letter drop --all"])
def drop(*, names: Ids = None, every: All = False, store: StoreOptions) -> None:
    """Delete letters. No work is lost, because the sweep finds the objects that are not reconciled."""
    from shared.storage import StorageError

    with report_failures(StorageError):
        kept = _letters(store.settings())
        for letter in _chosen(kept, names, every=every):
            kept.drop(letter.id)
            out.print(f"{letter.id} dropped")


def table(letters: Iterable[DeadLetter], now: datetime) -> list[str]:
    """Returns the lines of a table, its head first."""
    rows: list[tuple[str, ...]] = [("ID", "AGE", "COUNT", "FUNCTION", "OBJECT", "STATUS", "REASON")]
    for letter in letters:
        event = letter.event
        about = f"{event.kind} {event.key}" if event.kind else event.subject or event.type
        status = str(letter.status or "-")
        texts = (letter.function or "-", about, status, letter.reason)
        function, about, status, reason = (plain(text, most=100) for text in texts)
        rows.append((letter.id, age(letter.last, now), str(letter.count), function, about, status, reason))
    return columns(rows)


def _replay(kept: DeadLetters, letter: DeadLetter, url: str, token: Path | None) -> bool:
    """Sends the hint of a letter and drops the letter. Returns False if it has to stay."""
    from events.replay import replay_to

    hint = letter.hint()
    if hint is None:
        err.print(f"{letter.id} is about no object, and its sender repeats it: drop it")
        return False
    kept.drop(letter.id)  # before, as the event may become the same letter again
    try:
        statuses = replay_to(url, [hint], attempts=2, token=token)
    except BaseException:  # an interrupt, too
        kept.keep(letter)
        raise
    if max(statuses) >= 300:
        kept.keep(letter)
        err.print(f"{letter.id}: {escape(url)} answered {max(statuses)}")
        return False
    out.print(f"{letter.id} sent: {escape(plain(f'{hint.kind} {hint.key}'))}")
    return True


def _chosen(kept: DeadLetters, names: list[str] | None, *, every: bool) -> list[DeadLetter]:
    """Returns the letters that a command is for. Raises `Failure` for a letter that does not exist."""
    if bool(names) == every:
        raise Failure("name letters by their ids, which `capi-functions dead-letter list` prints, or give --all")
    if every:
        return kept.list()
    found = {name: kept.get(name) for name in names or ()}
    if missing := [name for name, letter in found.items() if letter is None]:
        raise Failure(f"no dead letter {', '.join(missing)}: `capi-functions dead-letter list` prints their ids")
    return [letter for letter in found.values() if letter is not None]


def _settings(directory: Path | None) -> Mapping[str, str]:
    """Returns the settings that name the object store. Raises `Failure` if nothing does."""
    from shared.buckets import DEFAULT_STORE, NAMING
    from shared.settings import FOLDER, SETTINGS

    run = None
    if directory is not None:
        run = running(directory)
        if run is None:
            raise Failure(f"no run in {directory}: start it with `capi-functions up -d {directory}`")
    elif not any(SETTINGS.get(name) for name in (*NAMING, DEFAULT_STORE, FOLDER)):
        run = running(DEFAULT_DIR)
        if run is None:
            names = " or $".join(NAMING)
            raise Failure(f"no object store: name a run with --dir, or set ${names} as the functions have it")
    return {**SETTINGS, **(run["settings"] if run else {})}


def _letters(settings: Mapping[str, str]) -> DeadLetters:
    from shared.dead_letters import DeadLetters
    from shared.storage import ObjectStore

    return DeadLetters(ObjectStore.from_env(settings))
