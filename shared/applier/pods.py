"""Finds out why the pods of a workload do not start."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

from shared.api.resources import EVENT, POD

from ..kube import ApiError, Client, Object, dig, key_of
from ..kube.responses import understood

_LOOKED_AT = 20  # pods of one workload
_LONGEST = 300  # characters of a message of the workload cluster


def why_not_started(client: Client, workload: Object) -> str:
    """Returns the reason of the first pod that does not start, such as `pod web-1: ImagePullBackOff nginx:nope`.

    Sends one request. If there are no pods, sends another for the event that says why its controller cannot create any,
    such as `FailedCreate: ... serviceaccount "web" not found`. Returns an empty text where there is no reason, or where
    pods or events cannot be read.

    Args:
        client: The client of the workload cluster.
        workload: A live object with `spec.selector.matchLabels`; any other object has no pods.
    """
    labels = dig(workload, "spec.selector.matchLabels")
    if not isinstance(labels, dict) or not labels:
        return ""
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    with suppress(ApiError), understood("Pod list"):
        pods = client.list(POD, key_of(workload).namespace, selector=selector, limit=_LOOKED_AT)
        pod = None
        for pod in islice(pods, _LOOKED_AT):
            if reason := reason_of(pod):
                return f"pod {key_of(pod).name}: {reason}"[:_LONGEST]
        if pod is None:
            return _why_not_created(client, workload)[:_LONGEST]
    return ""


def _why_not_created(client: Client, workload: Object) -> str:
    """Returns the newest event about a failed creation of pods; empty without one."""
    uid, namespace = workload["metadata"]["uid"], key_of(workload).namespace
    query = {"fieldSelector": f"involvedObject.uid={uid},reason=FailedCreate", "limit": str(_LOOKED_AT)}
    with understood("Event list"):
        events = client.request("GET", EVENT.path(namespace), query=query, subject=f"events of {namespace}")["items"]
        newest = max(events, key=lambda event: str(dig(event, "lastTimestamp", "")), default=None)
        return f"{newest['reason']}: {newest['message']}" if newest else ""


def reason_of(pod: Object) -> str:
    """Returns why a pod does not start; empty if it starts, or has no reason yet."""
    for status in (*dig(pod, "status.initContainerStatuses", []), *dig(pod, "status.containerStatuses", [])):
        waiting = dig(status, "state.waiting.reason", "")
        if waiting in _STARTING:
            continue
        code = dig(status, "lastState.terminated.exitCode")
        return f"{waiting} {dig(status, 'image', '')}" + (f", exit code {code}" if code is not None else "")
    for condition in dig(pod, "status.conditions", []):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"{condition.get('reason')}: {condition.get('message')}"
    return ""


_STARTING = ("", "ContainerCreating", "PodInitializing")
