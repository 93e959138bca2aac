"""Connections to servers that nobody here runs: each wait has a deadline, and no address leads to a cloud's metadata.

A socket's own timeout starts anew with each byte, so a server that sends one byte at a time would hold a thread for
ever. The sockets here also obey the deadline of the thread that uses them, over all reads and writes together. Only the
lookup of a name cannot be interrupted: the resolver's own limits hold for it (`timeout` and `attempts` in resolv.conf),
and a deadline that passes meanwhile ends the request right after.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from shared.settings import SETTINGS

ALLOWED = "CAPI_FUNCTIONS_ALLOWED_NETWORKS"
"""The setting with the networks (CIDR, separated by spaces or commas) that are reached all the same."""

_ADDRESSES = 4
"""Of one name, how many are tried."""

_REFUSED = tuple(
    ipaddress.ip_network(network)
    for network in (
        "169.254.0.0/16",  # link-local: the metadata of most clouds
        "fe80::/10",
        "fd00:ec2::/32",  # EC2's metadata and DNS
        "fd20:ce::/32",  # Google Cloud's metadata
        "100.100.100.200/32",  # Alibaba Cloud's metadata
        "168.63.129.16/32",  # Azure's wire server
        "192.0.0.192/32",  # Oracle Cloud's metadata
    )
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

_SLACK = 0.5
"""Seconds by which a wait may miss the deadline: each setting of a timeout is a system call, and a turn of the GIL."""

_thread = threading.local()


# -- deadlines -------------------------------------------------------------------------------------------------


@contextmanager
def deadline(moment: float) -> Iterator[None]:
    """Within, this thread's reads and writes raise `TimeoutError` from `moment` on (`time.monotonic()`)."""
    outer = getattr(_thread, "moment", None)
    _thread.moment = moment if outer is None else min(outer, moment)
    try:
        yield
    finally:
        _thread.moment = outer


def _left() -> float | None:
    """Seconds until the deadline of this thread, if it has one. Raises `TimeoutError` after it."""
    moment = getattr(_thread, "moment", None)
    if moment is None:
        return None
    left: float = moment - time.monotonic()
    if left <= 0:
        raise TimeoutError("the deadline of the request has passed")
    return left


def _shorter(left: float | None, timeout: float | None) -> float | None:
    return timeout if left is None else left if timeout is None else min(left, timeout)


class _Timed:
    """For a class of sockets: `settimeout` bounds each operation, the deadline their sum."""

    _timeout: float | None = None
    _set: float | None = None

    def settimeout(self, value: float | None) -> None:
        self._timeout = self._set = value
        super().settimeout(value)  # type: ignore[misc]

    def recv_into(self, *args: Any) -> int:
        return int(self._in_time().recv_into(*args))

    def recv(self, *args: Any) -> bytes:
        return bytes(self._in_time().recv(*args))

    def send(self, *args: Any) -> int:
        return int(self._in_time().send(*args))

    def sendall(self, *args: Any) -> None:
        self._in_time().sendall(*args)

    def _in_time(self) -> Any:
        base: Any = super()
        wanted = _shorter(_left(), self._timeout)
        if wanted is None or self._set is None or abs(wanted - self._set) > _SLACK:
            base.settimeout(wanted)
            self._set = wanted
        return base


class _Socket(_Timed, socket.socket):
    pass


def timed(sock: socket.socket) -> socket.socket:
    """The same connection, which obeys deadlines from now on."""
    return _Socket(fileno=sock.detach())


class TlsSocket(_Timed, ssl.SSLSocket):
    """What a TLS context has to make (`sslsocket_class`) for deadlines to hold."""


# -- addresses -------------------------------------------------------------------------------------------------


class Forbidden(OSError):
    """An address that no workload cluster and no source has."""

    def __init__(self, address: str, hint: str) -> None:
        super().__init__(errno.EACCES, f"{address} is a link-local or metadata address, which is refused ({hint})")


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host (an IPv6 address without brackets) and port that a request for this http(s) URL goes to.

    Raises ValueError for any other URL, and for one that programs read differently. The parser is the one that
    connections are made with: what another parser takes for the host may be no more than a part of the path.
    """
    if not url.isprintable() or " " in url or "\\" in url:
        raise ValueError("the URL has characters that no URL has")
    parts = urllib3.util.parse_url(url)
    host = (parts.host or "").strip("[]")
    if parts.scheme not in ("http", "https") or not host or parts.port == 0:
        raise ValueError("no http(s) URL")
    if "%" in host and ":" not in host:  # a proxy may decode it
        raise ValueError("the URL has an escape in its host")
    return parts.scheme, host, parts.port or (443 if parts.scheme == "https" else 80)


def check_host(host: str) -> None:
    """Raises `Forbidden` for an IP address, in any notation, that must not be reached; names pass.

    For hosts that a proxy connects to in our place; what we connect to is judged by the addresses of its name.
    """
    literal = host.strip("[]").partition("%")[0].rstrip(".")
    try:
        address = str(ipaddress.ip_address(literal))
    except ValueError:
        try:  # the C library also reads 2852039166, 0xa9fea9fe and 169.254.43518
            address = socket.inet_ntoa(socket.inet_aton(literal))
        except (OSError, UnicodeError):
            return
    _check(address)


def _check(text: str) -> None:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        within = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            within = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        address = within or address
    if not any(address in network for network in _REFUSED):
        return
    try:
        if any(address in network for network in _networks(SETTINGS.get(ALLOWED, ""))):
            return
        hint = f"{ALLOWED} allows networks"
    except ValueError as error:
        hint = f"{ALLOWED} is not in force: {error}"
    raise Forbidden(str(address), hint)


@lru_cache(maxsize=4)
def _networks(text: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Raises ValueError with a clause about the first that is none."""
    networks = []
    for network in text.replace(",", " ").split():
        try:
            networks.append(ipaddress.ip_network(network, strict=False))
        except ValueError:
            raise ValueError(f"{network!r} is no network") from None
    return tuple(networks)


