"""Admits only requests of the person who started the console.

Every local user can connect to a port of 127.0.0.1, and every web page can have a browser send requests to it. So each
path begins with a random token. It is in no cookie, because browsers send cookies to all ports of a host, and another
user can listen on one of them. The Host header must name the console's own address, because a foreign domain that
resolves to 127.0.0.1 (DNS rebinding) would otherwise be the origin of the console's pages.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .pages import Source

SECURITY_HEADERS: Sequence[tuple[str, str]] = (
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
"""The headers of every response. The address of a page contains the token, so no other server may learn it."""
READS = ("GET", "HEAD")


def with_security_headers(send: Send) -> Send:
    """Returns a `send` that adds the headers of every response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS:
                headers[name] = value
        await send(message)

    return send_with_headers


def is_from_own_page(headers: Headers) -> bool:
    """Returns whether a page of the console sent the request: browsers set the header, and scripts cannot."""
    return headers.getlist("sec-fetch-site") == ["same-origin"]


class Access:
    """Passes requests with the token on to an application, whose root path is then `/<token>`.

    The scope has the source of the pages. If that has actions, POST is passed on, too, but only from a page of the
    console itself.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], token: str, source: Source) -> None:
        self._app, self._hosts, self._root, self._source = app, hosts, f"/{token}", source
        self._methods = (*READS, "POST") if source.actions else READS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers or passes on one request."""
        if scope["type"] != "http":
            return
        send = with_security_headers(send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
        else:
            await self._app({**scope, "root_path": self._root, "source": self._source}, receive, send)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        if headers.getlist("host") not in [[host] for host in self._hosts]:
            return PlainTextResponse("this host name is not served\n", 421)
        start, _, _ = scope["path"][1:].partition("/")
        if not hmac.compare_digest(f"/{start}".encode(), self._root.encode()):
            return PlainTextResponse("open the address that `capi-functions console` has printed\n", 403)
        if scope["method"] not in self._methods:
            return PlainTextResponse("the console only reads\n", 405, {"Allow": ", ".join(self._methods)})
        if scope["method"] not in READS and not is_from_own_page(headers):
            return PlainTextResponse("only a page of the console itself may send this\n", 403)
        return None
