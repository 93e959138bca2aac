"""Translates spec.manager of a provider into command-line flags of its manager."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from shared.kube.resources import dig

from .durations import whole_seconds
from .errors import CustomizationError

_PLAIN: Final = (
    ("maxConcurrentReconciles", "--max-concurrent-reconciles"),
    ("cacheNamespace", "--namespace"),
    ("health.healthProbeBindAddress", "--health-addr"),
    ("metrics.bindAddress", "--metrics-bind-addr"),
    ("metrics.diagnosticsAddress", "--diagnostics-address"),
    ("webhook.host", "--webhook-host"),
    ("webhook.port", "--webhook-port"),
    ("webhook.certDir", "--webhook-cert-dir"),
    ("profilerAddress", "--profiler-address"),
)
"""Fields whose value is the value of the flag, unless it is empty."""

_PERIODS: Final = (("syncPeriod", "--sync-period"),)
_ELECTION_PERIODS: Final = (
    ("leaderElection.leaseDuration", "--leader-elect-lease-duration"),
    ("leaderElection.renewDeadline", "--leader-elect-renew-deadline"),
    ("leaderElection.retryPeriod", "--leader-elect-retry-period"),
)
"""Fields with durations, which become whole seconds, unless they are zero."""

_VERBOSITY: Final = 1
"""The CRD's default of `verbosity`; the flag is not set for it."""

_GATES: Final = "--feature-gates"


def set_manager_flags(args: Sequence[str], manager: Mapping[str, Any], where: str) -> list[str]:
    """Returns the arguments with the flags of spec.manager set.

    Args:
        args: The arguments of the manager's container.
        manager: The value of spec.manager.
        where: The path of `manager`, for messages.

    Raises:
        CustomizationError: A duration is invalid, or an additional argument exists already.
    """
    result = list(args)
    for name, value in _flags(manager, where):
        result = set_flag(result, name, value)
    if gates := dig(manager, "featureGates"):
        result = set_flag(result, _GATES, _merged_gates(result, gates))
    for name, value in sorted(dig(manager, "additionalArgs", {}).items()):
        if _position(result, name) is not None:
            raise CustomizationError(
                f"{where}.additionalArgs: {name} exists already; use deployment.containers[].args to replace a flag"
            )
        result.append(f"{name}={value}")
    return result


def set_flag(args: Sequence[str], name: str, value: str) -> list[str]:
    """Returns the arguments with the flag in the place of the first flag of that name, or at the end."""
    flag, position = f"{name}={value}", _position(args, name)
    return [*args, flag] if position is None else [*args[:position], flag, *args[position + 1 :]]


def _position(args: Sequence[str], name: str) -> int | None:
    return next((index for index, arg in enumerate(args) if arg.startswith(f"{name}=")), None)


def _flags(manager: Mapping[str, Any], where: str) -> Iterator[tuple[str, str]]:
    """Yields name and value of the flags that spec.manager sets."""
    for kind, number in sorted(dig(manager, "controller.groupKindConcurrency", {}).items()):
        yield f"--{kind.lower()}-concurrency", str(number)
    for field, flag in _PLAIN:
        if (value := dig(manager, field, "")) != "":
            yield flag, str(value)
    if dig(manager, "metrics.insecureDiagnostics"):
        yield "--insecure-diagnostics", "true"  # never false: not all providers know the flag
    yield from _seconds(manager, where, _PERIODS)
    yield from _leader_election(manager, where)
    if (verbosity := dig(manager, "verbosity", _VERBOSITY)) != _VERBOSITY:
        yield "--v", str(verbosity)


def _leader_election(manager: Mapping[str, Any], where: str) -> Iterator[tuple[str, str]]:
    elect = dig(manager, "leaderElection.leaderElect")
    if elect is None:
        return
    yield "--leader-elect", "true" if elect else "false"
    if not elect:
        return
    namespace = dig(manager, "leaderElection.resourceNamespace")
    name = dig(manager, "leaderElection.resourceName")
    if namespace and name:
        yield "--leader-election-id", f"{namespace}/{name}"
    yield from _seconds(manager, where, _ELECTION_PERIODS)


def _seconds(manager: Mapping[str, Any], where: str, periods: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for field, flag in periods:
        try:
            seconds = whole_seconds(dig(manager, field, "0"))
        except ValueError as error:
            raise CustomizationError(f"{where}.{field}: {error}") from error
        if seconds > 0:
            yield flag, f"{seconds}s"


def _merged_gates(args: Sequence[str], gates: Mapping[str, bool]) -> str:
    """Returns the feature gates in `args`, overridden by `gates`."""
    position = _position(args, _GATES)
    present = args[position].partition("=")[2].split(",") if position is not None else []
    merged = dict(gate.strip().split("=", 1) for gate in present if "=" in gate)
    merged |= {name: "true" if enabled else "false" for name, enabled in gates.items()}
    return ",".join(f"{name}={value}" for name, value in sorted(merged.items()))
