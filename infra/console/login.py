"""Lets people into a console in a cluster with tokens of their own, which a cookie keeps.

No page of another site can use the cookie (`SameSite=Strict`), and no script can read it (`HttpOnly`). The Host header
must name the console, because a foreign domain can lead to its address (DNS rebinding).
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import parse_qs

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.kube import ApiError

from .access import READS, is_from_own_page, with_security_headers
from .pages import login_response
from .sessions import LoginRefused, Sessions

COOKIE = "capi-functions-console"
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
"""Host names of a forwarded port, which no foreign domain has."""
_MOST_BYTES = 16 << 10
_LONGEST = 3_800
"""Characters of a token: browsers drop longer cookies."""


class Login:
    """Passes requests of people with a token on to an application, with their source in the scope."""

    def __init__(self, app: ASGIApp, sessions: Sessions, hosts: Collection[str]) -> None:
        self._app, self._sessions, self._hosts = app, sessions, (*hosts, *_LOCAL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers or passes on one request."""
        if scope["type"] != "http":
            return
        send = with_security_headers(send)
        request = Request(scope, receive)
        answer = await self._answer(request)
        await (answer or self._app)(scope, receive, send)

    async def _answer(self, request: Request) -> Response | None:
        """Returns the answer to a request that the application does not get."""
        path, method = request.url.path, request.method
        if path == "/healthz":  # of a probe, which has no host name
            return PlainTextResponse("ok\n")
        host = request.headers.getlist("host")
        if len(host) != 1 or not {host[0], _without_port(host[0])} & set(self._hosts):
            return PlainTextResponse("this host name is not served\n", 421)
        if method not in READS and (method != "POST" or not is_from_own_page(request.headers)):
            return PlainTextResponse("only a page of the console itself may send this\n", 403)
        if path.startswith("/static/"):
            return None
        if path == "/login":
            return await self._login(request) if method == "POST" else login_response(request)
        token = request.cookies.get(COOKIE, "")
        if path == "/logout" and method == "POST":
            await to_thread.run_sync(self._sessions.close, token)
            return _without_cookie(RedirectResponse("/login", 303))
        if not token:
            return RedirectResponse("/login", 303)
        try:
            request.scope["source"] = await to_thread.run_sync(self._sessions.source, token)
        except LoginRefused as error:
            return _without_cookie(login_response(request, str(error), 403))
        except ApiError as error:
            return login_response(request, str(error), 503)
        if method == "POST" and not self._sessions.changes:
            return PlainTextResponse("this console only reads\n", 405)
        return None

    async def _login(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MOST_BYTES:
                return PlainTextResponse("this is too long for a token\n", 413)
        token = parse_qs(body.decode(errors="replace"), max_num_fields=5).get("token", [""])[0].strip()
        if len(token) > _LONGEST:
            return login_response(request, f"the token is longer than {_LONGEST} characters", 403)
        try:
            await to_thread.run_sync(self._sessions.source, token)
        except LoginRefused as error:
            return login_response(request, str(error), 403)
        except ApiError as error:
            return login_response(request, str(error), 503)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, token, path="/", secure=True, httponly=True, samesite="strict")
        return answer


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isascii() and port.isdigit() else host


def _without_cookie(answer: Response) -> Response:
    answer.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")
    return answer
