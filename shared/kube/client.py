"""A thin client for one API server: JSON in, JSON out, explicit limits in time and size, one retry policy.

Requests and responses are plain dicts: deserialising each response into model objects costs more than the request.
"""

from __future__ import annotations

import copy
import json
import math
import random
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from .causes import cause
from .circuit_breaker import NotSent
from .credentials import Credentials
from .errors import ApiError, NotFound, NotServed, Silent, TooLarge, Unavailable
from .resources import Key, Object, Resource, dig
from .responses import are_objects, error_of, parse_object, parse_watch_event
from .transport import LIST_LIMITS, Cluster, Request, Transport

T = TypeVar("T")

MANAGER = "capi-functions"
"""The field manager of all writes; a function's own field manager begins with this name."""

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Accept headers for a watch and a list that return the metadata of objects only."""
NO_VERSION = "1"
"""A resourceVersion that no object has. Applying with it creates a missing object; an existing one conflicts."""

_OLDER_SECONDS = 300.0
"""Seconds for which a missing newer version of a kind is cached; an upgrade of Cluster API may add it."""
_WATCH_CLOSES_WITHIN = 15.0
"""Seconds after the requested end of a watch in which its server has to close it."""
_OPENS_WITHIN = 30.0
"""Seconds in which a server has to answer a watch."""
_IDEMPOTENT = ("GET", "PUT", "PATCH", "DELETE")


def is_ours(manager: object) -> bool:
    """Returns whether a field manager is one of this project."""
    return manager == MANAGER or str(manager).startswith(f"{MANAGER}-")


class Client:
    """Sends requests to one API server; safe to share between threads.

    `attempts` limits the tries of one call; for the other arguments see `Transport`.
    Every verb raises `ApiError` or one of its subclasses, with a message that names the object.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        timeout: tuple[float, float] = (3.0, 10.0),
        attempts: int = 3,
        user_agent: str = "capi-functions",
        cluster: Cluster = "management",
    ) -> None:
        self._transport = Transport(credentials, cluster, timeout, user_agent)
        self._attempts = attempts
        self.namespaces: tuple[str, ...] = ()
        """The namespaces to which lists of all namespaces are limited; empty for no limit."""
        self._older_until: dict[tuple[str, str], float] = {}
        """By group and kind, the time until which the older version is tried first, because only that was served."""

    @property
    def host(self) -> str:
        """The URL of the API server."""
        return self._transport.host

    @property
    def requests(self) -> int:
        """The number of requests sent so far, retries included; benchmarks compare it with their budgets."""
        return self._transport.sent

    def within(self, seconds: float) -> Client:
        """Returns a view of this client whose requests must all be complete within `seconds` from now."""
        view = copy.copy(self)
        view._transport = self._transport.within(seconds)
        return view

    def limited_to(self, namespaces: Iterable[str]) -> Client:
        """Returns a view of this client that limits lists of all namespaces to these namespaces.

        For an account without rights in other namespaces. Without namespaces the view is not limited.
        """
        view = copy.copy(self)
        view.namespaces = tuple(namespaces)
        return view

    def once(self) -> Client:
        """Returns a view of this client that sends each request once, for probes."""
        view = copy.copy(self)
        view._attempts = 1
        return view

    @property
    def identity(self) -> str:
        """Identifies the server and the user uniquely; empty if the server does not prove its identity."""
        return self._transport.credentials.identity

    # -- verbs -------------------------------------------------------------------------------------------------

    def get(self, resource: Resource, key: Key) -> Object:
        """Returns the object. Raises `NotFound`, or `NotServed` if its kind is not served."""

        def get(served: Resource) -> Object:
            path, subject = served.path(key.namespace, key.name), f"{resource.kind} {key}"
            return self.request("GET", path, subject=subject, needs=resource.needs)

        return resource.upgraded(self._as_served(resource, get))

    def find(self, resource: Resource, key: Key) -> Object | None:
        """Returns the object, or None if it does not exist. Raises `NotServed` if its kind is not served."""
        try:
            return self.get(resource, key)
        except NotFound:
            return None

    def list(
        self, resource: Resource, namespace: str = "", *, selector: str = "", limit: int = 500
    ) -> Iterator[Object]:
        """Yields all objects of a kind, page by page, each with the apiVersion and kind that lists leave out.

        `selector` is a label selector, `limit` the number of objects of one page.
        """
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
        """Yields the pages of a list as the server sent them, for callers that need its resourceVersion.

        A page that exceeds the size limit is requested again as smaller pages. Raises `TooLarge` for a list that goes
        on beyond the limits of `LIST_LIMITS`, because a broken or hostile server may never end a list.
        """
        if self.namespaces and resource.namespaced and not namespace:
            for each in self.namespaces:
                yield from self.pages(resource, each, selector=selector, limit=limit, accept=accept)
            return
        most, pages, objects, size = LIST_LIMITS[self._transport.cluster], 0, 0, 0
        query: dict[str, str] = {"limit": str(limit)}
        if selector:
            query["labelSelector"] = selector
        subject = f"{resource.kind} list"

        def get(served: Resource) -> tuple[Resource, bytes]:
            sent = Request("GET", served.path(namespace), query, accept=accept)
            return served, self._payload(sent, f"GET {subject}", resource.needs)

        while True:
            try:
                served, payload = self._as_served(resource, get)
            except TooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // 8)
                query["limit"] = str(limit)
                continue
            page = parse_object(payload, f"GET {subject}", written=False)
            page["items"] = page.get("items") or []  # an empty list can come as null
            token = dig(page, "metadata.continue", "")
            if not (
                are_objects(page["items"]) and isinstance(page.get("metadata", {}), dict) and isinstance(token, str)
            ):
                raise Unavailable(f"{subject}: the response is not a list: is this an API server?")
            pages, objects, size = pages + 1, objects + len(page["items"]), size + len(payload)
            if token and (pages >= most.pages or objects > most.objects or size > most.bytes):
                raise TooLarge(
                    f"{subject}: the list does not end after {pages} pages with {objects} objects ({size >> 20} MiB): "
                    "delete objects that are not needed, or check that this is an API server"
                )
            for item in page["items"]:
                item.setdefault("apiVersion", served.api_version)
                item.setdefault("kind", resource.kind)
            page["items"] = [resource.upgraded(item) for item in page["items"]]
            yield page
            if not token:
                return
            query["continue"] = token

    def create(self, resource: Resource, obj: Object, *, manager: str = MANAGER) -> Object:
        """Creates the object and returns it as stored. Raises `Conflict` if it exists already."""
        namespace = obj["metadata"].get("namespace", "")
        subject = f"{resource.kind} {Key(namespace, obj['metadata'].get('name', ''))}"

        def post(served: Resource) -> Object:
            body = obj if served is resource else {**obj, "apiVersion": served.api_version}
            query = {"fieldManager": manager} if manager != MANAGER else None
            return self.request("POST", served.path(namespace), body=body, query=query, subject=subject)

        return resource.upgraded(self._as_served(resource, post))

    def apply(
        self, resource: Resource, obj: Object, *, manager: str, force: bool = True, dry_run: bool = False
    ) -> Object:
        """Server-side apply of a whole object with the field manager `manager`; returns the object as stored.

        Raises `Conflict` if another manager owns a field and `force` is false.
        """
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
        """Sends a JSON merge patch and returns the object as stored.

        Raises `Conflict` if the patch has a `metadata.resourceVersion` that the object no longer has, or another
        `metadata.uid`, which is ignored in a patch of a subresource.
        """

        def send(served: Resource) -> Object:
            return self.request(
                "PATCH",
                served.path(key.namespace, key.name, subresource),
                body=patch,
                query={"fieldManager": manager} if manager else None,
                content_type=MERGE_PATCH,
                subject=f"{resource.kind} {key}",
            )

        return resource.upgraded(self._as_served(resource, send))

    def json_patch(self, resource: Resource, key: Key, operations: Sequence[Object], *, manager: str) -> Object:
        """Sends a JSON patch and returns the object as stored; all operations succeed, or none is executed.

        Raises `ApiError` (422) if one fails, such as a `test`.
        """
        return self.request(
            "PATCH",
            resource.path(key.namespace, key.name),
            body=operations,
            query={"fieldManager": manager},
            content_type=JSON_PATCH,
            subject=f"{resource.kind} {key}",
        )

    def delete(self, resource: Resource, key: Key, *, uid: str = "", version: str = "") -> None:
        """Deletes the object with background propagation; an object that does not exist is no error.

        `uid` and `version` (a resourceVersion) are preconditions. Raises `Conflict` if the object has another uid or
        version, and `NotServed`.
        """
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        preconditions = {"uid": uid, "resourceVersion": version}
        if any(preconditions.values()):
            options["preconditions"] = {name: value for name, value in preconditions.items() if value}

        def send(served: Resource) -> Object:
            path = served.path(key.namespace, key.name)
            return self.request("DELETE", path, body=options, subject=f"{resource.kind} {key}")

        try:
            self._as_served(resource, send)
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
        silence: float = math.inf,
        accept: str = "application/json",
        on_open: Callable[[Callable[[], None]], None] | None = None,
    ) -> Generator[Object, None, None]:
        """Yields watch events (`type`, `object`) from resource version `version` on, until the server closes the watch.

        Without a version it begins with all objects, as added. Bookmarks are included. `on_open` is called with a
        function that ends the watch from another thread. Raises `Gone` when the version is too old to start from, and
        `Unavailable` if the server does not close the watch soon after `seconds`, or `Silent` if nothing arrives for
        `silence` seconds.
        """
        import urllib3

        from ..network import deadline

        until = self._transport.latest(seconds + _WATCH_CLOSES_WITHIN)
        quiet_until = math.inf
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        if selector:
            query["labelSelector"] = selector
        subject = f"watch of {resource.kind}"

        def opened(served: Resource) -> Any:
            path = served.path(namespace)
            with deadline(min(until, time.monotonic() + _OPENS_WITHIN)):
                response = self._transport.open(
                    Request("GET", path, query, accept=accept), silence=seconds + _WATCH_CLOSES_WITHIN
                )
                if response.status != 200:
                    try:
                        body = self._transport.read(response, subject)
                        raise error_of(response.status, body, response.headers, subject, path)
                    finally:
                        response.close()
            return response

        def chunk() -> bytes:
            nonlocal quiet_until
            quiet_until = time.monotonic() + silence
            with deadline(min(until, quiet_until)):  # not around a `yield`: it is one of the thread
                # `stream` would wait for 65536 bytes where a proxy sends the body without chunks.
                received: bytes = response.read1(65536, decode_content=False)
                return received

        response = self._as_served(resource, opened)
        try:
            if on_open is not None:
                on_open(response.shutdown)
            buffer, most = bytearray(), self._transport.limits.bytes
            while received := chunk():
                buffer += received
                if len(buffer) > most + len(received):
                    raise TooLarge(f"{subject}: a line is longer than {most} bytes")
                if b"\n" not in received:
                    continue  # a server may send a long line in single bytes
                *lines, rest = bytes(buffer).split(b"\n")
                buffer = bytearray(rest)
                for line in lines:
                    event = parse_watch_event(line, subject)
                    if event["type"] == "ERROR":
                        code = event["object"].get("code")
                        raise error_of(code if isinstance(code, int) else 500, line, {}, subject)
                    event["object"] = resource.upgraded(event["object"])
                    yield event
        except (urllib3.exceptions.HTTPError, OSError) as error:
            if quiet_until <= time.monotonic() < until:
                raise Silent(f"{subject} at {self.host}: nothing arrived for {silence:g} s") from error
            raise Unavailable(f"watch of {resource.kind} at {self.host} broke: {cause(error)}") from error
        finally:
            response.close()

    def _as_served(self, resource: Resource, send: Callable[[Resource], T]) -> T:
        """Sends a request about a kind in the version that the server serves: the newer one if it serves both.

        Raises `NotServed` if it serves neither. Caches for some minutes that the newer version is not served.
        """
        older = resource.in_older_version
        if older is None:
            return send(resource)
        is_old = time.monotonic() < self._older_until.get((resource.group, resource.kind), 0.0)
        first, second = (older, resource) if is_old else (resource, older)
        try:
            return send(first)
        except NotServed as error:
            try:
                result = send(second)
            except NotServed:
                raise error from None
            except ApiError:
                self._remember(second, older)
                raise
            self._remember(second, older)
            return result

    def _remember(self, served: Resource, older: Resource) -> None:
        self._older_until[served.group, served.kind] = time.monotonic() + _OLDER_SECONDS if served is older else 0.0

    # -- requests ----------------------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Object | Sequence[Object] | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        subject: str = "",
        needs: str = "",
    ) -> Object:
        """Sends one request and returns the response; retries connection failures, 429 and 5xx with jitter.

        A create is not retried once the server may have received it: after a 500 or a lost response the caller
        decides. `subject` names the object in messages, `needs` what has to be installed to serve the kind.
        """
        data = json.dumps(body, separators=(",", ":")).encode() if body is not None else None
        sent = Request(method, path, query, data, content_type, accept)
        subject = f"{method} {subject or path}"
        payload = self._payload(sent, subject, needs)
        return parse_object(payload, subject, written=method in ("POST", "PUT", "PATCH"))

    def _payload(self, sent: Request, subject: str, needs: str = "") -> bytes:
        """Sends one request and returns the body of the response; raises and retries as `request` does."""
        method, path, attempt = sent.method, sent.path, 0
        until = self._transport.latest(self._transport.limits.seconds)
        while True:
            attempt += 1
            try:
                status, headers, payload = self._transport.exchange(sent, subject)
            except (NotSent, TooLarge):
                raise
            except Unavailable:
                if attempt >= self._attempts or method not in _IDEMPOTENT or time.monotonic() >= until:
                    raise  # a server that has used up the time of one request would also use up the next
                time.sleep(random.uniform(0.05, 0.15) * 2**attempt)  # noqa: S311 - jitter, not a secret
                continue
            if status < 300:
                return payload
            error = error_of(status, payload, headers, subject, path, needs)
            if (
                not isinstance(error, Unavailable)
                or attempt >= self._attempts
                or not (method in _IDEMPOTENT or status == 429)
            ):
                raise error
            time.sleep(min(error.retry_after or 0.0, 2.0) or random.uniform(0.05, 0.15) * 2**attempt)  # noqa: S311

    def version(self) -> str:
        """Returns the server's version, such as `v1.36.3`."""
        version = self.request("GET", "/version", subject="version").get("gitVersion")
        if not isinstance(version, str) or not version:
            raise Unavailable("GET version: the response has no gitVersion: is this an API server?")
        return version

    def text(self, path: str, *, timeout: float = 5.0, query: Mapping[str, str] | None = None) -> str:
        """Returns the body of one GET as text, without retries, for probes such as `/readyz` and for logs."""
        subject = f"GET {path}"
        status, headers, payload = self._transport.within(timeout).exchange(Request("GET", path, query), subject)
        if status != 200:
            raise error_of(status, payload, headers, subject, path)
        return payload.decode(errors="replace")

    def close(self) -> None:
        """Closes all connections, busy connections after their request. A later request opens a new connection."""
        self._transport.close()
