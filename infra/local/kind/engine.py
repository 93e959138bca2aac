"""Container engines, which show the runtime `kind` the existing nodes and their owners."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from functions.kind_cluster.runtime import RuntimeUnavailable

from .config import LOAD_BALANCER, OWNER_MOUNT
from .errors import classify

ENGINES = ("docker", "nerdctl", "podman")
"""In kind's own order of preference."""

VARIABLE = "KIND_EXPERIMENTAL_PROVIDER"
"""The environment variable by which kind's users choose the engine."""

_CLUSTER, _ROLE = "io.x-k8s.kind.cluster", "io.x-k8s.kind.role"
_TIMEOUT = 20.0

Owner = Literal["nobody", "us", "another"]


@dataclass(frozen=True)
class NodeContainer:
    """A container of a cluster, running or stopped."""

    name: str
    role: str
    running: bool
    mounts: tuple[str, ...]
    """The paths in the container where folders and files of the machine are mounted, without the volumes
    that the image itself declares."""


def owner(nodes: Sequence[NodeContainer], uid: str) -> Owner:
    """Returns the owner of these containers. They are ours only if each node has the mount with our uid.

    The load balancer of several control-plane nodes has no mounts; alone it proves nothing.
    """
    if not nodes:
        return "nobody"
    proofs = [OWNER_MOUNT + uid in node.mounts for node in nodes if node.role != LOAD_BALANCER]
    return "us" if proofs and all(proofs) else "another"


class Engine:
    """One container engine by the name of its program. Methods raise `RuntimeUnavailable`."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def choose(cls, env: Mapping[str, str] = os.environ) -> Engine:
        """Returns the engine that the environment names, else the first that is installed."""
        if chosen := env.get(VARIABLE):
            return cls(chosen)
        for name in ENGINES:
            if shutil.which(name, path=env.get("PATH")):
                return cls(name)
        raise RuntimeUnavailable(f"the runtime kind needs one of {', '.join(ENGINES)}: install it, and start it")

    def nodes(self, cluster: str) -> list[NodeContainer]:
        """Returns the containers of the cluster with this name, whoever created it."""
        found = self._run("ps", "-a", "-q", "--no-trunc", "--filter", f"label={_CLUSTER}={cluster}").split()
        if not found:
            return []
        return sorted(map(container, json.loads(self._run("inspect", *found))), key=lambda node: node.name)

    def running(self) -> set[str]:
        """Returns the names of the containers of all clusters that run."""
        return set(self._run("ps", "--filter", f"label={_CLUSTER}", "--format", "{{.Names}}").split())

    def start(self, nodes: Sequence[NodeContainer]) -> None:
        """Starts the containers that do not run."""
        if stopped := [node.name for node in nodes if not node.running]:
            self._run("start", *stopped)

    def read(self, node: str, path: str) -> bytes:
        """Returns a file of a node."""
        return self._run("exec", node, "cat", path).encode()

    def _run(self, *arguments: str) -> str:
        try:
            done = subprocess.run(
                [self.name, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except OSError as error:
            raise RuntimeUnavailable(f"{self.name} cannot be run: {error.strerror}; install it, or {_OTHER}") from error
        except subprocess.TimeoutExpired as error:
            raise RuntimeUnavailable(f"{self.name} {arguments[0]} gave no answer in {_TIMEOUT:g} s") from error
        if done.returncode:
            failure = classify(done.stderr)
            raise RuntimeUnavailable(f"{self.name} {arguments[0]}: {failure.message}")
        return done.stdout


_OTHER = f"choose another container engine with {VARIABLE}"


def container(found: Mapping[str, Any]) -> NodeContainer:
    """Returns a container as the engine's `inspect` describes it."""
    state, config, mounts = found.get("State") or {}, found.get("Config") or {}, found.get("Mounts")
    labels = config.get("Labels") or {}
    return NodeContainer(
        name=str(found.get("Name", "")).removeprefix("/"),
        role=labels.get(_ROLE, ""),
        running=bool(state.get("Running")),
        mounts=tuple(one.get("Destination", "") for one in mounts or () if one.get("Type") == "bind"),
    )
