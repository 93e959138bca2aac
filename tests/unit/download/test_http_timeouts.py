"""Every client times out for a server that does not answer, with its default timeout."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from events.delivery import HttpDelivery
from shared import buckets
from shared.download import SourceError
from shared.download.web import HttpSession
from shared.event import Event
from shared.kube import Client, Unavailable
from shared.kube.credentials import Credentials
from shared.settings import SETTINGS
from shared.storage import ObjectStore, StorageUnavailable


def _kubernetes(url: str) -> None:
    with pytest.raises(Unavailable, match="no answer in time"):
        Client(Credentials(url), attempts=1).request("GET", "/api")


def _releases(url: str) -> None:
    with HttpSession() as session, pytest.raises(SourceError, match="does not answer"):
        session.get(url)


def _storage(url: str) -> None:
    with pytest.raises(StorageUnavailable, match="no answer in time"):
        ObjectStore("s3://bucket", {**SETTINGS, "S3_ENDPOINT_URL": url}).get("k")


def _functions(url: str) -> None:
    answer = HttpDelivery(url)("f", Event(type="a.timer", source="/test", id="1"))
    assert answer.status == 503
    assert "timed out" in answer.message


def _shorter(seconds: Any) -> Any:
    """Shortens the timeout for the answer, not the one for the connection, which is made at once or not at all."""
    return (seconds[0], _shorter(seconds[1])) if isinstance(seconds, tuple) else seconds / 100


@pytest.mark.parametrize("ask", [_kubernetes, _releases, _storage, _functions])
def test_14_clients_have_default_timeouts(ask: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier they had none and waited for ever. The test uses a hundredth of each default."""
    for function, name in ((Client, "timeout"), (HttpSession, "read"), (HttpDelivery, "timeout")):
        defaults = vars(function)["__init__"].__kwdefaults__
        monkeypatch.setitem(defaults, name, _shorter(defaults[name]))
    monkeypatch.setattr(buckets, "READ_TIMEOUT", _shorter(buckets.READ_TIMEOUT))
    monkeypatch.setattr(buckets, "RETRIES", 0)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    with ThreadPoolExecutor(1) as pool, socket.create_server(("127.0.0.1", 0)) as silent:
        pool.submit(ask, f"http://127.0.0.1:{silent.getsockname()[1]}").result(timeout=60)
