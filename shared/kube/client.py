"""A thin client for one API server: JSON in, JSON out, explicit limits in time and size, one retry policy.

Requests and answers are plain dicts, since turning every answer into model objects costs more than the request itself.
"""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlencode

from .causes import cause
from .credentials import Credentials
from .errors import ApiError, Conflict, Gone, NotFound, NotServed, TooLarge, Unauthorized, Unavailable
from .probation import LeftAlone, Probation
from .resources import Key, Object, Resource

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Ask a watch or a list for what names and labels an object, and for nothing of its content."""

_LONGEST = 600
"""Characters of a server's message that are passed on."""
_PATIENCE = 60.0
"""Seconds that a server may ask to be left alone for."""
_VALUES = 1_000_000
"""In one answer: two bytes of JSON can take a hundred in memory."""


@dataclass(frozen=True)
class Limits:
    """What one request may cost: seconds until it is over, and bytes of its answer, or of one line of a watch."""

    seconds: float
    bytes: int


LIMITS: Mapping[str, Limits] = {"management": Limits(30.0, 64 << 20), "workload": Limits(10.0, 8 << 20)}
_BUSY = (429, 500, 502, 503, 504)
_REFUSALS: Mapping[int, type[ApiError]] = {401: Unauthorized, 404: NotFound, 409: Conflict, 410: Gone}
_IDEMPOTENT = ("GET", "PUT", "PATCH", "DELETE")


