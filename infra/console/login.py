"""Lets people into a console in a cluster with tokens of their own.

A cookie keeps a pasted token. The tokens of an issuer stay here, and the cookie has a random text.

No page of another site can use the cookie (`SameSite=Strict`), and no script can read it (`HttpOnly`). The Host header
must name the console, because a foreign domain can lead to its address (DNS rebinding).
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from urllib.parse import parse_qs

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from infra.operations.text import plain
from shared.kube import ApiError

from .access import READS, is_from_own_page, with_security_headers
from .oidc import Attempt, Issuer, Logins
from .pages import Source, logged_in_response, login_response
from .sessions import LoginRefused, Sessions, TokenRefused

COOKIE = "capi-functions-console"
"""The cookie with a pasted token."""
LOGIN_COOKIE = "capi-functions-login"
"""The cookie with the random text of a login at an issuer."""
_ATTEMPT_COOKIE = "capi-functions-attempt"
_ATTEMPT_SECONDS = 600
_CALLBACK = "/login/callback"
_AT_ISSUER = 5
"""Threads that wait for the issuer."""
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
"""Host names of a forwarded port, which no foreign domain has."""
_MOST_BYTES = 16 << 10
_LONGEST = 3_800
"""Characters of a token: browsers drop longer cookies."""


class Login:
    """Passes requests of people with a token on to an application, with their source in the scope."""

    def __init__(self, app: ASGIApp, sessions: Sessions, hosts: Collection[str], issuer: Issuer | None = None) -> None:
        self._app, self._sessions, self._hosts = app, sessions, (*hosts, *_LOCAL)
        self._logins = Logins(issuer) if issuer else None
        # Anybody may begin a login, and an issuer that hangs must not hold all threads.
        self._issuer_limit = CapacityLimiter(_AT_ISSUER)

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
            return await self._login(request) if method == "POST" else self._form(request)
        token, login = request.cookies.get(COOKIE, ""), request.cookies.get(LOGIN_COOKIE, "")
        if path == "/logout" and method == "POST":
            if self._logins:
                token = self._logins.end(login) or token
            await to_thread.run_sync(self._sessions.close, token)
            return _without(RedirectResponse("/login", 303), COOKIE, LOGIN_COOKIE)
        if self._logins and path in ("/login/start", _CALLBACK):
            return await self._at_issuer(request, self._logins)
        if not token and not (self._logins and login):
            return RedirectResponse("/login", 303)
        try:
            request.scope["source"] = await to_thread.run_sync(self._source, token, login)
        except LoginRefused as error:
            return _without(self._form(request, str(error), 403), COOKIE, LOGIN_COOKIE)
        except ApiError as error:
            return self._form(request, str(error), 503)
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
            return self._form(request, f"the token is longer than {_LONGEST} characters", 403)
        try:
            await to_thread.run_sync(self._sessions.source, token)
        except LoginRefused as error:
            return self._form(request, str(error), 403)
        except ApiError as error:
            return self._form(request, str(error), 503)
        answer: Response = RedirectResponse("/", 303)
        if self._logins:
            _without(answer, LOGIN_COOKIE)
        answer.set_cookie(COOKIE, token, path="/", secure=True, httponly=True, samesite="strict")
        return answer

    def _form(self, request: Request, problem: str = "", status: int = 200) -> Response:
        return login_response(request, problem, status, self._logins.issuer.registration.issuer if self._logins else "")

    async def _at_issuer(self, request: Request, logins: Logins) -> Response:
        """Begins or ends a login at the issuer."""
        try:
            if request.url.path == _CALLBACK:
                return await to_thread.run_sync(self._finish, request, logins, limiter=self._issuer_limit)
            return await to_thread.run_sync(_start, request, logins.issuer, limiter=self._issuer_limit)
        except LoginRefused as error:
            return self._form(request, str(error), 403)
        except ApiError as error:
            return self._form(request, str(error), 503)

    def _source(self, token: str, login: str) -> Source:
        """Returns the source of a person's pages. Raises `LoginRefused` or `ApiError`."""
        if self._logins and login:
            token, replaced = self._logins.token(login)
            if replaced:
                self._sessions.close(replaced)
        return self._sessions.source(token)

    def _finish(self, request: Request, logins: Logins) -> Response:
        """Ends the login at the issuer, which has sent the browser back. Raises `LoginRefused` or `ApiError`."""
        query, issuer = request.query_params, logins.issuer
        attempt = Attempt.parse(request.cookies.get(_ATTEMPT_COOKIE, ""))
        if attempt is None or not hmac.compare_digest(query.get("state", "").encode(), attempt.state.encode()):
            raise LoginRefused("this login was begun in another browser, or more than ten minutes ago: log in again")
        if "error" in query:
            raise LoginRefused(f"{issuer.registration.issuer} refuses the login: {plain(query['error'], most=100)}")
        tokens = issuer.exchange(query.get("code", ""), attempt, _callback(request))
        try:
            self._sessions.source(tokens.id_token)
        except TokenRefused:
            raise LoginRefused(
                f"the API server does not accept the ID tokens of {issuer.registration.issuer}: its flags "
                "--oidc-issuer-url and --oidc-client-id must name the issuer and the client of the console"
            ) from None
        answer = _without(logged_in_response(request), COOKIE, _ATTEMPT_COOKIE)
        answer.set_cookie(LOGIN_COOKIE, logins.add(tokens), path="/", secure=True, httponly=True, samesite="strict")
        return answer


def _start(request: Request, issuer: Issuer) -> Response:
    """Sends a browser to the issuer. Raises `LoginRefused`."""
    attempt = Attempt.new()
    answer = RedirectResponse(issuer.address(attempt, _callback(request)), 303)
    # The issuer leads back to the console, and browsers then send no cookie with `SameSite=Strict`.
    answer.set_cookie(
        _ATTEMPT_COOKIE,
        attempt.dump(),
        max_age=_ATTEMPT_SECONDS,
        path=_CALLBACK,
        secure=True,
        httponly=True,
        samesite="lax",
    )
    return answer


def _callback(request: Request) -> str:
    """Returns the URL to which the issuer sends browsers back. A forwarded port has no TLS."""
    host = request.headers["host"]
    scheme = "http" if {host, _without_port(host)} & set(_LOCAL) else "https"
    return f"{scheme}://{host}{_CALLBACK}"


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isascii() and port.isdigit() else host


def _without(answer: Response, *cookies: str) -> Response:
    for cookie in cookies:
        path = _CALLBACK if cookie == _ATTEMPT_COOKIE else "/"
        answer.delete_cookie(cookie, path=path, secure=True, httponly=True, samesite="strict")
    return answer
