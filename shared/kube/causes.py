"""Why a request had no answer, in few words and none of the client library's: they end in conditions."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator


def cause(error: BaseException) -> str:
    """`connection refused`, `no answer in time`; what is not known here by the name of its class."""
    chain = list(_chain(error))
    for inner in chain:
        if isinstance(inner, ssl.SSLCertVerificationError):
            return f"certificate verify failed: {getattr(inner, 'verify_message', '') or 'untrusted'}"
        if isinstance(inner, ssl.SSLError):
            return f"TLS failed: {(inner.reason or 'unknown').replace('_', ' ').lower()}"
        if isinstance(inner, socket.gaierror):
            return "name cannot be resolved"
        if isinstance(inner, http.client.IncompleteRead):
            return "the answer broke off"
        if isinstance(inner, (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)):
            return "connection closed before the answer"
        if isinstance(inner, TimeoutError):
            return "no answer in time"
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror[:1].lower() + inner.strerror[1:]  # names of settings stay as they are
    names = [type(inner).__name__ for inner in chain]
    for name, words in _URLLIB3.items():
        if name in names:
            return words
    return names[-1]


# By name, since the library is not loaded where nothing was sent.
_URLLIB3 = {
    "CertificateError": "certificate verify failed: it is for another host",
    "ConnectTimeoutError": "no connection in time",
    "ReadTimeoutError": "no answer in time",
    "LocationParseError": "no usable address",
}


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it comes from, the innermost last; urllib3 chains, and puts errors into arguments too."""
    seen: set[int] = set()
    inner: BaseException | None = error
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        yield inner
        within = [arg for arg in (*inner.args, getattr(inner, "reason", None)) if isinstance(arg, BaseException)]
        inner = next(iter(within), None) or inner.__cause__ or inner.__context__