class Client:
    """Talks to one API server; safe to share between threads.

    `timeout` is (connect, read) in seconds for one attempt, where read bounds the silence and `LIMITS` the whole;
    `attempts` bounds the tries of one call. `cluster` is what its requests are counted as; a workload cluster's server
    is not trusted: it has narrower limits, and is on probation until it answers.
    Every verb raises `ApiError` or one of its subclasses, with a message that names the object.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        timeout: tuple[float, float] = (3.0, 10.0),
        attempts: int = 3,
        pool_size: int = 16,
        user_agent: str = "capi-functions",
        cluster: Literal["management", "workload"] = "management",
    ) -> None:
        self._credentials = credentials
        self._pool = credentials.pool(pool_size, trusted=cluster == "management")
        self._timeout = timeout
        self._attempts = attempts
        self._user_agent = user_agent
        self._cluster = cluster
        self._limits = LIMITS[cluster]
        self._probation = Probation() if cluster == "workload" else None
        self._until = float("inf")
        self._sent = [0]
        self.host: str = credentials.host.rstrip("/")

    @property
    def requests(self) -> int:
        """Requests sent so far, retries included: what the budgets in the benchmarks count."""
        return self._sent[0]

    def within(self, seconds: float) -> Client:
        """The same client, with all its requests over within so many seconds from now."""
        view = copy.copy(self)
        view._until = min(self._until, time.monotonic() + seconds)
        return view

    # -- verbs -------------------------------------------------------------------------------------------------

    def get(self, resource: Resource, key: Key) -> Object:
        path, subject = resource.path(key.namespace, key.name), f"{resource.kind} {key}"
        return self.request("GET", path, subject=subject, needs=resource.needs)

    def find(self, resource: Resource, key: Key) -> Object | None:
        """Like `get`, but None where the object is not there. Raises `NotServed` where nobody can tell."""
        try:
            return self.get(resource, key)
        except NotFound:
            return None

    def list(
        self, resource: Resource, namespace: str = "", *, selector: str = "", limit: int = 500
    ) -> Iterator[Object]:
        """All objects of a kind, page by page; each gets the apiVersion and kind that lists leave out."""
        for page in self.pages(resource, namespace, selector=selector, limit=limit):
            yield from page["items"]

    def pages(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        selector: str = "",
        limit: int = 500,
        accept: str = "application/json",
    ) -> Iterator[Object]:
        """The pages of a list as the server sent them, for callers that need its resourceVersion.

        A page that is too large is asked for again in smaller ones.
        """
        query: dict[str, str] = {"limit": str(limit)}
        if selector:
            query["labelSelector"] = selector
        subject = f"{resource.kind} list"
        while True:
            try:
                path = resource.path(namespace)
                page = self.request("GET", path, query=query, accept=accept, subject=subject, needs=resource.needs)
            except TooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // 8)
                query["limit"] = str(limit)
                continue
            page["items"] = page.get("items") or []  # an empty list can come as null
            if not _are_objects(page["items"]):
                raise Unavailable(f"{subject}: answered with something that is no list: is this an API server?")
            for item in page["items"]:
                item.setdefault("apiVersion", resource.api_version)
                item.setdefault("kind", resource.kind)
            yield page
            query["continue"] = page.get("metadata", {}).get("continue") or ""
            if not query["continue"]:
                return

    def create(self, resource: Resource, obj: Object) -> Object:
        namespace = obj["metadata"].get("namespace", "")
        subject = f"{resource.kind} {Key(namespace, obj['metadata'].get('name', ''))}"
        return self.request("POST", resource.path(namespace), body=obj, subject=subject)

    def apply(
        self, resource: Resource, obj: Object, *, manager: str, force: bool = True, dry_run: bool = False
    ) -> Object:
        """Server-side apply of a whole object under `manager`."""
        key = Key(obj["metadata"].get("namespace", "") if resource.namespaced else "", obj["metadata"]["name"])
        query = {"fieldManager": manager, "force": str(force).lower()}
        if dry_run:
            query["dryRun"] = "All"
        return self.request(
            "PATCH",
            resource.path(key.namespace, key.name),
            body=obj,
            query=query,
            content_type=APPLY_PATCH,
            subject=f"{resource.kind} {key}",
        )

    def patch(self, resource: Resource, key: Key, patch: Object, *, subresource: str = "", manager: str = "") -> Object:
        """JSON merge patch; with `metadata.resourceVersion` in the patch it is refused if the object moved on."""
        return self.request(
            "PATCH",
            resource.path(key.namespace, key.name, subresource),
            body=patch,
            query={"fieldManager": manager} if manager else None,
            content_type=MERGE_PATCH,
            subject=f"{resource.kind} {key}",
        )

    def delete(self, resource: Resource, key: Key, *, uid: str = "", version: str = "") -> None:
        """Deletes in the background; absent is fine. With `uid`, only that very object; with `version` (its
        resourceVersion), only as it was then. Raises `Conflict` for another one, and `NotServed`.
        """
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        preconditions = {"uid": uid, "resourceVersion": version}
        if any(preconditions.values()):
            options["preconditions"] = {name: value for name, value in preconditions.items() if value}
        try:
            self.request(
                "DELETE",
                resource.path(key.namespace, key.name),
                body=options,
                subject=f"{resource.kind} {key}",
            )
        except NotFound:
            return

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        version: str,
        selector: str = "",
        seconds: int = 300,
        accept: str = "application/json",
        opened: Callable[[Callable[[], None]], None] | None = None,
    ) -> Iterator[Object]:
        """The server's watch events (`type`, `object`) from `version` on, bookmarks included, until it closes.

        `opened` is handed the function that ends the watch from another thread. Raises `Gone` when the version is
        too old to start from.
        """
        import urllib3

        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        if selector:
            query["labelSelector"] = selector
        path = resource.path(namespace)
        subject = f"watch of {resource.kind}"
        response = self._send("GET", path, query, None, "", accept=accept, silence=seconds + 15.0)
        try:
            if response.status != 200:
                raise _error(response.status, self._body(response, subject), response.headers, subject, path)
            if opened is not None:
                opened(response.shutdown)
            buffer = b""
            for chunk in response.stream(65536, decode_content=False):
                *lines, buffer = (buffer + chunk).split(b"\n")
                if len(buffer) > self._limits.bytes:
                    raise TooLarge(f"{subject}: a line is longer than {self._limits.bytes} bytes")
                for line in lines:
                    event = _watch_event(line, subject)
                    if event["type"] == "ERROR":
                        code = event["object"].get("code")
                        raise _error(code if isinstance(code, int) else 500, line, {}, subject)
                    yield event
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unavailable(f"watch of {resource.kind} at {self.host} broke: {cause(error)}") from error
        finally:
            response.close()

    # -- transport ---------------------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        subject: str = "",
        needs: str = "",
    ) -> Object:
        """One call with its retries: connection failures and 429/5xx are tried again, with jitter.

        A create is not repeated after the server may have seen it: 500s and lost answers are the caller's decision.
        `needs` says in the message of `NotServed` what would serve it.
        """
        data = json.dumps(body, separators=(",", ":")).encode() if body is not None else None
        what = f"{method} {subject or path}"
        attempt = 0
        while True:
            attempt += 1
            try:
                status, headers, payload = self._answer(method, path, query, data, content_type, accept, what)
            except (LeftAlone, TooLarge):
                raise
            except Unavailable:
                if attempt >= self._attempts or method not in _IDEMPOTENT:
                    raise
                time.sleep(random.uniform(0.05, 0.15) * 2**attempt)  # noqa: S311 - jitter, not a secret
                continue
            if status < 300:
                return _object(payload, what, written=method in ("POST", "PUT", "PATCH"))
            error = _error(status, payload, headers, what, path, needs)
            if (
                not isinstance(error, Unavailable)
                or attempt >= self._attempts
                or not (method in _IDEMPOTENT or status == 429)
            ):
                raise error
            time.sleep(min(error.retry_after or 0.0, 2.0) or random.uniform(0.05, 0.15) * 2**attempt)  # noqa: S311

    def version(self) -> str:
        """The server's own version, such as `v1.36.3`."""
        answer = self.request("GET", "/version", subject="version").get("gitVersion")
        if not isinstance(answer, str) or not answer:
            raise Unavailable("GET version: answered without gitVersion: is this an API server?")
        return answer

    def text(self, path: str, *, timeout: float = 5.0) -> str:
        """One plain GET without retries, for probes such as `/readyz`."""
        what = f"GET {path}"
        status, headers, payload = self.within(timeout)._answer("GET", path, None, None, "", "application/json", what)
        if status != 200:
            raise _error(status, payload, headers, what, path)
        return payload.decode(errors="replace")

    def close(self) -> None:
        self._pool.clear()

    def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        data: bytes | None,
        content_type: str,
        accept: str,
        subject: str,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of one attempt, all of it within the limits."""
        from ..network import deadline

        now = time.monotonic()
        if now >= self._until:
            if self._probation:
                self._probation.overrun()
            raise LeftAlone(f"{subject}: {self.host} took all the time that there was for it", retry_after=1.0)
        with self._allowed(), deadline(min(self._until, now + self._limits.seconds)):
            response = self._send(method, path, query, data, content_type, accept=accept)
            return response.status, response.headers, self._body(response, subject)

    def _allowed(self) -> AbstractContextManager[None]:
        return self._probation.request(f"{self.host} is left alone") if self._probation else nullcontext()

    def _body(self, response: Any, subject: str) -> bytes:
        import urllib3

        most, body = self._limits.bytes, b""
        try:
            # Nobody asked for an encoding. Only the read that comes to the end tells whether all has come.
            while len(body) <= most and (part := response.read(most + 1 - len(body), decode_content=False)):
                body = body + part if body else part
                if response.length_remaining == 0:
                    break
        except (urllib3.exceptions.HTTPError, OSError) as error:
            response.close()
            raise Unavailable(f"{self.host} does not answer: {cause(error)}") from error
        if len(body) > most or (len(body) > _VALUES and sum(map(body.count, (b",", b"[", b"{"))) > _VALUES):
            response.close()
            response.release_conn()
            raise TooLarge(f"{subject}: the answer is larger than {most >> 20} MiB or {_VALUES} values")
        return body

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        data: bytes | None,
        content_type: str,
        *,
        accept: str,
        silence: float | None = None,
    ) -> Any:
        """Sends the request; the answer's body is still to be read."""
        import urllib3

        from .. import metrics

        url = self.host + path + ("?" + urlencode(query) if query else "")
        headers = {"Accept": accept, "User-Agent": self._user_agent}
        if data is not None:
            headers["Content-Type"] = content_type
        if token := self._credentials.bearer():
            headers["Authorization"] = f"Bearer {token}"
        self._sent[0] += 1
        metrics.REQUESTS.labels(self._cluster, method).inc()
        try:
            return self._pool.request(
                method,
                url,
                body=data,
                headers=headers,
                timeout=urllib3.Timeout(connect=self._timeout[0], read=silence or self._timeout[1]),
                pool_timeout=self._timeout[0],
                preload_content=False,
                retries=False,
                redirect=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unavailable(f"{self.host} does not answer: {cause(error)}") from error


def _object(payload: bytes, subject: str, *, written: bool) -> Object:
    """The answer of a request that succeeded. Raises `Unavailable` where it is not an API server that answers."""
    answer = _json(payload) if payload else {}
    if not isinstance(answer, dict) or (written and not isinstance(answer.get("metadata"), dict)):
        raise Unavailable(f"{subject}: answered with something that is no Kubernetes object: is this an API server?")
    return answer


def _watch_event(line: bytes, subject: str) -> Object:
    event = _json(line)
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict) or "type" not in event:
        raise Unavailable(f"{subject}: answered with something that is no watch event: is this an API server?")
    return event


