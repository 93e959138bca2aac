"""How to reach an API server, as plain data, and the connection pool made of it.

Keys are handed to TLS through memory: nothing secret is written to a disk on the way.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

if TYPE_CHECKING:
    from urllib3 import PoolManager


@dataclass(frozen=True)
class Credentials:
    """PEM texts are empty where there are none; `token` gives the present bearer token, which may change."""

    host: str
    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    token: Callable[[], str] | None = None
    verify: bool = True
    server_name: str = ""
    proxy: str = ""

    def pool(self, size: int) -> PoolManager:
        """Connections to the server, or through the proxy that is named here or in the environment.

        Raises `ValueError` or `ssl.SSLError` for PEM that cannot be used.
        """
        import urllib3

        options: dict[str, Any] = {"maxsize": size, "retries": False}
        address = urlsplit(self.host)
        if address.scheme == "https":
            options["ssl_context"] = self._tls()
            if self.server_name:
                options["server_hostname"] = options["assert_hostname"] = self.server_name
        proxy = self.proxy
        if not proxy and not proxy_bypass(address.hostname or ""):
            proxy = getproxies().get(address.scheme, "")
        if proxy:
            return urllib3.ProxyManager(proxy, num_pools=2, **options)
        return urllib3.PoolManager(num_pools=2, **options)

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.decode() or None)
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
