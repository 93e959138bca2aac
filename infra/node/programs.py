"""The programs of a node, from Debian's packages and from Go modules."""

from __future__ import annotations

from pathlib import Path

from infra.local_control_plane import controllers
from infra.local_control_plane.binaries import locate
from infra.local_control_plane.cache import Progress
from infra.node import addresses, debian

DAEMONS = ("kubelet", "kube-proxy")
IMAGES = ("pause", "coredns")
"""Programs that run in pods on every node."""


def of_node(progress: Progress) -> dict[str, Path]:
    """Returns the daemons by name, downloaded or built if necessary. Raises BinaryNotFound."""
    return locate(DAEMONS, progress=progress, assets=False)


def of_control_plane(progress: Progress) -> dict[str, Path]:
    """Returns the programs of the control plane, of the kubelet's version. Raises BinaryNotFound."""
    names = ["etcd", "kube-apiserver", *controllers.chosen(addresses.MANAGEMENT)]
    return locate(names, progress=progress, archives=(), assets=False)


def prepare(progress: Progress) -> None:
    """Fills the cache with all programs of a node. Raises BinaryNotFound or PackagesNotFound."""
    debian.unpacked(progress)
    of_control_plane(progress)
    of_node(progress)
    locate(IMAGES, progress=progress)