def _json(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def _are_objects(items: Any) -> bool:
    return isinstance(items, list) and all(isinstance(item, dict) for item in items)


def _error(
    status: int, payload: bytes, headers: Mapping[str, str], subject: str, path: str = "", needs: str = ""
) -> ApiError:
    """Quotes a Status object only: what else answers may not be an API server, and not be meant for our readers."""
    body = _json(payload)
    body = body.get("object", body) if isinstance(body, dict) else {}
    if not isinstance(body, dict) or body.get("kind") != "Status":
        body = {}
    detail = _bounded(str(body.get("message") or f"HTTP {status}"))
    message = f"{subject}: {detail}"
    if status in _BUSY:
        after = headers.get("Retry-After", "")
        seconds = min(float(after), _PATIENCE) if after.isascii() and after.isdecimal() else None
        return Unavailable(message, status=status, retry_after=seconds, detail=detail)
    if status == 404 and not body.get("reason"):
        # Of an object that is not there the server says more. This is its word on a path that it does not have.
        served = "/".join(path.split("/")[2:4]) if path.startswith("/apis/") else path
        needed = f"; {needs} is needed" if needs else ""
        detail = f"the API server does not serve {served} or this kind of it{needed}"
        return NotServed(f"{subject}: {detail}", status=status, body=body, detail=detail)
    return _REFUSALS.get(status, ApiError)(message, status=status, body=body, detail=detail)


def _bounded(text: str) -> str:
    """Short enough for a status: what servers say can be of any length, and the reason is often at the end."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
