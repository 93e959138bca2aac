"""A thin client for one API server: JSON in, JSON out, explicit time limits, one retry policy.

Requests and answers are plain dicts, since turning every answer into model objects costs more than the request itself.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from .causes import cause
from .credentials import Credentials
from .errors import ApiError, Conflict, Gone, NotFound, Unauthorized, Unavailable
from .resources import Key, Object, Resource

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Ask a watch or a list for what names and labels an object, and for nothing of its content."""

_LONGEST = 600
"""Characters of a server's message that are passed on."""
_BUSY = (429, 500, 502, 503, 504)
_REFUSALS: Mapping[int, type[ApiError]] = {401: Unauthorized, 404: NotFound, 409: Conflict, 410: Gone}
_IDEMPOTENT = ("GET", "PUT", "PATCH", "DELETE")


class Client:
    """Talks to one API server; safe to share between threads.

    `timeout` is (connect, read) in seconds for one attempt; `attempts` bounds the tries of one call; `cluster` is
    what its requests are counted as, management or workload.
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
        cluster: str = "management",
    ) -> None:
        self._credentials = credentials
        self._pool = credentials.pool(pool_size)
        self._timeout = timeout
        self._attempts = attempts
        self._user_agent = user_agent
        self._cluster = cluster
        self.host: str = credentials.host.rstrip("/")
        self.requests = 0
        """Requests sent so far, retries included: what the budgets in the benchmarks count."""

    # -- verbs -------------------------------------------------------------------------------------------------

    def get(self, resource: Resource, key: Key) -> Object:
        return self.request("GET", resource.path(key.namespace, key.name), subject=f"{resource.kind} {key}")

    def find(self, resource: Resource, key: Key) -> Object | None:
        """Like `get`, but None where the object is not there."""
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
        """The pages of a list as the server sent them, for callers that need its resourceVersion."""
        query: dict[str, str] = {"limit": str(limit)}
        if selector:
            query["labelSelector"] = selector
        while True:
            page = self.request(
                "GET", resource.path(namespace), query=query, accept=accept, subject=f"{resource.kind} list"
            )
            page["items"] = page.get("items") or []  # an empty list can come as null
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

    def delete(self, resource: Resource, key: Key, *, uid: str = "") -> None:
        """Deletes in the background; absent is fine. With `uid`, only that very object."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
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
        response = self._send("GET", path, query, None, "", accept=accept, read_timeout=seconds + 15.0, stream=True)
        try:
            if response.status != 200:
                raise _error(response.status, response.data, response.headers, f"watch of {resource.kind}")
            if opened is not None:
                opened(response.shutdown)
            buffer = b""
            for chunk in response.stream(65536, decode_content=True):
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    event: Object = json.loads(line)
                    if event["type"] == "ERROR":
                        raise _error(event["object"].get("code", 500), line, {}, f"watch of {resource.kind}")
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
    ) -> Object:
        """One call with its retries: connection failures and 429/5xx are tried again, with jitter.

        A create is not repeated after the server may have seen it: 500s and lost answers are the caller's decision.
        """
        data = json.dumps(body, separators=(",", ":")).encode() if body is not None else None
        attempt = 0
        while True:
            attempt += 1
            try:
                response = self._send(method, path, query, data, content_type, accept=accept)
                payload = response.data
            except Unavailable:
                if attempt >= self._attempts or method not in _IDEMPOTENT:
                    raise
                time.sleep(random.uniform(0.05, 0.15) * 2**attempt)  # noqa: S311 - jitter, not a secret
                continue
            if response.status < 300:
                return _object(payload, f"{method} {subject or path}", written=method in ("POST", "PUT", "PATCH"))
            error = _error(response.status, payload, response.headers, f"{method} {subject or path}")
            if (
                not isinstance(error, Unavailable)
                or attempt >= self._attempts
                or not (method in _IDEMPOTENT or response.status == 429)
            ):
                raise error
            time.sleep(min(error.retry_after or 0.0, 2.0) or random.uniform(0.05, 0.15) * 2**attempt)  # noqa: S311

    def text(self, path: str, *, timeout: float = 5.0) -> str:
        """One plain GET without retries, for probes such as `/readyz`."""
        response = self._send("GET", path, None, None, "", read_timeout=timeout)
        if response.status != 200:
            raise _error(response.status, response.data, response.headers, f"GET {path}")
        return str(response.data.decode(errors="replace"))

    def close(self) -> None:
        self._pool.clear()

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        data: bytes | None,
        content_type: str,
        *,
        accept: str = "application/json",
        read_timeout: float | None = None,
        stream: bool = False,
    ) -> Any:
        import urllib3

        from .. import metrics

        url = self.host + path + ("?" + urlencode(query) if query else "")
        headers = {"Accept": accept, "User-Agent": self._user_agent}
        if data is not None:
            headers["Content-Type"] = content_type
        if self._credentials.token is not None:
            headers["Authorization"] = f"Bearer {self._credentials.token()}"
        self.requests += 1
        metrics.REQUESTS.labels(self._cluster, method).inc()
        try:
            return self._pool.request(
                method,
                url,
                body=data,
                headers=headers,
                timeout=urllib3.Timeout(connect=self._timeout[0], read=read_timeout or self._timeout[1]),
                preload_content=not stream,
                retries=False,
                redirect=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unavailable(f"{self.host} does not answer: {cause(error)}") from error


def _object(payload: bytes, subject: str, *, written: bool) -> Object:
    """The answer of a request that succeeded. Raises `Unavailable` where it is not an API server that answers."""
    try:
        answer = json.loads(payload) if payload else {}
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or (written and not isinstance(answer.get("metadata"), dict)):
        raise Unavailable(f"{subject}: answered with something that is no Kubernetes object: is this an API server?")
    return answer


def _error(status: int, payload: bytes, headers: Mapping[str, str], subject: str) -> ApiError:
    try:
        body = json.loads(payload)
        body = body.get("object", body) if isinstance(body, dict) else {}
    except ValueError:
        body = {}
    said = body.get("message") or payload[:200].decode(errors="replace").strip() or f"HTTP {status}"
    detail = _bounded(str(said))
    message = f"{subject}: {detail}"
    if status in _BUSY:
        after = headers.get("Retry-After", "")
        return Unavailable(message, status=status, retry_after=float(after) if after.isdigit() else None, detail=detail)
    return _REFUSALS.get(status, ApiError)(message, status=status, body=body, detail=detail)


def _bounded(text: str) -> str:
    """Short enough for a status: what servers say can be of any length, and the reason is often at the end."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
