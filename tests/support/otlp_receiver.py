"""A receiver of OpenTelemetry's traces (OTLP over HTTP), as a collector is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from .http_server import HttpServer, Request, Response


@dataclass(frozen=True)
class Span:
    trace: str
    id: str
    parent: str
    """The id of the span that led to it; empty for the first one of a trace."""
    name: str
    kind: int
    failure: str | None
    """What the status says if it is an error."""
    attributes: Mapping[str, str | int]
    service: str


class OtlpReceiver(HttpServer):
    """Keeps the spans that it receives, by id."""

    def __init__(self) -> None:
        super().__init__(self._receive)
        self.spans: dict[str, Span] = {}

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process send its spans here, ten times a second."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}

    def ancestors(self, span: Span) -> list[Span]:
        """Returns what led to a span, the nearest first; shorter while spans are missing."""
        found: list[Span] = []
        while (before := self.spans.get(span.parent)) is not None:
            found.append(before)
            span = before
        return found

    def _receive(self, request: Request) -> Response:
        assert request.path == "/v1/traces"
        for one in ExportTraceServiceRequest.FromString(request.body).resource_spans:
            resource = {attribute.key: attribute.value.string_value for attribute in one.resource.attributes}
            for span in (span for scope in one.scope_spans for span in scope.spans):
                values = {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
                self.spans[span.span_id.hex()] = Span(
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.name,
                    span.kind,
                    span.status.message if span.status.code == 2 else None,
                    values,
                    resource["service.name"],
                )
        return Response()
