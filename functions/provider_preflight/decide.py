"""Runs the checks in order and reports the first that fails, with the reasons of Cluster API Operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from shared import semver
from shared.api import provider as provider_api
from shared.api.conditions import READY, is_true
from shared.components import versions
from shared.effects import Results
from shared.kube import Key, Object, deleting, dig, key_of
from shared.kube.selectors import MAX_VALUE_LENGTH
from shared.providers import phases
from shared.providers.peers import is_operational
from shared.providers.status import (
    PREFLIGHT_CHECK_PASSED,
    PROVIDER_INSTALLED,
    PROVIDER_UPGRADED,
    ProviderStatusBuilder,
    why_not_due,
)
from shared.runtime import Decision

from .observe import Observed

CORE_RETRY = 60.0
"""Seconds until a provider checks the core provider again, in case the event of `provider_wake` is lost."""
INPUT_RETRY = 30.0
PEER_RETRY = 60.0
"""Seconds until a provider checks again for a namesake, whose deletion triggers no event for it."""

_ONLY_ONE = "Only one of Selector, OCI URL and provider URL must be provided"


@dataclass(frozen=True)
class FailedCheck:
    """A failed check. `requeue_after` is in seconds; None if the check is repeated only after an event.

    `event_type` is the type of the Kubernetes event; empty for a check that only waits.
    """

    reason: str
    message: str
    requeue_after: float | None = None
    event_type: str = "Warning"


def decide(observed: Observed, now: datetime, _results: Results | None = None) -> Decision:
    """Runs the checks: the first failure becomes a condition; if all pass, `provider_fetch` is started."""
    provider = observed.provider
    if observed.outdated:
        # After the pause, only this record shows that there is something to install.
        return Decision(status={"observedGeneration": None}, message="paused; its inputs have changed")
    if (reason := why_not_due(provider, checked=False)) or provider is None:
        return Decision(message=reason)
    if observed.installed:
        if is_true(dig(provider, "status.conditions"), READY):
            return Decision(message="already installed")
        # The event that makes `provider_report` look again may be lost.
        step = phases.completion_event(phases.INSTALLED, provider, resync=False)
        return Decision(reply=step, message="already installed, and not ready")
    builder = ProviderStatusBuilder(provider, now)
    builder.remove_outdated(PROVIDER_INSTALLED, PROVIDER_UPGRADED)
    failed = next(filter(None, (check(observed, provider) for check in CHECKS)), None)
    if failed is not None:
        builder.set_false(PREFLIGHT_CHECK_PASSED, failed.reason, failed.message, event_type=failed.event_type)
        return builder.decision(requeue_after=failed.requeue_after, message=failed.message)
    builder.set_true(PREFLIGHT_CHECK_PASSED, "PreflightChecksPassed", "All preflight checks passed")
    step = phases.completion_event(phases.CHECKED, provider, resync=observed.resync)
    return builder.decision(reply=step, message="all preflight checks passed")


# -- the checks ----------------------------------------------------------------------------------------------------


def _version(_observed: Observed, provider: Object) -> FailedCheck | None:
    requested = provider_api.spec_version(provider)
    try:
        semver.parse(requested or "v0.0.0")
    except ValueError as error:
        return FailedCheck("IncorrectVersionFormat", f"spec.version: {error}")
    return None


def _no_downgrade(_observed: Observed, provider: Object) -> FailedCheck | None:
    requested, installed = provider_api.spec_version(provider), provider_api.installed_version(provider)
    if message := versions.downgrade_refusal(installed, requested) if requested and installed else "":
        return FailedCheck("UnsupportedProviderDowngradeReason", message)
    return None


def _core_name(_observed: Observed, provider: Object) -> FailedCheck | None:
    name = key_of(provider).name
    if provider_api.kind_of(provider).is_core and name != provider_api.CORE_NAME:
        message = f"Incorrect CoreProvider name: {name}. It should be {provider_api.CORE_NAME}"
        return FailedCheck("IncorrectCoreProviderNameReason", message)
    return None


def _name(_observed: Observed, provider: Object) -> FailedCheck | None:
    label = provider_api.label_of(provider)
    if len(label) > MAX_VALUE_LENGTH:
        message = f"all objects get the label {provider_api.PROVIDER_LABEL}={label}, which has {len(label)} characters"
        message = f"{message}; a label value may have {MAX_VALUE_LENGTH}: give the provider a shorter name"
        return FailedCheck("InvalidProviderName", message)
    return None


def _source(observed: Observed, provider: Object) -> FailedCheck | None:
    config = dig(provider, "spec.fetchConfig", {})
    given = [name for name in ("selector", "url", "oci") if config.get(name)]
    if not given and not observed.in_catalog:
        message = "Either Selector, OCI URL or provider URL must be provided for a not predefined provider"
        return FailedCheck("FetchConfigValidationError", message)
    if len(given) > 1:
        return FailedCheck("FetchConfigValidationError", f"{_ONLY_ONE}, not {' and '.join(given)}")
    return None


def _inputs(observed: Observed, _provider: Object) -> FailedCheck | None:
    if observed.inputs.problem:
        return FailedCheck("ReferencedObjectMissing", observed.inputs.problem, INPUT_RETRY)
    return None


def _unique(observed: Observed, provider: Object) -> FailedCheck | None:
    """Fails if a provider of the same name, or for a core provider any other core provider, has precedence."""
    key, kind = key_of(provider), provider_api.kind_of(provider)
    before = [other for other in observed.peers if _precedence(other) < _precedence(provider)]
    if kind.is_core and before:
        others = ", ".join(str(key_of(other)) for other in before)
        message = f"CoreProvider already exists in the cluster: {others}. Only one is allowed."
        return FailedCheck("MoreThanOneExists", message, PEER_RETRY)
    same = [other for other in before if key_of(other).name == key.name]
    if same:
        message = f"There is already a {kind.kind} with name {key.name} in the cluster: {key_of(same[0])}."
        return FailedCheck("MoreThanOneExists", message, PEER_RETRY)
    return None


def _precedence(provider: Object) -> tuple[bool, bool, bool, str, Key]:
    """Returns a sort key for providers that exclude each other; only the first of them may be installed.

    Installed providers come first, then the oldest. A provider that is being deleted precedes others while it has
    objects.
    """
    return (
        not provider_api.installed_version(provider),
        not dig(provider, "status.resources"),
        deleting(provider),
        dig(provider, "metadata.creationTimestamp", ""),
        key_of(provider),
    )


def _core_runs(observed: Observed, provider: Object) -> FailedCheck | None:
    if provider_api.kind_of(provider).is_core or any(map(is_operational, observed.cores)):
        return None
    return FailedCheck(
        "WaitingForCoreProviderReady", "Waiting for the CoreProvider to be installed.", CORE_RETRY, event_type=""
    )


CHECKS: tuple[Callable[[Observed, Object], FailedCheck | None], ...] = (
    _version,
    _no_downgrade,
    _core_name,
    _name,
    _source,
    _inputs,
    _core_runs,
    _unique,
)
