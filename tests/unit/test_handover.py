"""An object is handed over to one next step, by the process that wrote it and for the cluster that it is in."""

from __future__ import annotations

from shared.api.provider import CORE
from shared.clients import Clients
from shared.kube import Client, Key, Object
from shared.kube.credentials import Credentials
from shared.runtime import handover

KIND = CORE.resource


def clients() -> Clients:
    """Returns clients of an address where no server listens."""
    return Clients(Client(Credentials("http://127.0.0.1:9")))


def written(name: str, version: str = "1") -> Object:
    return {"metadata": {"namespace": "space", "name": name, "resourceVersion": version}}


def test_object_is_taken_once_and_as_it_was_written_last() -> None:
    here, elsewhere = clients(), clients()
    for version in ("1", "2"):
        handover.keep(here, KIND, written("a", version))
    assert handover.take(elsewhere, KIND, Key("space", "a")) is None
    assert handover.take(here, KIND, Key("space", "b")) is None
    assert handover.take(here, KIND, Key("space", "a")) == written("a", "2")
    assert handover.take(here, KIND, Key("space", "a")) is None


def test_objects_that_nothing_takes_are_forgotten() -> None:
    here = clients()
    for number in range(100):
        handover.keep(here, KIND, written(f"a{number}"))
    left = [number for number in range(100) if handover.take(here, KIND, Key("space", f"a{number}"))]
    assert left == list(range(68, 100))
