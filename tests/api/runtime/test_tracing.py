"""Traces: the forwarder and the functions as processes, a real API server, and a receiver of OTLP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import urllib3

from infra.local.functions_server import ROOT, FunctionsServer
from shared.event import PING, Event
from tests.support import processes
from tests.support.api_proxy import Proxy, api_server
from tests.support.event_receiver import EventReceiver
from tests.support.otlp_receiver import OtlpReceiver, Span
from tests.support.releases import write_release
from tests.support.until import logged, until
from tests.support.world import World

TRACE, SPAN, NEXT = "a" * 32, "b" * 16, "c" * 16
GIVEN = f"00-{TRACE}-{SPAN}-01"
ATTRIBUTES = {
    *("cloudevents.event_id", "cloudevents.event_type", "cloudevents.event_source", "cloudevents.event_subject"),
    *("capi_functions.function", "capi_functions.outcome", "capi_functions.kind", "capi_functions.key"),
    *("capi_functions.resource", "capi_functions.cluster", "http.request.method", "http.response.status_code"),
}


def named(name: str, **attributes: str | int) -> Callable[[Span], bool]:
    return lambda span: span.name == name and attributes.items() <= {**span.attributes}.items()


def test_one_trace_leads_from_a_change_to_the_requests_and_the_next_steps_that_it_causes(
    world: World, kubeconfig: Path, tmp_path: Path
) -> None:
    log = tmp_path / "functions.log"
    with OtlpReceiver() as collector, EventReceiver() as sink, Proxy(api_server(kubeconfig)) as proxy:
        (tmp_path / "kubeconfig").write_bytes(proxy.kubeconfig)
        environment = {**os.environ, **collector.environment, "K_SINK": sink.url, "LOG_FORMAT": "json"}
        of_functions = environment | {"KUBECONFIG": str(tmp_path / "kubeconfig")}

        def found(matches: Callable[[Span], bool]) -> list[Span]:
            """Returns the spans that match, once there is one with all that led to it."""

            def complete() -> list[Span]:
                spans = [span for span in [*collector.spans.values()] if matches(span)]
                return [span for span in spans if not [span, *collector.ancestors(span)][-1].parent]

            return until(complete, "a span and what led to it", details=logged(log))

        with closing(FunctionsServer(of_functions, log)) as functions, ExitStack() as ended:
            functions.start()
            command = [sys.executable, "-m", "infra.forwarder", "--functions", functions.url]
            with (tmp_path / "forwarder.log").open("ab") as output:
                forwarder = processes.start(
                    [*command, "--namespace", world.namespace],
                    cwd=ROOT,
                    env=environment | {"KUBECONFIG": str(kubeconfig)},
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            ended.callback(forwarder.wait, 60)
            ended.callback(forwarder.terminate)
            world.secret()
            world.cluster(write_release(world.releases, "v1", [world.map("applied")]), policy={"wait": "false"})

            created = found(named("POST clusteraddons.clusterstack.x-k8s.io", **{"http.response.status_code": 201}))[0]
            led_to_it = collector.ancestors(created)
            assert [span.name for span in led_to_it] == ["addon_create", "deliver to addon_create", "add Cluster"]
            assert {span.trace for span in led_to_it} == {created.trace}
            assert [span.kind for span in (created, *led_to_it)] == [3, 5, 4, 4], "client, consumer, producers"
            called = led_to_it[0].attributes
            assert (called["capi_functions.outcome"], called["capi_functions.key"]) == (
                "next",
                f"{world.namespace}/demo",
            )
            (sent,) = [request for request in proxy.seen if f"-{created.id}-" in request.headers.get("traceparent", "")]
            assert sent.method == "POST"
            assert sent.headers["traceparent"].startswith(f"00-{created.trace}-{created.id}-")

            fetched = found(named("release_assets"))[0]
            delivered, replied, *_ = collector.ancestors(fetched)
            assert delivered.name == "deliver to release_assets"
            assert replied.name in ("addon_create", "addon_apply"), "the reply of one of them is the next step"
            assert {span.trace for span in collector.ancestors(fetched)} == {fetched.trace}
            assert found(named("PATCH configmaps", **{"capi_functions.cluster": "workload"})), "by another thread"

            ping = Event(PING, "/test", "1", data={"everything": True, "kind": "ClusterAddon"}, trace=GIVEN)
            headers, body = ping.to_http()
            hop = {"traceparent": GIVEN.replace(SPAN, NEXT)}
            assert urllib3.request("POST", f"{functions.url}/sweep", headers=headers | hop, body=body).status == 204
            (swept,) = until(lambda: [span for span in [*collector.spans.values()] if span.name == "sweep"], "its span")
            assert (swept.trace, swept.parent) == (TRACE, NEXT)
            assert {event.trace for _, event, _ in sink.received} == {GIVEN.replace(SPAN, swept.id)}
        entries = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
        assert {entry["trace"] for entry in entries if entry.get("function") == "addon_create"} >= {created.trace}
        assert {name for span in collector.spans.values() for name in span.attributes} <= ATTRIBUTES
        assert {span.service for span in collector.spans.values()} == {"capi-functions"}
