"""Connects to untrusted servers, with a deadline for each wait, and refuses addresses that no such server has.

Refused are link-local and cloud metadata addresses, multicast and unspecified addresses, in a pod the pod's loopback
addresses, and the networks of a setting. The address of the connection counts, however it was written or resolved.

A socket's own timeout starts anew with each byte, so a server that sends one byte at a time would occupy a thread
forever. The sockets of this module also obey a deadline per thread, over all reads and writes together. Only name
resolution cannot be interrupted. The resolver has its own limits (`timeout` and `attempts` in resolv.conf), and a
deadline that passes during the resolution ends the request right after it.
"""

from __future__ import annotations

import errno
import ipaddress
import os
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
"""The setting with networks (CIDR, separated by spaces or commas) that are never refused."""
REFUSED = "CAPI_FUNCTIONS_REFUSED_NETWORKS"
"""The setting with further networks that are refused, in the same form."""
PLAIN_HTTP = "CAPI_FUNCTIONS_PLAIN_HTTP"
"""The setting that allows kubeconfigs with `http:` servers, if it is `true`."""

_MAX_ADDRESSES = 4
"""The number of addresses of one name that are tried."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _kind(what: str, *networks: str) -> tuple[tuple[_Network, str], ...]:
    return tuple((ipaddress.ip_network(network), what) for network in networks)


_NEVER = (
    *_kind(
        "a link-local or metadata address",
        "169.254.0.0/16",  # link-local: the metadata of most clouds
        "fe80::/10",
        "fd00:ec2::/32",  # EC2's metadata and DNS
        "fd20:ce::/32",  # Google Cloud's metadata
        "100.100.100.200/32",  # Alibaba Cloud's metadata
        "168.63.129.16/32",  # Azure's wire server
        "192.0.0.192/32",  # Oracle Cloud's metadata
    ),
    *_kind("a multicast address", "224.0.0.0/4", "ff00::/8"),
    *_kind("an unspecified address", "0.0.0.0/8", "::/128"),  # Linux connects them to loopback
)
_LOOPBACK = _kind("a loopback address of this pod", "127.0.0.0/8", "::1/128")
_TRANSLATED = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))
"""NAT64, NAT64 of a site, IPv4-compatible: the last 32 bits are the IPv4 address that packets are for."""

_SLACK = 0.5
"""Seconds by which a wait may miss the deadline: setting a timeout costs a system call and a release of the GIL."""

_thread = threading.local()


# -- deadlines -------------------------------------------------------------------------------------------------


@contextmanager
def deadline(moment: float) -> Iterator[None]:
    """Makes this thread's reads and writes in the block raise `TimeoutError` after `moment` (`time.monotonic()`)."""
    outer = getattr(_thread, "moment", None)
    _thread.moment = moment if outer is None else min(outer, moment)
    try:
        yield
    finally:
        _thread.moment = outer


def _time_left() -> float | None:
    """Returns the seconds until this thread's deadline, None without one. Raises `TimeoutError` once it has passed."""
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
    """A mixin for sockets: `settimeout` limits each operation, the thread's deadline their sum."""

    _timeout: float | None = None
    _set: float | None = None

    def settimeout(self, value: float | None) -> None:
        self._timeout = self._set = value
        super().settimeout(value)  # type: ignore[misc]

    def recv_into(self, *args: Any) -> int:
        return int(self._with_deadline().recv_into(*args))

    def recv(self, *args: Any) -> bytes:
        return bytes(self._with_deadline().recv(*args))

    def send(self, *args: Any) -> int:
        return int(self._with_deadline().send(*args))

    def sendall(self, *args: Any) -> None:
        self._with_deadline().sendall(*args)

    def _with_deadline(self) -> Any:
        """Returns the base class's socket with its timeout cut to the deadline."""
        base: Any = super()
        timeout = _shorter(_time_left(), self._timeout)
        if timeout is None or self._set is None or abs(timeout - self._set) > _SLACK:
            base.settimeout(timeout)
            self._set = timeout
        return base


class _Socket(_Timed, socket.socket):
    pass


def timed(sock: socket.socket) -> socket.socket:
    """Returns the same connection as a socket that obeys deadlines; `sock` is detached."""
    return _Socket(fileno=sock.detach())


class TlsSocket(_Timed, ssl.SSLSocket):
    """The `sslsocket_class` of TLS contexts whose connections obey deadlines."""


# -- addresses -------------------------------------------------------------------------------------------------


class Forbidden(OSError):
    """The address is refused."""

    def __init__(self, address: object, what: str, hint: str) -> None:
        super().__init__(errno.EACCES, f"{address} is {what}, which is refused ({hint})")


def origin(url: str) -> tuple[str, str, int]:
    """Returns scheme, host (an IPv6 address without brackets) and port that a request for an http(s) URL goes to.

    Raises `ValueError` for any other URL, and for an ambiguous one. The URL is parsed by the library that connects,
    because another parser may take a part of the path for the host.
    """
    if not url.isprintable() or " " in url or "\\" in url:
        raise ValueError("the URL has invalid characters")
    parts = urllib3.util.parse_url(url)
    host = (parts.host or "").strip("[]")
    if parts.scheme not in ("http", "https") or not host or parts.port == 0:
        raise ValueError("not an http(s) URL")
    if "%" in host and ":" not in host:  # a proxy may decode the escape
        raise ValueError("the URL has an escape in its host")
    return parts.scheme, host, parts.port or (443 if parts.scheme == "https" else 80)


