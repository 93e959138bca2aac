"""The content of the sources of ClusterResourceSets: hashes as Cluster API computes them, objects and their order."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from functions.cluster_resource_set import sources
from functions.cluster_resource_set.sources import Source, SourceError, by_phase, parse_all
from shared.api.resource_set import SourceRef
from shared.kube import Object

MAP, SECRET = SourceRef("ConfigMap", "one"), SourceRef("Secret", "one")
ONE, TWO = (f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n" for name in ("one", "two"))


def encoded(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def config_map(**data: str) -> Source:
    return Source.of(MAP, {"data": data})


def obj(kind: str, name: str = "x", api_version: str = "v1") -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param(ONE, TWO, "e13e44ef7f803d749e50361f138ec1a67645f88a38862befed3dee018b97f36f", id="a=one b=two"),
        pytest.param(TWO, ONE, "823bb1dfe2cc0752b07b487a6a936490ba43a3526143bc783ee07eb0476b1d56", id="a=two b=one"),
    ],
)
def test_hash_is_cluster_apis(first: str, second: str, expected: str) -> None:
    plain = {"data": {"b": second, "a": first}}
    secret = {"data": {"b": encoded(second), "a": encoded(first)}}
    binary = {"data": {"b": second}, "binaryData": {"a": encoded(first)}}
    assert Source.of(MAP, plain).hash == Source.of(SECRET, secret).hash == Source.of(MAP, binary).hash
    assert Source.of(MAP, plain).hash == f"sha256:{expected}"


def test_keys_are_sorted_by_their_bytes() -> None:
    assert list(config_map(b="", B="", **{"a.yaml": "", "a-1": "", "é": ""}).values) == ["B", "a-1", "a.yaml", "b", "é"]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        pytest.param("---\n# nothing\n---\n", [], id="empty documents"),
        pytest.param("{apiVersion: v1, kind: A, metadata: {name: x}}", ["A"], id="one"),
        pytest.param(f"{json.dumps(obj('A'))}\n---\n{json.dumps(obj('B'))}", ["A", "B"], id="documents"),
        pytest.param(f"{ONE}data: |\n  a\n  ---\n  b\n---\n{TWO}", ["Namespace"] * 2, id="a separator in a text"),
        pytest.param(f"---\n{ONE}---\n{TWO}".replace("\n", "\r\n"), ["Namespace"] * 2, id="lines of Windows"),
        pytest.param(json.dumps([obj("A"), obj("B")]), ["A", "B"], id="JSON list"),
        pytest.param(f"  {json.dumps([obj('A')], indent=2)}  ", ["A"], id="JSON list with blanks"),
        pytest.param("[]", [], id="empty JSON list"),
        pytest.param(json.dumps({"apiVersion": "v1", "kind": "List", "items": [obj("A")]}), ["A"], id="List"),
        pytest.param(json.dumps({"kind": "ConfigMapList", "items": [obj("A")]}), ["A"], id="other list"),
    ],
)
def test_objects(text: str, kinds: list[str]) -> None:
    assert [one["kind"] for one in config_map(a=text).objects()] == kinds


@pytest.mark.parametrize(
    "text", ["[{]", '[{"kind": "A"}', "a: [", "text", "- a", "{kind: A, apiVersion: v1}", "[1]", '[], "items": [1']
)
def test_broken_content_fails_without_its_text_if_it_is_secret(text: str) -> None:
    with pytest.raises(SourceError):
        config_map(a=text).objects()
    with pytest.raises(SourceError, match=r"^key a does not contain Kubernetes objects as YAML or JSON$"):
        Source.of(SECRET, {"data": {"a": encoded(text)}}).objects()


@pytest.mark.parametrize("values", [{}, {"a": ""}, {"a": " \n", "b": ""}])
def test_source_without_content_fails(values: dict[str, str]) -> None:
    with pytest.raises(SourceError, match=r"^the source has no content$"):
        config_map(**values).objects()
    assert [one["kind"] for one in config_map(**values, z=ONE).objects()] == ["Namespace"]


def test_content_that_is_not_text_fails() -> None:
    with pytest.raises(SourceError, match=r"^key a is not UTF-8 text$"):
        Source.of(MAP, {"binaryData": {"a": encoded(b"\xff\xfe")}}).objects()
    with pytest.raises(SourceError, match=r"^a value is not base64$"):
        Source.of(SECRET, {"data": {"a": "%"}})


def test_secret_is_not_in_the_text_of_its_source() -> None:
    source = Source.of(SECRET, {"data": {"a": encoded("canary")}})
    assert "canary" not in repr(source)


def test_order_over_all_sources() -> None:
    crd = obj("CustomResourceDefinition", api_version="apiextensions.k8s.io/v1")
    others = [obj("Thing", api_version="x.org/v1"), obj("Deployment"), obj("ConfigMap"), crd, obj("Namespace")]
    found, problems = parse_all([config_map(a=json.dumps(others)), config_map(a=json.dumps([obj("ServiceAccount")]))])
    assert problems == {}
    kinds = [[one.obj["kind"] for one in of_phase] for of_phase in by_phase(found)]
    assert kinds == [
        ["Namespace"],
        ["CustomResourceDefinition"],
        ["ServiceAccount", "ConfigMap", "Deployment", "Thing"],
    ]


@pytest.mark.parametrize(("limit", "value"), [("MAX_BYTES", 100), ("MAX_VALUES", 10)])
def test_sources_beyond_the_limit_fail(monkeypatch: pytest.MonkeyPatch, limit: str, value: Any) -> None:
    monkeypatch.setattr(sources, limit, value)
    second = Source.of(SourceRef("ConfigMap", "two"), {"data": {"a": ONE + TWO}})
    found, problems = parse_all([config_map(a=ONE), second])
    assert [one.obj["metadata"]["name"] for one in found] == ["one"]
    assert list(problems) == [second.ref]
