"""Classes of errors of the kind program and of container engines, by the texts that they print, each with a remedy.

The texts come from kind v0.33.0, docker 28 and podman 4.3; tests compare them with the real programs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LONGEST = 400
"""Characters of a line of output in a message."""


@dataclass(frozen=True)
class Failure:
    """Why kind or the container engine failed.

    Attributes:
        reason: The class, in the form of a condition's reason.
        message: What failed, and what to do.
        retry_after: Seconds after which another attempt may succeed.
    """

    reason: str
    message: str
    retry_after: float


@dataclass(frozen=True)
class _Class:
    reason: str
    pattern: str
    way_out: str
    retry_after: float = 60.0


NETWORK_CREATED = "NetworkCreated"
"""The class of a race: kind does not find its network, and another kind creates the network meanwhile."""

_CLASSES = (
    _Class(
        "OutOfSpace",
        r"no space left on device|disk quota exceeded",
        "free space where the container engine keeps its images and volumes, for example with its `system prune`",
    ),
    _Class(
        "PortTaken",
        r"port is already allocated|address already in use|failed to expose ports|port .{0,200} is already in use",
        "free the port, or choose another in spec.nodes[].extraPortMappings or spec.networking.apiServerPort",
    ),
    _Class(
        "NameTaken",
        r"node\(s\) already exist for a cluster with the name|container name .{0,200} is already in use",
        "another cluster has this name and stays unchanged: choose another spec.clusterName, or delete that cluster",
    ),
    _Class(
        NETWORK_CREATED,
        r"network already exists|network with name \S+ already exists",
        "another cluster created the network at the same moment: the creation is tried again",
        10.0,
    ),
    _Class(
        "NoFreeSubnet",
        r"exhausted attempts trying to find a non-overlapping subnet",
        "delete unused networks of the container engine with its `network prune`, and leftover bridges",
    ),
    _Class(
        "ImageNotFound",
        r"failed to pull image|pull access denied|manifest unknown|no such image",
        "check spec.image, and that this machine reaches its registry; or load the image into the container engine",
    ),
    _Class(
        "InvalidConfiguration",
        r"unable to decode config|unknown apiVersion|unknown kind|is not a valid cluster name|must have at least one "
        r"control-plane|is not a valid node role|is a required field|ERROR: failed to create cluster: invalid |"
        r"invalid (apiServerPort|ipFamily|pod subnet|service subnet|kubeProxyMode|configuration for node|hostPort|"
        r"containerPort|portMapping|listen address|port number)|port mapping with same listen address|"
        r"could not determine kind|error reading file|statfs .{0,4096}: no such file|invalid mount config|"
        r"bind source path does not exist|failed to (apply|parse) (JSON 6902 )?patch|failed to patch containerd config",
        "correct the spec: the creation is then tried again at once",
    ),
    _Class(
        "RuntimeUnavailable",
        r"Cannot connect to the Docker daemon|executable file not found|failed to get (docker|podman|nerdctl) info|"
        r"failed to list (clusters|nodes)|permission denied while trying to connect|rootless provider requires|"
        r"connection refused|Cannot connect to Podman|cannot access containerd socket",
        "start the container engine (docker, podman or nerdctl), and let the user of the functions use it",
        10.0,
    ),
    _Class(
        "TooManyOpenFiles",
        r"too many open files|inotify",
        "raise the limits: sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=512",
    ),
    _Class(
        "NodeNotBooted",
        r"could not find a log line that matches",
        "the node's container starts, but not its systemd: check that spec.image is a node image of kind, and cgroups",
    ),
    _Class("ControlPlaneFailed", r"failed to init node with kubeadm|kubeadm init", "see the log for kubeadm's output"),
    _Class("NodeFailed", r'command "\S+ run ', "see the log: the container engine refuses to start a node"),
)
"""The order matters, because a later class may contain an earlier class's text, as in a pull without space."""


def classify(output: str) -> Failure:
    """Returns the class of the error in the output of kind or of a container engine."""
    cause = _cause(output)
    for one in _CLASSES:
        if re.search(one.pattern, output, re.IGNORECASE):
            return Failure(one.reason, f"{cause}; {one.way_out}", one.retry_after)
    return Failure("CreationFailed", cause, 60.0)


def _cause(output: str) -> str:
    """Returns the error without the failed command and its output, except the last line of the output."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    at = next((number for number, line in enumerate(lines) if line.startswith("ERROR:")), None)
    if at is None:
        return _short(lines[-1]) if lines else "no output"
    *commands, last = lines[at].removeprefix("ERROR: ").split('" failed with error: ')
    error = "".join([*(command.partition('command "')[0] for command in commands), last])
    error = error.removeprefix("failed to create cluster: ")
    detail = lines[-1].removeprefix("Command Output:").strip()
    return f"{_short(error)}: {_short(detail)}" if at + 1 < len(lines) and detail else _short(error)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
