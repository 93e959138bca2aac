"""The phases of a provider's life, carried out as far as that changes nothing: on a client that only supposes, and on
storage that keeps to itself what is written. Each phase is the function's own, so that nothing is decided twice.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from functions.provider_fetch import decide as fetch
from functions.provider_fetch import observe as fetching
from functions.provider_install import decide as install
from functions.provider_install import observe as installing
from functions.provider_preflight import decide as preflight
from functions.provider_preflight import observe as checking
from shared.api import cluster
from shared.api import provider as provider_api
from shared.api.conditions import get_condition
from shared.applier.policy import PREFIX
from shared.clients import Clients
from shared.components.bundles import BundleStore
from shared.components.errors import ComponentsError
from shared.effects import Create, Patch, perform
from shared.kube import Client, Key, Object, dig, key_of
from shared.kube.dry_run import DryRun
from shared.providers.bundle import Fetched
from shared.providers.status import CHECKED, ProviderStatusBuilder
from shared.releases.sources import SourceError
from shared.runtime import Decision
from shared.storage import ObjectStore, StorageError

from ..failures import Failure
from ..scratch import Scratch

_Observed = TypeVar("_Observed")
_STEPS = 20


class Obstacle(Exception):
    """A phase that would not be passed, in its own words."""


class Supposed:
    """A provider as it would be once it asks for `version`; the phases change what is supposed, and nothing else.

    All methods raise `Obstacle`.
    """

    def __init__(self, management: Client, provider: Object, version: str) -> None:
        self._dry = DryRun(management)
        self.clients = Clients(self._dry)
        self.clients.components = BundleStore(scratch())
        self._resource, self._key = provider_api.kind_of(provider).resource, key_of(provider)
        self._dry.suppose(self._resource, asking(provider, version))

    def checked(self) -> str:
        """What it waits for: the core provider, which comes before it, and need not be there yet."""
        look, judge = partial(checking.observe, resync=True), partial(preflight.decide, resync=True)
        observed, decision = self._last(look, judge)
        if decision.reply is not None:
            return ""
        told = get_condition((decision.status or {}).get("conditions"), CHECKED) or {}
        if told.get("reason") != "WaitingForCoreProviderReady" or not observed.cores:
            raise Obstacle(decision.message)
        self._dry.suppose(self._resource, passing(self._dry.get(self._resource, self._key)))
        return f"it waits until CoreProvider {key_of(observed.cores[0])} is ready"

    def fetched(self) -> Fetched:
        """The components are in storage then, and the provider knows of them."""
        observed, decision = self._last(fetching.observe, fetch.decide)
        if decision.reply is None or observed.bundle is None:
            raise Obstacle(decision.message)
        return Fetched(observed.bundle, dig(decision.status, "target.contract", ""))

    def installed(self) -> tuple[installing.Observed, Decision]:
        """What is observed and decided for the whole rollout, which is among the effects, not carried out."""
        return self._last(partial(installing.observe, resync=True), partial(install.decide, resync=True))

    def _last(
        self,
        look: Callable[[Clients, Key, Object | None], _Observed],
        judge: Callable[[_Observed, datetime], Decision],
    ) -> tuple[_Observed, Decision]:
        """The decision after which the function leaves it to others; what comes before that is supposed."""
        try:
            for _ in range(_STEPS):
                observed = look(self.clients, self._key, self._dry.get(self._resource, self._key))
                decision = judge(observed, datetime.now(UTC))
                if not decision.proceed:
                    self._report(decision)
                    return observed, decision
                results = perform(decision.effects, self.clients)
                if results.error is not None:
                    raise results.error
                for effect, value in zip(decision.effects, results.values, strict=True):
                    if isinstance(effect, (Create, Patch)):
                        self._dry.suppose(effect.resource, value)
        except (ComponentsError, SourceError) as error:
            raise Obstacle(str(error)) from error
        except StorageError as error:
            raise Failure(f"{error}; without S3_ENDPOINT_URL everything is fetched anew") from error
        raise Obstacle("it goes round in circles")

    def _report(self, decision: Decision) -> None:
        provider = self._dry.get(self._resource, self._key)
        status = {**provider.get("status", {}), **(decision.status or {})}
        self._dry.suppose(self._resource, {**provider, "status": status})


def scratch() -> Scratch:
    """Over the functions' storage, where the environment says which that is."""
    store = ObjectStore.from_env()
    return Scratch(store if store.endpoint else None)


def passing(provider: Object) -> Object:
    """With all its checks passed."""
    builder = ProviderStatusBuilder(provider, datetime.now(UTC))
    builder.set_true(CHECKED, "PreflightChecksPassed")
    return {**provider, "status": {**provider.get("status", {}), **builder.status()}}


def asking(provider: Object, version: str) -> Object:
    """Not paused, and with its webhooks along with everything else."""
    annotations = {**dig(provider, "metadata.annotations", {}), PREFIX + "wait": "false"}
    annotations.pop(cluster.PAUSED_ANNOTATION, None)
    return {
        **provider,
        "metadata": {**provider["metadata"], "annotations": annotations},
        "spec": {**provider.get("spec", {}), "version": version},
    }
