"""Parses responses of an API server: objects, watch events, errors. Proxies answer, too, so a body may be anything."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .. import memory_budget
from .errors import ApiError, Conflict, Gone, NotFound, NotServed, TooLarge, Unauthorized, Unavailable
from .resources import Object, dig

log = logging.getLogger("capi-functions")

_MAX_MESSAGE = 600
"""Characters of a server's message that are passed on."""
_MAX_RETRY_AFTER = 60.0
"""Seconds: a longer `Retry-After` of a server is cut to this."""
_BUSY = (429, 500, 502, 503, 504)
_MEANINGS = {415: "HTTP 415: the API server has no server-side apply, which Kubernetes has since 1.22"}
_ERRORS: Mapping[int, type[ApiError]] = {401: Unauthorized, 404: NotFound, 409: Conflict, 410: Gone}


def parse_object(payload: bytes, subject: str, *, written: bool) -> Object:
    """Parses the body of a successful response. Raises `Unavailable` if it is not what an API server sends."""
    obj = _json(payload, subject) if payload else {}
    if not isinstance(obj, dict) or (written and not isinstance(obj.get("metadata"), dict)):
        raise Unavailable(f"{subject}: the response is not a Kubernetes object: is this an API server?")
    return obj


def parse_watch_event(line: bytes, subject: str) -> Object:
    """Parses one line of a watch. Raises `Unavailable` if it has no `type` and `object`."""
    event = _json(line, subject, keep=False)
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict) or "type" not in event:
        raise Unavailable(f"{subject}: the response is not a watch event: is this an API server?")
    return event


@contextmanager
def understood(subject: str) -> Iterator[None]:
    """Raises `Unavailable` in the block if a value in a response has another type than an API server sends.

    Whoever owns a workload cluster may replace its API server. The value is not quoted because it may come from a
    Secret.
    """
    try:
        yield
    except (AttributeError, TypeError, LookupError, ValueError, RecursionError) as error:
        log.warning("%s: an answer of the API server cannot be used", subject, exc_info=True)
        problem = "the response cannot be parsed: is this an API server?"
        raise Unavailable(f"{subject}: {problem}", detail=problem) from error


def _json(payload: bytes, subject: str, *, keep: bool = True) -> Any:
    """Parses JSON; returns None for another text. Raises `TooLarge`, or `Unavailable` while memory is used up."""
    try:
        return memory_budget.loads(payload, keep=keep)
    except memory_budget.MemoryBusy as error:
        raise Unavailable(f"{subject}: there is no memory for the response now: {error}", retry_after=2.0) from None
    except memory_budget.InputTooLarge as error:
        raise TooLarge(f"{subject}: the response {error}") from None
    except (ValueError, RecursionError):
        return None


def are_objects(items: Any) -> bool:
    """Returns whether the items of a list are objects."""
    return isinstance(items, list) and all(isinstance(item, dict) for item in items)


def error_of(
    status: int, payload: bytes, headers: Mapping[str, str], subject: str, path: str = "", needs: str = ""
) -> ApiError:
    """Builds the error for a failed request. Quotes a body only if it is a Status object; a proxy sends others."""
    body = _json(payload, subject)
    body = body.get("object", body) if isinstance(body, dict) else {}
    if not isinstance(body, dict) or body.get("kind") != "Status":
        body = {}
    detail = _bounded(str(body.get("message") or _MEANINGS.get(status, f"HTTP {status}")))
    message = f"{subject}: {detail}"
    if status in _BUSY:
        after = headers.get("Retry-After", "")
        seconds = min(float(after), _MAX_RETRY_AFTER) if after.isascii() and after.isdecimal() else None
        return Unavailable(message, status=status, retry_after=seconds, detail=detail)
    if status == 404 and not body.get("reason"):
        # For a missing object the server sends a reason. Without one the path itself is unknown.
        served = "/".join(path.split("/")[2:4]) if path.startswith("/apis/") else path
        needed = f"; {needs} is needed" if needs else ""
        detail = f"the API server does not serve {served} or this kind in it{needed}"
        return NotServed(f"{subject}: {detail}", status=status, body=body, detail=detail)
    error = Conflict if _is_about_another_object(body) else _ERRORS.get(status, ApiError)
    return error(message, status=status, body=body, detail=detail)


def _is_about_another_object(body: Object) -> bool:
    """Returns whether a write was refused because the object of this name has another uid, which is a 422."""
    causes = dig(body, "details.causes", [])
    return are_objects(causes) and any(cause.get("field") == "metadata.uid" for cause in causes)


def _bounded(text: str) -> str:
    """Shortens a server's message for a status; keeps both ends, because the reason is often at the end."""
    return text if len(text) <= _MAX_MESSAGE else f"{text[: _MAX_MESSAGE // 2]} ... {text[-_MAX_MESSAGE // 2 :]}"
