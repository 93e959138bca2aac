"""kube-apiserver + etcd as plain local processes, any number of them side by side.

An *instance* is a directory: its certificates, data, logs, kubeconfig and state file. A small detached
keeper process per instance owns its servers, so no instance depends on the process that started it. Nothing
here knows what the API servers are used for. Certificates are in `certificates` and the lookup of the
executables in `binaries`, imported separately because `cryptography` is too slow to load for a mere `status`.
"""

from infra.local_control_plane.instance import (
    ControlPlaneError,
    Status,
    authority,
    kubeconfig,
    remove,
    start,
    status,
    stop,
)

__all__ = ["ControlPlaneError", "Status", "authority", "kubeconfig", "remove", "start", "status", "stop"]
