"""Dead letters: what they contain, how many are kept, and the commands for them; the object store is real."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from events.forwarder import LetterBox
from functions.dead_letters.function import kubernetes_event
from infra.cli.commands.dead_letters import table
from infra.cli.main import app
from shared.api.resources import CLUSTER, SECRET
from shared.buckets import NAMING
from shared.dead_letters import PREFIX, DeadLetter, DeadLetters, dead_letter, function_at, without_content
from shared.event import PING, REFERENCE, DeliveryFailure, Event, change_event, from_http, own_event
from shared.kube import Object, Resource, dig
from shared.releases.garbage_collection import References, collect_garbage
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support.event_receiver import EventReceiver
from tests.support.until import HANGS, until

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRETIVE = "correct-horse-battery-staple"


def obj(resource: Resource = CLUSTER, name: str = "demo", **fields: Any) -> Object:
    metadata = {"name": name, "namespace": "team", "uid": "1-2-3", "resourceVersion": "7"}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}


def rejected(name: str = "demo", *, function: str = "addon_apply", text: str = "no", status: int = 400) -> Event:
    event = change_event(obj(name=name), "update", source="https://10.0.0.1:443")
    return replace(event, failure=DeliveryFailure(function, status, text))


def letter(name: str = "demo", minutes: int = 0, **options: Any) -> DeadLetter:
    return dead_letter(rejected(name, **options), NOW + timedelta(minutes=minutes))


@pytest.fixture
def letters(object_store: ObjectStore) -> DeadLetters:
    return DeadLetters(object_store, most=3, slack=1)


# -- what a letter contains --------------------------------------------------------------------------------------

IDENTITY = {"name": "demo", "namespace": "team", "uid": "1-2-3", "resourceVersion": "7"}
ANNOTATED = obj(SECRET)
ANNOTATED["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": SECRETIVE}


@pytest.mark.parametrize(
    ("content", "text", "kept"),
    [
        pytest.param(obj(), "no such release", "no such release", id="identity only"),
        pytest.param(obj(spec={"password": SECRETIVE}), "no such release", "no such release", id="spec is left out"),
        pytest.param(obj(SECRET), "no such cluster", "no such cluster", id="reference of a Secret"),
        pytest.param(
            obj(SECRET, data={"password": base64.b64encode(SECRETIVE.encode()).decode()}),
            f"invalid: {SECRETIVE}",
            "(left out, as the event contains a Secret)",
            id="Secret, quoted by the answer",
        ),
        pytest.param(ANNOTATED, SECRETIVE, "(left out, as the event contains a Secret)", id="Secret in an annotation"),
    ],
)
def test_letter_has_the_identity_of_the_object_and_no_content(content: Object, text: str, kept: str) -> None:
    event = replace(change_event(content, "update", source="/"), failure=DeliveryFailure("f", 400, text))
    kept_event = without_content(event)
    assert kept_event.data == {**obj(), "apiVersion": content["apiVersion"], "kind": content["kind"]}
    assert kept_event.data["metadata"] == IDENTITY
    assert kept_event.failure == DeliveryFailure("f", 400, kept)
    assert SECRETIVE not in json.dumps(dead_letter(event, NOW).dump())
    assert without_content(kept_event) == kept_event


def test_secret_under_another_name_of_its_kind_is_recognized() -> None:
    """The attributes of a hostile event need not be about what it contains."""
    event = change_event(obj(), "update", source="/")
    event = replace(event, data=obj(SECRET, data={"a": SECRETIVE}), failure=DeliveryFailure("f", 400, SECRETIVE))
    assert SECRETIVE not in json.dumps(dead_letter(event, NOW).dump())


@pytest.mark.parametrize(
    "metadata",
    [
        {"uid": ["list"], "resourceVersion": {"a": 1}},
        {"uid": "x" * 100_000, "resourceVersion": "not a number"},
        {"uid": "\x1b[2J", "resourceVersion": "1\n"},
    ],
)
def test_identity_that_is_not_valid_is_left_out(metadata: Object) -> None:
    event = change_event(obj(), "update", source="/")
    event = replace(event, data={**event.data, "metadata": metadata})
    assert dead_letter(event, NOW).event.data["metadata"] == {"name": "demo", "namespace": "team"}


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("https://10.0.0.1:443", "https://10.0.0.1:443"),
        ("https://user:password@host/path?token=1", "https://host/path"),
        ("/apis/v1?token=1", "/apis/v1"),
        ("https://user:pass/word@host", "(no URL)"),
        ("http://[::1", "(no URL)"),
    ],
)
def test_credentials_in_addresses_are_left_out(source: str, kept: str) -> None:
    event = replace(rejected(), source=source)
    assert without_content(event).source == kept


def test_largest_letter_is_small(letters: DeadLetters, object_store: ObjectStore) -> None:
    long = "ä" * 2048
    event = Event(
        *(long, long, long, long, long, "g/" + "v" * 2046, "k" * 2048, "n" * 2048, "n" * 2048),
        data={"content": "x" * 2_000_000},
        failure=DeliveryFailure(long, 400, "\x00" * 4000),
    )
    kept = letters.keep(dead_letter(event, NOW))
    assert len(object_store.get(f"{PREFIX}{kept.id}.json") or b"") < 32 << 10
    assert letters.get(kept.id) is not None


@pytest.mark.parametrize(
    ("destination", "function"),
    [
        ("http://addon-apply.capi-functions.svc.cluster.local/", "addon_apply"),
        ("http://release-assets.team.svc", "release_assets"),
        ("addon_apply", "addon_apply"),
        ("http://127.0.0.1:8080/x", "127.0.0.1:8080"),
        ("http://[::1]:80", "[::1]:80"),
        ("", ""),
    ],
)
def test_function_is_named_by_the_address_of_its_service(destination: str, function: str) -> None:
    assert function_at(destination) == function


def test_letter_of_an_event_that_knative_could_not_explain_has_no_function() -> None:
    plain = replace(rejected(), failure=None)
    assert (dead_letter(plain, NOW).function, dead_letter(plain, NOW).status) == ("", 0)


@pytest.mark.parametrize(
    ("event", "hinted"),
    [
        (change_event(obj(), "delete", source="/"), REFERENCE + "delete"),
        (change_event(obj(), "add", source="/", reference=True), REFERENCE + "add"),
        (own_event("release.wanted", source="/", subject="v1", about=obj(), data={"release": "v1"}), "update"),
        (Event(PING, "/", "1", data={"everything": True}), None),
    ],
)
def test_hint_names_the_object_of_a_letter_and_contains_nothing_of_it(event: Event, hinted: str | None) -> None:
    hint = dead_letter(event, NOW).hint()
    assert (hint is None) == (hinted is None)
    if hint is not None and hinted is not None:
        assert hint.type.endswith(hinted)
        assert hint.object is None
        assert (hint.kind, str(hint.key)) == ("Cluster", "team/demo")
        assert from_http(*hint.to_http()) == hint


WITHOUT_ZONE = json.dumps(
    {"first": "2026-01-01", "last": "2026-01-01T00:00Z", "count": 1, "event": {**rejected().attributes()}}
).encode()
"""Times that cannot be compared with those of other letters."""
STEP = own_event("release.wanted", source="/", subject="v1", data={})


@pytest.mark.parametrize(
    ("event", "same"),
    [
        (replace(rejected(), id="other", source="/other", time="later"), True),
        (rejected(text="other", status=500), True),
        (rejected(function="http://addon-apply.team.svc/"), True),
        (replace(rejected(), api_version="cluster.x-k8s.io/v1beta1"), True),
        (replace(rejected(), subject="other"), True),
        (rejected("other"), False),
        (replace(rejected(), namespace="other"), False),
        (replace(rejected(), kind="Other"), False),
        (replace(rejected(), api_version="other/v1"), False),
        (replace(rejected(), type=REFERENCE + "update"), False),
        (rejected(function="cluster"), False),
        (STEP, False),
    ],
)
def test_letters_of_one_function_type_of_event_and_object_are_one(event: Event, same: bool) -> None:
    assert (dead_letter(event, NOW).id == letter().id) == same


def test_letters_about_no_object_are_distinguished_by_their_subjects() -> None:
    assert dead_letter(STEP, NOW).id != dead_letter(replace(STEP, subject="v2"), NOW).id


def test_letter_for_users_has_everything_that_is_kept() -> None:
    event = replace(rejected(), id="1", time="2026-01-01T00:00:00Z")
    assert dead_letter(event, NOW).dump() == {
        "id": letter().id,
        "function": "addon_apply",
        "status": 400,
        "reason": "no",
        "count": 1,
        "first": "2026-01-01T00:00:00+00:00",
        "last": "2026-01-01T00:00:00+00:00",
        "object": {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "metadata": IDENTITY},
        "event": {
            "specversion": "1.0",
            "type": "dev.knative.apiserver.resource.update",
            "source": "https://10.0.0.1:443",
            "id": "1",
            "subject": event.subject,
            "time": "2026-01-01T00:00:00Z",
            "kind": "Cluster",
            "apiversion": CLUSTER.api_version,
            "namespace": "team",
            "name": "demo",
        },
    }


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (letter(text="event 1"), "addon_apply rejected"),
        (letter(text="event 2", minutes=5), "addon_apply rejected"),
        (letter(status=413), "addon_apply rejected"),
        (letter(function="http://addon-apply.team.svc/", status=500), "addon_apply failed on"),
        (letter(function="http://addon-apply.team.svc/", status=0), "addon_apply did not answer"),
        (letter(function="http://addon-apply.team.svc/", status=302), "addon_apply did not accept"),
        (letter(function="http://log-in-at.example.com/"), "A receiver rejected"),
    ],
)
def test_kubernetes_event_has_no_text_of_the_sender(one: DeadLetter, message: str) -> None:
    event = kubernetes_event(one)
    assert (event.type, event.reason) == ("Warning", "EventNotHandled")
    assert event.message == f"{message} an event about this object: see `capi-functions dead-letter list`"


# -- how many are kept -------------------------------------------------------------------------------------------


def test_repetition_of_a_letter_is_counted(letters: DeadLetters) -> None:
    letters.keep(letter(text="first"))
    letters.keep(letter(minutes=5, text="second"))
    letters.keep(letter(function="cluster"))
    kept = letters.get(letter().id)
    assert kept is not None
    assert (kept.count, kept.first, kept.last, kept.reason) == (2, NOW, NOW + timedelta(minutes=5), "second")
    assert {one.function for one in letters.list()} == {"addon_apply", "cluster"}


@pytest.mark.parametrize(("slack", "most"), [(1, 3), (3, 5)])
def test_oldest_letters_are_dropped(slack: int, most: int, object_store: ObjectStore) -> None:
    for first in (0, 10):  # two processes, one after the other
        letters = DeadLetters(object_store, most=3, slack=slack)
        for number in range(first, first + 7):
            letters.keep(letter(f"demo-{number}", minutes=number))
            assert len(object_store.list(PREFIX)) <= most
            assert letters.get(letter(f"demo-{number}").id) is not None
    assert len(object_store.list(PREFIX)) >= 3


@pytest.mark.parametrize(
    "damaged", [b"", b"[]", b'{"event": {}}', b"{" * 100_000, b"\xff", b'{"event": 1, "first": 2}', WITHOUT_ZONE]
)
def test_damaged_letter_is_left_out_and_replaced(
    damaged: bytes, letters: DeadLetters, object_store: ObjectStore
) -> None:
    object_store.put(f"{PREFIX}{letter().id}.json", damaged, if_absent=False)
    object_store.put(f"{PREFIX}not-an-id.json", damaged, if_absent=False)
    assert letters.list() == []
    letters.keep(letter())
    assert [one.id for one in letters.list()] == [letter().id]


def test_clean_up_of_releases_leaves_letters(letters: DeadLetters, object_store: ObjectStore) -> None:
    letters.keep(letter())
    collect_garbage(object_store, References(), datetime(2100, 1, 1, tzinfo=UTC))
    assert [one.id for one in letters.list()] == [letter().id]


def test_first_letter_creates_the_bucket(object_store: ObjectStore) -> None:
    other = DeadLetters(ObjectStore(f"{object_store.url}-new"))
    assert other.list() == []
    other.keep(letter())
    assert len(other.list()) == 1


# -- from the forwarder ------------------------------------------------------------------------------------------


def test_full_letter_box_delays_nothing_and_has_a_bound() -> None:
    """The function that keeps letters hangs, and ten thousand events are rejected."""
    go, received = threading.Event(), []

    def hanging(function: str, event: Event) -> Answer:
        go.wait(HANGS)
        received.append((function, event))
        return Answer(204)

    box = LetterBox(hanging)
    content = obj(spec={"text": "x" * 1_000_000})
    try:
        for number in range(10_000):
            content["metadata"]["name"] = f"demo-{number}"
            box.add("addon_apply", change_event(content, "update", source="/"), Answer(400, "no"))
        assert box.waiting == 1_000
        go.set()
        until(lambda: received, "the first letter")
    finally:
        box.stop(0.0)
    [(function, event), *_] = received
    assert function == "dead_letters"
    assert event.failure == DeliveryFailure("addon_apply", 400, "no")
    assert "spec" not in event.data


def test_rejections_of_two_functions_are_two_letters() -> None:
    received: list[str] = []

    def deliver(_function: str, event: Event) -> Answer:
        received.append(event.failure.destination if event.failure else "")
        return Answer(204)

    box = LetterBox(deliver)
    for function in ("cluster", "addon_create"):
        box.add(function, change_event(obj(), "update", source="/"), Answer(400))
    until(lambda: len(received) == 2, "two letters")
    box.stop(0.0)
    assert sorted(received) == ["addon_create", "cluster"]


# -- commands ----------------------------------------------------------------------------------------------------


@pytest.fixture
def receiver() -> Iterator[EventReceiver]:
    with EventReceiver() as started:
        yield started


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["dead-letter", *arguments])


def test_table_shows_what_was_not_handled() -> None:
    hostile = letter("other", text="\x1b[31mred\nline")
    assert table([letter(minutes=-3), hostile], NOW) == [
        "ID             AGE    COUNT   FUNCTION      OBJECT               STATUS   REASON",
        f"{letter().id}   3m0s   1       addon_apply   Cluster team/demo    400      no",
        f"{hostile.id}   0s     1       addon_apply   Cluster team/other   400      \\x1b[31mred line",
    ]


def test_commands_list_show_and_drop(letters: DeadLetters) -> None:
    letters.keep(letter())
    letters.keep(letter("other"))
    assert "Cluster team/demo" in call("list").stdout
    assert {one["id"] for one in json.loads(call("list", "-o", "json").stdout)} == {letter().id, letter("other").id}
    shown = yaml.safe_load(call("show", letter().id).stdout)
    assert (shown["function"], shown["status"], shown["reason"]) == ("addon_apply", 400, "no")
    assert dig(shown, "object.metadata.uid") == "1-2-3"
    assert call("drop", letter().id).exit_code == 0
    assert [one.event.name for one in letters.list()] == ["other"]
    assert call("drop", "--all").exit_code == 0
    assert letters.list() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "0123456789ab"), "no dead letter 0123456789ab: `capi-functions dead-letter list`"),
        (("drop",), "name letters by their ids"),
        (("drop", "0123456789ab", "--all"), "name letters by their ids"),
        (("replay", "--all"), "no URL to send events to: name one with --to"),
        (("list", "--dir", "/nowhere"), "no run in /nowhere: start it with"),
    ],
)
def test_error_names_the_way_out(arguments: tuple[str, ...], message: str, letters: DeadLetters) -> None:
    result = call(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr


def test_without_an_object_store_the_error_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for name in NAMING:
        monkeypatch.delenv(name, raising=False)
    result = call("list")
    assert result.exit_code == 1
    assert "name a run with --dir, or set $CAPI_FUNCTIONS_STORE" in result.stderr


def test_replayed_letter_is_a_hint_and_dropped(letters: DeadLetters, receiver: EventReceiver) -> None:
    letters.keep(letter())
    result = call("replay", "--all", "--to", receiver.url)
    assert result.exit_code == 0, result.stderr
    [(_, event, _)] = receiver.received
    assert (event.type, str(event.key), event.object) == (REFERENCE + "update", "team/demo", None)
    assert letters.list() == []


def test_letter_that_is_not_accepted_stays(letters: DeadLetters, receiver: EventReceiver) -> None:
    receiver.respond = lambda _function, _event: Answer(400, "no")
    letters.keep(letter())
    letters.keep(letter())
    result = call("replay", letter().id, "--to", receiver.url)
    assert result.exit_code == 1
    assert f"not sent, and still stored: {letter().id}" in result.stderr
    assert [one.count for one in letters.list()] == [2]


def test_letter_about_no_object_is_not_replayed(letters: DeadLetters, receiver: EventReceiver) -> None:
    letters.keep(dead_letter(Event(PING, "/", "1"), NOW))
    result = call("replay", "--all", "--to", receiver.url)
    assert result.exit_code == 1
    assert "drop it" in result.stderr
    assert len(letters.list()) == 1
