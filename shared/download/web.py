"""HTTP requests to servers that are not trusted.

All requests of a session have one deadline, which holds even if a server answers byte by byte. Proxies and CAs come
from the environment. Redirects are limited, and do not carry credentials to another host. Credentials need TLS, except
to loopback. Messages contain no secrets.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from types import TracebackType
from typing import Any
from urllib.parse import urljoin

import urllib3

from shared.network import Forbidden, TlsSocket, check_host, deadline, in_clear, manager, origin, proxy_for
from shared.redaction import redact_url
from shared.settings import SETTINGS

from .errors import SourceError
from .ingest import CHUNK

CONNECT_TIMEOUT = 5.0  # seconds
READ_TIMEOUT = 20.0  # seconds without a byte
TOTAL_TIMEOUT = 300.0  # seconds for all requests of one fetch
REDIRECTS = 5
MAX_DOCUMENT = 4 * 1024 * 1024  # bytes of anything that is read as a whole
USER_AGENT = "capi-functions"

_BUSY = {408, 425, 429, 500, 502, 503, 504}
_REDIRECTS = {301, 302, 303, 307, 308}
_LONGEST_WAIT = 3600.0  # seconds


def resolve_url(url: str, reference: str) -> str:
    """Returns the URL that a server at `url` refers to by `reference`. Raises `SourceError`."""
    try:
        return urljoin(url, reference)
    except ValueError:
        raise SourceError(f"{redact_url(url)} refers to an invalid URL", transient=False) from None


@dataclass(frozen=True)
class HttpResponse:
    """A response whose body has not been read yet. The session closes responses that are left open."""

    status: int
    headers: Mapping[str, str]
    url: str
    """The URL after redirects."""
    response: Any
    session: HttpSession

    def chunks(self) -> Iterator[bytes]:
        """Returns the body in chunks, as it is sent: no content encoding is undone. Raises `SourceError`."""
        try:
            while chunk := self._next():
                yield chunk
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self.session.failure(self.url, error) from None
        finally:
            self.response.close()

    def _next(self) -> bytes:
        with deadline(self.session.deadline):
            chunk: bytes = self.response.read(CHUNK, decode_content=False)
            return chunk

    def read(self, limit: int = MAX_DOCUMENT) -> bytes:
        """Returns the whole body. Raises `SourceError` if it is longer than `limit` bytes."""
        data = bytearray()
        for chunk in self.chunks():
            data += chunk
            if len(data) > limit:
                self.close()
                raise SourceError(f"{redact_url(self.url)} answers with more than {limit} bytes", transient=False)
        return bytes(data)

    def json(self) -> Any:
        """Returns the body, parsed as JSON. Raises `SourceError`."""
        data = self.read()
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise SourceError(f"{redact_url(self.url)} does not answer with JSON", transient=True) from None

    def close(self) -> None:
        """Closes the connection, or returns it to the pool if the body has been read."""
        self.response.close()

    def error(self, hint: str = "") -> SourceError:
        """Closes the response, and returns the error for its status. `hint` completes the message of 401 and 403."""
        self.close()
        after = retry_after(self.headers, datetime.now(UTC))
        limited = self.status == 429 or (self.status == 403 and after is not None)
        place = redact_url(self.url)
        if limited:
            seconds = after if after is not None else 60.0
            return SourceError(
                f"{place} limits requests; the next request is in {seconds:.0f} s", transient=True, retry_after=seconds
            )
        if self.status in (401, 403):
            message = f"{place} refuses access (HTTP {self.status})"
            unauthorized = self.status == 401
            return SourceError(f"{message}: {hint}" if hint else message, transient=False, unauthorized=unauthorized)
        return SourceError(
            f"{place} answers with HTTP {self.status}", transient=self.status in _BUSY, retry_after=after
        )


class HttpSession:
    """The requests of one download, for one thread; a context manager. All methods raise `SourceError`.

    All requests together end within `total` seconds; each waits at most `read` seconds for the next byte. `ca`
    (PEM) is trusted in addition to the system's CAs; `insecure` trusts any certificate.
    """

    def __init__(
        self, ca: str = "", *, insecure: bool = False, total: float = TOTAL_TIMEOUT, read: float = READ_TIMEOUT
    ) -> None:
        self._timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT, read=read)
        self._total = total
        self.deadline = time.monotonic() + total
        self._context = _context(ca, insecure)
        if insecure:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # a user wants it so
        self._pools: dict[str, urllib3.PoolManager] = {}
        self._replies: list[HttpResponse] = []

    def __enter__(self) -> HttpSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reply in self._replies:
            reply.close()
        for pool in self._pools.values():
            pool.clear()

    def get(self, url: str, authorization: str = "", *, accept: str = "*/*") -> HttpResponse:
        """Returns the answer after at most `REDIRECTS` redirects, of any status; none leads from https to http.

        Args:
            url: An http or https URL.
            authorization: The Authorization header; it is not sent to another origin.
            accept: The Accept header.
        """
        headers = {"Accept": accept}
        for _ in range(REDIRECTS + 1):
            reply = self.request("GET", url, headers, authorization)
            if reply.status not in _REDIRECTS or "location" not in reply.headers:
                return reply
            reply.close()
            target = resolve_url(url, reply.headers["location"])
            if not _same_or_safer(url, target):
                raise SourceError(
                    f"{redact_url(url)} redirects to {redact_url(target)}, which is refused", transient=False
                )
            if origin(target) != origin(url):
                authorization = ""
            url = target
        raise SourceError(f"{redact_url(url)}: more than {REDIRECTS} redirects", transient=False)

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        authorization: str = "",
        body: bytes | None = None,
    ) -> HttpResponse:
        """Sends one request and returns its answer, of any status; `authorization` is the header of that name."""
        self.check(url)
        sent = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **(headers or {})}
        if authorization:
            self.require_tls(url)
            sent["Authorization"] = authorization
        try:
            with deadline(self.deadline):
                response = self._pool(url).request(
                    method,
                    url,
                    body=body,
                    headers=sent,
                    timeout=self._timeout,
                    preload_content=False,
                    retries=False,
                    redirect=False,
                )
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self.failure(url, error) from None
        self._replies.append(HttpResponse(response.status, response.headers, url, response, self))
        return self._replies[-1]

    def check(self, url: str) -> None:
        """Raises `SourceError` after the deadline of the session."""
        if time.monotonic() >= self.deadline:
            raise self._timeout_error(url)

    def require_tls(self, url: str) -> None:
        """Raises `SourceError` if credentials for the URL would cross a network without TLS."""
        try:
            scheme, host, proxy = self._route(url)
        except OSError as error:
            raise self.failure(url, error) from None
        if in_clear(scheme, host, proxy):
            raise SourceError(
                f"{redact_url(url)} would receive credentials without TLS: use TLS, or no credentials", transient=False
            )

    def failure(self, url: str, error: Exception) -> SourceError:
        """Returns the error for an exception of the transport, without its text, which may quote a whole URL."""
        if time.monotonic() >= self.deadline:
            return self._timeout_error(url)
        cause = _innermost(error)
        if isinstance(cause, ssl.SSLCertVerificationError):
            return SourceError(f"{redact_url(url)} is not trusted: {cause.verify_message}", transient=False)
        if isinstance(cause, Forbidden):
            return SourceError(f"{redact_url(url)} is refused: {cause.strerror}", transient=False)
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else type(cause).__name__
        return SourceError(f"{redact_url(url)} does not answer: {reason}", transient=True)

    def _timeout_error(self, url: str) -> SourceError:
        return SourceError(f"{redact_url(url)} takes longer than {self._total:g} s in total", transient=True)

    def _pool(self, url: str) -> urllib3.PoolManager:
        _, host, proxy = self._route(url)
        check_host(host)  # a proxy connects to the host in place of this process
        if proxy not in self._pools:
            options: dict[str, Any] = {"proxy_ssl_context": self._context} if proxy else {}
            self._pools[proxy] = manager(proxy, ssl_context=self._context, **options)
        return self._pools[proxy]

    def _route(self, url: str) -> tuple[str, str, str]:
        """Returns scheme and host of a URL, and the proxy for it, or ""."""
        try:
            scheme, host, _ = origin(url)
        except ValueError:
            raise SourceError(f"{redact_url(url)} is not an http(s) URL", transient=False) from None
        return scheme, host, proxy_for(scheme, host, SETTINGS, fallback="all")


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Returns the seconds until a server accepts requests again, at most 3600; None if the headers do not say.

    Reads `Retry-After` (seconds or a date), else GitHub's `X-RateLimit-Reset`.
    """
    value = headers.get("Retry-After", "").strip()
    seconds: float | None = None
    if value.isdecimal():
        seconds = float(value)
    elif value:
        with suppress(ValueError, TypeError):
            moment = parsedate_to_datetime(value)
            seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
    reset = headers.get("X-RateLimit-Reset", "").strip()
    if seconds is None and headers.get("X-RateLimit-Remaining", "").strip() == "0" and reset.isdecimal():
        seconds = float(reset) - now.timestamp()
    return None if seconds is None else min(max(seconds, 1.0), _LONGEST_WAIT)


@lru_cache(maxsize=16)
def _context(ca: str, insecure: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()  # honours SSL_CERT_FILE and SSL_CERT_DIR
    context.sslsocket_class = TlsSocket
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if ca:
        try:
            context.load_verify_locations(cadata=ca)
        except (ssl.SSLError, ValueError):
            raise SourceError("ca.crt holds no certificate in PEM", transient=False) from None
    return context


def _same_or_safer(url: str, target: str) -> bool:
    """Returns whether a redirect from `url` to `target` does not lead from https to http."""
    try:
        return (origin(url)[0], origin(target)[0]) != ("https", "http")
    except ValueError:
        return False


def _innermost(error: BaseException) -> BaseException:
    """Returns the first cause: urllib3 wraps errors in `reason`, in arguments and by chaining."""
    inner = getattr(error, "reason", None) or error.__cause__ or error.__context__
    if not isinstance(inner, BaseException):
        inner = next((argument for argument in error.args if isinstance(argument, BaseException)), None)
    return _innermost(inner) if inner is not None and inner is not error else error
