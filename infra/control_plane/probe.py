"""Is the API server ready? Asked as its admin over one kept connection, so that asking often costs little."""

import http.client
import ssl

from infra.control_plane.layout import Layout

# /readyz alone is not enough: the namespaces are created in the background.
_PATHS = ("/readyz", "/api/v1/namespaces/default")


class Probe:
    """A connection to the API server of `layout` at 127.0.0.1:`port`. Raises OSError for bad certificates."""

    def __init__(self, layout: Layout, port: int) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(layout.certificate("ca"))
        context.load_cert_chain(layout.certificate("admin"), layout.key("admin"))
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=context)
        self._left = list(_PATHS)

    def trouble(self) -> str:
        """Why the server is not ready, "" if it is. A path that was fine once is not asked again."""
        while self._left:
            try:
                self._connection.request("GET", self._left[0])
                response = self._connection.getresponse()
                body = response.read()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                return str(error)
            if response.status != 200:
                # The failed checks are marked [-]; other answers are quoted from their beginning.
                failed = [line for line in body.decode(errors="replace").splitlines() if "[-]" in line]
                return f"{self._left[0]}: " + (", ".join(failed) or f"{response.status} {body[:200]!r}")
            del self._left[0]
        return ""

    def close(self) -> None:
        self._connection.close()
