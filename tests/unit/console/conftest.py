"""A console whose objects a test sets, in front of no API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.console.flow import Flow
from infra.console.pages import Source
from infra.console.server import serving
from infra.console.watches import Watches
from shared.kube import Client
from shared.kube.credentials import Credentials


@pytest.fixture
def source() -> Iterator[Source]:
    client = Client(Credentials("http://127.0.0.1:1"), attempts=1)
    yield Source(client, Watches(client), Flow.of_cluster(client, "capi-functions"), "test")
    client.close()


@pytest.fixture
def address(source: Source) -> Iterator[str]:
    with serving(source) as found:
        yield found
