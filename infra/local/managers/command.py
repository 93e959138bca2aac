"""Decides the command line and environment of a manager's process from its Deployment."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared.api.resources import CONFIG_MAP, SECRET
from shared.kube import Key, Resource, dig, key_of

_NAME = "/manager"
"""The program of images whose Deployments name none, by convention."""
CONTAINER = "manager"
"""The name of a manager's container by convention; others, such as a proxy of its metrics, are left out."""

LEADER_ELECTION = ("leader-elect", "enable-leader-election")
HEALTH = ("health-addr", "health-probe-bind-address", "health-probe-addr")
DIAGNOSTICS = ("diagnostics-address", "metrics-bind-address", "metrics-bind-addr", "metrics-addr")
WEBHOOK_PORT, WEBHOOK_CERTIFICATES = ("webhook-port",), ("webhook-cert-dir", "webhook-cert-path")
_BOOLEAN = LEADER_ELECTION
_REPLACED = (*LEADER_ELECTION, *HEALTH, *DIAGNOSTICS, *WEBHOOK_PORT, *WEBHOOK_CERTIFICATES, "kubeconfig")

_CERTIFICATES = "serving-certs"
"""The last part of the path of a certificate's volume by convention."""
_SEPARATOR = re.compile(r"([=:,])")
_PRINTED_FLAG = re.compile(r"^[ \t]+(?:-\w, )?--?([A-Za-z][\w.-]+)", re.M | re.ASCII)
"""A flag in the help that programs of Go print."""
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")


class ManagerError(Exception):
    """A manager cannot run as a local process; the message names it and says why."""


@dataclass(frozen=True)
class Addresses:
    """The addresses and resources of one manager.

    Attributes:
        host: The address for health checks and metrics, and the address of its pod.
        health: The port of /healthz and /readyz.
        diagnostics: The port of the metrics.
        webhooks: The port of the webhooks.
        certificates: The folder with tls.crt and tls.key of the webhooks; None for a manager without webhooks.
        kubeconfig: The kubeconfig of the manager.
        folders: The local folders of the manager's volumes, by the path in its container.
    """

    host: str
    health: int
    diagnostics: int
    webhooks: int
    certificates: Path | None
    kubeconfig: Path
    folders: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Volume:
    """A Secret or ConfigMap that the container of a manager has as a folder.

    Attributes:
        name: The name of the volume.
        path: The path in the container.
        resource: The kind of the object.
        key: The object.
        optional: Whether the manager runs without the object.
        items: Pairs of a key and the path of its file; empty for all keys.
    """

    name: str
    path: str
    resource: Resource
    key: Key
    optional: bool = False
    items: tuple[tuple[str, str], ...] = ()

    @property
    def has_certificates(self) -> bool:
        """Whether it has the certificate of the webhooks."""
        return self.resource is SECRET and _CERTIFICATES in self.path


@dataclass(frozen=True)
class Command:
    """A command line, and additions to the environment.

    `name` is the program's name in its image, because field managers and user agents begin with it.
    """

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def command_of(deployment: Mapping[str, Any], addresses: Addresses, flags: Collection[str] = ()) -> Command:
    """Returns the command of the manager in a Deployment.

    Flags of the Deployment are kept, feature gates included, except those for addresses, certificates and leader
    election. `flags` has the names of all flags of the program, if these are known: a flag of Cluster API's managers
    that this program does not have is left out. Raises `ManagerError`.
    """
    container = _container(deployment)
    environment: dict[str, str] = {}
    for variable in container.get("env") or []:
        environment[variable["name"]] = _local(_value(variable, deployment, addresses, environment), addresses)
    if container.get("envFrom"):
        raise ManagerError(f"{key_of(deployment)}: a local process cannot take its environment from envFrom")
    given = [_local(_expand(str(argument), environment), addresses) for argument in container.get("args") or []]
    name = next(iter(container.get("command") or ()), _NAME)
    # All clients of Go read the variable, but few managers of other projects pass the flag on.
    environment["KUBECONFIG"] = str(addresses.kubeconfig)
    return Command(name, (*_kept(given), *_own(given, addresses, flags)), environment)


def printed_flags(usage: str) -> frozenset[str]:
    """Returns the names of the flags in the help of a program."""
    return frozenset(_PRINTED_FLAG.findall(usage))


def volumes_of(deployment: Mapping[str, Any]) -> list[Volume]:
    """Returns the volumes of the manager that are Secrets and ConfigMaps. Raises `ManagerError`."""
    mounted = {mount["name"]: str(mount.get("mountPath")) for mount in _container(deployment).get("volumeMounts") or []}
    found: list[Volume] = []
    for volume in dig(deployment, "spec.template.spec.volumes", []):
        for source, resource, name in (("secret", SECRET, "secretName"), ("configMap", CONFIG_MAP, "name")):
            content = volume.get(source)
            if volume["name"] in mounted and content and content.get(name):
                key = Key(key_of(deployment).namespace, content[name])
                items = tuple((item["key"], str(item["path"])) for item in content.get("items") or [])
                optional = bool(content.get("optional"))
                found.append(Volume(volume["name"], mounted[volume["name"]], resource, key, optional, items))
    return found


def _container(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = dig(deployment, "spec.template.spec.containers", [])
    named = [container for container in containers if container.get("name") == CONTAINER]
    if not named and len(containers) != 1:
        raise ManagerError(f"{key_of(deployment)} has {len(containers)} containers, but no container {CONTAINER}")
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
        raise ManagerError(f"{key}: variable {variable['name']} has a source that a local process cannot read")
    return str(known[field])


def _expand(text: str, environment: Mapping[str, str]) -> str:
    """Replaces $(NAME) as Kubernetes does: unknown names stay, and $$ is a dollar sign."""

    def replacement(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else environment.get(found[1], found[0])

    return _REFERENCE.sub(replacement, text)


def _local(text: str, addresses: Addresses) -> str:
    """Returns a text with the local folders of volumes in the place of their paths in the container."""
    parts = _SEPARATOR.split(text)
    for path, folder in addresses.folders.items():
        mounted = path.rstrip("/")
        parts = [
            f"{folder}{part.removeprefix(mounted)}" if f"{part}/".startswith(f"{mounted}/") else part for part in parts
        ]
    return "".join(parts)


def _flag(argument: str) -> str:
    """Returns the name of the flag that an argument begins; empty if it begins no flag."""
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


def _own(arguments: Sequence[str], addresses: Addresses, flags: Collection[str]) -> Iterable[str]:
    given = {_flag(argument) for argument in arguments}
    host = f"[{addresses.host}]" if ":" in addresses.host else addresses.host
    has_webhooks = addresses.certificates is not None
    for names, value, wanted in (
        (LEADER_ELECTION, "false", True),
        (HEALTH, f"{host}:{addresses.health}", True),
        (DIAGNOSTICS, f"{host}:{addresses.diagnostics}", True),
        (WEBHOOK_PORT, addresses.webhooks, has_webhooks),
        (WEBHOOK_CERTIFICATES, addresses.certificates, has_webhooks),
    ):
        # Managers name these flags differently: the Deployment's flag counts, else the program's, else Cluster API's
        # own.
        candidates = [*(name for name in names if name in given), *(name for name in names if name in flags)]
        if wanted and (candidates or not flags):
            yield f"--{next(iter(candidates), names[0])}={value}"
