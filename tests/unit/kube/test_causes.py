"""The texts for failed requests, from real sockets and as urllib3 wraps the errors."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from urllib3.exceptions import ConnectTimeoutError, HTTPError, SSLError

from shared.kube import Client, Unavailable
from shared.kube.causes import cause
from shared.kube.credentials import Credentials

LONG = 60.0
SHORT = 0.3
"""Read timeouts in seconds: for servers that answer, and for one that does not."""


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that handles one connection after the other with `answer`."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with closing(connection):
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(LONG)


def hang_up(connection: socket.socket) -> None:
    connection.recv(65536)


def break_off(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")


def say_nothing(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.recv(65536)  # until the client gives up


def speak_no_tls(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")


def message(host: str, read: float = LONG) -> str:
    client = Client(Credentials(host), timeout=(LONG, read), attempts=1)
    with closing(client), pytest.raises(Unavailable) as caught:
        client.request("GET", "/api")
    assert not any(word in str(caught.value) for word in ("Pool", "object at", "urllib3", "Errno"))
    return str(caught.value)


@pytest.mark.parametrize(
    ("answer", "scheme", "words"),
    [
        (hang_up, "http", "connection closed before the response"),
        (break_off, "http", "the response is incomplete"),
        (say_nothing, "http", "no answer in time"),
        (speak_no_tls, "https", "TLS failed: "),
    ],
)
def test_failed_response_is_named_by_its_cause(
    answer: Callable[[socket.socket], None], scheme: str, words: str
) -> None:
    with server(answer) as address:
        read = SHORT if answer is say_nothing else LONG
        assert message(f"{scheme}://{address}", read).startswith(f"{scheme}://{address} does not answer: {words}")


def test_refused_connection_is_named() -> None:
    with server(hang_up) as address:
        pass
    assert message(f"http://{address}") == f"http://{address} does not answer: connection refused"


def wrapped(error: Exception, inner: Exception) -> Exception:
    error.__cause__ = inner
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (wrapped(HTTPError("HTTPSConnection(host=...)"), socket.gaierror(-2, "unknown")), "name cannot be resolved"),
        (HTTPError("HTTPSConnection(host=...)", OSError(113, "No route to host")), "no route to host"),
        (ConnectTimeoutError("HTTPConnection(...) timed out"), "no connection in time"),
        (SSLError(ssl.SSLCertVerificationError(1, "x")), "certificate verify failed: untrusted"),
        (ValueError("whatever it says"), "ValueError"),
    ],
)
def test_cause_is_found_in_wrapped_errors(error: Exception, words: str) -> None:
    assert cause(error) == words
