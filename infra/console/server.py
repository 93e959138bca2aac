"""Serves the console on 127.0.0.1."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from infra.operations.failure import Failure

from .access import Access
from .pages import Pages, Source

ADDRESS = "127.0.0.1"
_ENDS_WITHIN = 2
"""Seconds that open requests get at the end."""
_MOST_CONNECTIONS = 200


@contextmanager
def serving(source: Source, port: int = 0) -> Iterator[str]:
    """Serves the pages during the block, which gets their address with the token.

    Args:
        source: The data of the pages.
        port: The port; 0 for a free one.

    Raises:
        Failure: The port is in use.
    """
    token = secrets.token_urlsafe(24)
    try:
        listener = socket.create_server((ADDRESS, port), backlog=128)
    except OSError as error:
        raise Failure(f"{ADDRESS}:{port}: {error.strerror}; choose another port with --port") from error
    with listener:
        own = listener.getsockname()[1]
        pages = Pages(source)
        config = uvicorn.Config(
            Access(pages.app(), [f"{ADDRESS}:{own}", f"localhost:{own}"], token, changes=source.actions is not None),
            access_log=False,  # paths contain the token
            log_level="warning",
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_ENDS_WITHIN,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), name="console", daemon=True)
        thread.start()
        try:
            yield f"http://{ADDRESS}:{own}/{token}/"
        finally:
            pages.end()
            server.should_exit = True
            thread.join(_ENDS_WITHIN + 3)
