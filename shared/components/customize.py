"""Applies spec.deployment, spec.manager and spec.additionalDeployments of a provider to its Deployments.

spec.manager becomes command-line flags of the manager.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from shared.kube.resources import Object, dig, key_of, split_api_version

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


_MAIN_DEPLOYMENT: Final = re.compile(r"ca.*-controller-manager", re.DOTALL)
"""The name of the main Deployment of a provider that has several."""

_MANAGER_CONTAINER: Final = "manager"

_POD_FIELDS: Final = ("affinity", "nodeSelector", "tolerations", "imagePullSecrets", "serviceAccountName")
"""Fields of spec.deployment that replace the same fields of the pod, even if they are empty lists or mappings."""

_CONTAINER_FIELDS: Final = (("resources", "resources"), ("imageUrl", "image"), ("command", "command"))
_PROBES: Final = (
    ("health.livenessEndpointName", "livenessProbe.httpGet"),
    ("health.readinessEndpointName", "readinessProbe.httpGet"),
)


def customize(objects: Sequence[Object], provider: Object) -> list[Object]:
    """Returns the objects in the same order, with customized Deployments. Raises `CustomizationError`."""
    several = sum(map(_is_deployment, objects)) > 1
    return [_customized(obj, provider, several) if _is_deployment(obj) else obj for obj in objects]


def _is_deployment(obj: Mapping[str, Any]) -> bool:
    return obj["kind"] == "Deployment" and split_api_version(obj["apiVersion"])[0] == "apps"


def _customized(deployment: Object, provider: Object, several: bool) -> Object:
    where = _path_of(key_of(deployment).name, several)
    customization = dig(provider, where, {})
    result = deepcopy(deployment)
    # spec.manager comes last, because it overrides flags of spec.deployment.
    if (changes := customization.get("deployment")) is not None:
        _change_deployment(result, changes, ".".join([*where, "deployment"]))
    if (changes := customization.get("manager")) is not None:
        _change_manager(result, changes, ".".join([*where, "manager"]))
    return result


def _path_of(name: str, several: bool) -> tuple[str, ...]:
    """Returns the path of the field of the provider that customizes the Deployment `name`."""
    return ("spec",) if not several or _MAIN_DEPLOYMENT.fullmatch(name) else ("spec", "additionalDeployments", name)


# -- spec.deployment -----------------------------------------------------------------------------------------------


def _change_deployment(deployment: Object, changes: Mapping[str, Any], where: str) -> None:
    pod = _pod(deployment, where)
    if changes.get("replicas") is not None:
        deployment["spec"]["replicas"] = changes["replicas"]
    pod.update({name: deepcopy(changes[name]) for name in _POD_FIELDS if changes.get(name) not in (None, "")})
    for index, container in enumerate(changes.get("containers") or []):
        _change_container(deployment, container, f"{where}.containers[{index}]")


def _change_container(deployment: Object, changes: Mapping[str, Any], where: str) -> None:
    container = _container(deployment, changes["name"], where)
    if container is None:
        raise CustomizationError(f"{where}.name: {_describe(deployment)} has no container {changes['name']!r}")
    args = _items(deployment, container, "args", str, where)
    for name, value in sorted((changes.get("args") or {}).items()):
        args = set_flag(args, name, value)
    if args:
        container["args"] = args
    for variable in changes.get("env") or []:
        present = _items(deployment, container, "env", dict, where)
        container["env"] = [*(other for other in present if other.get("name") != variable["name"]), deepcopy(variable)]
    for name, field in _CONTAINER_FIELDS:
        if changes.get(name) not in (None, ""):
            container[field] = deepcopy(changes[name])


# -- spec.manager --------------------------------------------------------------------------------------------------


def _change_manager(deployment: Object, changes: Mapping[str, Any], where: str) -> None:
    container = _container(deployment, _MANAGER_CONTAINER, where) or next(iter(_containers(deployment, where)), None)
    if container is None:
        raise CustomizationError(f"{where}: {_describe(deployment)} has no container")
    try:
        args = set_manager_flags(_items(deployment, container, "args", str, where), changes, where)
    except CustomizationError as error:
        raise CustomizationError(f"{error} (container {container.get('name')!r} of {_describe(deployment)})") from error
    if args:
        container["args"] = args
    for field, probe in _PROBES:
        path, http = dig(changes, field), dig(container, probe)
        if path and isinstance(http, dict):
            http["path"] = f"/{path}"


# -- the parts of a Deployment -------------------------------------------------------------------------------------


def _pod(deployment: Object, where: str) -> Object:
    pod = dig(deployment, "spec.template.spec")
    if not isinstance(pod, dict):
        raise CustomizationError(f"{where}: {_describe(deployment)} has no spec.template.spec")
    return pod


def _containers(deployment: Object, where: str) -> list[Object]:
    containers = _pod(deployment, where).get("containers") or []
    if not isinstance(containers, list) or not all(isinstance(container, dict) for container in containers):
        raise CustomizationError(f"{where}: the containers of {_describe(deployment)} must be a list of mappings")
    return containers


def _container(deployment: Object, name: str, where: str) -> Object | None:
    return next((container for container in _containers(deployment, where) if container.get("name") == name), None)


def _items(deployment: Object, container: Object, field: str, type_: type, where: str) -> list[Any]:
    items = container.get(field) or []
    if not isinstance(items, list) or not all(isinstance(item, type_) for item in items):
        what = f"container {container.get('name')!r} of {_describe(deployment)}"
        raise CustomizationError(f"{where}: {field} of {what} cannot be changed: it is malformed")
    return items


def _describe(deployment: Object) -> str:
    return f"Deployment {key_of(deployment).name}"
