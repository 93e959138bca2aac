"""Starts control planes with our CRDs for tests, and stops them after the tests."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from infra import local_control_plane
from infra.local import crds
from shared.kube import Client, connect, dig


@contextmanager
def running_plane(
    folder: Path,
    *,
    groups: Collection[str] | None = None,
    controllers: bool = False,
    api_server_flags: Sequence[str] = (),
) -> Iterator[Path]:
    """Runs a control plane in `folder` with our CRDs, all or those of the API `groups`, in the block."""
    try:
        local_control_plane.start(
            folder,
            owner=os.getpid(),
            progress=print,
            timeout=120,
            controllers=controllers,
            api_server_flags=api_server_flags,
        )
        wanted = [crd for crd in crds.load() if groups is None or dig(crd, "spec.group") in groups]
        with connected(folder) as client:
            crds.install(client, wanted)
        yield folder
    finally:
        local_control_plane.stop(folder)


def connected(folder: Path) -> closing[Client]:
    """Returns a client of the control plane in `folder`, closed after the block."""
    return closing(connect.from_kubeconfig(str(local_control_plane.kubeconfig(folder))))
