"""Which management cluster a command asks, and that whoever reads its words knows which."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shared.kube import Client, connect, loading_rules
from shared.kube.loading_rules import Kubeconfig

from .failures import Failure
from .options import DEFAULT_DIR
from .runs import died, run_of, running, settings_of

_WAYS = "start a run with `capi-functions up`, or name a cluster with --kubeconfig or $KUBECONFIG"


@dataclass(frozen=True)
class Management:
    """The cluster that is asked; `run` is the folder of the local run that it is of."""

    client: Client
    kubeconfig: Kubeconfig
    run: Path | None

    def namespace(self, given: str | None) -> str:
        """`given`, else the context's."""
        return given or self.kubeconfig.namespace or "default"

    @property
    def settings(self) -> dict[str, str]:
        """The environment of the functions of its run; what is set here already stays."""
        return settings_of(self.run) if self.run else {}

    def __str__(self) -> str:
        return str(self.kubeconfig)


@contextmanager
def management(directory: Path | None, kubeconfig: Path | None, context: str = "") -> Iterator[Management]:
    """The cluster that the options name; exceptions that leave the block say which one it was.

    Raises `Failure`, `KubeconfigError`.
    """
    loaded = loading_rules.load(files(directory, kubeconfig, context), context)
    client = connect.from_loaded(loaded)
    asked = Management(client, loaded, run_of(loaded))
    try:
        yield asked
    except Exception as error:
        error.add_note(f"asked {asked}")
        raise
    finally:
        client.close()


def files(directory: Path | None, kubeconfig: Path | None, context: str = "") -> list[Path]:
    """In this order: --kubeconfig; the run that --dir names; $KUBECONFIG; the run in the usual folder; ~/.kube/config.

    A context is one of the user's own. Raises `Failure`.
    """
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            raise Failure(f"--kubeconfig: there is no {kubeconfig}")
        return [kubeconfig]
    if directory is not None:
        if running(directory) is None:
            start = f"start it with `capi-functions up -d {directory}`"
            raise Failure(f"nothing runs in {directory}: {start}, or name a cluster with --kubeconfig or $KUBECONFIG")
        return [_of_run(directory)]
    listed = loading_rules.default_files()
    if not os.environ.get("KUBECONFIG") and not context:
        if running(DEFAULT_DIR):
            return [_of_run(DEFAULT_DIR)]
        if died(DEFAULT_DIR):
            # Not on to another cluster because the run that was meant has crashed.
            again = f"`capi-functions up` starts it again, `capi-functions down` makes {DEFAULT_DIR} step aside"
            raise Failure(f"the run in {DEFAULT_DIR} has ended without a stop: {again}")
    if not any(file.exists() for file in listed):
        absent = f"there is no {os.pathsep.join(map(str, listed))}"
        if os.environ.get("KUBECONFIG"):
            absent = f"$KUBECONFIG: {absent}"
        elif not context:
            absent = f"nothing runs in {DEFAULT_DIR}, and {absent}"
        raise Failure(f"{absent}; {_WAYS}")
    return listed


def _of_run(directory: Path) -> Path:
    return directory / "management.kubeconfig"
