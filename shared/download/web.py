"""HTTP as sources need it: nothing that a server does may cost more than was agreed on.

Limits in time, also for servers that answer drop by drop; proxies and CAs from the environment; redirects followed
within bounds and without credentials for strangers; messages without secrets.
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

from shared.network import Forbidden, TlsSocket, check_host, deadline, manager, origin, proxy_for
from shared.redaction import redact_url
from shared.settings import SETTINGS

from .errors import SourceError
from .ingest import CHUNK

CONNECT_TIMEOUT = 5.0  # seconds
READ_TIMEOUT = 20.0  # seconds without a byte
TOTAL_TIMEOUT = 300.0  # seconds for all requests of one fetch
REDIRECTS = 5
DOCUMENT = 4 * 1024 * 1024  # bytes of anything that is read as a whole
AGENT = "capi-functions"

_BUSY = {408, 425, 429, 500, 502, 503, 504}
_REDIRECTS = {301, 302, 303, 307, 308}
_LONGEST_WAIT = 3600.0  # seconds


def resolved(url: str, reference: str) -> str:
    """What a server at `url` refers to. Raises `SourceError`."""
    try:
        return urljoin(url, reference)
    except ValueError:
        raise SourceError(f"{redact_url(url)} refers to something that is no URL", transient=False) from None


@dataclass(frozen=True)
class Reply:
    """An answer whose body is still to come. What is not consumed or closed is closed with its `Web`."""

    status: int
    headers: Mapping[str, str]
    url: str
    """Where it came from in the end."""
    response: Any
    web: Web

    def chunks(self) -> Iterator[bytes]:
        """The body as it is sent: encodings are left alone. Raises `SourceError`."""
        try:
            while chunk := self._next():
                yield chunk
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self.web.failure(self.url, error) from None
        finally:
            self.response.close()

    def _next(self) -> bytes:
        with deadline(self.web.deadline):
            chunk: bytes = self.response.read(CHUNK, decode_content=False)
            return chunk

    def read(self, limit: int = DOCUMENT) -> bytes:
        """The whole body. Raises `SourceError` if it is longer than `limit`."""
        data = bytearray()
        for chunk in self.chunks():
            data += chunk
            if len(data) > limit:
                self.close()
                raise SourceError(f"{redact_url(self.url)} answers with more than {limit} bytes", transient=False)
        return bytes(data)

    def json(self) -> Any:
        """The body as JSON. Raises `SourceError`."""
        data = self.read()
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise SourceError(f"{redact_url(self.url)} does not answer with JSON", transient=True) from None

    def close(self) -> None:
        self.response.close()

    def error(self, hint: str = "") -> SourceError:
        """What this refusal means: for 401 and 403 with `hint` as the way out. Closes the reply."""
        self.close()
        after = retry_after(self.headers, datetime.now(UTC))
        limited = self.status == 429 or (self.status == 403 and after is not None)
        place = redact_url(self.url)
        if limited:
            seconds = after if after is not None else 60.0
            return SourceError(
                f"{place} limits requests; asked again in {seconds:.0f} s", transient=True, retry_after=seconds
            )
        if self.status in (401, 403):
            message = f"{place} refuses access (HTTP {self.status})"
            return SourceError(f"{message}: {hint}" if hint else message, transient=False)
        return SourceError(
            f"{place} answers with HTTP {self.status}", transient=self.status in _BUSY, retry_after=after
        )


class Web:
    """The requests of one fetch: within `total` seconds they are over, or cut off. Raises `SourceError`.

    `authority` (PEM) is trusted beside the system's CAs. Not to be shared between threads.
    """

    def __init__(self, authority: str = "", *, total: float = TOTAL_TIMEOUT, read: float = READ_TIMEOUT) -> None:
        self._timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT, read=read)
        self._total = total
        self.deadline = time.monotonic() + total
        self._context = _context(authority)
        self._pools: dict[str, urllib3.PoolManager] = {}
        self._replies: list[Reply] = []

    def __enter__(self) -> Web:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reply in self._replies:
            reply.close()
        for pool in self._pools.values():
            pool.clear()

    def get(self, url: str, authorization: str = "", *, accept: str = "*/*", redirects: int = REDIRECTS) -> Reply:
        """The answer at the end of all redirects, whatever its status. See `request`."""
        headers = {"Accept": accept}
        for _ in range(redirects + 1):
            reply = self.request("GET", url, headers, authorization)
            if reply.status not in _REDIRECTS or "location" not in reply.headers:
                return reply
            reply.close()
            target = resolved(url, reply.headers["location"])
            if not _same_or_safer(url, target):
                raise SourceError(
                    f"{redact_url(url)} redirects to {redact_url(target)}, which is refused", transient=False
                )
            if origin(target) != origin(url):
                authorization = ""
            url = target
        raise SourceError(f"{redact_url(url)}: more than {redirects} redirects", transient=False)

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        authorization: str = "",
        body: bytes | None = None,
    ) -> Reply:
        """One request, without redirects; `authorization` is the header of that name."""
        self.check(url)
        sent = {"User-Agent": AGENT, "Accept-Encoding": "identity", **(headers or {})}
        if authorization:
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
        self._replies.append(Reply(response.status, response.headers, url, response, self))
        return self._replies[-1]

    def check(self, url: str) -> None:
        """Raises `SourceError` once the time is over."""
        if time.monotonic() >= self.deadline:
            raise self._late(url)

    def failure(self, url: str, error: Exception) -> SourceError:
        """An exception of the transport in our words: its own text may quote a whole URL."""
        if time.monotonic() >= self.deadline:
            return self._late(url)
        cause = _innermost(error)
        if isinstance(cause, ssl.SSLCertVerificationError):
            return SourceError(f"{redact_url(url)} is not trusted: {cause.verify_message}", transient=False)
        if isinstance(cause, Forbidden):
            return SourceError(f"{redact_url(url)} is refused: {cause.strerror}", transient=False)
        said = cause.strerror if isinstance(cause, OSError) and cause.strerror else type(cause).__name__
        return SourceError(f"{redact_url(url)} does not answer: {said}", transient=True)

    def _late(self, url: str) -> SourceError:
        return SourceError(f"{redact_url(url)} takes longer than {self._total:g} s in all", transient=True)

    def _pool(self, url: str) -> urllib3.PoolManager:
        try:
            scheme, host, _ = origin(url)
        except ValueError:
            raise SourceError(f"{redact_url(url)} is no http(s) URL", transient=False) from None
        check_host(host)  # a proxy would go there in our place
        proxy = proxy_for(scheme, host, SETTINGS, fallback="all")
        if proxy not in self._pools:
            options: dict[str, Any] = {"proxy_ssl_context": self._context} if proxy else {}
            self._pools[proxy] = manager(proxy, ssl_context=self._context, **options)
        return self._pools[proxy]


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that a server asks to be left alone for, at most an hour: `Retry-After`, or GitHub's own header."""
    said = headers.get("Retry-After", "").strip()
    seconds: float | None = None
    if said.isdecimal():
        seconds = float(said)
    elif said:
        with suppress(ValueError, TypeError):
            moment = parsedate_to_datetime(said)
            seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
    reset = headers.get("X-RateLimit-Reset", "").strip()
    if seconds is None and headers.get("X-RateLimit-Remaining", "").strip() == "0" and reset.isdecimal():
        seconds = float(reset) - now.timestamp()
    return None if seconds is None else min(max(seconds, 1.0), _LONGEST_WAIT)


@lru_cache(maxsize=16)
def _context(authority: str) -> ssl.SSLContext:
    context = ssl.create_default_context()  # honours SSL_CERT_FILE and SSL_CERT_DIR
    context.sslsocket_class = TlsSocket
    if authority:
        try:
            context.load_verify_locations(cadata=authority)
        except (ssl.SSLError, ValueError):
            raise SourceError("ca.crt holds no certificate in PEM", transient=False) from None
    return context


def _same_or_safer(url: str, target: str) -> bool:
    try:
        return (origin(url)[0], origin(target)[0]) != ("https", "http")
    except ValueError:
        return False


def _innermost(error: BaseException) -> BaseException:
    """urllib3 wraps in `reason`, in arguments and by chaining."""
    inner = getattr(error, "reason", None) or error.__cause__ or error.__context__
    if not isinstance(inner, BaseException):
        inner = next((argument for argument in error.args if isinstance(argument, BaseException)), None)
    return _innermost(inner) if inner is not None and inner is not error else error
