"""Runs kube-apiserver and etcd as local processes, any number of pairs side by side.

An *instance* is a directory with certificates, data, logs, kubeconfig and a state file. A small detached supervisor
process per instance owns its servers, so that no instance depends on the process that started it. The package knows
nothing of Cluster API. `binaries` finds the executables; it is imported separately, as is everything that needs
`cryptography`, which is too slow to load for a call of `status`.
"""

from infra.local_control_plane.control_plane import ControlPlane
from infra.local_control_plane.instance import (
    ControlPlaneError,
    Status,
    add_user,
    kubeconfig,
    load_ca,
    remove,
    start,
    status,
    stop,
)

__all__ = [
    "ControlPlane",
    "ControlPlaneError",
    "Status",
    "add_user",
    "kubeconfig",
    "load_ca",
    "remove",
    "start",
    "status",
    "stop",
]
