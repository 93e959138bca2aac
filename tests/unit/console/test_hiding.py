"""What the YAML of a Cluster hides."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.console.hiding import HIDDEN, hide, hide_difference
from shared.applier.diff import ABSENT, REDACTED, FieldDiff

SECRET = "s3cr3t-value"


@pytest.mark.parametrize(
    "spec",
    [
        {"password": SECRET},
        {"adminPasswd": [SECRET]},
        {"env": [{"key": "DB_PASSWORD", "value": SECRET}]},
        {"encryptionKey": SECRET, "pwd": SECRET, "pass": SECRET},
        {"apiKey": {"nested": SECRET}},
        {"topology": {"variables": [{"name": "registryToken", "value": SECRET}]}},
        {"topology": {"variables": [{"name": "registryToken", "value": {"any": [SECRET]}}]}},
        {"files": [{"path": "/etc/x", "content": SECRET}]},
        {"proxy": f"http://user:{SECRET}@proxy.example"},
        {"anything": f"-----BEGIN PRIVATE KEY-----\n{SECRET}"},
        {"document": SECRET + "x" * 5_000},
    ],
)
def test_secrets_are_hidden(spec: Any) -> None:
    hidden = json.dumps(hide({"spec": spec, "metadata": {"name": "a"}}))
    assert SECRET not in hidden
    assert HIDDEN in hidden
    assert '"name": "a"' in hidden


def test_copy_by_kubectl_is_left_out() -> None:
    annotation = "kubectl.kubernetes.io/last-applied-configuration"
    metadata = {"managedFields": [{}], "annotations": {annotation: json.dumps({"password": SECRET}), "a": "b"}}
    assert hide({"metadata": metadata}) == {"metadata": {"annotations": {"a": "b"}}}


def test_other_fields_are_shown() -> None:
    obj = {
        "metadata": {"name": "a", "labels": {"b": "c"}},
        "spec": {
            "paused": False,
            "secretRef": {"name": "x"},
            "secretName": "y",
            "variables": [{"name": "size", "value": 3}],
            "url": "https://example.com/a",
        },
    }
    assert hide(obj) == obj


def test_deep_objects_are_cut() -> None:
    deep: Any = SECRET
    for _ in range(5_000):
        deep = {"a": deep}
    text = json.dumps(hide({"spec": deep}))
    assert HIDDEN in text
    assert SECRET not in text


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        ("data.password", SECRET, REDACTED),
        ('spec.containers[name="a"].env[name="DB_PASSWORD"].value', SECRET, REDACTED),
        ("data.proxy", f"http://user:{SECRET}@proxy.example", HIDDEN),
        ("data.settings", {"token": SECRET, "a": "b"}, {"token": HIDDEN, "a": "b"}),
        ('spec.containers[name="token-reader"].image', "a:1", "a:1"),
        ("spec.secretName", "x", "x"),
    ],
)
def test_values_of_a_difference_are_hidden(path: str, value: Any, shown: Any) -> None:
    assert hide_difference(FieldDiff(path, value, ABSENT)) == FieldDiff(path, shown, ABSENT)
