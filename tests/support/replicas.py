"""Several server processes of all functions, as replicas in an installation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from events.delivery import HttpDelivery
from infra.local.functions_server import FunctionsServer
from tests.support.until import HANGS


@contextmanager
def two_replicas(kubeconfig: bytes, folder: Path) -> Iterator[list[HttpDelivery]]:
    """Runs two servers in the block that share the clusters and the object store only; yields the ways to call them."""
    (folder / "kubeconfig").write_bytes(kubeconfig)
    environment = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig"), "RELEASE_SOURCE": str(folder)}
    with ExitStack() as stack:
        replicas = []
        for number in range(2):
            server = FunctionsServer(environment, folder / f"functions-{number}.log")
            stack.callback(server.close)
            server.start()
            replicas.append(HttpDelivery(server.url, timeout=(HANGS, HANGS)))
            stack.callback(replicas[-1].close)
        yield replicas
