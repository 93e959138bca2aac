"""The command `provider delete`, with the options of clusterctl's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from infra.cli.options import Yes
from infra.cli.terminal.confirm import confirm
from infra.cli.terminal.failures import report_failures
from infra.cli.terminal.option_groups import App
from infra.cli.terminal.timeline import Timeline
from infra.operations.failure import Failure
from infra.operations.waiting import wait_for

from .options import ClusterctlTargetOptions, ClusterctlWaitOptions, ProviderOptions

if TYPE_CHECKING:
    from infra.operations.providers.requests import ProviderRequest
    from shared.kube import Client, Object

app = App()

_PROTECTED = ("default", "kube-system", "kube-public", "kube-node-lease")
"""Namespaces of Kubernetes itself."""


@app.command(examples=["provider delete --infrastructure docker", "provider delete --all --include-crd"])
def delete(
    *,
    providers: ProviderOptions,
    all_providers: Annotated[bool, typer.Option("--all", help="Delete all providers.")] = False,
    include_crd: Annotated[
        bool,
        typer.Option(
            "--include-crd",
            help="Also delete all objects of the providers' kinds, such as Clusters and machines. The CRDs go in any "
            "case; without this option a provider with such objects is not deleted.",
        ),
    ] = False,
    include_namespace: Annotated[
        bool,
        typer.Option("--include-namespace", help="Also delete the providers' namespaces, with all objects in them."),
    ] = False,
    yes: Yes = False,
    waiting: ClusterctlWaitOptions,
    management: ClusterctlTargetOptions,
) -> None:
    """Delete providers with all that they have installed, the core provider last.

    P is NAME or NAME:NAMESPACE, and may end in :VERSION, which must be the installed one.
    """
    from infra.operations.providers.status import list_providers

    with report_failures():
        named = providers.requests()
        if all_providers is bool(named):
            raise Failure("give either --all, or providers, such as `--infrastructure docker`")
        with management.open() as connection:
            client, timeline = connection.client, Timeline()
            present = list_providers(client)
            chosen = present if all_providers else [_installed(client, request) for request in named]
            if not chosen:
                timeline.say("the cluster has no providers", mark="✔", style="green")
                return
            os.environ |= connection.settings
            namespaces = _namespaces(chosen, present) if include_namespace else []
            if not include_crd:
                _refuse_in_use(client, chosen, present)
            _confirm(chosen, namespaces, str(connection), include_crd=include_crd, yes=yes)
            _request(client, chosen, timeline, force=include_crd)
            obstacle = waiting.obstacle(connection)
            if obstacle or waiting.within is None:
                kept = f"; {' and '.join(namespaces)} must be deleted by hand then" if namespaces else ""
                timeline.say(f"requested; functions delete the providers{f': {obstacle}' if obstacle else ''}{kept}")
                return
            _wait(client, chosen, timeline, waiting.within)
            _delete_namespaces(client, namespaces, timeline)
            timeline.say("deleted", mark="✔", style="green")


def _installed(client: Client, request: ProviderRequest) -> Object:
    """Returns the provider. Raises `Failure` if it does not exist, or has another version than the request."""
    from infra.operations.providers.requests import find_provider
    from shared.api.provider import installed_version

    provider = find_provider(client, request)
    installed = installed_version(provider)
    if request.version not in ("", installed):
        raise Failure(f"{request} has {installed or 'no version'} installed, not {request.version}; nothing is deleted")
    return provider


def _refuse_in_use(client: Client, chosen: Sequence[Object], present: Sequence[Object]) -> None:
    """Raises `Failure` if a provider could not be deleted. A deletion that is requested cannot be taken back."""
    from infra.operations.providers.dry_run import PhaseDryRun
    from shared.kube import key_of

    uids = {provider["metadata"]["uid"] for provider in chosen}
    staying = [provider for provider in present if provider["metadata"]["uid"] not in uids]
    problems = []
    for provider in chosen:
        reason, message = PhaseDryRun(client, provider).deletion()
        if reason == "CustomResourcesExist" or (reason == "OtherProvidersExist" and staying):
            problems.append(f"{provider['kind']} {key_of(provider)}: {message}")
    if problems:
        raise Failure(f"{'; '.join(problems)}; `--include-crd` sets this annotation. Nothing is deleted")


def _namespaces(chosen: Sequence[Object], present: Sequence[Object]) -> list[str]:
    """Returns the namespaces to delete. Raises `Failure` if one of them holds anything that is to stay."""
    from shared.kube import key_of

    names = sorted({key_of(provider).namespace for provider in chosen})
    uids = {provider["metadata"]["uid"] for provider in chosen}
    for name in names:
        if name in _PROTECTED:
            raise Failure(f"--include-namespace: {name} is a namespace of Kubernetes; delete the providers without it")
        staying = [
            f"{provider['kind']} {key_of(provider)}"
            for provider in present
            if key_of(provider).namespace == name and provider["metadata"]["uid"] not in uids
        ]
        if staying:
            raise Failure(f"--include-namespace: {name} has other providers, {', '.join(staying)}; name them as well")
    return names


def _confirm(chosen: Sequence[Object], namespaces: Sequence[str], where: str, *, include_crd: bool, yes: bool) -> None:
    from shared.kube import key_of

    if yes:
        return
    names = ", ".join(f"{provider['kind']} {key_of(provider)}" for provider in chosen)
    objects = ", with ALL OBJECTS of their kinds (Clusters, machines; their clouds may keep what costs)"
    question = f"Delete {names}{objects if include_crd else ''}"
    question += f", and the namespaces {', '.join(namespaces)} with all objects" if namespaces else ""
    confirm(f"{question}, in {where}?")


def _request(client: Client, chosen: Sequence[Object], timeline: Timeline, *, force: bool) -> None:
    """Requests the deletions; with `force` after the annotation that has the custom resources deleted, too."""
    from shared.api.provider import kind_of
    from shared.kube import key_of
    from shared.providers.annotations import FORCE_DELETE

    for provider in reversed(chosen):
        resource, key = kind_of(provider).resource, key_of(provider)
        if force:
            client.patch(resource, key, {"metadata": {"annotations": {FORCE_DELETE: "true"}}})
        client.delete(resource, key, uid=provider["metadata"]["uid"])
        timeline.say(f"{provider['kind']} {key}: deletion is requested")


def _wait(client: Client, chosen: Sequence[Object], timeline: Timeline, within: float) -> None:
    """Waits until the providers are gone. Raises `WaitTimeout`, with the reasons of the remaining providers."""
    from infra.operations.providers.status import status_of
    from shared.api.provider import kind_of
    from shared.kube import key_of

    def left() -> list[str]:
        found = [(provider, client.find(kind_of(provider).resource, key_of(provider))) for provider in chosen]
        same = [now for old, now in found if now and now["metadata"]["uid"] == old["metadata"]["uid"]]
        return [f"{provider['kind']} {key_of(provider)}: {status_of(provider).why}" for provider in same]

    wait_for(
        "the providers to be deleted",
        lambda: not left(),
        within=within,
        status=lambda: "; ".join(left()),
        progress=timeline.say,
        pause=0.5,
    )


def _delete_namespaces(client: Client, namespaces: Sequence[str], timeline: Timeline) -> None:
    """Requests the deletion of namespaces; a controller of Kubernetes deletes their content."""
    from shared.api.resources import NAMESPACE
    from shared.kube import Key

    for name in namespaces:
        client.delete(NAMESPACE, Key("", name))
        timeline.say(f"Namespace {name}: deletion is requested")
