"""Checks whether the API server is ready, as its admin and over one connection, so that frequent checks are cheap."""

import http.client
import json
import ssl

from infra.local_control_plane import credentials
from infra.local_control_plane.layout import Layout

# /readyz alone is not enough, because the namespaces are created in the background.
READY = ("/readyz", "/api/v1/namespaces/default")


class AdminConnection:
    """A connection to the API server of `layout` at a port of `host`. Raises OSError for an unusable CA."""

    def __init__(self, layout: Layout, host: str, port: int) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(layout.certificate("ca"))
        self._connection = http.client.HTTPSConnection(host, port, timeout=2, context=context)
        token = credentials.admin_token(layout)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._served: set[str] = set()

    def problem(self, *paths: str) -> str:
        """Returns why one of `paths` is not served, "" if all are. Does not request a path again once it was served."""
        for path in paths:
            if path not in self._served:
                if problem := self._request("GET", path, (200,)):
                    return problem
                self._served.add(path)
        return ""

    def create(self, path: str, content: object) -> str:
        """Creates the object `content` at `path`. Returns why that failed, "" if the object exists now."""
        return self._request("POST", path, (201, 409), json.dumps(content))

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def _request(self, method: str, path: str, expected: tuple[int, ...], body: str | None = None) -> str:
        try:
            self._connection.request(method, path, body, self._headers)
            response = self._connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return str(error)
        if response.status in expected:
            return ""
        # Failed checks are marked [-]; other answers are quoted up to a limit.
        failed = [line for line in answer.decode(errors="replace").splitlines() if "[-]" in line]
        return f"{path}: " + (", ".join(failed) or f"{response.status} {answer[:200]!r}")
