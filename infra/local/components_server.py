"""Serves the components of providers in a package to the functions, as GitHub does its downloads."""

from __future__ import annotations

import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class ComponentsServer:
    """Serves the files of a folder on loopback, between `start` and `stop`."""

    def __init__(self, folder: Path) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Files, directory=str(folder)))
        self._thread = threading.Thread(target=self._server.serve_forever, name="components", daemon=True)

    def start(self) -> dict[str, str]:
        """Starts the thread, and returns the environment variables of functions that shall use the folder."""
        self._thread.start()
        url = f"http://127.0.0.1:{self._server.server_port}"
        return {"GITHUB_URL": url, "GITHUB_API_URL": url}

    def stop(self) -> None:
        """Ends the thread."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _Files(SimpleHTTPRequestHandler):
    def list_directory(self, path: object) -> None:
        del path
        self.send_error(404)

    def log_message(self, format: str, *arguments: object) -> None:
        del format, arguments
