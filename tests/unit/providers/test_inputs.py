"""The inputs of a provider: decoded Secrets, and which changes of inputs change the hashes."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.provider import INFRASTRUCTURE
from shared.kube import Object
from shared.providers.inputs import Inputs, decode_secret, inputs_hash, source_hash
from tests.support.provider_objects import provider
from tests.support.provider_releases import config_map

VALUES = {"a": "1", "b": "2", "c": "3"}


@pytest.mark.parametrize(
    ("data", "values"),
    [
        pytest.param(None, {}, id="no data"),
        pytest.param({"a": "aGVsbG8="}, {"a": "hello"}, id="text"),
        pytest.param({"a": "aGVsbG8=", "b": "w7w="}, {"a": "hello", "b": "ü"}, id="UTF-8"),
        pytest.param({"a": "aGVsbG8", "b": "eA=="}, {"b": "x"}, id="no padding"),
        pytest.param({"a": "aGVs!bG8=", "b": "eA=="}, {"b": "x"}, id="no base64"),
        pytest.param({"a": "/9j/", "b": "eA=="}, {"b": "x"}, id="no UTF-8"),
        pytest.param({"a": ""}, {"a": ""}, id="empty"),
    ],
)
def test_secret_is_decoded_without_invalid_values(data: dict[str, str] | None, values: dict[str, str]) -> None:
    assert decode_secret({"data": data}) == values


def made(version: str = "v1.1.0", *, uid: str = "one", **spec: Any) -> Object:
    return provider(INFRASTRUCTURE, "docker", metadata={"uid": uid}, version=version, **spec)


def hashed(obj: Object | None = None, *, extra: str = "", **inputs: Any) -> str:
    return inputs_hash(obj or made(), Inputs(**{"variables": VALUES, **inputs}), extra)


def test_hash_ignores_the_order_of_keys() -> None:
    assert hashed(variables=dict(reversed(VALUES.items()))) == hashed()
    one = made(manager={"verbosity": 2, "syncPeriod": "1m"}, deployment={"replicas": 2})
    other = made(deployment={"replicas": 2}, manager={"syncPeriod": "1m", "verbosity": 2})
    assert hashed(one) == hashed(other)


OTHERS = {
    "another version": hashed(made("v1.1.1")),
    "no tolerations": hashed(made(deployment={"tolerations": []})),
    "nothing of a deployment": hashed(made(deployment={})),
    "another value": hashed(variables={**VALUES, "c": "4"}),
    "one value more": hashed(variables={**VALUES, "d": "4"}),
    "values of each other": hashed(variables={**VALUES, "a": "2", "b": "1"}),
    "more manifests": hashed(additional="kind: ConfigMap"),
    "other ConfigMaps": hashed(config_maps=[config_map("v1.1.0", "1")]),
    "their content": hashed(config_maps=[config_map("v1.1.0", "2")]),
    "overrides": hashed(extra="images: {}"),
    "made anew": hashed(made(uid="two")),
}


def test_hash_changes_with_every_input() -> None:
    assert len({hashed(), *OTHERS.values()}) == len(OTHERS) + 1


@pytest.mark.parametrize(
    ("obj", "inputs", "same"),
    [
        pytest.param(made(), Inputs(variables=VALUES, additional="x"), True, id="variables and more manifests"),
        pytest.param(made(deployment={"replicas": 2}), Inputs(), True, id="what is made of it"),
        pytest.param(made("v1.1.1"), Inputs(), False, id="version"),
        pytest.param(made(fetchConfig={"oci": "x.test/y"}), Inputs(), False, id="source"),
        pytest.param(made(), Inputs(config_maps=[config_map("v1.1.0", "1")]), False, id="ConfigMaps"),
    ],
)
def test_source_hash_changes_with_version_and_source_only(obj: Object, inputs: Inputs, same: bool) -> None:
    assert (source_hash(obj, inputs) == source_hash(made(), Inputs())) is same
