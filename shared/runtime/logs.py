"""One line a delivery on stderr: text for people, or with LOG_FORMAT=json an object for a log store.

    2026-01-31 12:00:00,000 INFO addon_apply ClusterAddon team/cluster-addon-demo update -> 202 again in 10s 12.3ms
    cluster=team/demo stage=cni waiting for Deployment kube-system/cni

(one line in truth). What comes from outside cannot begin a line of its own: control characters are escaped. The text
of an exception may quote anything, such as a header or a parsed document, so a traceback has it only where it cannot.
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

from ..event import Event
from .answer import Answer

log = logging.getLogger("capi-functions")

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PLAIN = re.compile(r"[^\s\"=]+")


def delivery(function: str, event: Event | None, answer: Answer, seconds: float) -> None:
    """Logs what became of an event; a warning where it was not taken or did not succeed."""
    level = logging.INFO if answer.status < 400 else logging.WARNING
    told = {"delivery": fields(function, event, answer, seconds)}
    log.log(level, "%s", line(function, event, answer, seconds), extra=told)


def line(function: str, event: Event | None, answer: Answer, seconds: float) -> str:
    about = f"{event.kind or event.type} {event.key} {event.change or ''}".strip() if event else "-"
    later = f" again in {answer.retry_after:g}s" if answer.retry_after is not None else ""
    context = "".join(f" {name}={_quoted(value)}" for name, value in answer.context.items())
    text = f"{function} {about} -> {answer.status}{later} {seconds * 1000:.1f}ms{context} {answer.message}"
    return one_line(text.rstrip())


def one_line(text: str) -> str:
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def fields(function: str, event: Event | None, answer: Answer, seconds: float) -> Mapping[str, object]:
    """The same by name; a decision's context cannot take the place of what is always there."""
    told: dict[str, object] = {"function": function, "status": answer.status, "seconds": round(seconds, 4)}
    if event is not None:
        about = {"event": event.id, "type": event.type, "kind": event.kind}
        told |= about | {"namespace": event.namespace, "name": event.name}
    if answer.retry_after is not None:
        told["again"] = answer.retry_after
    return {**answer.context, **told, "message": answer.message}


def set_up() -> None:
    """To stderr, in the format of LOG_FORMAT and from LOG_LEVEL on; once a process."""
    if not log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        as_json = os.environ.get("LOG_FORMAT", "").lower() == "json"
        handler.setFormatter(Json() if as_json else Text("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(os.environ.get("LOG_LEVEL", "INFO").upper())
        log.propagate = False


class Text(logging.Formatter):
    """Tracebacks without the texts of exceptions that may quote what they were about."""

    def formatException(self, ei: Any) -> str:
        chain: list[BaseException] = []
        error: BaseException | None = ei[1]
        while error is not None and error not in chain:
            chain.append(error)
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        parts = ("".join(traceback.format_tb(one.__traceback__)) + _described(one) for one in reversed(chain))
        return "\nwhich led to:\n".join(parts)


class Json(Text):
    """One object a line: time, level, message, and the fields of a delivery."""

    def format(self, record: logging.LogRecord) -> str:
        told = getattr(record, "delivery", {"message": record.getMessage()})
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry = {**told, "time": time.replace("+00:00", "Z"), "level": record.levelname}
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


_HARMLESS = (AttributeError, ImportError, IndexError, LookupError, MemoryError, NameError, RecursionError, TypeError)
"""Their texts name types, attributes and keys."""


def _described(error: BaseException) -> str:
    name = type(error).__qualname__
    ours = type(error).__module__.partition(".")[0] in ("events", "functions", "infra", "shared")
    return f"{name}: {one_line(str(error))}" if ours or isinstance(error, _HARMLESS) else name


def _quoted(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)
