"""The object store of a local run: moto's S3 server as a child process, in memory. In a cluster it serves for trying,
and keeps its objects in a directory.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"


class ObjectStoreError(Exception):
    """The object store of a local run does not serve; the message says why."""


@dataclass(frozen=True, slots=True)
class ObjectStoreServer:
    """A running server. It ends with `stop`, or with the process that started it."""

    url: str
    process: subprocess.Popen[bytes]

    def wait_ready(self) -> None:
        """Returns once the server answers. Raises `ObjectStoreError` if it ends, or does not answer in time."""
        try:
            wait_ready(self.url, may_answer=lambda: self.process.poll() is None)
        except TimeoutError as error:
            code = self.process.poll()
            reason = str(error) if code is None else f"the object store ended with status {code}"
            raise ObjectStoreError(f"{reason}; see its output, and `capi-functions doctor`") from None

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
        command = [sys.executable, "-m", "infra.object_store", "--fd", str(listener.fileno()), "--until-eof"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], process_group=0)
        return ObjectStoreServer(f"http://{HOST}:{listener.getsockname()[1]}", process)


def listen(port: int = 0, host: str = HOST) -> socket.socket:
    """Returns a listening socket, by default on the loopback address. Raises `OSError` if the port is taken."""
    return socket.create_server((host, port), backlog=128)


def wait_ready(url: str, timeout: float = 60.0, *, may_answer: Callable[[], bool] = lambda: True) -> None:
    """Returns once the server answers. Raises `TimeoutError` after `timeout` seconds, or once it no longer may."""
    deadline = time.monotonic() + timeout
    while (left := deadline - time.monotonic()) > 0 and may_answer():
        try:
            with urllib.request.urlopen(url, timeout=left):  # noqa: S310 - our own loopback address
                return
        except urllib.error.HTTPError as answer:
            answer.close()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(f"the object store at {url} does not answer within {timeout:g} s")


def serve(listener: socket.socket, directory: Path | None = None) -> None:
    """Serves S3 on a listening socket until the process ends; keeps the objects in `directory`, if there is one."""
    from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    from .object_files import ObjectFiles

    class Handler(MotoRequestHandler):  # type: ignore[misc]
        disable_nagle_algorithm = True  # headers and body are two writes

        def log_request(self, *_: object) -> None:
            """Does not log requests."""

    host, port = listener.getsockname()[:2]
    app = create_backend_app("s3")
    if directory is not None:
        app = ObjectFiles(app, directory)
    make_server(host, port, app, threaded=True, request_handler=Handler, fd=listener.fileno()).serve_forever()


def main(argv: Sequence[str] | None = None) -> None:
    """Runs `python -m infra.object_store --port 5000`, or `--fd` for an inherited listening socket."""
    parser = argparse.ArgumentParser(description="S3 object store for local runs, and for trying")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--port", type=int, help="port to listen at; 0 for a free one")
    where.add_argument("--fd", type=int, help="number of an inherited, listening socket")
    parser.add_argument("--host", default=HOST, help="address to listen at")
    parser.add_argument("--directory", type=Path, help="where objects are kept; by default in memory only")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input is closed")
    options = parser.parse_args(argv)

    listener = listen(options.port, options.host) if options.fd is None else socket.socket(fileno=options.fd)
    if options.until_eof:
        threading.Thread(target=_exit_at_eof, daemon=True).start()
    if options.fd is None:  # a parent that passes the socket knows the address
        print(f"S3 at http://{options.host}:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        serve(listener, options.directory)


def _exit_at_eof() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
