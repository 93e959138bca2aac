"""Records spans with OpenTelemetry's SDK, and sends them by OTLP over HTTP. Importing it costs what tracing costs."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from . import HEADER, Kind, Span, Value

_NAME = "capi-functions"
_KINDS: Mapping[Kind, trace.SpanKind] = {
    "producer": trace.SpanKind.PRODUCER,
    "consumer": trace.SpanKind.CONSUMER,
    "client": trace.SpanKind.CLIENT,
    "server": trace.SpanKind.SERVER,
}
_FORMAT = TraceContextTextMapPropagator()


class _Recorded(Span):
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set(self, attributes: Mapping[str, Value]) -> None:
        self._span.set_attributes({name: value for name, value in attributes.items() if value != ""})

    def fail(self, reason: str) -> None:
        self._span.set_status(trace.StatusCode.ERROR, reason)


class Recorder:
    """The spans of this process, which a thread sends; the end of the process sends the rest."""

    def __init__(self) -> None:
        os.environ.setdefault("OTEL_SERVICE_NAME", _NAME)
        # The SDK reports failures to the log of the process.
        for handler in logging.getLogger(_NAME).handlers:
            logging.getLogger("opentelemetry").addHandler(handler)
            logging.getLogger("opentelemetry").propagate = False
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = provider.get_tracer(_NAME, version(_NAME))

    @contextmanager
    def span(self, name: str, kind: Kind, attributes: Mapping[str, Value], parent: str) -> Iterator[Span]:
        """Records a block; see `shared.tracing.span`. It records the type of an exception, without the message."""
        before = _FORMAT.extract({HEADER: parent}, context=context.Context())
        with self._tracer.start_as_current_span(
            name, before, _KINDS[kind], record_exception=False, set_status_on_exception=False
        ) as started:
            recorded = _Recorded(started)
            recorded.set(attributes)
            try:
                yield recorded
            except Exception as error:
                recorded.fail(type(error).__name__)
                raise

    def current(self) -> str:
        """Returns the `traceparent` of this thread's span; empty without one."""
        carrier: dict[str, str] = {}
        _FORMAT.inject(carrier)
        return carrier.get(HEADER, "")

    def attacher(self) -> Callable[[], object]:
        """Returns a function that hands the present span of this thread to another thread."""
        present = context.get_current()
        return lambda: context.attach(present)
