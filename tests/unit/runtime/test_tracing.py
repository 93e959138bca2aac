"""Traces: when they are on, what is imported, whose span is the parent, and what a span says of an exception."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from shared import tracing
from shared.event import Event, from_http
from tests.support.otlp_receiver import OtlpReceiver

RECEIVER = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
TRACE, OTHER, SPAN, NEXT = "a" * 32, "d" * 32, "b" * 16, "c" * 16


def run(script: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        (RECEIVER, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"}, True),
        ({**RECEIVER, "OTEL_SDK_DISABLED": "True"}, False),
        ({**RECEIVER, "OTEL_SDK_DISABLED": "false"}, True),
        ({**RECEIVER, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**RECEIVER, "OTEL_TRACES_EXPORTER": "otlp"}, True),
    ],
)
def test_traces_are_on_where_the_environment_names_a_receiver(environment: Mapping[str, str], wanted: bool) -> None:
    assert tracing.is_wanted(environment) == wanted


@pytest.mark.parametrize("environment", [{}, RECEIVER], ids=["off", "on"])
def test_functions_and_forwarder_import_opentelemetry_only_for_traces(environment: Mapping[str, str]) -> None:
    script = (
        "import sys, infra.forwarder.__main__; from functions.main import functions\n"
        "from functions import catalog\n"
        "for name in catalog.names(): catalog.handler(name)\n"
        "print(any(name.startswith(('opentelemetry', 'google.protobuf')) for name in sys.modules))"
    )
    assert run(script, environment).stdout == f"{bool(environment)}\n"


def test_process_without_the_extra_works_without_traces() -> None:
    script = "import sys; sys.modules['opentelemetry'] = None; from functions.main import functions; print('works')"
    done = run(script, RECEIVER)
    assert done.stdout == "works\n"
    assert "WARNING traces need capi-functions[tracing], so there are none" in done.stderr


@pytest.mark.parametrize(
    ("of_hop", "of_event", "expected"),
    [
        ("", "", ""),
        (f"00-{TRACE}-{NEXT}-01", "", f"00-{TRACE}-{NEXT}-01"),
        ("", f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01"),
        (f"00-{TRACE}-{NEXT}-01", f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{NEXT}-01"),
        (f"00-{OTHER}-{NEXT}-01", f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01"),
    ],
)
def test_parent_is_the_last_hop_unless_an_intermediary_began_another_trace(
    of_hop: str, of_event: str, expected: str
) -> None:
    assert tracing.parent({"traceparent": of_hop} if of_hop else {}, of_event) == expected


@pytest.mark.parametrize(
    ("sent", "trace"),
    [(f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01"), (f"00-{TRACE}-{SPAN}-01\r\nx", ""), ("x" * 55, ""), ("", "")],
)
def test_event_keeps_a_valid_traceparent(sent: str, trace: str) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t", "ce-traceparent": sent}
    event = from_http(headers, b"{}")
    assert event.trace == trace
    assert from_http(*event.to_http()) == event
    assert "traceparent" not in Event("t", "/s", "1").attributes()


def test_spans_are_sent_when_a_process_ends_and_say_nothing_of_what_an_exception_says() -> None:
    script = (
        "from shared import tracing\n"
        "from shared.kube import spans\n"
        "tracing.set_up()\n"
        "try:\n"
        "    with tracing.span('outer', 'client'):\n"
        "        with tracing.span('inner', 'client', {'empty': '', 'count': 0}, parent=tracing.current()):\n"
        "            raise ValueError('password')\n"
        "except ValueError: pass\n"
        "assert tracing.headers() == {}\n"
        "assert spans.of_request('GET', '/version', 'management') is tracing.NOTHING\n"
    )
    with OtlpReceiver() as collector:
        run(script, {**collector.environment, "OTEL_SERVICE_NAME": "mine", "OTEL_BSP_SCHEDULE_DELAY": "60000"})
    inner, outer = sorted(collector.spans.values(), key=lambda span: span.name)
    assert (inner.name, inner.trace, inner.parent, outer.parent) == ("inner", outer.trace, outer.id, "")
    assert (inner.failure, inner.attributes, inner.service) == ("ValueError", {"count": 0}, "mine")
    assert all(b"password" not in request.body for request in collector.requests)
