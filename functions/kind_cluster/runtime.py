"""The interface of runtimes, which run the control planes of KINDClusters, and the choice of the runtime.

An instance is one control plane. The uid of its KINDCluster identifies it: a restarted function finds the instance that
it created, and never adopts or deletes the instance of another KINDCluster with the same name.

Runtimes are plugins: an entry point of the group `capi_functions.kind_runtimes` maps the runtime's name to a callable
that takes the environment variables and returns a `Runtime`. `local` is in infra/local/kind_runtime.py, `kind` in
infra/local/kind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, Protocol

from shared.kube import Object

GROUP = "capi_functions.kind_runtimes"
"""The group of entry points that name runtimes."""

DEFAULT = "local"

NONE = "none"
"""The value of `KIND_RUNTIME` for functions that create no instances, because other functions may do so."""


NOT_ALLOWED = "RuntimeNotAllowed"
"""The reason of the condition Ready if the installation does not allow the runtime."""


@dataclass(frozen=True)
class InstanceSpec:
    """The data of a KINDCluster for a runtime.

    Attributes:
        uid: The uid of the KINDCluster; identifies the instance.
        name: `spec.clusterName`.
        fields: The spec; runtimes take from it what they support.
    """

    uid: str
    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, kind_cluster: Object) -> InstanceSpec:
        """Returns the spec of the instance of a KINDCluster."""
        fields = {name: value for name, value in kind_cluster["spec"].items() if name != "controlPlaneEndpoint"}
        return cls(kind_cluster["metadata"]["uid"], fields.get("clusterName", ""), fields)

    def folder(self, directory: Path) -> Path:
        """Returns the instance's folder, named by its uid. Raises `RuntimeUnavailable` if the uid is no valid name."""
        if not self.uid or not all(char.isalnum() or char == "-" for char in self.uid):
            raise RuntimeUnavailable(f"uid {self.uid!r} cannot name a folder")
        return directory / self.uid


@dataclass(frozen=True)
class Instance:
    """An instance as its runtime reports it.

    `phase` is `absent` (not created), `starting`, `ready` (the API server answers), `failed` (see `error`), or
    `deleting`; it is `unknown` if the runtime cannot be used, which no runtime reports itself. A ready instance has an
    endpoint, a CA (certificate and key in PEM) and an admin kubeconfig.
    """

    phase: Literal["absent", "starting", "ready", "failed", "deleting", "unknown"]
    error: str = ""
    """Why the phase is `failed`, and what to do; if the phase is `absent`, why the instance ended."""
    host: str = ""
    port: int = 0
    ca: tuple[bytes, bytes] = field(default=(b"", b""), repr=False)
    kubeconfig: bytes = field(default=b"", repr=False)
    reason: str = ""
    """The class of the error, in the form of a condition's reason."""
    step: str = ""
    """The present step of a starting instance."""
    version: str = ""
    """The version of Kubernetes that a ready instance runs, if the runtime knows it."""
    retry_after: float = 0.0
    """Seconds after which a failed instance is to be created again."""


class RuntimeUnavailable(Exception):
    """The runtime cannot be used; the message says why and what to do, `reason` is the class of the error."""

    def __init__(self, message: str, reason: str = "RuntimeUnavailable") -> None:
        super().__init__(message)
        self.reason = reason


class StillDeleting(Exception):
    """The deletion of an instance continues in the background; `message` and `reason` say why an attempt failed."""

    def __init__(self, message: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.message, self.reason = message, reason


class Runtime(Protocol):
    """Creates, inspects and deletes instances. Every call returns soon: the work continues in the background.

    Each method raises `RuntimeUnavailable` if the runtime refuses the call.
    """

    def inspect(self, spec: InstanceSpec) -> Instance:
        """Returns the current phase of the instance, and how to reach it once it is ready."""

    def create(self, spec: InstanceSpec, ca: tuple[bytes, bytes] | None) -> None:
        """Starts the instance, or continues what was interrupted; `ca` is the user's own CA: certificate and key.

        If an instance is already starting or ready, a further call has no effect.
        """

    def delete(self, spec: InstanceSpec) -> None:
        """Ends and removes the instance. Does nothing if there is none.

        Raises `StillDeleting` until nothing is left.
        """

    def ended(self) -> Collection[str]:
        """Returns the uids of this runtime's instances that should run, but do not."""


FromEnv = Callable[[Mapping[str, str]], Runtime]
"""The type of the callable that an entry point names: takes the environment variables, returns a runtime."""


def runtime_for(kind_cluster: Object, env: Mapping[str, str] = os.environ) -> Runtime:
    """Returns the runtime that `spec.runtime` names, else the runtime of `from_env`. Raises `RuntimeUnavailable`."""
    return from_env(env, kind_cluster["spec"].get("runtime") or "")


def creates_instances(env: Mapping[str, str] = os.environ) -> bool:
    """Returns whether these functions may create instances at all."""
    return _allowed(env) != [NONE]


def check_allowed(kind_cluster: Object, env: Mapping[str, str] = os.environ) -> None:
    """Raises `RuntimeUnavailable` unless `KIND_RUNTIME` allows the runtime of a new KINDCluster.

    The operator of the functions decides, not the authors of KINDClusters, because the runtime `kind` amounts to root
    on the machine. Existing instances can be inspected and deleted in any case.
    """
    if not creates_instances(env):
        raise RuntimeUnavailable(
            "the functions of this management cluster create no clusters for KINDClusters; to have clusters created "
            "in containers of your machine, run the functions with `capi-functions run --kind`",
            reason=NOT_ALLOWED,
        )
    allowed = _allowed(env) or [DEFAULT]
    name = kind_cluster["spec"].get("runtime") or allowed[0]
    if name not in allowed:
        flag = "the option --kind of `capi-functions up`, or " if name == "kind" else ""
        raise RuntimeUnavailable(
            f"the functions run with KIND_RUNTIME={','.join(allowed)}, which does not allow the runtime {name}; to "
            f"allow it, run the functions with {flag}KIND_RUNTIME={','.join([*allowed, name])}",
            reason=NOT_ALLOWED,
        )


def from_env(env: Mapping[str, str] = os.environ, name: str = "") -> Runtime:
    """Returns the runtime `name`, else the first of those in `KIND_RUNTIME`; the default is `local`, but not in a pod.

    In a pod the variable must be set: processes that `local` starts end with the pod and are unreachable from outside.
    Raises `RuntimeUnavailable` if there is no such runtime.
    """
    name = name or next(iter(_allowed(env)), "")
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


def _allowed(env: Mapping[str, str]) -> list[str]:
    """Returns the names in `KIND_RUNTIME`, which are separated by commas."""
    return [name.strip() for name in env.get("KIND_RUNTIME", "").split(",") if name.strip()]


@cache
def _installed() -> Mapping[str, FromEnv]:
    return {found.name: found.load() for found in entry_points(group=GROUP)}