# -- connections -----------------------------------------------------------------------------------------------


def manager(proxy: str = "", *, anywhere: bool = False, **options: Any) -> urllib3.PoolManager:
    """Makes connections as described above, through the proxy if there is one; with `anywhere` to every address.

    TLS contexts among the options need `TlsSocket` as their `sslsocket_class`. Raises ValueError for no http(s) proxy.
    """
    if proxy:
        user, _, _ = urlsplit(proxy).netloc.rpartition("@")
        options["proxy_headers"] = urllib3.make_headers(proxy_basic_auth=unquote(user)) if user else None
        if origin(proxy)[0] == "https" and "proxy_ssl_context" not in options:
            options["proxy_ssl_context"] = context = ssl.create_default_context()
            context.sslsocket_class = TlsSocket
    made = urllib3.ProxyManager(proxy, **options) if proxy else urllib3.PoolManager(**options)
    made.pool_classes_by_scheme = _ANYWHERE if anywhere else _CHECKED
    return made


def proxy_for(scheme: str, host: str, settings: Mapping[str, str], *, fallback: str = "") -> str:
    """The proxy that `<scheme>_proxy`, or else `<fallback>_proxy`, names, unless `no_proxy` excepts the host.

    Empty for none. Raises `OSError` for one that is no http(s) URL; the scheme may be missing.
    """
    excepted = {"no": _proxy_setting("no", settings)}
    if urllib.request.proxy_bypass_environment(host, excepted):  # type: ignore[attr-defined] # not in the stubs
        return ""
    for name in filter(None, (scheme, fallback)):
        if proxy := _proxy_setting(name, settings):
            url = proxy if "://" in proxy else f"http://{proxy}"
            with suppress(ValueError):
                origin(url)
                return url
            raise OSError(errno.EINVAL, f"the setting {name}_proxy is no http(s) URL")
    return ""


def _proxy_setting(name: str, settings: Mapping[str, str]) -> str:
    """As the standard library has it: the lower case counts, also if it is empty."""
    lower = settings.get(f"{name}_proxy")
    return settings.get(f"{name.upper()}_PROXY", "") if lower is None else lower


def _connect(connection: HTTPConnection, *, anywhere: bool) -> socket.socket:
    host = connection._dns_host.strip("[]")
    try:
        found = socket.getaddrinfo(host, connection.port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise OSError(errno.EINVAL, "no usable host name") from None
    if not anywhere:
        for *_, address in found:
            _check(str(address[0]))
    problem: OSError = OSError(errno.EADDRNOTAVAIL, "the name has no address")
    timeout = connection.timeout
    for family, kind, protocol, _, address in found[:_ADDRESSES]:
        sock = _Socket(family, kind, protocol)
        try:
            for option in connection.socket_options or ():
                sock.setsockopt(*option)
            seconds = timeout if isinstance(timeout, int | float) else None
            sock.settimeout(_shorter(_left(), seconds))
            sock.connect(address)
            sock.settimeout(seconds)
            return sock
        except OSError as error:
            sock.close()
            problem = error
    raise problem


class _Anywhere(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self, anywhere=True)


class _AnywhereTls(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self, anywhere=True)


class _Checked(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self, anywhere=False)


class _CheckedTls(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self, anywhere=False)


class _AnywherePool(HTTPConnectionPool):
    ConnectionCls = _Anywhere


class _AnywhereTlsPool(HTTPSConnectionPool):
    ConnectionCls = _AnywhereTls


class _CheckedPool(HTTPConnectionPool):
    ConnectionCls = _Checked


class _CheckedTlsPool(HTTPSConnectionPool):
    ConnectionCls = _CheckedTls


_ANYWHERE = {"http": _AnywherePool, "https": _AnywhereTlsPool}
_CHECKED = {"http": _CheckedPool, "https": _CheckedTlsPool}
