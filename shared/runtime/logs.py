"""One line a delivery on stderr: text for people, or with LOG_FORMAT=json an object for a log store.

    2026-01-31 12:00:00,000 INFO addon_apply ClusterAddon team/cluster-addon-demo update -> 202 again in 10s 12.3ms
    cluster=team/demo stage=cni waiting for Deployment kube-system/cni

(one line in truth). What comes from outside cannot begin a line of its own: control characters are escaped.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

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
        handler.setFormatter(Json() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(os.environ.get("LOG_LEVEL", "INFO").upper())
        log.propagate = False


class Json(logging.Formatter):
    """One object a line: time, level, message, and the fields of a delivery."""

    def format(self, record: logging.LogRecord) -> str:
        told = getattr(record, "delivery", {"message": record.getMessage()})
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry = {**told, "time": time.replace("+00:00", "Z"), "level": record.levelname}
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def _quoted(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)
