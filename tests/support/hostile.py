"""A hostile server on loopback: it drips, floods, hangs, redirects, or answers what a test gives it.

A real one, with or without TLS; `seen` holds the request lines that arrived.
"""

from __future__ import annotations

import base64
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from shared.certificates import CertificateAuthority

Behaviour = Callable[[str, threading.Event], Iterator[bytes]]
"""Returns the pieces of the answer to a request's path; the event is set when the server ends."""

_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def answering(body: bytes, status: str = "200 OK", *headers: str) -> Behaviour:
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", ""))
    return lambda _path, _closing: iter([head.encode() + body])


def redirecting(to: str) -> Behaviour:
    return answering(b"", "302 Found", f"Location: {to}")


def hanging(_path: str, closing: threading.Event) -> Iterator[bytes]:
    closing.wait()
    yield b""


def dripping(_path: str, closing: threading.Event) -> Iterator[bytes]:
    """An endless body, each byte of which arrives in time."""
    yield _OK + b"Content-Length: 1000000\r\n\r\n"
    while not closing.wait(0.02):
        yield b" "


def dripping_headers(_path: str, closing: threading.Event) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nX: "
    while not closing.wait(0.02):
        yield b"x"


def continuing(_path: str, closing: threading.Event) -> Iterator[bytes]:
    """Answers with an endless body."""
    while not closing.wait(0.02):
        yield b"HTTP/1.1 100 Continue\r\n\r\n"


def flooding(_path: str, closing: threading.Event) -> Iterator[bytes]:
    yield _OK + b"\r\n"
    while not closing.is_set():
        yield b" " * 65536


def paths(behaviours: dict[str, Behaviour], otherwise: Behaviour) -> Behaviour:
    return lambda path, closing: behaviours.get(path, otherwise)(path, closing)


class HostileServer:
    def __init__(self, behaviour: Behaviour, *, tls: bool = False) -> None:
        self.behaviour = behaviour
        self.seen: list[str] = []
        self.sent = 0
        """Bytes that have been sent."""
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._ca = CertificateAuthority.generate("hostile") if tls else None
        self._context = _tls(self._ca) if self._ca else None
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._connections: list[socket.socket] = []

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def ca(self) -> bytes:
        return self._ca.cert_pem if self._ca else b""

    @property
    def ca_data(self) -> str:
        """The CA as kubeconfigs contain it."""
        return base64.b64encode(self.ca).decode()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        for sock in (self._listener, *self._connections):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self._thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with suppress(OSError), self._context.wrap_socket(sock, server_side=True) if self._context else sock as sock:
            self._connections.append(sock)
            while line := _request(sock):
                self.seen.append(line)
                for piece in self.behaviour(line.split(" ")[1].partition("?")[0], self._closing):
                    sock.sendall(piece)
                    self.sent += len(piece)


def kubeconfig(server: str, user: dict[str, str] | None = None, **cluster: object) -> bytes:
    return yaml.safe_dump(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": server, **cluster}}],
            "users": [{"name": "u", "user": user or {}}],
        }
    ).encode()


def _request(sock: socket.socket) -> str:
    """Returns the first line of a request; empty at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            return ""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    length = next((int(line[15:]) for line in lines if line.lower().startswith("content-length:")), 0)
    while len(body) < length:
        body += sock.recv(65536)
    return lines[0]


def _tls(ca: CertificateAuthority) -> ssl.SSLContext:
    pair = ca.issue("hostile", ips=["127.0.0.1"], server=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(pair.cert_pem + pair.key_pem)
        context.load_cert_chain(file.name)
    return context
