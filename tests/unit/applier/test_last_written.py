"""An object that this process wrote is taken once, or found until then, for the cluster that it is in."""

from __future__ import annotations

import random

import pytest

from shared.api.provider import CORE
from shared.api.resources import CLUSTER
from shared.clients import Clients
from shared.kube import Client, Key, Object
from shared.kube.credentials import Credentials
from shared.runtime import last_written

KIND = CORE.resource


def clients() -> Clients:
    """Returns clients of an address where no server listens."""
    return Clients(Client(Credentials("http://127.0.0.1:9")))


def written(name: str, version: str = "1") -> Object:
    return {"metadata": {"namespace": "space", "name": name, "resourceVersion": version}}


def test_object_is_taken_once_and_as_it_was_written_last() -> None:
    here, elsewhere = clients(), clients()
    for version in ("1", "2"):
        last_written.keep(here, KIND, written("a", version))
    assert last_written.take(elsewhere, KIND, Key("space", "a")) is None
    assert last_written.take(here, KIND, Key("space", "b")) is None
    assert last_written.find(here, KIND, Key("space", "a")) == written("a", "2")
    assert last_written.take(here, KIND, Key("space", "a")) == written("a", "2")
    assert last_written.find(here, KIND, Key("space", "a")) is None
    assert last_written.take(here, KIND, Key("space", "a")) is None


def test_objects_that_nothing_takes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write objects decides how large they are."""
    monkeypatch.setattr(last_written, "_MOST", 50_000)
    here, incompressible = clients(), random.Random(1).randbytes(10_000).hex()
    for number in range(10):
        last_written.keep(here, KIND, written(f"a{number}", incompressible))
    left = [number for number in range(10) if last_written.take(here, KIND, Key("space", f"a{number}"))]
    assert left == [6, 7, 8, 9]


def test_objects_of_a_kind_are_forgotten_in_one_cluster() -> None:
    here, elsewhere = clients(), clients()
    for one, kind in ((here, KIND), (here, CLUSTER), (elsewhere, KIND)):
        last_written.keep(one, kind, written("a"))
    last_written.forget(here, KIND)
    found = [
        last_written.take(one, kind, Key("space", "a"))
        for one, kind in ((here, KIND), (here, CLUSTER), (elsewhere, KIND))
    ]
    assert found == [None, written("a"), written("a")]
