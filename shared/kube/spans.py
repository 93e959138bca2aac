"""The content of spans of requests to an API server: verb and kind, never names or content."""

from __future__ import annotations

from contextlib import AbstractContextManager

from .. import tracing
from ..tracing import Span
from .resources import resource_of


def of_request(method: str, path: str, cluster: str) -> AbstractContextManager[Span]:
    """Records a request to a management or workload cluster within the present span. Outside of any it does nothing."""
    if not (here := tracing.current()):
        return tracing.NOTHING
    resource = resource_of(path)
    attributes = {
        "http.request.method": method,
        "capi_functions.resource": resource,
        "capi_functions.cluster": cluster,
    }
    return tracing.span(f"{method} {resource}", "client", attributes, parent=here)


def describe_response(span: Span, status: int) -> None:
    """Sets the HTTP status of the response; fails the span with 500 and above."""
    span.set({"http.response.status_code": status})
    if status >= 500:
        span.fail(str(status))
