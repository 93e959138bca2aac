"""Parsing and writing CloudEvents, and the messages for invalid ones."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from shared.event import DeliveryFailure, Event, EventError, change_event, from_http, from_json, issue, own_event
from shared.kube import Key, Object

HEADERS = {
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-type": "dev.knative.apiserver.resource.update",
    "ce-source": "https://10.0.0.1:443",
    "ce-kind": "Cluster",
    "ce-apiversion": "cluster.x-k8s.io/v1beta2",
    "ce-name": "demo",
    "ce-namespace": "default",
    "content-type": "application/json",
}
CLUSTER: Object = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Cluster",
    "metadata": {"name": "demo", "namespace": "default"},
}


def parse(body: bytes = b"{}", **changes: str | None) -> Event:
    headers = {k: v for k, v in {**HEADERS, **{f"ce-{k}": v for k, v in changes.items()}}.items() if v is not None}
    return from_http(headers, body)


def test_binary_mode_event_is_parsed() -> None:
    event = parse(json.dumps(CLUSTER).encode())
    assert (event.change, event.key, event.kind, event.group) == (
        "update",
        Key("default", "demo"),
        "Cluster",
        "cluster.x-k8s.io",
    )
    assert event.object == CLUSTER


@pytest.mark.parametrize("attribute", ["name", "namespace", "kind", "apiversion", "id", "source", "type", "subject"])
@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\x00", "a\u0085b", "\ud800", "x" * 3000])
def test_attribute_with_control_characters_or_too_long_is_rejected(attribute: str, value: str) -> None:
    document = {name.removeprefix("ce-"): text for name, text in HEADERS.items() if name.startswith("ce-")}
    body = json.dumps(document | {"data": {}, attribute: value}).encode()
    with pytest.raises(EventError, match=rf"attribute {attribute} (contains control characters|is longer)"):
        from_http({"content-type": "application/cloudevents+json"}, body)


@pytest.mark.parametrize("name", ["a\r\nx-evil: 1", "käse", "a b", "日本"])
def test_object_name_in_the_data_is_validated(name: str) -> None:
    changed = {**CLUSTER, "metadata": {"name": name, "namespace": "default"}}
    with pytest.raises(EventError, match="attribute name"):
        parse(json.dumps(changed).encode(), name=None)


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"a":' * 200_000])
def test_body_nested_too_deep_is_rejected(body: bytes) -> None:
    with pytest.raises(EventError, match="not a valid CloudEvent"):
        parse(body)


def test_header_names_are_case_insensitive() -> None:
    assert from_http({name.title(): value for name, value in HEADERS.items()}, b"{}").name == "demo"


def test_structured_mode_event_is_parsed() -> None:
    document = {
        "specversion": "1.0",
        "id": "1",
        "type": "dev.knative.apiserver.resource.add",
        "source": "/x",
        "data": CLUSTER,
    }
    event = from_http({"Content-Type": "application/cloudevents+json"}, json.dumps(document).encode())
    assert (event.change, event.key) == ("add", Key("default", "demo"))


def test_cluster_scoped_object_has_an_empty_namespace_attribute() -> None:
    event = parse(namespace="")
    assert event.key == Key("", "demo")
    assert event.to_http()[0]["ce-namespace"] == ""


def test_reference_event_has_no_object() -> None:
    event = parse(type="dev.knative.apiserver.ref.add")
    assert event.object is None
    assert event.as_object["metadata"] == {"name": "demo", "namespace": "default"}


@pytest.mark.parametrize(
    ("body", "changes", "words"),
    [
        (b"{}", {"id": None}, "id"),
        (b"{}", {"id": ""}, "id"),
        (b"{}", {"specversion": "0.2"}, "specversion"),
        (b"{}", {"specversion": None}, "specversion"),
        (b"{}", {"type": ""}, "type"),
        (b"{", {}, "not a valid CloudEvent"),
        (b"[1]", {}, "list"),
        (b'"text"', {}, "str"),
        (b"{}", {"name": None}, "name"),
        (b"{}", {"kind": None}, "kind"),
    ],
)
def test_invalid_event_is_rejected_with_the_reason(body: bytes, changes: dict[str, str | None], words: str) -> None:
    with pytest.raises(EventError, match=words):
        parse(body, **changes)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"content-type": "application/json"}, b"{}"),
        ({}, b""),
        ({"content-type": "application/cloudevents-batch+json"}, b"[]"),
        ({"content-type": "application/cloudevents+json"}, b"[]"),
        ({"content-type": "application/cloudevents+json"}, b"no json"),
        ({"content-type": "application/cloudevents+json"}, b'{"specversion": "1.0"}'),
    ],
)
def test_request_that_is_no_single_cloudevent_is_rejected(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(EventError):
        from_http(headers, body)


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("resync", [False, True])
@pytest.mark.parametrize("repeated", [False, True])
def test_change_event_round_trips(reference: bool, resync: bool, repeated: bool) -> None:
    sent = change_event(CLUSTER, "delete", source="/here", reference=reference, resync=resync)
    sent = replace(sent, repeated=repeated)
    assert from_http(*sent.to_http()) == sent
    assert from_json(sent.to_json()) == sent


def test_change_event_has_the_subject_of_apiserversource() -> None:
    event = change_event(CLUSTER, "add", source="/here")
    assert event.subject == "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters/demo"
    node: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    assert change_event(node, "add", source="/here").subject == "/apis/v1/namespaces//nodes/n"


def test_own_event_round_trips() -> None:
    step = own_event("release.wanted", source="/addon_apply", subject="r", about=CLUSTER, data={"release": "r"})
    assert from_http(*step.to_http()).id, "what is sent has an id"
    event = issue(step)
    assert event.id != issue(step).id
    assert event.time.endswith("Z")
    assert issue(event) == event
    again = from_http(*event.to_http())
    assert again == event
    assert (again.change, again.key, again.data) == (None, Key("default", "demo"), {"release": "r"})


# -- what Knative adds for a dead-letter sink --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dest", "code", "data", "expected"),
    [
        (None, None, None, None),
        ("http://f.n.svc/", "400", "bm8K", DeliveryFailure("http://f.n.svc/", 400, "no\n")),
        ("http://f.n.svc/", "503", None, DeliveryFailure("http://f.n.svc/", 503)),
        ("http://f.n.svc/", "-1", "not base64!", DeliveryFailure("http://f.n.svc/", 0, "not base64!")),
        ("http://f.n.svc/", "4" * 5000, "/w==", DeliveryFailure("http://f.n.svc/", 0, "\ufffd")),
        (None, "500", None, DeliveryFailure("", 500)),
    ],
)
def test_reason_of_a_dead_letter_is_parsed(
    dest: str | None, code: str | None, data: str | None, expected: DeliveryFailure | None
) -> None:
    assert parse(knativeerrordest=dest, knativeerrorcode=code, knativeerrordata=data).failure == expected


def test_dead_letter_is_the_same_after_its_way_over_http() -> None:
    event = replace(change_event(CLUSTER, "update", source="/x"), failure=DeliveryFailure("f", 400, "no\r\nß"))
    assert from_http(*event.to_http()) == event
    assert from_json(event.to_json()) == event
    text = replace(event, failure=DeliveryFailure("f", 400, "ß" * 5000)).attributes()["knativeerrordata"]
    assert len(text) <= 1024


@pytest.mark.parametrize("dest", ["http://f\nx: y", "x" * 3000])
def test_address_of_a_dead_letter_that_no_header_may_contain_is_rejected(dest: str) -> None:
    with pytest.raises(EventError, match="attribute knativeerrordest"):
        parse(knativeerrordest=dest)
