"""Helm's record of a release."""

from __future__ import annotations

import base64
import gzip
import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from shared import bounded_yaml
from shared.helm_proxies.release_record import (
    History,
    RecordError,
    ReleaseRecord,
    chart_of,
    decode,
    encode,
    hook_of,
    manifest_of,
    revisions_of,
    same_values,
)
from tests.support.helm_releases import packed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = (
    *("1e3", "0o17", "1_000", "y", "No", "~", "null", "0x1F", "a: b", "- a", "a\nb\n", "a\n\n", " a", "2026-01-01"),
    *("ä\t", "#", "a\n b", "\n", "on", "e3", "a b", "a #b"),
)


def record(**fields: Any) -> ReleaseRecord:
    given: dict[str, Any] = {"chart": {"metadata": {"name": "a", "version": "1.0.0"}}, "config": {"x": 1}}
    given |= {"name": "a", "namespace": "b", "revision": 1, "status": "deployed", "manifest": ""}
    return ReleaseRecord(**{**given, **fields})


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-01T00:00:00Z", NOW),
        ("2026-01-01T01:00:00.123456789+01:00", NOW.replace(microsecond=123456)),
        ("2026-01-01T00:00:00", NOW),
        ("soon", None),
        ("", None),
    ],
)
def test_time_of_the_last_operation(text: str, time: datetime | None) -> None:
    assert record(last_deployed=text).begun_at == time


def test_record_is_read_as_it_was_written() -> None:
    written = record(hooks=[{"name": "h"}], notes="n", first_deployed="2026-01-01T00:00:00Z").begun(NOW)
    secret = encode(written, NOW)
    assert secret["metadata"]["name"] == "sh.helm.release.v1.a.v1"
    assert secret["metadata"]["labels"]["status"] == "deployed"
    assert decode(secret) == written


def test_record_without_compression_is_read() -> None:
    plain = {"name": "a", "namespace": "b", "version": 3, "info": {"status": "failed"}, "manifest": ""}
    data = base64.b64encode(json.dumps(plain).encode()).decode()
    found = decode({"metadata": {"name": "sh.helm.release.v1.a.v3", "namespace": "b"}, "data": {"release": data}})
    assert (found.revision, found.status) == (3, "failed")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"bm8=", id="no archive"),
        pytest.param(base64.b64encode(gzip.compress(b'{"version": "1"}')), id="version of another type"),
        pytest.param(base64.b64encode(gzip.compress(b"[" * 100_000)), id="nested"),
        pytest.param(base64.b64encode(gzip.compress(bytes(40 << 20))), id="bomb"),
    ],
)
def test_other_content_is_refused(content: bytes) -> None:
    with pytest.raises(RecordError):
        decode({"metadata": {"name": "a"}, "data": {"release": base64.b64encode(content).decode()}})


@pytest.mark.parametrize(
    "other", [{"name": "sh.helm.release.v1.a.v2"}, {"name": "sh.helm.release.v1.b.v1"}, {"namespace": "c"}]
)
def test_record_of_another_release_is_refused(other: dict[str, str]) -> None:
    secret = encode(record(), NOW)
    secret["metadata"] |= other
    with pytest.raises(RecordError, match="another release"):
        decode(secret)


def test_digest_is_of_the_manifests() -> None:
    written = record(manifest="a", hooks=[{"path": "p", "manifest": "h"}])
    assert decode(encode(written, NOW)).digest == written.digest
    assert record(manifest="a", hooks=written.hooks, status="failed", notes="n").digest == written.digest
    others = [record(manifest="b", hooks=written.hooks), record(manifest="a"), record(manifest="ah")]
    assert written.digest not in {other.digest for other in others}


def test_record_with_deep_values_is_refused() -> None:
    assert decode(encode(record(config=nested(190)), NOW)).config == nested(190)
    with pytest.raises(RecordError, match="nested deeper than 200"):
        decode(encode(record(config=nested(200)), NOW))


def test_chart_that_is_too_large_is_stored_without_its_files() -> None:
    noise = base64.b64encode(random.Random(1).randbytes(1 << 20)).decode()
    files = {"templates": [{"name": "t", "data": ""}], "files": [{"name": "f", "data": noise}]}
    stored = decode(encode(record(chart={"metadata": {"version": "1"}, **files}), NOW)).chart
    assert stored == {"metadata": {"version": "1"}, "templates": files["templates"]}
    with pytest.raises(RecordError, match="too large"):
        encode(record(manifest=noise), NOW)


def test_texts_of_a_manifest_stay_texts() -> None:
    metadata = {"name": "a"}
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {f"k{text}": text for text in TEXTS}}
    assert list(bounded_yaml.load_all(manifest_of([obj]))) == [obj]


def test_hook_has_what_helm_needs_to_run_it() -> None:
    annotations = {"helm.sh/hook": "pre-delete,post-delete", "helm.sh/hook-weight": "-5"}
    hook = hook_of({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": annotations}})
    assert hook["events"] == ["post-delete", "pre-delete"]
    assert hook["weight"] == -5
    assert hook["delete_policies"] == ["before-hook-creation"]


def test_chart_is_stored_as_helm_does() -> None:
    chart = chart_of(packed("1.0.0", {"a.yaml": "a"}, crds__c="c", charts__sub__Chart="name: sub"), "web.tgz")
    assert chart["metadata"] == {"apiVersion": "v2", "name": "web", "version": "1.0.0", "appVersion": "1.20"}
    assert [file["name"] for file in chart["templates"]] == ["templates/a.yaml"]
    assert [file["name"] for file in chart["files"]] == ["crds/c.yaml"]
    assert chart["values"] == {"x": "default"}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({}, {}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": True}, {"a": 1}, False),
        ({"a": None}, {}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}, True),
        ({"a": 10**400}, {"a": 10**400}, False),
        (nested(5_000), {}, False),
    ],
)
def test_values_are_compared_as_helm_does(one: dict[str, Any], other: dict[str, Any], same: bool) -> None:
    assert same_values(one, other) is same


@pytest.mark.parametrize(
    ("revisions", "number", "installed", "operation"),
    [
        ((), 1, False, "install"),
        (((1, "failed"),), 2, True, "install"),
        (((1, "superseded"), (2, "pending-upgrade")), 3, True, "upgrade"),
        (((4, "uninstalled"),), 5, False, "install"),
        (((4, "uninstalled"), (5, "pending-install")), 6, True, "install"),
    ],
)
def test_history_decides_the_next_operation(
    revisions: tuple[tuple[int, str], ...], number: int, installed: bool, operation: str
) -> None:
    history = History(revisions)
    assert (history.next_revision, history.is_installed) == (number, installed)
    assert history.operation_of(number - 1) == operation


def test_revisions_are_read_from_labels_of_any_type() -> None:
    labels: list[Any] = [
        {"version": "10", "status": "deployed"},
        {"version": "2", "status": "superseded"},
        {"version": 3},
        *({"version": version} for version in (None, "", "x", "-1", "1" * 10, [1], {"a": 1}, True)),
        None,
        [],
    ]
    found = revisions_of([{}, *({"metadata": {"labels": each}} for each in labels)])
    assert found == [(2, "superseded"), (3, ""), (10, "deployed")]
