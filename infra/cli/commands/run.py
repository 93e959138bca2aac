"""The command `run`: functions and forwarder on this machine, for a management cluster that exists."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer
from rich.markup import escape

from infra.operations.failure import Failure
from infra.operations.local_runs import DEFAULT_DIR, own_log
from infra.operations.management_cluster import ManagementCluster, open_management_cluster
from infra.operations.run_profiles import nobody_reconciles, profiles_or_default
from infra.operations.text import plain
from shared import profiles
from shared.api.conditions import counted

from ..options import KIND, Context, Kind, Kubeconfig, Profile, Yes
from ..terminal.confirm import confirm
from ..terminal.failures import report_failures, usable_folder
from ..terminal.option_groups import App
from ..terminal.output import out
from ..terminal.signals import until_signal
from ..terminal.timeline import Timeline

if TYPE_CHECKING:
    from infra.local.services import Services
    from shared.kube import Client

app = App()

_SHOWN = 20
"""The number of objects that are printed at the end."""


@app.command(examples=["run --context kind-management --install-crds --releases ./releases"])
def run(
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    profile: Profile = "",
    releases: Annotated[
        str,
        typer.Option(
            metavar="SOURCE",
            help="Folder or URLs of cluster-stack releases (default: $RELEASE_SOURCE).",
            show_default=False,
        ),
    ] = "",
    store: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Bucket for releases: s3://, gs:// or az://, or an S3 endpoint and a bucket, as in "
            "https://s3.example.com/capi; keys are in the environment (default: a folder, which ends with the "
            "command).",
            show_default=False,
        ),
    ] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Watch this namespace only.", show_default=False)
    ] = "",
    install_crds: Annotated[
        bool, typer.Option("--install-crds", help="Install missing CRDs, after a confirmation.")
    ] = False,
    kind: Kind = False,
    yes: Yes = False,
    logs: Annotated[Path, typer.Option("--logs", help="Folder of the log, run.log.")] = DEFAULT_DIR / "logs",
) -> None:
    """Run the functions for an existing management cluster, such as one of kind or a cloud. Ctrl-C ends it.

    Nothing is installed in the cluster, except missing definitions with --install-crds.
    """
    from infra.local import kind_clusters
    from infra.local.helm import HelmProgram
    from infra.local.services import KIND_CLUSTERS, Services, store_in
    from shared.charts import HelmMissing
    from shared.kube import ApiError
    from shared.running_core import find_running_core

    timeline = Timeline()
    with (
        report_failures(ApiError, HelmMissing),
        usable_folder(logs, "--logs names another folder"),
        open_management_cluster(None, kubeconfig, context) as target,
        tempfile.TemporaryDirectory() as private,
        ExitStack() as stack,
    ):
        timeline.say(f"management cluster: {target}")
        if target.run:
            raise Failure(
                f"the functions of the run in {target.run} work on this cluster already: end that run with "
                f"`capi-functions down -d {target.run}`, or name another cluster with --kubeconfig"
            )
        core = find_running_core(target.client)
        if core:
            timeline.say(f"Cluster API core runs: Deployment {core}")
        chosen = profiles_or_default(profile, beside_core=bool(core), kind=kind)
        timeline.say(f"profiles: {chosen}{'' if profile else '; --profile chooses others'}")
        if kind:
            timeline.say(f"KINDClusters: containers of {kind_clusters.engine()}; logs in {kind_clusters.folder()}")
        settings = {
            **(_usable_storage(store) or store_in(Path(private, "store"))),
            **_release_source(releases),
            **kind_clusters.setting(allowed=kind),
            "KUBECONFIG": str(_write(target, Path(private))),
        }
        log = stack.enter_context(own_log(logs / "run.log"))
        token = Path(private) / "token"
        services = Services(log, token, profiles.parse(chosen))
        _prepare(target, services, timeline, namespace=namespace, install=install_crds, yes=yes)
        program = HelmProgram(logs.parent / "bin" / "helm", timeline.say)
        try:
            services.start_functions({**settings, **program.setting()})
            services.start_forwarder(target.client, namespace)
            timeline.say(f"functions: {', '.join(services.declared)}")
            if not kind and KIND_CLUSTERS in services.declared:
                timeline.say(f"KINDClusters are refused: {KIND} creates them in containers here", style="yellow")
            if warning := nobody_reconciles(chosen, beside_core=bool(core)):
                timeline.say(warning, style="yellow")
            timeline.say("running", mark="✔", style="green")
            out.print(f"  log     {escape(str(log))}")
            stays = "objects in the cluster, and containers of KINDClusters," if kind else "objects in the cluster"
            until_signal(ready=lambda: out.print(f"Ctrl-C ends the run; {stays} stay as they are"))
        finally:
            timeline.say("stopping")
            program.stop()
            services.stop()
            timeline.say("stopped", mark="✔")
            _name_waiting(target.client, services.declared, namespace)


def _name_waiting(client: Client, functions: Collection[str], namespace: str) -> None:
    """Prints the objects whose deletion does not end because these functions do not run."""
    from functions import catalog
    from infra.operations.finalizers import waiting_objects

    declared = [each for name, each in catalog.triggers().items() if name in functions]
    waiting = list(waiting_objects(client, declared, namespace))
    for one in waiting[:_SHOWN]:
        out.print(f"  [yellow]{escape(plain(one))}[/yellow]")
    if more := waiting[_SHOWN:]:
        out.print(f"  [yellow]and {len(more)} more[/yellow]")
    if waiting:
        count = counted(len(waiting), "object")
        out.print(f"{count} being deleted: the deletion ends once these functions run again, here or in the cluster")


def _storage(store: str) -> dict[str, str]:
    """Returns the settings for the object store at `store`. Raises `BadParameter`."""
    if not store:
        return {}
    parts = urlsplit(store)
    if parts.scheme in ("s3", "gs", "az", "file"):
        return {"CAPI_FUNCTIONS_STORE": store}
    bucket = parts.path.strip("/")
    if parts.scheme not in ("http", "https") or not parts.netloc or not bucket or "/" in bucket:
        example = "s3://capi or https://s3.example.com/capi"
        raise typer.BadParameter(f"must be a bucket, as in {example}", param_hint="--store")
    return {"CAPI_FUNCTIONS_STORE": f"s3://{bucket}", "S3_ENDPOINT_URL": f"{parts.scheme}://{parts.netloc}"}


def _usable_storage(store: str) -> dict[str, str]:
    """Returns the settings for the object store at `store`. Raises `BadParameter`, or `Failure` if it is no use."""
    from shared.records import Records
    from shared.storage import ObjectStore, StorageError

    settings = _storage(store)
    if settings:
        try:
            environment = {**os.environ, **settings}
            Records(ObjectStore.from_env(environment), environment).get("readyz")
        except StorageError as error:
            raise Failure(f"--store {store} cannot be used: {error}") from error
    return settings


def _release_source(releases: str) -> dict[str, str]:
    """Returns the setting for these sources of releases. Raises `BadParameter`."""
    if not releases:
        return {}
    folder = Path(releases)
    if folder.is_dir():
        return {"RELEASE_SOURCE": folder.absolute().as_uri()}
    for source in releases.split():
        if "://" not in source and not Path(source).is_dir():
            raise typer.BadParameter(f"{source} is neither a folder nor a URL", param_hint="--releases")
    return {"RELEASE_SOURCE": releases}


def _write(target: ManagementCluster, folder: Path) -> Path:
    """Writes the kubeconfig of the command's context for the functions, which read a file; the folder is private."""
    file = folder / "kubeconfig"
    file.write_text(json.dumps({**target.kubeconfig.document, "current-context": target.kubeconfig.context}))
    return file


def _prepare(
    target: ManagementCluster, services: Services, timeline: Timeline, *, namespace: str, install: bool, yes: bool
) -> None:
    """Installs missing CRDs if the options say so, and prints which kinds may not be watched. Raises `Failure`."""
    from infra.local import cluster_checks, crds

    missing = cluster_checks.missing_crds(target.client, services.declared)
    names = ", ".join(crd["metadata"]["name"] for crd in missing)
    if missing and not install:
        raise Failure(f"the cluster does not define {names}; --install-crds installs them")
    if missing:
        if not yes:
            confirm(f"Install {names} in {target}?")
        crds.install_for_helm(target.client, missing)
        timeline.say(f"installed {names}")
    for kind, functions in cluster_checks.unwatchable(target.client, services.declared, namespace).items():
        timeline.say(f"no right to list and watch {kind}: {', '.join(functions)} get no events of it", style="yellow")
