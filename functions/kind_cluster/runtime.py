"""The interface of runtimes, which run the control planes of KINDClusters, and the choice of the runtime.

An instance is one control plane. The uid of its KINDCluster identifies it: a restarted function finds the instance that
it created, and never adopts or deletes that of another KINDCluster of the same name.

Runtimes are plugins: an entry point of the group `capi_functions.kind_runtimes` maps the runtime's name to a callable
that takes the environment variables and returns a `Runtime`. `local` is in infra/local/kind_runtime.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Literal, Protocol

GROUP = "capi_functions.kind_runtimes"
"""The group of entry points that name runtimes."""

DEFAULT = "local"


@dataclass(frozen=True)
class Instance:
    """An instance as its runtime reports it.

    `phase` is `absent` (not created), `starting`, `ready` (the API server answers), or `failed` (see `error`); it is
    `unknown` if the runtime cannot be used, which no runtime reports itself. A ready instance has an endpoint, a CA
    (certificate and key in PEM) and an admin kubeconfig.
    """

    phase: Literal["absent", "starting", "ready", "failed", "unknown"]
    error: str = ""
    host: str = ""
    port: int = 0
    ca: tuple[bytes, bytes] = field(default=(b"", b""), repr=False)
    kubeconfig: bytes = field(default=b"", repr=False)


class RuntimeUnavailable(Exception):
    """The runtime cannot be used; the message says why and what to do."""


class Runtime(Protocol):
    """Creates, inspects and deletes instances. Every call returns soon: creation continues in the background.

    Each method raises `RuntimeUnavailable` if the runtime refuses the call.
    """

    def inspect(self, uid: str) -> Instance:
        """Returns the current phase of the instance, and how to reach it once it is ready."""

    def create(self, uid: str, ca: tuple[bytes, bytes] | None) -> None:
        """Starts (or restarts) the instance; `ca` is the user's own CA: certificate and key in PEM."""

    def delete(self, uid: str) -> None:
        """Ends and removes the instance. Does nothing if there is none."""


FromEnv = Callable[[Mapping[str, str]], Runtime]
"""The type of the callable that an entry point names: takes the environment variables, returns a runtime."""


def from_env(env: Mapping[str, str] = os.environ) -> Runtime:
    """Returns the runtime that `KIND_RUNTIME` names; the default is `local`, but not in a pod.

    In a pod the variable must be set: processes that `local` starts end with the pod and are unreachable from outside.
    Raises `RuntimeUnavailable` if there is no such runtime.
    """
    name = env.get("KIND_RUNTIME", "")
    if not name and env.get("KUBERNETES_SERVICE_HOST"):
        raise RuntimeUnavailable(
            "KIND_RUNTIME is not set, and the default `local` does not work in a pod: it runs the control plane of a "
            "KINDCluster as processes, which end with the pod. Use another infrastructure provider for the Cluster, or "
            "run the functions on a machine with `capi-functions up`"
        )
    installed = _installed()
    if (name or DEFAULT) not in installed:
        known = ", ".join(sorted(installed)) or "none; reinstall the package capi-functions"
        raise RuntimeUnavailable(f"KIND_RUNTIME={name or DEFAULT}: this runtime is not installed; installed: {known}")
    return installed[name or DEFAULT](env)


@cache
def _installed() -> Mapping[str, FromEnv]:
    return {found.name: found.load() for found in entry_points(group=GROUP)}
