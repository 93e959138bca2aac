"""The address and credentials of an API server as plain data, and the connection pool built from them.

Private keys reach the TLS library through memory, so nothing secret is written to a disk.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shared.settings import SETTINGS

from .errors import ApiError

if TYPE_CHECKING:
    from urllib3 import PoolManager


_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True)
class Credentials:
    """The URL of an API server and how to authenticate to it.

    `ca`, `certificate` and `key` are PEM, empty if there is none. `token` returns the current bearer token,
    which may change between calls.
    """

    host: str
    ca: bytes = b""
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    token: Callable[[], str] | None = field(default=None, repr=False)
    verify: bool = True
    server_name: str = ""
    proxy: str = field(default="", repr=False)

    def bearer(self) -> str:
        """Returns the current token, empty if there is none. Raises `ApiError`, which does not quote the token."""
        token = self.token().strip() if self.token else ""
        if token and not is_token(token):
            raise ApiError("the bearer token has invalid characters, such as a line break")
        return token

    @property
    def identity(self) -> str:
        """A hash of server and user; empty if the server is not verified, because another server may answer then.

        The hash covers the whole path to the server. It includes the user, because a proxy may lead each user to
        another server.
        """
        if not self.verify or not self.host.startswith("https://"):
            return ""
        parts = (self.host, self.ca, self.server_name, self.proxy, self.certificate, self.key, self.bearer())
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def pool(self, size: int, *, trusted: bool = True) -> PoolManager:
        """Returns a pool of `size` connections to the server, through the proxy of the kubeconfig or the environment.

        The process's proxy variables apply, as for kubectl; the settings for downloads do not. For a server that is not
        trusted, `size` also bounds the number of open connections, and the addresses that `shared.network` refuses and
        `http:` are refused. Raises `ValueError` or `ssl.SSLError` for unusable PEM, `OSError` for an invalid or refused
        URL.
        """
        from .. import network

        options: dict[str, Any] = {"num_pools": 2, "maxsize": size, "retries": False, "block": not trusted}
        try:
            scheme, host, _ = network.origin(self.host)
        except ValueError:
            raise OSError(errno.EINVAL, "the server is not an http(s) URL") from None
        if scheme == "https":
            options["ssl_context"] = self._tls()
            if self.server_name:
                options["server_hostname"] = options["assert_hostname"] = self.server_name
        proxy = self.proxy or network.proxy_for(scheme, host, os.environ)
        if not trusted:
            network.check_host(host)
            if network.in_clear(scheme, host, proxy) and SETTINGS.get(network.PLAIN_HTTP, "").lower() != "true":
                raise OSError(
                    errno.EPROTO,
                    "its http: server would receive credentials without TLS: use https:, or set "
                    f"{network.PLAIN_HTTP} to true",
                )
        return network.manager(proxy, anywhere=trusted, **options)

    def _tls(self) -> ssl.SSLContext:
        from ..network import TlsSocket

        context = ssl.create_default_context(cadata=self.ca.decode() or None)
        context.sslsocket_class = TlsSocket
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate and self.key:
            # The TLS library only reads files, so the key is passed as a file in memory.
            descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
            try:
                os.write(descriptor, self.certificate.rstrip() + b"\n" + self.key)
                context.load_cert_chain(f"/proc/self/fd/{descriptor}")
            finally:
                os.close(descriptor)
        return context


def is_token(text: str) -> bool:
    """Returns whether the text has only characters that a bearer token may have."""
    return bool(_TOKEN.fullmatch(text))
