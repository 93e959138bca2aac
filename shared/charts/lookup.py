"""Answers the lookups of charts with objects of a live cluster.

The helm program looks objects up on a Kubernetes API server. Here a small read-only server on the loopback interface
reads from the live cluster with the connection of this process, so the helm program gets no credentials. Discovery is
answered from memory. A lookup of a kind that the cluster does not serve returns no objects, because charts may look up
objects of CRDs that they contain.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ..kube.errors import ApiError, NotFound, NotServed, TooLarge, Unauthorized, Unavailable
from ..kube.resources import Object, Resource, dig
from ..kube.responses import understood
from .release import LiveCluster

MAX_LOOKUPS: Final = 500
"""The limit of lookups in one rendering."""

MAX_SECONDS: Final = 20.0
"""The seconds for all lookups of one rendering, because a slow cluster must not delay the charts of other clusters."""

_VERSION: Final = re.compile(r"v\d+((alpha|beta)\d+)?")
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class LookupServer:
    """The server for one rendering; a context manager. `failure` is the error if the live cluster does not answer."""

    def __init__(self, live: LiveCluster) -> None:
        self._live = live
        self._paths = _paths(live.served.values())
        self._secret = secrets.token_urlsafe(32)
        self._lock = Lock()
        self._client = live.client.within(MAX_SECONDS)
        self._answers: dict[str, tuple[int, Object]] = {}
        self.failure: ApiError | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), name="chart-lookups", daemon=True)

    def __enter__(self) -> LookupServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1, the only one that the helm program connects to."""
        return int(self._server.server_address[1])

    def write_kubeconfig(self, directory: Path) -> Path:
        """Writes a kubeconfig for this server, readable by its owner alone, and returns its path."""
        # The secret is in the path, because clients send tokens over TLS only.
        server = f"http://127.0.0.1:{self.port}/{self._secret}"
        name = "workload"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": server}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "users": [{"name": name, "user": {}}],
        }
        path = directory / "kubeconfig"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(config, file)
        return path

    def answer(self, path: str, *, aggregated: bool) -> tuple[int, Object]:
        """Returns HTTP status and body for a GET of `path`; `aggregated` requests discovery of all kinds at once."""
        prefix, _, rest = path.removeprefix("/").partition("/")
        if not hmac.compare_digest(prefix.encode(), self._secret.encode()):
            return _status(403, "Forbidden", "this server is for one rendering of one chart")
        segments = [unquote(segment) for segment in rest.split("/") if segment]
        match segments:
            case ["version"]:
                major, _, minor = self._live.version.removeprefix("v").partition(".")
                minor = minor.partition(".")[0]
                return 200, {"major": major, "minor": minor, "gitVersion": self._live.version}
            case ["api" | "apis" as root] if aggregated:
                return 200, _groups(
                    [resource for resource in self._live.served.values() if bool(resource.group) is (root == "apis")]
                )
            case ["api" | "apis", version] if _VERSION.fullmatch(version):
                return 200, _kinds(self._live.served.values(), "", version)
            case ["apis", group, version]:
                return 200, _kinds(self._live.served.values(), group, version)
            case ["api"]:  # helm lists kinds that are not served at /api, and gets their objects at /api/NAME
                return 200, {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": []}
            case ["api", version, *more] if more:
                return self._object(("", version), more)
            case ["apis", group, version, *more] if more:
                return self._object((group, version), more)
        return _status(404, "NotFound", f"/{rest} is not served")

    def _object(self, api: tuple[str, str], segments: list[str]) -> tuple[int, Object]:
        namespace = ""
        if segments[0] == "namespaces" and len(segments) > 2:
            namespace, segments = segments[1], segments[2:]
        resource = self._paths.get((*api, segments[0]))
        if resource is None or len(segments) > 2:
            return _status(404, "NotFound", "not served")
        name = segments[1] if len(segments) == 2 else ""
        try:
            path = resource.path(namespace, name)
        except NotFound as error:
            return _status(404, "NotFound", error.detail)
        with self._lock:  # equal lookups have equal answers within one rendering
            if path not in self._answers:
                if len(self._answers) == MAX_LOOKUPS:
                    return _status(400, "BadRequest", f"the chart looks up more than {MAX_LOOKUPS} objects")
                self._answers[path] = self._read(path, f"{resource.kind} {'/'.join(filter(None, (namespace, name)))}")
            return self._answers[path]

    def _read(self, path: str, subject: str) -> tuple[int, Object]:
        """Returns HTTP status and body of the live cluster's response."""
        try:
            subject = f"{subject}, which a chart looks up"
            with understood(subject):
                answer = self._client.request("GET", path, subject=subject)
                self._live.secrets.update(secret_values(answer))
        except NotFound as error:
            return _status(404, "NotFound", error.detail)
        except TooLarge as error:
            return _status(400, "BadRequest", str(error))
        except (NotServed, Unavailable, Unauthorized) as error:
            self.failure = error  # an empty list would be wrong, because objects of the kind may exist
            return _status(500, "InternalError", "the cluster does not answer")
        except ApiError as error:
            return _status(error.status or 500, error.reason or "Forbidden", error.detail)
        return 200, answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            """Answers GET; the base class answers 501 to other methods."""

            protocol_version = "HTTP/1.1"
            timeout = 5  # seconds for idle connections, so that no thread stays
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                aggregated = "apidiscovery.k8s.io" in self.headers.get("Accept", "")
                status, body = answer(urlsplit(self.path).path, aggregated=aggregated)
                data = json.dumps(body, separators=(",", ":")).encode()
                self.send_response(status)
                is_aggregated = body.get("kind") == "APIGroupDiscoveryList"
                self.send_header("Content-Type", _AGGREGATED if is_aggregated else "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                """Logs nothing: paths contain the names of objects and the secret of this server."""

        return Handler


def secret_values(answer: Object) -> Iterator[str]:
    """Yields each value of a Secret, or of a list of Secrets, as it is written and, of `data`, decoded."""
    if answer.get("apiVersion") != "v1" or answer.get("kind") not in ("Secret", "SecretList"):
        return
    for obj in (answer, *(answer.get("items") or ())):
        data = obj.get("data") if isinstance(obj, dict) else None
        for value in data.values() if isinstance(data, dict) else ():
            if isinstance(value, str):
                yield value
                with suppress(ValueError):
                    yield base64.b64decode(value, validate=True).decode(errors="replace")
        yield from (value for value in dig(obj, "stringData", {}).values() if isinstance(value, str))


def _paths(served: Iterable[Resource]) -> dict[tuple[str, str, str], Resource]:
    return {(resource.group, resource.version, resource.plural): resource for resource in served}


def _groups(served: Iterable[Resource]) -> Object:
    groups: dict[str, dict[str, list[Object]]] = {}
    for resource in served:
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        scope = "Namespaced" if resource.namespaced else "Cluster"
        entry = {"resource": resource.plural, "responseKind": kind, "scope": scope, "verbs": ["get", "list"]}
        groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(entry)
    return {
        "apiVersion": "apidiscovery.k8s.io/v2",
        "kind": "APIGroupDiscoveryList",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group},
                "versions": [
                    {"version": version, "resources": resources, "freshness": "Current"}
                    for version, resources in versions.items()
                ],
            }
            for group, versions in groups.items()
        ],
    }


def _kinds(served: Iterable[Resource], group: str, version: str) -> Object:
    resources = [
        {"name": resource.plural, "kind": resource.kind, "namespaced": resource.namespaced, "verbs": ["get", "list"]}
        for resource in served
        if (resource.group, resource.version) == (group, version)
    ]
    return {
        "apiVersion": "v1",
        "kind": "APIResourceList",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": resources,
        "items": [],  # if the kind is not served, helm takes this response for a list of its objects
    }


def _status(code: int, reason: str, message: str) -> tuple[int, Object]:
    return code, {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
