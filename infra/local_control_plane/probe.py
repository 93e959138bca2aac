"""Is the API server ready? Asked as its admin over one kept connection, so that asking often costs little."""

import http.client
import json
import ssl

from infra.local_control_plane.layout import Layout

# /readyz alone is not enough: the namespaces are created in the background.
READY = ("/readyz", "/api/v1/namespaces/default")


class Probe:
    """A connection to the API server of `layout` at 127.0.0.1:`port`. Raises OSError for bad certificates."""

    def __init__(self, layout: Layout, port: int) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(layout.certificate("ca"))
        context.load_cert_chain(layout.certificate("admin"), layout.key("admin"))
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=context)
        self._fine: set[str] = set()

    def trouble(self, *paths: str) -> str:
        """Why one of `paths` is not served, "" if all are. A path that was fine once is not asked again."""
        for path in paths:
            if path not in self._fine:
                if trouble := self._ask("GET", path, (200,)):
                    return trouble
                self._fine.add(path)
        return ""

    def create(self, path: str, content: object) -> str:
        """Why `content` is not among the objects at `path`, "" if it is, be it since before."""
        return self._ask("POST", path, (201, 409), json.dumps(content))

    def close(self) -> None:
        self._connection.close()

    def _ask(self, method: str, path: str, expected: tuple[int, ...], body: str | None = None) -> str:
        try:
            self._connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            response = self._connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return str(error)
        if response.status in expected:
            return ""
        # The failed checks are marked [-]; other answers are quoted from their beginning.
        failed = [line for line in answer.decode(errors="replace").splitlines() if "[-]" in line]
        return f"{path}: " + (", ".join(failed) or f"{response.status} {answer[:200]!r}")
