"""moto's S3 server as a child process, in memory: the real S3 API for tests.

The socket listens before moto is imported (0.6 s), so that early clients wait instead of being refused. The parent can
pass the socket, so that no port is guessed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ObjectStoreServer:
    """A running server. It ends with `stop`, or with the process that started it."""

    url: str
    process: subprocess.Popen[bytes]

    def stop(self, grace: float = 2.0) -> None:
        """Ends the process and waits for its end; kills it after `grace` seconds."""
        self.process.terminate()
        try:
            self.process.wait(grace)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()


def start(port: int = 0) -> ObjectStoreServer:
    """Starts a server on `port` (0: a free one) without waiting for it: requests to `url` wait until it serves."""
    with listen(port) as listener:
        command = [sys.executable, "-m", "tests.support.moto_server", "--fd", str(listener.fileno()), "--until-eof"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], process_group=0)
        return ObjectStoreServer(f"http://{HOST}:{listener.getsockname()[1]}", process)


def listen(port: int = 0, host: str = HOST) -> socket.socket:
    """Returns a listening socket, by default on the loopback address. Raises `OSError` if the port is taken."""
    return socket.create_server((host, port), backlog=128)


def wait_ready(url: str, timeout: float = 60.0) -> None:
    """Returns once the server answers. Raises `TimeoutError` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while (left := deadline - time.monotonic()) > 0:
        try:
            with urllib.request.urlopen(url, timeout=left):
                return
        except urllib.error.HTTPError as answer:
            answer.close()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(f"the object store at {url} does not answer within {timeout:g} s")


def create_bucket(url: str, name: str) -> None:
    """Creates a bucket at a server."""
    with urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", method="PUT")):
        pass


def serve(listener: socket.socket) -> None:
    """Serves S3 on a listening socket until the process ends."""
    from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    class Handler(MotoRequestHandler):  # type: ignore[misc]
        disable_nagle_algorithm = True  # headers and body are two writes

        def log_request(self, *_: object) -> None:
            """Does not log requests."""

    host, port = listener.getsockname()[:2]
    app = create_backend_app("s3")
    make_server(host, port, app, threaded=True, request_handler=Handler, fd=listener.fileno()).serve_forever()


def main(argv: Sequence[str] | None = None) -> None:
    """Runs `python -m tests.support.moto_server --port 5000`, or `--fd` for an inherited listening socket."""
    parser = argparse.ArgumentParser(description="S3 object store for tests")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--port", type=int, help="port to listen at; 0 for a free one")
    where.add_argument("--fd", type=int, help="number of an inherited, listening socket")
    parser.add_argument("--host", default=HOST, help="address to listen at")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input is closed")
    options = parser.parse_args(argv)

    listener = listen(options.port, options.host) if options.fd is None else socket.socket(fileno=options.fd)
    if options.until_eof:
        threading.Thread(target=_exit_at_eof, daemon=True).start()
    if options.fd is None:  # a parent that passes the socket knows the address
        print(f"S3 at http://{options.host}:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        serve(listener)


def _exit_at_eof() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
