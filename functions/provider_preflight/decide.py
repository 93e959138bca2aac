"""The checks, in order; the first that fails is told. Reasons are Cluster API Operator's, so that scripts find them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from shared.api import cluster as cluster_api
from shared.api import provider as provider_api
from shared.components import versions
from shared.kube import Key, Object, deleting, dig, key_of
from shared.kube.selectors import MAX_VALUE_LENGTH
from shared.providers import phases
from shared.providers.peers import is_operational
from shared.providers.status import PREFLIGHT_CHECK_PASSED, PROVIDER_INSTALLED, PROVIDER_UPGRADED, ProviderStatusBuilder
from shared.runtime import Decision

from .observe import Observed

CORE_RETRY = 60.0
"""Seconds until a provider looks for the core provider again, should nobody have told it."""
INPUT_RETRY = 30.0
PEER_RETRY = 60.0
"""Nobody tells it that another of its name is gone."""

_ONLY_ONE = "Only one of Selector, OCI URL and provider URL must be provided"


@dataclass(frozen=True)
class Refusal:
    """Why a provider is not installed. `again`: seconds until it is worth another look by itself."""

    reason: str
    message: str
    again: float | None = None
    event_type: str = "Warning"


def decide(observed: Observed, now: datetime, *, resync: bool = False) -> Decision:
    provider = observed.provider
    if provider is None or deleting(provider):
        return Decision(message="the provider is gone, or going")
    if cluster_api.is_paused(provider):
        return Decision(message="paused")
    if observed.unchanged:
        return Decision(message="installed as it stands")
    builder = ProviderStatusBuilder(provider, now)
    builder.remove_outdated(
        PROVIDER_INSTALLED, PROVIDER_UPGRADED
    )  # of a version, or a source, that is not asked for any more
    refusal = next(filter(None, (check(observed, provider) for check in CHECKS)), None)
    if refusal is not None:
        builder.set_false(PREFLIGHT_CHECK_PASSED, refusal.reason, refusal.message, event_type=refusal.event_type)
        status, kubernetes_events = builder.status(), tuple(builder.kubernetes_events)
        return Decision(
            status=status, kubernetes_events=kubernetes_events, requeue_after=refusal.again, message=refusal.message
        )
    builder.set_true(PREFLIGHT_CHECK_PASSED, "PreflightChecksPassed", "All preflight checks passed")
    step = phases.next_step(phases.CHECKED, provider, resync=resync)
    return Decision(status=builder.status(), reply=step, message="all preflight checks passed")


# -- the checks ----------------------------------------------------------------------------------------------------


def _version(_observed: Observed, provider: Object) -> Refusal | None:
    wanted = provider_api.spec_version(provider)
    try:
        versions.parse(wanted or "v0.0.0")
    except ValueError as error:
        return Refusal("IncorrectVersionFormat", f"spec.version: {error}")
    return None


def _no_downgrade(_observed: Observed, provider: Object) -> Refusal | None:
    wanted, installed = provider_api.spec_version(provider), provider_api.installed_version(provider)
    if message := versions.downgrade(installed, wanted) if wanted and installed else "":
        return Refusal("UnsupportedProviderDowngradeReason", message)
    return None


def _core_name(_observed: Observed, provider: Object) -> Refusal | None:
    name = key_of(provider).name
    if provider_api.kind_of(provider).is_core and name != provider_api.CORE_NAME:
        message = f"Incorrect CoreProvider name: {name}. It should be {provider_api.CORE_NAME}"
        return Refusal("IncorrectCoreProviderNameReason", message)
    return None


def _name(_observed: Observed, provider: Object) -> Refusal | None:
    label = provider_api.label_of(provider)
    if len(label) > MAX_VALUE_LENGTH:
        message = f"all objects get the label {provider_api.PROVIDER_LABEL}={label}, which has {len(label)} characters"
        return Refusal("InvalidProviderName", f"{message}; a value may have {MAX_VALUE_LENGTH}: give it a shorter name")
    return None


def _source(observed: Observed, provider: Object) -> Refusal | None:
    config = dig(provider, "spec.fetchConfig", {})
    given = [name for name in ("selector", "url", "oci") if config.get(name)]
    if not given and not observed.known:
        message = "Either Selector, OCI URL or provider URL must be provided for a not predefined provider"
        return Refusal("FetchConfigValidationError", message)
    if len(given) > 1:
        return Refusal("FetchConfigValidationError", f"{_ONLY_ONE}, not {' and '.join(given)}")
    return None


def _inputs(observed: Observed, _provider: Object) -> Refusal | None:
    if observed.inputs.problem:
        return Refusal("ReferencedObjectMissing", observed.inputs.problem, INPUT_RETRY)
    return None


def _alone(observed: Observed, provider: Object) -> Refusal | None:
    key, kind = key_of(provider), provider_api.kind_of(provider)
    before = [other for other in observed.peers if _precedence(other) < _precedence(provider)]
    if kind.is_core and before:
        others = ", ".join(str(key_of(other)) for other in before)
        message = f"CoreProvider already exists in the cluster: {others}. Only one is allowed."
        return Refusal("MoreThanOneExists", message, PEER_RETRY)
    same = [other for other in before if key_of(other).name == key.name]
    if same:
        message = f"There is already a {kind.kind} with name {key.name} in the cluster: {key_of(same[0])}."
        return Refusal("MoreThanOneExists", message, PEER_RETRY)
    return None


def _precedence(provider: Object) -> tuple[bool, bool, bool, str, Key]:
    """Of providers that exclude each other the lowest is installed: what is there already, and last what is older.

    One that is being deleted counts as long as what it brought may be there.
    """
    return (
        not provider_api.installed_version(provider),
        not dig(provider, "status.resources"),
        deleting(provider),
        dig(provider, "metadata.creationTimestamp", ""),
        key_of(provider),
    )


def _core_first(observed: Observed, provider: Object) -> Refusal | None:
    if provider_api.kind_of(provider).is_core or any(is_operational(core) for core in observed.cores):
        return None
    return Refusal("WaitingForCoreProviderReady", "Waiting for the CoreProvider to be installed.", CORE_RETRY, "Normal")


CHECKS: tuple[Callable[[Observed, Object], Refusal | None], ...] = (
    _version,
    _no_downgrade,
    _core_name,
    _name,
    _source,
    _inputs,
    _alone,
    _core_first,
)
