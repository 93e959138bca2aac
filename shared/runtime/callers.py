"""Decides which HTTP requests functions and the ingress accept: requests of programs, in a local run with its token.

A web page in a user's browser may send requests to servers on the user's machine. Browsers add `Origin` to each POST
and to each read from another site, so no request with `Origin` is accepted. A page whose name resolves to this machine
(DNS rebinding) has the same origin as the server, but `Host` has the name of the page: servers at a loopback address
accept loopback names only. In a pod, servers listen at all addresses, and `Host` is the name of a Service.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from .answer import Answer

TOKEN_FILE = "CAPI_FUNCTIONS_TOKEN_FILE"  # noqa: S105 - the name of a variable
"""The variable with the path of the file with the token that senders of events need. Without it they need none."""


def token_file(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Returns the path of the file with the token, None if senders of events need none."""
    return Path(path) if (path := environment.get(TOKEN_FILE)) else None


def authorization(token: Path | None) -> dict[str, str]:
    """Returns the header that a sender of events adds; none without a file that can be read."""
    if token is not None:
        with suppress(OSError):
            return {"authorization": f"Bearer {token.read_text().strip()}"}
    return {}


def refusal(method: str, headers: Mapping[str, str], server: str, token: Path | None) -> Answer | None:
    """Returns the answer to a refused request, None for an accepted request.

    Args:
        method: The method; GET needs no token.
        headers: By name in lower case.
        server: The address that the server listens at.
        token: The file with the token that POST needs, None if it needs none. It is read at each request.
    """
    if origin := headers.get("origin"):
        return Answer(403, f"requests of web pages are refused (Origin {origin[:200]!r})")
    host = headers.get("host", "")
    if host and is_loopback(server) and not is_loopback(_name(host)):
        return Answer(403, f"this server accepts requests to localhost only, and Host is {host[:200]!r}")
    if token is None or method == "GET":
        return None
    try:
        wanted = token.read_text().strip()
    except OSError as error:
        return Answer(503, f"{TOKEN_FILE}: {token} cannot be read: {error.strerror}", retry_after=5.0)
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if wanted and scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), wanted.encode()):
        return None
    return Answer(401, f"the request needs the header `Authorization: Bearer TOKEN`, with the token in {token}")


def is_loopback(host: str) -> bool:
    """Returns whether a host name or an address is a loopback name or address of this machine."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _name(host: str) -> str:
    """Returns the host in `Host` without its port; empty if it is not valid."""
    with suppress(ValueError):
        return urlsplit(f"//{host}").hostname or ""
    return ""
