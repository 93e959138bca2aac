"""Describes failed requests in plain words, for conditions. The texts of the client library are not for users."""

from __future__ import annotations

from collections.abc import Iterator


def cause(error: BaseException) -> str:
    """Returns the cause of a failed request as a short clause, such as `connection refused` or `no answer in time`.

    For an error of an unknown type this is the name of its class.
    """
    import http.client  # here, because processes without requests need none of these
    import socket
    import ssl

    chain = list(_chain(error))
    for inner in chain:
        if isinstance(inner, ssl.SSLCertVerificationError):
            return f"certificate verify failed: {getattr(inner, 'verify_message', '') or 'untrusted'}"
        if isinstance(inner, ssl.SSLError):
            return f"TLS failed: {(inner.reason or 'unknown').replace('_', ' ').lower()}"
        if isinstance(inner, socket.gaierror):
            return "name cannot be resolved"
        if isinstance(inner, http.client.IncompleteRead):
            return "the response is incomplete"
        if isinstance(inner, (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)):
            return "connection closed before the response"
        if isinstance(inner, TimeoutError):
            return "no answer in time"
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror[:1].lower() + inner.strerror[1:]  # the rest may name a setting
    names = [type(inner).__name__ for inner in chain]
    for name, text in _URLLIB3.items():
        if name in names:
            return text
    return names[-1]


# Matched by class name, so that urllib3 need not be imported here.
_URLLIB3 = {
    "CertificateError": "certificate verify failed: it was issued for another host",
    "ConnectTimeoutError": "no connection in time",
    "ReadTimeoutError": "no answer in time",
    "LocationParseError": "the address is not valid",
}


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yields the error and its causes, from the outermost to the innermost.

    urllib3 also stores causes in the arguments and in `reason` of its errors.
    """
    seen: set[int] = set()
    inner: BaseException | None = error
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        yield inner
        nested = [arg for arg in (*inner.args, getattr(inner, "reason", None)) if isinstance(arg, BaseException)]
        inner = next(iter(nested), None) or inner.__cause__ or inner.__context__
