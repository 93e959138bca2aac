"""Serves the components of providers in a package to the functions, like GitHub's downloads."""

from __future__ import annotations

import functools
import json
import re
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from shared.components.catalog import GITHUB
from shared.components.repositories.releases import GITHUB_API

_LIST = re.compile(r"/repos/([\w.-]+/[\w.-]+)/releases")
"""The path of GitHub's list of releases."""


class ComponentsServer:
    """Serves the files of a folder on loopback, between `start` and `stop`.

    If it is `partial`, it redirects requests for other files, and for lists of releases, to GitHub.
    """

    def __init__(self, folder: Path, *, partial: bool = False) -> None:
        handler = functools.partial(_Redirecting if partial else _Files, directory=str(folder))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="components", daemon=True)

    def start(self) -> dict[str, str]:
        """Starts the thread, and returns the environment variables by which functions use the folder."""
        self._thread.start()
        url = f"http://127.0.0.1:{self._server.server_port}"
        return {"GITHUB_URL": url, "GITHUB_API_URL": url}

    def stop(self) -> None:
        """Ends the thread."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _Files(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        listed = _LIST.fullmatch(self.path.partition("?")[0])
        if listed is None:
            super().do_GET()
        else:
            self.list_releases(listed[1])

    def list_releases(self, repository: str) -> None:
        folder = Path(self.translate_path(f"/{repository}/releases/download"))
        tags = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        body = json.dumps([{"tag_name": tag} for tag in tags]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def list_directory(self, path: object) -> None:
        del path
        self.send_error(404)

    def log_message(self, format: str, *arguments: object) -> None:
        del format, arguments


class _Redirecting(_Files):
    def do_GET(self) -> None:
        if Path(self.translate_path(self.path)).is_file():
            super().do_GET()
            return
        self.send_response(302)
        self.send_header("Location", (GITHUB_API if self.path.startswith("/repos/") else GITHUB) + self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()
