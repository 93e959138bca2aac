"""The protocol of Cluster API's runtime hooks: paths, requests, responses of hooks.runtime.cluster.x-k8s.io/v1alpha1.

    POST /hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery
    POST /hooks.runtime.cluster.x-k8s.io/v1alpha1/<hook in lower case>/<name of the handler>

The result of a call is in the response's `status`; any status code but 200 counts as a failed call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from shared import memory_budget
from shared.api.hooks import BEFORE_CLUSTER_DELETE
from shared.kube import Object, dig
from shared.releases.stages import AFTER_CLUSTER_UPGRADE, AFTER_CONTROL_PLANE_INITIALIZED, BEFORE_CLUSTER_UPGRADE

GROUP = "hooks.runtime.cluster.x-k8s.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
DISCOVERY = "Discovery"

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class UnknownHook(LookupError):
    """No hook is served at this path."""


class BadRequest(ValueError):
    """The body is not a request for this hook; the message names the fault."""


@dataclass(frozen=True)
class Handler:
    """One handler in the discovery response.

    `has_retry_after`: whether Cluster API defines the field `retryAfterSeconds` in responses of the hook.
    `failure_policy` applies to calls that fail: with `Ignore` Cluster API continues (hooks that only trigger a
    reconciliation), with `Fail` Cluster API repeats the call (hooks that block).
    """

    hook: str
    name: str
    has_retry_after: bool = True
    failure_policy: str = "Fail"

    @property
    def path(self) -> str:
        """The URL path of the handler."""
        return f"/{API_VERSION}/{self.hook.lower()}/{self.name}"


HANDLERS = (
    Handler(
        AFTER_CONTROL_PLANE_INITIALIZED,
        "after-control-plane-initialized",
        has_retry_after=False,
        failure_policy="Ignore",
    ),
    Handler(BEFORE_CLUSTER_UPGRADE, "before-cluster-upgrade"),
    Handler(AFTER_CLUSTER_UPGRADE, "after-cluster-upgrade", failure_policy="Ignore"),
    Handler(BEFORE_CLUSTER_DELETE, "before-cluster-delete"),
)
_TIMEOUT = 10
_BY_HOOK = {handler.hook: handler for handler in HANDLERS}


def hook_at(path: str) -> str:
    """Returns the hook that is served at `path`, which may have a prefix. Raises `UnknownHook`."""
    for handler in HANDLERS:
        if path.endswith(handler.path):
            return handler.hook
    if path.endswith(f"/{API_VERSION}/{DISCOVERY.lower()}"):
        return DISCOVERY
    raise UnknownHook(f"this path serves no hook; the hooks are {', '.join(one.path for one in HANDLERS)}")


def cluster_of(hook: str, body: bytes) -> Object:
    """Returns the Cluster in a request; callers must trust only its key and uid.

    Raises `BadRequest`, or `MemoryBusy` if other inputs use too much memory.
    """
    try:
        request = memory_budget.loads(body)
    except memory_budget.InputTooLarge as error:
        raise BadRequest(f"the request {error}") from error
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the request is not valid JSON: {error}") from error
    if not isinstance(request, dict):
        raise BadRequest("the request is not a JSON object")
    for field, expected in (("apiVersion", API_VERSION), ("kind", f"{hook}Request")):
        if request.get(field, expected) != expected:
            raise BadRequest(f"{field} is {request[field]!r}; this path needs {expected}")
    cluster: Object = request.get("cluster") or {}
    for field in ("name", "namespace"):
        value = dig(cluster, f"metadata.{field}")
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            raise BadRequest(f"cluster.metadata.{field} is {value!r}, which is not a valid {field} of a Cluster")
    return cluster


def success(hook: str, message: str, retry_after: int = 0) -> Object:
    """Returns the response of a successful call; `retry_after` is in seconds, and 0 lets Cluster API continue."""
    if hook == DISCOVERY:
        return discovery()
    response = _response(hook, "Success", message)
    return response | ({"retryAfterSeconds": retry_after} if _BY_HOOK[hook].has_retry_after else {})


def failure(hook: str, message: str) -> Object:
    """Returns the response of a failed call."""
    return _response(hook, "Failure", message)


def discovery() -> Object:
    """Returns the response to a discovery request."""
    handlers: list[dict[str, Any]] = [
        {
            "name": handler.name,
            "requestHook": {"apiVersion": API_VERSION, "hook": handler.hook},
            "timeoutSeconds": _TIMEOUT,
            "failurePolicy": handler.failure_policy,
        }
        for handler in HANDLERS
    ]
    return _response(DISCOVERY, "Success", "") | {"handlers": handlers}


def _response(hook: str, status: str, message: str) -> Object:
    response = {"apiVersion": API_VERSION, "kind": f"{hook}Response"} if hook else {}
    return response | {"status": status} | ({"message": message} if message else {})
