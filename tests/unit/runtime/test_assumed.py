"""An object that this process wrote is taken once, or found until then, for the cluster that it is in."""

from __future__ import annotations

import random

import pytest

from shared.api.provider import CORE
from shared.api.resources import CLUSTER
from shared.clients import Clients
from shared.kube import Client, Key, Object
from shared.kube.credentials import Credentials
from shared.runtime import assumed

KIND = CORE.resource


def clients() -> Clients:
    """Returns clients of an address where no server listens."""
    return Clients(Client(Credentials("http://127.0.0.1:9")))


def written(name: str, version: str = "1") -> Object:
    return {"metadata": {"namespace": "space", "name": name, "resourceVersion": version}}


def test_object_is_taken_once_and_as_it_was_written_last() -> None:
    here, elsewhere = clients(), clients()
    for version in ("1", "2"):
        assumed.remember(here, KIND, written("a", version))
    assert assumed.last_written(elsewhere, KIND, Key("space", "a"), again=False) is None
    assert assumed.last_written(here, KIND, Key("space", "b"), again=False) is None
    assert assumed.last_written(here, KIND, Key("space", "a"), again=True) == written("a", "2")
    assert assumed.last_written(here, KIND, Key("space", "a"), again=False) == written("a", "2")
    assert assumed.last_written(here, KIND, Key("space", "a"), again=True) is None
    assert assumed.last_written(here, KIND, Key("space", "a"), again=False) is None


def test_objects_that_nothing_takes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write objects decides how large they are."""
    monkeypatch.setattr(assumed, "_MOST", 50_000)
    here, incompressible = clients(), random.Random(1).randbytes(10_000).hex()
    for number in range(10):
        assumed.remember(here, KIND, written(f"a{number}", incompressible))
    left = [number for number in range(10) if assumed.last_written(here, KIND, Key("space", f"a{number}"), again=False)]
    assert left == [6, 7, 8, 9]


def test_objects_of_a_kind_are_forgotten_in_one_cluster() -> None:
    here, elsewhere = clients(), clients()
    for one, kind in ((here, KIND), (here, CLUSTER), (elsewhere, KIND)):
        assumed.remember(one, kind, written("a"))
    assumed.forget(here, KIND)
    found = [
        assumed.last_written(one, kind, Key("space", "a"), again=False)
        for one, kind in ((here, KIND), (here, CLUSTER), (elsewhere, KIND))
    ]
    assert found == [None, written("a"), written("a")]