def in_clear(scheme: str, host: str, proxy: str = "") -> bool:
    """Returns whether a request crosses a network without TLS; a direct request to loopback does not."""
    return scheme == "http" and (bool(proxy) or not _is_loopback(host))


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return _is_localhost(host)


def _is_localhost(host: str) -> bool:
    return f".{host.rstrip('.').lower()}".endswith(".localhost")


def check_host(host: str) -> None:
    """Raises `Forbidden` for a refused IP address in any notation; host names pass, except loopback names.

    This is for hosts that a proxy connects to. For direct connections the addresses of a name are checked as well.
    """
    literal = host.strip("[]").partition("%")[0].rstrip(".")
    try:
        address = str(ipaddress.ip_address(literal))
    except ValueError:
        try:  # the C library also accepts 2852039166, 0xa9fea9fe and 169.254.43518
            address = socket.inet_ntoa(socket.inet_aton(literal))
        except (OSError, UnicodeError):
            if not _is_localhost(literal):
                return
            address = "127.0.0.1"
    _check(address)


def _check(text: str) -> None:
    """Raises `Forbidden` for a refused address, and for an IPv6 address that stands for a refused IPv4 address."""
    for address in _meanings(text):
        if not (what := _refusal(address)):
            continue
        try:
            if any(address in network for network in _networks(SETTINGS.get(ALLOWED, ""))):
                continue
            hint = f"{ALLOWED} allows networks"
        except ValueError as error:
            hint = f"{ALLOWED} is ignored: {error}"
        raise Forbidden(address, what, hint)


def _refusal(address: _Address) -> str:
    """Returns the reason to refuse the address, such as "a multicast address"; empty if there is none."""
    try:
        refused = _networks(SETTINGS.get(REFUSED, ""))
    except ValueError as error:  # an incomplete list must not allow what it should refuse
        return f"of an unknown network, since {REFUSED} is invalid: {error}"
    if any(address in network for network in refused):
        return f"in a network of {REFUSED}"
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ  # the kubelet sets it in every pod
    networks = _NEVER + _LOOPBACK if in_pod else _NEVER
    return next((what for network, what in networks if address in network), "")


def _meanings(text: str) -> tuple[_Address, ...]:
    """Returns the address, and the IPv4 address that packets to an IPv6 address are for."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    if address.ipv4_mapped:
        return (address.ipv4_mapped,)
    if address.sixtofour:
        return address, address.sixtofour
    if int(address) > 1 and any(address in network for network in _TRANSLATED):
        return address, ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return (address,)


@lru_cache(maxsize=4)
def _networks(text: str) -> tuple[_Network, ...]:
    """Parses the networks. Raises `ValueError` that names the first invalid one."""
    networks = []
    for network in text.replace(",", " ").split():
        try:
            networks.append(ipaddress.ip_network(network, strict=False))
        except ValueError:
            raise ValueError(f"{network!r} is not a network") from None
    return tuple(networks)


# -- connections -----------------------------------------------------------------------------------------------


def manager(proxy: str = "", *, anywhere: bool = False, **options: Any) -> urllib3.PoolManager:
    """Returns a pool manager whose connections obey deadlines and, unless `anywhere` is true, raise `Forbidden`.

    `proxy` is a URL or empty. `options` are urllib3's; TLS contexts among them need `TlsSocket` as their
    `sslsocket_class`. Raises `ValueError` for a proxy that is not an http(s) URL.
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
    """Returns the proxy URL of `<scheme>_proxy`, or else `<fallback>_proxy`; empty for none.

    `no_proxy` excludes hosts. The URL's scheme may be missing in the setting. Raises `OSError` for a setting that is
    not an http(s) URL.
    """
    excluded = {"no": _proxy_setting("no", settings)}
    if urllib.request.proxy_bypass_environment(host, excluded):  # type: ignore[attr-defined] # not in the stubs
        return ""
    for name in filter(None, (scheme, fallback)):
        if proxy := _proxy_setting(name, settings):
            url = proxy if "://" in proxy else f"http://{proxy}"
            with suppress(ValueError):
                origin(url)
                return url
            raise OSError(errno.EINVAL, f"the setting {name}_proxy is not an http(s) URL")
    return ""


def _proxy_setting(name: str, settings: Mapping[str, str]) -> str:
    """Returns a proxy setting as the standard library reads it: the lower-case name wins, even if it is empty."""
    lower = settings.get(f"{name}_proxy")
    return settings.get(f"{name.upper()}_PROXY", "") if lower is None else lower


def _connect(connection: HTTPConnection, *, anywhere: bool) -> socket.socket:
    """Connects to the first address that accepts; raises `Forbidden` for a refused one unless `anywhere` is true."""
    host = connection._dns_host.strip("[]")
    try:
        found = socket.getaddrinfo(host, connection.port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise OSError(errno.EINVAL, "the host name is not valid") from None
    if not anywhere:
        for *_, address in found:
            _check(str(address[0]))
    problem: OSError = OSError(errno.EADDRNOTAVAIL, "the name has no address")
    timeout = connection.timeout
    for family, kind, protocol, _, address in found[:_MAX_ADDRESSES]:
        sock = _Socket(family, kind, protocol)
        try:
            for option in connection.socket_options or ():
                sock.setsockopt(*option)
            seconds = timeout if isinstance(timeout, int | float) else None
            sock.settimeout(_shorter(_time_left(), seconds))
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
