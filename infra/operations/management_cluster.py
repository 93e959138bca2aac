"""Chooses and connects to the management cluster of a command; error messages name it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shared.api.resources import CLUSTER
from shared.kube import Client, NotServed, Unavailable, connect, loading_rules
from shared.kube.loading_rules import Kubeconfig

from .failure import Failure
from .local_runs import DEFAULT_DIR, crashed, run_of, running, settings_of

_HINT = "start a run with `capi-functions up`, or name a cluster with --kubeconfig or $KUBECONFIG"


@dataclass(frozen=True)
class ManagementCluster:
    """A connection to the management cluster that a command works on.

    Attributes:
        client: The client of this cluster.
        kubeconfig: The loaded kubeconfig.
        run: The folder of the local run that the cluster belongs to, None for other clusters.
        is_named: Whether --dir names that run.
    """

    client: Client
    kubeconfig: Kubeconfig
    run: Path | None
    is_named: bool = False

    def namespace(self, given: str | None) -> str:
        """Returns `given`, else the namespace of the context."""
        return given or self.kubeconfig.namespace or "default"

    @property
    def settings(self) -> dict[str, str]:
        """The environment variables of the run's functions. Unless --dir names the run, exported ones outrank them."""
        found = settings_of(self.run) if self.run else {}
        return {name: value for name, value in found.items() if self.is_named or name not in os.environ}

    def __str__(self) -> str:
        return str(self.kubeconfig)


@contextmanager
def open_management_cluster(
    directory: Path | None, kubeconfig: Path | None, context: str = ""
) -> Iterator[ManagementCluster]:
    """Connects to the management cluster that the options name. Exceptions from the block get a note that names it.

    Raises `Failure` or `KubeconfigError`.
    """
    loaded = loading_rules.load(files(directory, kubeconfig, context), context)
    client = connect.from_loaded(loaded)
    cluster = ManagementCluster(client, loaded, run_of(loaded), is_named=directory is not None and kubeconfig is None)
    try:
        yield cluster
    except Exception as error:
        error.add_note(_note(error, cluster))
        raise
    finally:
        client.close()


def _note(error: Exception, cluster: ManagementCluster) -> str:
    """Returns which cluster a command used, and the way out if it is the wrong one."""
    if isinstance(error, NotServed) and error.detail.endswith(f"{CLUSTER.needs} is needed"):
        other = "name another cluster with --kubeconfig, --context or --dir"
        return f"this is not a management cluster: {cluster}; {other}"
    stopped = [file.parent for file in cluster.kubeconfig.files if (file.parent / "state.json").is_file()]
    if isinstance(error, Unavailable) and stopped:
        start = shlex.join(["capi-functions", "local", "up", stopped[0].name])
        return f"{cluster}; `{start}` starts it again; `unset KUBECONFIG` leaves it"
    return f"management cluster: {cluster}"


def files(directory: Path | None, kubeconfig: Path | None, context: str = "") -> list[Path]:
    """Returns the kubeconfig files of the first source that applies.

    1. --kubeconfig
    2. the run in --dir
    3. $KUBECONFIG
    4. the run in the default folder, unless --context is given
    5. ~/.kube/config

    Raises `Failure` if that file or run does not exist.
    """
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            raise Failure(f"--kubeconfig: {kubeconfig} does not exist")
        return [kubeconfig]
    if directory is not None:
        if running(directory) is None:
            start = f"start it with `capi-functions up -d {directory}`"
            raise Failure(f"no run in {directory}: {start}, or name a cluster with --kubeconfig or $KUBECONFIG")
        return [_kubeconfig_of_run(directory)]
    listed = loading_rules.default_files()
    if not os.environ.get("KUBECONFIG") and not context:
        if running(DEFAULT_DIR):
            return [_kubeconfig_of_run(DEFAULT_DIR)]
        if crashed(DEFAULT_DIR):
            # Another cluster would be the wrong one, because the user expects the run that has crashed.
            hint = "start it again with `capi-functions up`, or run `capi-functions down` to use another cluster"
            raise Failure(f"the run in {DEFAULT_DIR} has crashed: {hint}")
    if not any(file.exists() for file in listed):
        absent = f"{os.pathsep.join(map(str, listed))} does not exist"
        if os.environ.get("KUBECONFIG"):
            absent = f"$KUBECONFIG: {absent}"
        elif not context:
            absent = f"no run in {DEFAULT_DIR}, and {absent}"
        raise Failure(f"{absent}; {_HINT}")
    return listed


def _kubeconfig_of_run(directory: Path) -> Path:
    return directory / "management.kubeconfig"
