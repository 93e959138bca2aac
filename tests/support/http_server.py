"""An HTTP server for one test, with answers of the test's choice; it records all requests."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote


@dataclass(frozen=True)
class Request:
    path: str
    """The path with its query."""
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def authorization(self) -> str | None:
        return self.headers.get("Authorization")


@dataclass(frozen=True)
class Response:
    status: int = 200
    body: bytes | Iterable[bytes] = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None
    """The value of Content-Length, if not the real length."""


class HttpServer:
    """Answers GET, POST and PUT with `answer`; a context manager.

    `tls` is a folder with tls.crt and tls.key; with port 0 the system chooses a free port.
    `address` is the one to listen on.
    """

    def __init__(
        self,
        answer: Callable[[Request], Response],
        tls: Path | None = None,
        *,
        port: int = 0,
        address: str = "127.0.0.1",
    ) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        http_server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                self._respond(b"")

            def do_POST(self) -> None:
                self._respond(self.rfile.read(int(self.headers["Content-Length"])))

            do_PUT = do_POST

            def _respond(self, body: bytes) -> None:
                request = Request(self.path, {name.title(): value for name, value in self.headers.items()}, body)
                http_server.requests.append(request)
                response = http_server.answer(request)
                self.send_response(response.status)
                for name, value in response.headers.items():
                    self.send_header(name, value)
                if isinstance(response.body, bytes):
                    self.send_header(
                        "Content-Length", str(len(response.body) if response.length is None else response.length)
                    )
                    self.close_connection = response.length is not None
                else:
                    self.send_header("Connection", "close")
                self.end_headers()
                try:
                    for part in [response.body] if isinstance(response.body, bytes) else response.body:
                        self.wfile.write(part)
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 128  # with the default of 5 the kernel drops connections of a busy moment

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Ignores clients that close the connection, which some tests do."""
                if not isinstance(sys.exception(), OSError):
                    super().handle_error(request, client_address)

        self._server = Server((address, port), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls / "tls.crt", tls / "tls.key")
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.port: int = self._server.server_address[1]
        self.host = f"{address}:{self.port}"
        self.url = f"{'https' if tls else 'http'}://{self.host}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def files(content: Mapping[str, bytes]) -> Callable[[Request], Response]:
    """Returns an answer function that serves bodies by path, and 404 for other paths."""

    def answer(request: Request) -> Response:
        path = unquote(request.path)
        return Response(body=content[path]) if path in content else Response(404, b"no")

    return answer
