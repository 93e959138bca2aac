"""A console in front of an API server, and requests as a browser sends them, without following redirects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from urllib.parse import urlsplit

from infra.console.flow import Flow
from infra.console.pages import Source
from infra.console.server import serving
from infra.console.watches import Watches
from shared.kube import Client
from shared.settings import NAMESPACE


@dataclass(frozen=True)
class Page:
    status: int
    headers: Mapping[str, str]
    text: str


@contextmanager
def console(client: Client, namespace: str = "", name: str = "test") -> Iterator[str]:
    """Yields the address of a console whose watches have begun."""
    flow = Flow.of_cluster(client, NAMESPACE)
    with Watches(client, namespace) as watches, serving(Source(client, watches, flow, name, namespace)) as address:
        watches.wait_listed(60)
        yield address


def get(address: str, path: str = "", *, method: str = "GET", host: str = "", **headers: str) -> Page:
    """Returns the response for a path below the address, which ends with the token; `/...` replaces the token.

    Names of headers have underscores for hyphens.
    """
    with _sent(address, path, method, host, headers) as response:
        return Page(response.status, dict(response.headers.items()), response.read().decode())


@contextmanager
def events(address: str, path: str = "events") -> Iterator[Iterator[str]]:
    """Yields the data of the server-sent events of a stream."""

    def data(response: HTTPResponse) -> Iterator[str]:
        for line in response:
            if line.startswith(b"data: "):
                yield line.removeprefix(b"data: ").decode().strip()

    with _sent(address, path, "GET", "", {}) as response:
        yield data(response)


@contextmanager
def _sent(address: str, path: str, method: str, host: str, headers: Mapping[str, str]) -> Iterator[HTTPResponse]:
    parts = urlsplit(address)
    connection = HTTPConnection(parts.netloc, timeout=60)
    try:
        target = path if path.startswith("/") else f"{parts.path}{path}"
        connection.putrequest(method, target, skip_host=bool(host))
        if host:
            connection.putheader("Host", host)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        yield connection.getresponse()
    finally:
        connection.close()
