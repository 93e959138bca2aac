"""Serves the console: on 127.0.0.1 to the person who started it, in a cluster to people who log in."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from infra.operations.failure import Failure

from .access import Access
from .login import Login
from .oidc import Issuer
from .pages import Pages, Source
from .sessions import Sessions

ADDRESS = "127.0.0.1"
_ENDS_WITHIN = 2
"""Seconds that open requests get at the end."""
_MOST_CONNECTIONS = 200


@contextmanager
def serving(source: Source, port: int = 0) -> Iterator[str]:
    """Serves the pages to the person who started the console, and yields their address with the token.

    Args:
        source: The data of the pages.
        port: The port on this machine; 0 for a free one.

    Raises:
        Failure: The port is in use.
    """
    token = secrets.token_urlsafe(24)

    def application(pages: Starlette, own: int) -> ASGIApp:
        return Access(pages, [f"{ADDRESS}:{own}", f"localhost:{own}"], token, source)

    with _listening(application, ADDRESS, port) as own:
        yield f"http://{ADDRESS}:{own}/{token}/"


@contextmanager
def serving_logins(
    sessions: Sessions, address: str, port: int, hosts: Collection[str] = (), issuer: Issuer | None = None
) -> Iterator[int]:
    """Serves the pages to people who log in, and yields the port.

    Args:
        sessions: The sessions; they end with the block.
        address: The address to listen at.
        port: The port; 0 for a free one.
        hosts: The host names of the console, beside `localhost`.
        issuer: Where people may log in.

    Raises:
        Failure: The port is in use.
    """
    try:
        with _listening(lambda pages, _own: Login(pages, sessions, hosts, issuer), address, port) as own:
            yield own
    finally:
        sessions.end()


@contextmanager
def _listening(application: Callable[[Starlette, int], ASGIApp], address: str, port: int) -> Iterator[int]:
    """Runs a server during the block, which gets its port; the application is made of the pages and the port."""
    try:
        listener = socket.create_server((address, port), backlog=128)
    except OSError as error:
        raise Failure(f"{address}:{port}: {error.strerror}; choose another port with --port") from error
    with listener:
        own = listener.getsockname()[1]
        pages = Pages()
        config = uvicorn.Config(
            application(pages.app(), own),
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
            yield own
        finally:
            pages.end()
            server.should_exit = True
            thread.join(_ENDS_WITHIN + 3)
