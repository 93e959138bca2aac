"""Runs a provider's phases without changing anything: each write is a dry run or stays in memory.

Every phase observes and decides with the function's own code, so that no rule exists twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from functions import catalog
from shared.api import cluster
from shared.api import provider as provider_api
from shared.api.conditions import get_condition, rfc3339
from shared.applier.policy import PREFIX
from shared.buckets import NAMING
from shared.clients import Clients
from shared.components.bundles import BundleStore
from shared.components.errors import ComponentsError
from shared.download import SourceError
from shared.effects import Create, Patch, perform
from shared.event import change_event
from shared.kube import Client, Object, dig, key_of
from shared.kube.dry_run import DryRunClient
from shared.providers import inputs, peers
from shared.providers.inputs import FetchedComponents, Inputs, load_components
from shared.providers.status import DELETING, PREFLIGHT_CHECK_PASSED, ProviderStatusBuilder
from shared.runtime import Decision, Request
from shared.settings import SETTINGS
from shared.storage import ObjectStore, StorageError

from ..failure import Failure
from ..memory_overlay import MemoryOverlay

_MAX_STEPS = 20


class Obstacle(Exception):
    """The provider would not pass a phase; the message comes from the phase."""


class PhaseDryRun:
    """A provider as it would be with `version` in its spec, in a cluster where nothing else changes.

    Callers run the phases in order; each writes its status to the provider for the next one. All raise `Obstacle`.
    """

    def __init__(self, management: Client, provider: Object, version: str = "") -> None:
        self._client = DryRunClient(management)
        self.clients = Clients(self._client)
        self.clients.components = BundleStore(overlay_storage())
        self._resource, self._key = provider_api.kind_of(provider).resource, key_of(provider)
        self._client.assume(self._resource, _with_version(provider, version) if version else provider)

    @property
    def provider(self) -> Object:
        """The provider with the status that the phases have written so far."""
        return self._client.get(self._resource, self._key)

    def inputs(self) -> Inputs:
        """Reads the objects that the provider references."""
        return inputs.read(self.clients, self.provider)

    def preflight(self) -> str:
        """Runs the checks. Returns a message if the provider waits for the core provider, else an empty text."""
        decision = self._run("provider_preflight")
        if decision.reply is not None:
            return ""
        condition = get_condition((decision.status or {}).get("conditions"), PREFLIGHT_CHECK_PASSED) or {}
        cores = peers.list_providers(self.clients, provider_api.CORE)
        if condition.get("reason") != "WaitingForCoreProviderReady" or not cores:
            raise Obstacle(decision.message)
        self._client.assume(self._resource, _with_passed_checks(self.provider))
        return f"it waits until CoreProvider {key_of(cores[0])} is ready"

    def fetch(self) -> FetchedComponents:
        """Downloads the components, unless storage has them, and returns them."""
        decision = self._run("provider_fetch")
        with _expected_failures():
            components = load_components(self.clients, self.provider, self.inputs())
        if decision.reply is None or components is None:
            raise Obstacle(decision.message)
        return components

    def install(self) -> Decision:
        """Returns the decision on the whole sync, without carrying out its effects."""
        return self._run("provider_install")

    def deletion(self) -> tuple[str, str]:
        """Returns reason and message of why the provider could not be deleted now; empty if it could."""
        function, now = catalog.steps("provider_delete"), datetime.now(UTC)
        provider = self.provider
        provider["metadata"]["deletionTimestamp"] = rfc3339(now)
        event = change_event(provider, "update", source="/delete")
        decision = function.decide(function.observe(self.clients, Request(event, self._key, provider)), now, None)
        condition = get_condition((decision.status or {}).get("conditions"), DELETING) or {}
        return condition.get("reason", ""), condition.get("message", "")

    def _run(self, phase: str) -> Decision:
        """Observes, decides and carries out the effects repeatedly, until a decision does not proceed."""
        function = catalog.steps(phase)
        with _expected_failures():
            for _ in range(_MAX_STEPS):
                event = change_event(self.provider, "update", source="/plan", resync=True)
                observed = function.observe(self.clients, Request(event, self._key, self.provider))
                decision = function.decide(observed, datetime.now(UTC), None)
                if not decision.proceed:
                    self._write_status(decision)
                    return decision
                results = perform(decision.effects, self.clients)
                if results.error is not None:
                    raise results.error
                for effect, value in results.executed:
                    if isinstance(effect, (Create, Patch)):
                        self._client.assume(effect.resource, value)
        raise Obstacle(f"{phase} has not ended after {_MAX_STEPS} steps")

    def _write_status(self, decision: Decision) -> None:
        provider = self.provider
        status = {**provider.get("status", {}), **(decision.status or {})}
        self._client.assume(self._resource, {**provider, "status": status})


@contextmanager
def _expected_failures() -> Iterator[None]:
    try:
        yield
    except (ComponentsError, SourceError) as error:
        raise Obstacle(str(error)) from error
    except StorageError as error:
        raise Failure(f"{error}; without {' and '.join(NAMING)} everything is downloaded again") from error


def overlay_storage() -> MemoryOverlay:
    """Returns storage that keeps writes in memory, on top of the functions' storage if the environment names one."""
    named = any(SETTINGS.get(name) for name in NAMING)
    return MemoryOverlay(ObjectStore.from_env() if named else None)


def _with_passed_checks(provider: Object) -> Object:
    builder = ProviderStatusBuilder(provider, datetime.now(UTC))
    builder.set_true(PREFLIGHT_CHECK_PASSED, "PreflightChecksPassed")
    return {**provider, "status": {**provider.get("status", {}), **builder.status()}}


def _with_version(provider: Object, version: str) -> Object:
    """Returns the provider with this version, not paused, and with all its objects in one sync."""
    annotations = {**dig(provider, "metadata.annotations", {}), PREFIX + "wait": "false"}
    annotations.pop(cluster.PAUSED_ANNOTATION, None)
    return {
        **provider,
        "metadata": {**provider["metadata"], "annotations": annotations},
        "spec": {**provider.get("spec", {}), "version": version},
    }
