"""The commands `provider upgrade plan` and `provider upgrade apply`, with the options of clusterctl's."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from infra.cli.options import FormatOptions
from infra.cli.terminal.failures import report_failures
from infra.cli.terminal.option_groups import App
from infra.cli.terminal.output import out
from infra.cli.terminal.text import columns
from infra.cli.terminal.timeline import Timeline
from infra.operations.failure import Failure
from infra.operations.management_cluster import ManagementCluster
from infra.operations.text import plain

from .options import ClusterctlTargetOptions, ClusterctlWaitOptions, ProviderOptions

if TYPE_CHECKING:
    from infra.operations.providers.requests import ProviderRequest
    from shared.kube import Client, Object

_HEADINGS = ("NAME", "NAMESPACE", "TYPE", "CURRENT VERSION", "NEXT VERSION", "NOTE")
_UP_TO_DATE = "Already up to date"

app = App(name="upgrade", help="Upgrade providers.", no_args_is_help=True)


@dataclass(frozen=True)
class Upgrade:
    """The next version of one provider. `version` is empty for a provider that is up to date or has an obstacle."""

    kind: str
    namespace: str
    name: str
    installed: str
    version: str = ""
    contract: str = ""
    """The contract of `version`, else of the installed version."""
    obstacle: str = ""
    """Why the provider has no next version that can be installed."""


@app.command("plan", examples=["provider upgrade plan"])
def plan(
    *,
    output: FormatOptions,
    management: ClusterctlTargetOptions,
) -> None:
    """List the next version of each provider, by contract. `provider plan` shows what it would change."""
    with report_failures(), management.open() as connection:
        upgrades = upgrades_of(connection)
    if output.json:
        typer.echo(json.dumps([asdict(upgrade) for upgrade in upgrades], indent=2))
        return
    if not upgrades:
        out.print("the cluster has no providers; `capi-functions provider init --infrastructure docker` installs some")
    for contract in sorted({upgrade.contract for upgrade in upgrades}):
        same = [upgrade for upgrade in upgrades if upgrade.contract == contract]
        out.print(f"Newest releases of the contract {contract or 'that is not known'}:\n", markup=False)
        for line in columns([_HEADINGS, *map(_row, same)]):
            out.print(line, markup=False)
        if any(upgrade.version for upgrade in same):
            out.print(f"\n`capi-functions provider upgrade apply --contract {contract}` applies the upgrade\n")


@app.command(
    "apply", examples=["provider upgrade apply --contract v1beta2", "provider upgrade apply --core cluster-api:v1.14.1"]
)
def apply(
    *,
    contract: Annotated[
        str, typer.Option(help="Upgrade all providers to the newest versions of this contract, such as v1beta2.")
    ] = "",
    providers: ProviderOptions,
    waiting: ClusterctlWaitOptions,
    management: ClusterctlTargetOptions,
) -> None:
    """Upgrade all providers to a contract, or the named ones to versions, the core provider first.

    P is NAME:VERSION or NAME:NAMESPACE:VERSION.
    """
    with report_failures():
        named = providers.requests()
        if bool(contract) is bool(named):
            raise Failure("give either --contract, or providers with versions, such as `--core cluster-api:v1.14.1`")
        for request in named:
            if not request.version:
                raise Failure(f"--{request.kind.prefix} {request.name}: give a version, as in {request.name}:v1.2.3")
        with management.open() as connection:
            timeline = Timeline()
            timeline.say(f"management cluster: {connection}")
            chosen = _existing(connection.client, named) if named else _planned(connection, contract)
            if not chosen:
                timeline.say(f"all providers are up to date with the contract {contract}", mark="✔", style="green")
                return
            _refuse_other_versions_than_the_programs(connection, chosen)
            obstacle = waiting.obstacle(connection)
            _apply(connection.client, chosen, timeline, None if obstacle else waiting.within)
            if obstacle:
                timeline.say(f"requested, without waiting: {obstacle}")


def upgrades_of(connection: ManagementCluster) -> list[Upgrade]:
    """Returns the next version of each provider. Downloads the components of next versions, into memory only."""
    from infra.operations.providers.status import list_providers

    os.environ |= connection.settings
    return [_upgrade_of(connection.client, provider) for provider in list_providers(connection.client)]


def _upgrade_of(client: Client, provider: Object) -> Upgrade:
    from infra.operations.providers.dry_run import Obstacle, PhaseDryRun
    from infra.operations.providers.plan import find_next_version
    from shared.api import provider as provider_api
    from shared.kube import dig, key_of

    installed, contract = provider_api.installed_version(provider), dig(provider, "status.contract", "")
    namespace, name = key_of(provider)
    kind = provider["kind"]
    try:
        version = find_next_version(client, provider).version
        if version == installed:
            return Upgrade(kind, namespace, name, installed, contract=contract)
        dry_run = PhaseDryRun(client, provider, version)
        dry_run.preflight()
        return Upgrade(kind, namespace, name, installed, version, dry_run.fetch().contract)
    except (Failure, Obstacle) as error:
        return Upgrade(kind, namespace, name, installed, contract=contract, obstacle=str(error))


def _row(upgrade: Upgrade) -> tuple[str, ...]:
    following = upgrade.version or ("-" if upgrade.obstacle else _UP_TO_DATE)
    return (
        upgrade.name,
        upgrade.namespace,
        upgrade.kind,
        upgrade.installed or "-",
        following,
        plain(upgrade.obstacle, most=1000),
    )


def _planned(connection: ManagementCluster, contract: str) -> list[ProviderRequest]:
    """Returns the upgrades to a contract.

    Raises:
        Failure: The next version of a provider is not known, or has another contract.
    """
    from infra.operations.providers.requests import ProviderRequest
    from shared.api.provider import BY_KIND

    upgrades = upgrades_of(connection)
    problems = [f"{one.kind} {one.namespace}/{one.name}: {one.obstacle}" for one in upgrades if one.obstacle]
    problems += [
        f"{one.kind} {one.namespace}/{one.name}: {one.version or one.installed} has the contract {one.contract or '?'}"
        for one in upgrades
        if not one.obstacle and one.contract != contract
    ]
    if problems:
        hint = "nothing is upgraded: name the other providers, with their versions"
        raise Failure(f"not all providers can have the contract {contract}: {'; '.join(problems)}; {hint}")
    return [ProviderRequest(BY_KIND[one.kind], one.name, one.namespace, one.version) for one in upgrades if one.version]


def _existing(client: Client, named: Sequence[ProviderRequest]) -> list[ProviderRequest]:
    """Returns the requests with the namespaces of the providers. Raises `Failure` if there is no such provider."""
    from infra.operations.providers.requests import find_provider
    from shared.kube import key_of

    return [replace(request, namespace=key_of(find_provider(client, request)).namespace) for request in named]


def _refuse_other_versions_than_the_programs(connection: ManagementCluster, chosen: Sequence[ProviderRequest]) -> None:
    """Raises `Failure` if managers run as processes of a local run, which have one version each."""
    from infra.local.local_run import LocalRun
    from infra.operations.providers import local_managers

    if connection.run is not None and LocalRun.has_managers(connection.run):
        local_managers.versioned(chosen)


def _apply(client: Client, chosen: Sequence[ProviderRequest], timeline: Timeline, within: float | None) -> None:
    """Changes the versions. If it waits, the others follow once the core provider is ready."""
    from infra.operations.providers.init import wait

    for group in ([one for one in chosen if one.kind.is_core], [one for one in chosen if not one.kind.is_core]):
        for request in group:
            client.patch(request.kind.resource, request.key, {"spec": {"version": request.version}})
            timeline.say(f"{request}: {request.version} is requested")
        if group and within is not None:
            wait(client, group, within=within, progress=timeline.say)
    if within is not None:
        timeline.say("all are ready", mark="✔", style="green")
