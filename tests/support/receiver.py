"""A real HTTP server in place of functions: stores the events that it receives and returns given answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import TracebackType

from shared.event import Event, from_http
from shared.runtime.answer import Answer


class Receiver:
    """Answers with `answer(function, event)`; `received` has function, event and time of arrival of each request."""

    def __init__(self, answer: Callable[[str, Event], Answer] | None = None, port: int = 0) -> None:
        self.answer = answer or (lambda _function, _event: Answer(204))
        self.received: list[tuple[str, Event, float]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                event, function = from_http(dict(self.headers.items()), body), self.path.strip("/")
                with receiver._lock:
                    receiver.received.append((function, event, time.time()))
                answer = receiver.answer(function, event)
                headers, reply = answer.reply.to_http() if answer.reply else ({}, answer.message.encode())
                if answer.retry_after is not None:
                    headers["Retry-After"] = str(max(1, round(answer.retry_after)))
                    headers["Retry-After-Ms"] = str(int(answer.retry_after * 1000))
                self.send_response(answer.status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

        self._lock = Lock()
        self._server = Server(("127.0.0.1", port), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,))
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
