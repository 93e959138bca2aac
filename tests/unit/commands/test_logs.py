"""Log lines of deliveries, as text and as JSON, and tracebacks."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from shared.event import Event, change_event
from shared.runtime import Answer, done, logs

CLUSTER = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Cluster",
    "metadata": {"name": "demo", "namespace": "team"},
}
CHANGE = change_event(CLUSTER, "update", source="/test")


@pytest.mark.parametrize(
    ("event", "answer", "line"),
    [
        pytest.param(CHANGE, done(), "f Cluster team/demo update -> 204 1.5ms", id="no message"),
        pytest.param(CHANGE, done("all well"), "f Cluster team/demo update -> 204 1.5ms all well", id="message"),
        pytest.param(
            CHANGE,
            done("not yet", retry_after=10, context={"cluster": "team/demo", "stage": "cni"}),
            "f Cluster team/demo update -> 202 again in 10s 1.5ms cluster=team/demo stage=cni not yet",
            id="context",
        ),
        pytest.param(
            CHANGE,
            done(context={"stage": 'the "first"', "empty": ""}),
            'f Cluster team/demo update -> 204 1.5ms stage="the \\"first\\"" empty=""',
            id="values that need quotes",
        ),
        pytest.param(None, Answer(400, "no event"), "f - -> 400 1.5ms no event", id="no event"),
        pytest.param(
            Event(type="a.timer", source="/test", id="1"), done(), "f a.timer -> 204 1.5ms", id="no change of an object"
        ),
        pytest.param(
            CHANGE,
            Answer(503, "first\n2026 INFO forged\x1b[2K\u2028.", context={"stage": "a\nb"}),
            'f Cluster team/demo update -> 503 1.5ms stage="a\\nb" first\\n2026 INFO forged\\x1b[2K\\u2028.',
            id="line breaks are escaped",
        ),
    ],
)
def test_text_line_of_a_delivery(event: Event | None, answer: Answer, line: str) -> None:
    assert logs.line("f", event, answer, 0.0015) == line


def record(event: Event | None, answer: Answer) -> dict[str, object]:
    extra = {"delivery": logs.fields("f", event, answer, 0.0015)}
    made = logging.getLogger("x").makeRecord("x", logging.INFO, "", 0, "line", (), None, extra=extra)
    text = logs.Json().format(made)
    assert "\n" not in text
    parsed: dict[str, object] = json.loads(text)
    assert str(parsed.pop("time")).endswith("Z")
    return parsed


def test_json_line_of_a_delivery() -> None:
    answer = done(
        "two\nlines", retry_after=2.5, context={"cluster": "team/demo", "function": "forged", "level": "forged"}
    )
    assert record(CHANGE, answer) == {
        "level": "INFO",
        "function": "f",
        "status": 202,
        "seconds": 0.0015,
        "again": 2.5,
        "event": CHANGE.id,
        "type": CHANGE.type,
        "kind": "Cluster",
        "namespace": "team",
        "name": "demo",
        "cluster": "team/demo",
        "message": "two\nlines",
    }


def test_json_line_without_an_event() -> None:
    line = record(None, Answer(400, "no event"))
    assert line == {"level": "INFO", "function": "f", "status": 400, "seconds": 0.0015, "message": "no event"}


def test_json_line_of_an_exception_has_its_traceback() -> None:
    try:
        raise TypeError("broken")
    except TypeError as error:
        failure = (type(error), error, None)
    made = logging.getLogger("x").makeRecord("x", logging.ERROR, "", 0, "%s failed", ("f",), failure)
    line = json.loads(logs.Json().format(made))
    assert (line["level"], line["message"]) == ("ERROR", "f failed")
    assert "TypeError: broken" in line["traceback"]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Answer(204), "done"),
        (Answer(204, reconciled=True), "reconciled"),
        (Answer(202, retry_after=1), "waiting"),
        (Answer(200, reply=CHANGE), "next"),
        (Answer(503), "transient"),
        (Answer(400), "refused"),
        (Answer(404), "refused"),
        (Answer(500), "failed"),
        (Answer(502), "failed"),
    ],
)
def test_answer_status_determines_the_outcome(answer: Answer, outcome: str) -> None:
    assert answer.outcome == outcome


@pytest.mark.parametrize("formatter", [logs.Text(), logs.Json()])
def test_traceback_omits_messages_that_may_quote_input(formatter: logging.Formatter) -> None:
    try:
        try:
            int("s3cr3t")
        except ValueError as error:
            raise TypeError("int is no str") from error
    except TypeError:
        record = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed", (), sys.exc_info())
    written = formatter.format(record)
    assert "TypeError: int is no str" in written
    assert "ValueError" in written
    assert "test_logs.py" in written
    assert "invalid literal" not in written
