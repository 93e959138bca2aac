"""The port to the runtime that runs a KINDCluster's control plane, and the choice of the runtime.

An instance belongs to one KINDCluster by its uid, so that no other cluster of the same name is ever adopted or
deleted, and a function that died half-way finds what it started.

Runtimes are plugins: an entry point of the group `capi_functions.kind_runtimes` maps the runtime's name to a callable
that takes the environment variables and returns a `Runtime`. `local` is in infra/local/kind_runtime.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Literal, Protocol

GROUP = "capi_functions.kind_runtimes"
"""The group of entry points that name runtimes."""

DEFAULT = "local"


@dataclass(frozen=True)
class Instance:
    """A cluster as its runtime reports it; endpoint, CA (certificate, key) and admin kubeconfig once it is ready."""

    phase: Literal["absent", "starting", "ready", "failed"]
    error: str = ""
    host: str = ""
    port: int = 0
    authority: tuple[bytes, bytes] = (b"", b"")
    kubeconfig: bytes = b""


class RuntimeUnavailable(Exception):
    """The runtime cannot be used; the message says why and what to do."""


class Runtime(Protocol):
    """Creates, inspects and deletes instances. Every call returns soon: creation continues in the background.

    All calls raise `RuntimeUnavailable` where the runtime refuses.
    """

    def inspect(self, uid: str) -> Instance:
        """Returns the current phase of the instance, and how to reach it once it is ready."""

    def create(self, uid: str, authority: tuple[bytes, bytes] | None) -> None:
        """Starts (or restarts) the instance; `authority` is the user's own CA: certificate and key in PEM."""

    def delete(self, uid: str) -> None:
        """Ends and removes the instance. Does nothing if there is none."""


FromEnv = Callable[[Mapping[str, str]], Runtime]
"""What an entry point refers to."""


def from_env(env: Mapping[str, str] = os.environ) -> Runtime:
    """Returns the runtime that `KIND_RUNTIME` names, outside a pod by default `local`.

    A pod has no default: the processes that `local` starts end with the pod, and are not reachable from outside it.
    Raises `RuntimeUnavailable` if there is no such runtime.
    """
    name = env.get("KIND_RUNTIME", "")
    if not name and env.get("KUBERNETES_SERVICE_HOST"):
        raise RuntimeUnavailable(
            "a pod cannot run the control plane of a KINDCluster, which consists of processes of one machine: "
            "have the Cluster refer to the infrastructure object of a provider, or use `capi-functions up` on a machine"
        )
    installed = _installed()
    if (name or DEFAULT) not in installed:
        known = ", ".join(sorted(installed)) or "none; reinstall the package capi-functions"
        raise RuntimeUnavailable(f"KIND_RUNTIME={name}: no such runtime is installed; there is: {known}")
    return installed[name or DEFAULT](env)


@cache
def _installed() -> Mapping[str, FromEnv]:
    return {found.name: found.load() for found in entry_points(group=GROUP)}
