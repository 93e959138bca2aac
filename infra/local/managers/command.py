"""Decides the command line and environment of a manager's process from its Deployment."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.kube import Key, dig, key_of

_NAME = "/manager"
"""The program of images whose Deployments name none, by convention."""
CONTAINER = "manager"
"""The name of a manager's container by convention; others, such as a proxy of its metrics, are left out."""

LEADER_ELECTION = ("leader-elect", "enable-leader-election")
HEALTH = ("health-addr", "health-probe-bind-address", "health-probe-addr")
DIAGNOSTICS = ("diagnostics-address", "metrics-bind-address", "metrics-bind-addr", "metrics-addr")
WEBHOOK_PORT, WEBHOOK_CERTIFICATES, KUBECONFIG = ("webhook-port",), ("webhook-cert-dir",), ("kubeconfig",)
_BOOLEAN = LEADER_ELECTION
_REPLACED = (*LEADER_ELECTION, *HEALTH, *DIAGNOSTICS, *WEBHOOK_PORT, *WEBHOOK_CERTIFICATES, *KUBECONFIG)

_CERTIFICATES = "serving-certs"
"""The last part of the path of a certificate's volume by convention."""
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")


class ManagerError(Exception):
    """A manager cannot run as a local process; the message names it and says why."""


@dataclass(frozen=True)
class Addresses:
    """Where one manager listens and what it uses.

    Attributes:
        host: The address for health checks and metrics, and the address of its pod.
        health: The port of /healthz and /readyz.
        diagnostics: The port of the metrics.
        webhooks: The port of the webhooks.
        certificates: The folder with tls.crt and tls.key of the webhooks.
        kubeconfig: The kubeconfig of the manager.
    """

    host: str
    health: int
    diagnostics: int
    webhooks: int
    certificates: Path
    kubeconfig: Path


@dataclass(frozen=True)
class Command:
    """A command line, and what is added to the environment.

    `name` is that of the program in its image: field managers and user agents begin with it.
    """

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def command_of(deployment: Mapping[str, Any], addresses: Addresses) -> Command:
    """Returns the command of the manager in a Deployment.

    Flags of the Deployment are kept, feature gates included, except those for addresses, certificates and leader
    election. Raises `ManagerError`.
    """
    container = _container(deployment)
    environment: dict[str, str] = {}
    for variable in container.get("env") or []:
        environment[variable["name"]] = _value(variable, deployment, addresses, environment)
    if container.get("envFrom"):
        raise ManagerError(f"{key_of(deployment)}: a local process cannot take its environment from envFrom")
    given = [_expand(str(argument), environment) for argument in container.get("args") or []]
    name = next(iter(container.get("command") or ()), _NAME)
    return Command(name, (*_kept(given), *_own(given, addresses)), environment)


def certificate_secret(deployment: Mapping[str, Any]) -> Key:
    """Returns the Secret with the certificate of the webhooks, a volume of the manager. Raises `ManagerError`."""
    mounted = {mount["name"]: str(mount.get("mountPath")) for mount in _container(deployment).get("volumeMounts") or []}
    for volume in dig(deployment, "spec.template.spec.volumes", []):
        if _CERTIFICATES in mounted.get(volume["name"], "") and (name := dig(volume, "secret.secretName")):
            return Key(key_of(deployment).namespace, name)
    raise ManagerError(f"{key_of(deployment)} has no volume with a Secret at .../{_CERTIFICATES}")


def _container(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = dig(deployment, "spec.template.spec.containers", [])
    named = [container for container in containers if container.get("name") == CONTAINER]
    if not named and len(containers) != 1:
        raise ManagerError(f"{key_of(deployment)} has {len(containers)} containers, and none is named {CONTAINER}")
    return next(iter(named or containers))


def _value(
    variable: Mapping[str, Any], deployment: Mapping[str, Any], addresses: Addresses, defined: Mapping[str, str]
) -> str:
    source = variable.get("valueFrom")
    if source is None:
        return _expand(str(variable.get("value") or ""), defined)
    key = key_of(deployment)
    known = {
        "metadata.name": key.name,
        "metadata.namespace": key.namespace,
        "metadata.uid": str(uuid.uuid5(uuid.NAMESPACE_OID, str(key))),
        "spec.serviceAccountName": dig(deployment, "spec.template.spec.serviceAccountName", "default"),
        "status.podIP": addresses.host,
        "status.hostIP": addresses.host,
    }
    field = dig(source, "fieldRef.fieldPath")
    if field not in known:
        raise ManagerError(f"{key}: variable {variable['name']} has a source that a local process does not have")
    return str(known[field])


def _expand(text: str, environment: Mapping[str, str]) -> str:
    """Replaces $(NAME) as Kubernetes does: unknown names stay, and $$ is a dollar sign."""

    def replacement(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else environment.get(found[1], found[0])

    return _REFERENCE.sub(replacement, text)


def _flag(argument: str) -> str:
    """Returns the name of the flag that an argument begins; empty if it is none."""
    return argument.lstrip("-").partition("=")[0].replace("_", "-") if argument.startswith("-") else ""


def _kept(arguments: Sequence[str]) -> Iterable[str]:
    """Yields the arguments without the replaced flags and their values."""
    skip_value = False
    for argument in arguments:
        if skip_value and not argument.startswith("-"):
            skip_value = False
            continue
        skip_value = False
        if (flag := _flag(argument)) in _REPLACED:
            skip_value = "=" not in argument and flag not in _BOOLEAN
        else:
            yield argument


def _own(arguments: Sequence[str], addresses: Addresses) -> Iterable[str]:
    given = {_flag(argument) for argument in arguments}
    host = f"[{addresses.host}]" if ":" in addresses.host else addresses.host
    for names, value in (
        (LEADER_ELECTION, "false"),
        (HEALTH, f"{host}:{addresses.health}"),
        (DIAGNOSTICS, f"{host}:{addresses.diagnostics}"),
        (WEBHOOK_PORT, addresses.webhooks),
        (WEBHOOK_CERTIFICATES, addresses.certificates),
        (KUBECONFIG, addresses.kubeconfig),
    ):
        # Managers name these flags differently; what the Deployment uses counts, else Cluster API's own name.
        name = next((name for name in names if name in given), names[0])
        yield f"--{name}={value}"
