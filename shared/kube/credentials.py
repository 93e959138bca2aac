"""How to reach an API server, as plain data, and the connection pool made of it.

Keys are handed to TLS through memory: nothing secret is written to a disk on the way.
"""

from __future__ import annotations

import errno
import os
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import ApiError

if TYPE_CHECKING:
    from urllib3 import PoolManager


_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True)
class Credentials:
    """PEM texts are empty where there are none; `token` gives the present bearer token, which may change."""

    host: str
    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    token: Callable[[], str] | None = field(default=None, repr=False)
    verify: bool = True
    server_name: str = ""
    proxy: str = field(default="", repr=False)

    def bearer(self) -> str:
        """The present token, empty where there is none. Raises `ApiError`, which does not quote it."""
        token = self.token().strip() if self.token else ""
        if token and not is_token(token):
            raise ApiError("the bearer token holds characters that no token has, such as a line break")
        return token

    def pool(self, size: int, *, trusted: bool = True) -> PoolManager:
        """Connections to the server, or through the proxy that is named here or in the environment.

        The environment is that of the process, where it counts as it does for kubectl: settings for downloads are none
        for API servers. Connections to a server that is not trusted are at most `size`, and go to no link-local or
        metadata address. Raises `ValueError` or `ssl.SSLError` for PEM that cannot be used; `OSError` for a URL.
        """
        from .. import network

        options: dict[str, Any] = {"num_pools": 2, "maxsize": size, "retries": False, "block": not trusted}
        try:
            scheme, host, _ = network.origin(self.host)
        except ValueError:
            raise OSError(errno.EINVAL, "the server is no http(s) URL") from None
        if scheme == "https":
            options["ssl_context"] = self._tls()
            if self.server_name:
                options["server_hostname"] = options["assert_hostname"] = self.server_name
        if not trusted:
            network.check_host(host)
        proxy = self.proxy or network.proxy_for(scheme, host, os.environ)
        return network.manager(proxy, anywhere=trusted, **options)

    def _tls(self) -> ssl.SSLContext:
        from ..network import TlsSocket

        context = ssl.create_default_context(cadata=self.authority.decode() or None)
        context.sslsocket_class = TlsSocket
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate and self.key:
            # The TLS library reads files only, so it gets one that is nothing but memory.
            descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
            try:
                os.write(descriptor, self.certificate.rstrip() + b"\n" + self.key)
                context.load_cert_chain(f"/proc/self/fd/{descriptor}")
            finally:
                os.close(descriptor)
        return context


def is_token(text: str) -> bool:
    """Whether it can be sent as a bearer token."""
    return bool(_TOKEN.fullmatch(text))
