"""Creates provider objects and waits until the functions have installed them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from shared.api import provider as provider_api
from shared.api.conditions import rfc3339
from shared.api.resources import NAMESPACE
from shared.clients import Clients
from shared.kube import Client, Conflict, Key, Object, dig, key_of
from shared.providers.annotations import RETRIED

from ..failure import Failure
from ..waiting import wait_for
from .next_version import config_map_versions
from .report import Report, WrittenObject
from .requests import ProviderRequest, ProviderSettings, default_namespace, namespaces
from .status import WITHOUT_NETWORK, list_providers, status_of

GRACE = 20.0
"""Seconds in which a provider that has failed before may fail again. Its status does not show when it tried again."""
Progress = Callable[[str], None]
Create = Callable[[Client, Sequence[ProviderRequest], ProviderSettings, Report], list[ProviderRequest]]


def create_and_wait(
    client: Client,
    requests: Sequence[ProviderRequest],
    settings: ProviderSettings,
    report: Report,
    *,
    within: float | None,
    obstacle: str,
    create_all: Create | None = None,
) -> None:
    """Creates the providers and waits until all are ready.

    Args:
        client: The management cluster.
        requests: The providers, in the order of installation.
        settings: The settings of all created providers.
        report: Receives created and existing objects.
        within: Seconds to wait; None not to wait.
        obstacle: Why the providers cannot become ready, and are not awaited; empty to wait.
        create_all: Creates the providers (default: `create`).

    Raises:
        WaitTimeout: Not all providers are ready in time.
        Failure: A provider has failed, and only a change can make it ready.
    """
    failed = retry_failed(client, requests) if within is not None and not obstacle else ()
    present = (create_all or create)(client, requests, settings, report)
    if within is None or obstacle:
        report.obstacle = obstacle
        report.progress(f"requested{f', without waiting: {obstacle}' if obstacle else ''}")
        return
    wait(client, present, within=within, progress=report.progress, failed=failed)
    report.ready = True


def create(
    client: Client, requests: Sequence[ProviderRequest], settings: ProviderSettings, report: Report
) -> list[ProviderRequest]:
    """Creates the providers that do not exist. Returns a request for each, with the key that it has in the cluster."""
    providers = list_providers(client)
    core = next((provider for provider in providers if provider["kind"] == provider_api.CORE.kind), {})
    core_version = provider_api.spec_version(core) or provider_api.installed_version(core)
    present: list[ProviderRequest] = []
    missing: list[ProviderRequest] = []
    for request in requests:
        existing = _find_existing(request, providers)
        if existing is None:
            request = replace(request, version=core_version) if request.implied and not request.version else request
            missing.append(request)
        else:
            key, version = key_of(existing), dig(existing, "spec.version", "")
            written = WrittenObject(request.kind.kind, key, "unchanged", version)
            report.add_written(written, f"{request.kind.kind} {key} exists: left unchanged")
            report.add_notes(_differences(request, existing))
            request = ProviderRequest(request.kind, key.name, key.namespace)
        present.append(request)
    for namespace in namespaces(missing):
        if _create_namespace(client, namespace):
            key = key_of(namespace)
            report.add_written(WrittenObject("Namespace", key, "created"), f"Namespace {key.name} created")
    for request in missing:
        client.create(request.kind.resource, request.dump(settings))
        written = WrittenObject(request.kind.kind, request.key, "created", request.version)
        report.add_written(written, f"{request} created with {request.version or 'the newest version'}")
        report.add_notes(_config_map_note(client, request))
    return present


def _find_existing(request: ProviderRequest, providers: Sequence[Object]) -> Object | None:
    """Returns the existing provider in any namespace; an implied or core request matches any provider of the kind."""
    same = [provider for provider in providers if provider["kind"] == request.kind.kind]
    if not (request.implied or request.kind.is_core):
        same = [provider for provider in same if key_of(provider).name == request.name]
    return same[0] if same else None


def _differences(request: ProviderRequest, existing: Object) -> Iterator[str]:
    """Yields a note for each difference between an existing provider and the request."""
    key, version = key_of(existing), provider_api.spec_version(existing)
    what = f"{request.kind.kind} {key}"
    if request.version and not request.implied and request.version != version:
        patch = f'{{"spec":{{"version":"{request.version}"}}}}'
        change = f"kubectl -n {key.namespace} patch {request.kind.kind.lower()} {key.name} --type merge -p '{patch}'"
        present = version or "the newest version"
        yield f"{what} has {present} in its spec instead of {request.version}: `{change}` changes it"
    if request.namespace not in (key.namespace, default_namespace(request.kind, request.name)):
        yield f"{what} stays in its namespace: a cluster can have only one provider {key.name} of a kind"


def _config_map_note(client: Client, request: ProviderRequest) -> Iterator[str]:
    """Yields a note with the versions in ConfigMaps beside the provider, unless the requested one is among them."""
    found = config_map_versions(Clients(client), request.dump())
    if found and request.version not in found:
        hint = f"not {request.version}" if request.version else "which are used once spec.version is one of them"
        yield f"{request}: ConfigMaps in its namespace have {', '.join(found)}, {hint}"


def _create_namespace(client: Client, namespace: Object) -> bool:
    """Returns whether the namespace was created; False if it exists."""
    if client.find(NAMESPACE, key_of(namespace)) is not None:
        return False
    try:
        client.create(NAMESPACE, namespace)
    except Conflict as error:
        if not error.already_exists:
            raise
        return False
    return True


def retry_failed(client: Client, requests: Sequence[ProviderRequest]) -> list[Key]:
    """Makes the functions try again to install the providers that have failed. Returns their keys.

    The next attempt would otherwise begin after minutes, although the source may answer again.
    """
    found = []
    for request in requests:
        provider = client.find(request.kind.resource, request.key)
        if provider is not None and status_of(provider).has_failed:
            annotation = {RETRIED: rfc3339(datetime.now(UTC))}
            client.patch(request.kind.resource, request.key, {"metadata": {"annotations": annotation}})
            found.append(request.key)
    return found


def wait(
    client: Client,
    requests: Sequence[ProviderRequest],
    *,
    within: float,
    progress: Progress,
    pause: float = 0.5,
    failed: Collection[Key] = (),
) -> None:
    """Waits until all providers are ready, and passes each change of a provider's status to `progress`.

    `failed` has the keys of providers that have failed before; they get `GRACE` to recover.

    Raises:
        WaitTimeout: Not all are ready after `within` seconds; the message has the status of the others.
        Failure: A provider has failed, and only a change can make it ready. The wait ends at once.
    """
    reported: dict[ProviderRequest, str] = {}
    started = time.monotonic()

    def ready() -> bool:
        all_ready, failures = True, []
        for request in requests:
            provider = client.find(request.kind.resource, request.key)
            status = status_of(provider) if provider else None
            is_ready = status is not None and status.ready == "True"
            news = "does not exist" if status is None else f"{status.installed} is ready" if is_ready else status.why
            if reported.get(request) != news:
                progress(f"{request}: {news}")
            reported[request], all_ready = news, all_ready and is_ready
            recovers = request.key in failed and time.monotonic() - started < GRACE
            if status is not None and status.has_failed and not recovers:
                failures.append(f"{request}: {news}")
                failures += [WITHOUT_NETWORK] if status.lacks_components else []
        if failures:
            retries = "the providers stay, and the same command tries again"
            raise Failure("; ".join([*dict.fromkeys(failures), retries]))
        return all_ready

    def not_ready() -> str:
        return "; ".join(f"{request}: {news}" for request, news in reported.items() if not news.endswith(" is ready"))

    wait_for("all providers to be ready", ready, within=within, status=not_ready, pause=pause)
