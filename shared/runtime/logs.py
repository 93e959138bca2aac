"""Logs one line per delivery to stderr: text, or with LOG_FORMAT=json a JSON object.

    2026-01-31 12:00:00,000 INFO addon_apply ClusterAddon team/cluster-addon-demo update -> 202 again in 10s 12.3ms
    cluster=team/demo stage=cni waiting for Deployment kube-system/cni

(the log has this in one line). Control characters are escaped, so that no input can begin a line. The message of an
exception may quote input, such as a header or a parsed document, so tracebacks contain messages of a few harmless
exceptions only.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from .. import tracing
from ..event import Event
from .answer import Answer

log = logging.getLogger("capi-functions")

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PLAIN = re.compile(r"[^\s\"=]+")


def delivery(function: str, event: Event | None, answer: Answer, seconds: float) -> None:
    """Logs the answer to an event; as a warning if the status is 400 or above."""
    level = logging.INFO if answer.status < 400 else logging.WARNING
    extra = {"delivery": fields(function, event, answer, seconds)}
    log.log(level, "%s", line(function, event, answer, seconds), extra=extra)


def line(function: str, event: Event | None, answer: Answer, seconds: float) -> str:
    """Returns the log line of a delivery with its duration in seconds."""
    subject = f"{event.kind or event.type} {event.key} {event.change or ''}".strip() if event else "-"
    retry = f" again in {answer.retry_after:g}s" if answer.retry_after is not None else ""
    context = "".join(f" {name}={_quoted(value)}" for name, value in answer.context.items())
    text = f"{function} {subject} -> {answer.status}{retry} {seconds * 1000:.1f}ms{context} {answer.message}"
    return one_line(text.rstrip())


def one_line(text: str) -> str:
    """Returns the text with control characters escaped."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def fields(function: str, event: Event | None, answer: Answer, seconds: float) -> Mapping[str, object]:
    """Returns the log line as fields; the context of an answer cannot replace the other fields."""
    result: dict[str, object] = {"function": function, "status": answer.status, "seconds": round(seconds, 4)}
    if event is not None:
        result |= {"event": event.id, "type": event.type, "kind": event.kind}
        result |= {"namespace": event.namespace, "name": event.name}
    if answer.retry_after is not None:
        result["again"] = answer.retry_after
    return {**answer.context, **result, "message": answer.message}


def set_up() -> None:
    """Sets up the log of the process: stderr, format LOG_FORMAT, level LOG_LEVEL. Later calls do nothing."""
    if not log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        as_json = os.environ.get("LOG_FORMAT", "").lower() == "json"
        handler.setFormatter(Json() if as_json else Text("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(os.environ.get("LOG_LEVEL", "INFO").upper())
        log.propagate = False


class Text(logging.Formatter):
    """Formats lines as text, with tracebacks without the messages of exceptions that may quote input."""

    def formatException(self, ei: Any) -> str:
        """Returns the traceback of an exception and of its causes."""
        chain: list[BaseException] = []
        error: BaseException | None = ei[1]
        while error is not None and error not in chain:
            chain.append(error)
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        parts = ("".join(traceback.format_tb(one.__traceback__)) + _described(one) for one in reversed(chain))
        return "\nwhich led to:\n".join(parts)


class Json(Text):
    """Formats lines as JSON objects: time, level, message, and the fields of a delivery."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the JSON object of a record."""
        delivery_fields = getattr(record, "delivery", {"message": record.getMessage()})
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry = {**delivery_fields, "time": time.replace("+00:00", "Z"), "level": record.levelname}
        if trace := tracing.trace_id(tracing.current()):
            entry["trace"] = trace
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


_HARMLESS = (AttributeError, ImportError, IndexError, LookupError, MemoryError, NameError, RecursionError, TypeError)
"""Exceptions whose messages name types, attributes and keys only, and never quote input."""


def _described(error: BaseException) -> str:
    name = type(error).__qualname__
    ours = type(error).__module__.partition(".")[0] in ("events", "functions", "infra", "shared")
    return f"{name}: {one_line(str(error))}" if ours or isinstance(error, _HARMLESS) else name


def _quoted(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)
