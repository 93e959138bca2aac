"""Decides about one KINDCluster: creates its instance, and publishes CA, kubeconfig and endpoint.

When the KINDCluster is deleted, the instance and the Secrets of the KINDCluster are deleted too.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from datetime import datetime

from shared.api.cluster import CLUSTER_NAME_LABEL, created_at
from shared.api.conditions import READY, get_condition, rfc3339, set_condition, truncate
from shared.api.names import requested_certificates
from shared.api.resources import KIND_CLUSTER, SECRET
from shared.clients import Clients
from shared.effects import Create, Delete, Effect, Patch, RemoveFinalizer, Results, ensure_finalizer
from shared.kube import Object, deleting, dig, has_finalizer, key_of, owned_by, owner_reference, owners
from shared.runtime import Decision, KubernetesEvent
from shared.runtime.status import PAUSED

from .observe import (
    PROVISIONING,
    Observed,
    cluster_name,
    config_secret_name,
    is_managed_elsewhere,
    is_paused,
    other_version,
)
from .runtime import (
    NOT_ALLOWED,
    Instance,
    InstanceSpec,
    RuntimeUnavailable,
    StillDeleting,
    check_allowed,
    runtime_for,
)
from .triggers import FINALIZER

MAX_HISTORY = 20
"""The number of past events in status.conditions, which upstream uses as a history."""

CREATED, NOT_CREATED = "ClusterCreated", "ClusterNotCreated"
CREATED_MESSAGE = "Cluster was successfully created"
NOT_CREATED_MESSAGE = "Cluster cannot be created"
CREATING = "Creating"
OTHER_CA, SECRET_TAKEN = "OtherCA", "SecretTaken"
_OTHER_CA = (
    "Secret {} has another CA than the API server, so kubeconfigs made with the Secret do not work: delete the "
    "KINDCluster and create it again to use the CA in the Secret"
)
_SAME_NAME = (
    "Secret {} has the kubeconfig of KINDCluster {}, which has the same spec.clusterName: delete one of the two, and "
    "create it again with another spec.clusterName"
)
UNOWNED = "waiting until the Cluster owns the KINDCluster"

# Seconds until the next reconciliation.
STARTING_RETRY = 0.5
FAILED_RETRY = 10.0
BLOCKED_RETRY = 60.0
OWNER_RETRY = 10.0
"""Usually the event of the new owner reference ends the wait earlier. After this time the status reports the wait."""


@dataclass(frozen=True)
class CreateInstance:
    """Effect: starts the creation of the instance in the background; `ca` is the user's own CA."""

    kind_cluster: Object
    ca: tuple[bytes, bytes] | None = field(default=None, repr=False)

    def execute(self, _clients: Clients) -> None:
        check_allowed(self.kind_cluster)
        runtime_for(self.kind_cluster).create(InstanceSpec.of(self.kind_cluster), self.ca)


@dataclass(frozen=True)
class DeleteInstance:
    """Effect: deletes the instance. Raises `StillDeleting` until nothing is left of it."""

    kind_cluster: Object

    def execute(self, _clients: Clients) -> None:
        runtime_for(self.kind_cluster).delete(InstanceSpec.of(self.kind_cluster))


def decide(observed: Observed, now: datetime) -> Decision:
    """Decides by the phase of the instance: starts an absent or failed one, and publishes a ready one."""
    kind_cluster, instance = observed.kind_cluster, observed.instance
    if kind_cluster is None:
        return Decision()
    if is_managed_elsewhere(kind_cluster):
        return Decision(message="managed by another program")
    if observed.served_elsewhere:
        return Decision(message="other functions serve it")
    if observed.published:
        retry = STARTING_RETRY if instance.phase == "starting" else None
        return Decision(requeue_after=retry, message=instance.phase)
    if is_paused(kind_cluster, observed.cluster):
        return Decision(status=_paused(kind_cluster, now), message="paused")
    if deleting(kind_cluster):
        return _delete(observed, kind_cluster, now)
    if observed.cluster is not None and not owned_by(kind_cluster, observed.cluster):
        return _unowned(kind_cluster, instance, now)
    effects: list[Effect] = [*ensure_finalizer(KIND_CLUSTER, kind_cluster, FINALIZER)]
    match instance.phase:
        case "ready":
            return _ready(observed, kind_cluster, effects, now)
        case "starting" | "deleting":
            return _pending(kind_cluster, effects, now, instance.step)
        case "unknown":
            return _failed(kind_cluster, instance, [], now)
        case "failed":
            if not instance.retry_after:
                effects.append(_start(observed, kind_cluster))
            return _failed(kind_cluster, instance, effects, now)
        case "absent" if "ca" in requested_certificates(observed.cluster or {}) and observed.ca_secret is None:
            return _pending(kind_cluster, effects, now, "waiting for the CA that the Cluster requests")
        case "absent":
            start = _start(observed, kind_cluster)
            return _pending(kind_cluster, [*effects, start], now, instance.error, instance.reason or CREATING)


def report_failure(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision | None:
    """Reports in the status of the KINDCluster that the runtime has failed, or that a deletion continues.

    Leaves other errors to the runtime of functions.
    """
    kind_cluster, error = observed.kind_cluster, results.error
    if kind_cluster is None:
        return None
    if isinstance(error, StillDeleting):
        return _deleting(kind_cluster, now, error.message, error.reason)
    if not isinstance(error, RuntimeUnavailable):
        return None
    if deleting(kind_cluster):
        return _deleting(kind_cluster, now, str(error), error.reason)
    return _failed(kind_cluster, Instance("failed", str(error), reason=error.reason), list(decision.effects), now)


def _start(observed: Observed, kind_cluster: Object) -> CreateInstance:
    data = dig(observed.ca_secret, "data", {})
    user_ca = None
    if data.get("tls.crt") and data.get("tls.key"):
        user_ca = (base64.b64decode(data["tls.crt"]), base64.b64decode(data["tls.key"]))
    return CreateInstance(kind_cluster, user_ca)


def _ready(observed: Observed, kind_cluster: Object, effects: list[Effect], now: datetime) -> Decision:
    """Decides to publish a ready instance: CA and kubeconfig in Secrets, the endpoint in the spec."""
    instance = observed.instance
    certificate, private_key = instance.ca
    name = cluster_name(kind_cluster)
    if observed.ca_secret is None:
        secret = _secret(kind_cluster, f"{name}-ca", {"tls.crt": certificate, "tls.key": private_key})
        secret["metadata"]["labels"] = {CLUSTER_NAME_LABEL: name}
        secret["type"] = "cluster.x-k8s.io/secret"
        effects.append(Create(SECRET, secret))
    wanted = _secret(kind_cluster, config_secret_name(kind_cluster), {"config": instance.kubeconfig})
    if observed.config is None:
        effects.append(Create(SECRET, wanted))
    elif owned_by(observed.config, kind_cluster) and observed.config.get("data") != wanted["data"]:
        effects.append(Patch(SECRET, observed.config, {"data": wanted["data"]}))
    endpoint = {"host": instance.host, "port": instance.port}
    if dig(kind_cluster, "spec.controlPlaneEndpoint") != endpoint:
        effects.append(Patch(KIND_CLUSTER, kind_cluster, {"spec": {"controlPlaneEndpoint": endpoint}}))
    if observed.ca_secret and _has_other_ca(observed.ca_secret, certificate):
        return _blocked(kind_cluster, OTHER_CA, _OTHER_CA.format(f"{name}-ca"), effects, now)
    if observed.config and (others := _other_owners(kind_cluster, observed.config)):
        message = _SAME_NAME.format(key_of(observed.config).name, others[0])
        return _blocked(kind_cluster, SECRET_TAKEN, message, effects, now)
    is_new = dig(kind_cluster, "status.ready") is not True
    version = other_version(kind_cluster, instance)
    entry = (CREATED, CREATED_MESSAGE, "") if is_new else None
    status: Object = {
        "ready": True,
        "phase": "Ready",
        "failureMessage": None,
        "initialization": {"provisioned": True},
        "conditions": _conditions(kind_cluster, now, "True", "Provisioned", version, entry=entry),
    }
    address = f"API server at {instance.host}:{instance.port}"
    event = KubernetesEvent(CREATED, "; ".join(filter(None, [f"{CREATED_MESSAGE}, {address}", version])))
    return Decision(tuple(effects), status, (event,) if is_new else (), message="ready")


def _has_other_ca(secret: Object, certificate: bytes) -> bool:
    """Returns whether the Secret has a CA, or several, but not the API server's; False for invalid PEM."""
    found = base64.b64decode(dig(secret, "data", {}).get("tls.crt", ""))
    if not found or certificate in found:
        return False
    from shared.certificates import fingerprints  # slow to import, and needed only if the bytes differ

    try:
        return not fingerprints(found) & fingerprints(certificate)
    except ValueError:
        return False  # the function `kubeconfig` reports it


def _other_owners(kind_cluster: Object, secret: Object) -> list[str]:
    """Returns the names of the KINDClusters that own a Secret in the place of this one."""
    if owned_by(secret, kind_cluster):
        return []
    return [owner["name"] for owner in owners(secret, KIND_CLUSTER.kind, KIND_CLUSTER.group)]


def _blocked(kind_cluster: Object, reason: str, message: str, effects: list[Effect], now: datetime) -> Decision:
    """Decides to report that the instance runs, but cannot be used until a Secret is changed."""
    before = get_condition(_current(kind_cluster), READY) or {}
    status: Object = {
        "ready": False,
        "phase": "Failed",
        "failureMessage": message,
        "conditions": _conditions(kind_cluster, now, "False", reason, message),
    }
    events = () if before.get("reason") == reason else (KubernetesEvent(reason, message, "Warning"),)
    return Decision(tuple(effects), status, events, requeue_after=BLOCKED_RETRY, message=message)


def _pending(
    kind_cluster: Object, effects: list[Effect], now: datetime, step: str = "", reason: str = CREATING
) -> Decision:
    """Decides to wait until the instance is ready; `step` says what it does or waits for now."""
    status: Object = {
        "ready": False,
        "phase": PROVISIONING,
        "failureMessage": None,
        "conditions": _conditions(kind_cluster, now, "False", reason, step),
    }
    return Decision(tuple(effects), status, requeue_after=STARTING_RETRY, message=step or "starting")


def _unowned(kind_cluster: Object, instance: Instance, now: datetime) -> Decision:
    """Decides to wait until the Cluster owns the KINDCluster, as infrastructure providers of Cluster API do.

    In the first `OWNER_RETRY` seconds of the KINDCluster nothing is written, because a write could conflict with the
    write of the owner reference. While the instance is ready, the status is kept.
    """
    since = created_at(kind_cluster) or now
    if instance.phase == "ready" or (now - since).total_seconds() < OWNER_RETRY:
        return Decision(requeue_after=OWNER_RETRY, message=UNOWNED)
    return replace(_pending(kind_cluster, [], now, UNOWNED, "WaitingForCluster"), requeue_after=OWNER_RETRY)


def _failed(kind_cluster: Object, instance: Instance, effects: list[Effect], now: datetime) -> Decision:
    """Decides to report a failed instance, and to try again after a while."""
    cause = instance.error or "the runtime gave no reason"
    message = f"{NOT_CREATED_MESSAGE}: {cause}"
    # The history decides whether the failure is new: phase and message of the status change with each attempt.
    last = _history(kind_cluster)[-1:]
    is_new = [(entry.get("message"), entry.get("reason")) for entry in last] != [(NOT_CREATED_MESSAGE, cause)]
    status: Object = {
        "ready": False,
        "phase": "Failed",
        "failureMessage": message,
        "conditions": _conditions(
            kind_cluster,
            now,
            "False",
            instance.reason or "CreationFailed",
            cause,
            entry=(NOT_CREATED, NOT_CREATED_MESSAGE, cause) if is_new else None,
        ),
    }
    event = KubernetesEvent(NOT_CREATED, message, "Warning")
    retry = instance.retry_after or (BLOCKED_RETRY if instance.reason == NOT_ALLOWED else FAILED_RETRY)
    return Decision(tuple(effects), status, (event,) if is_new else (), requeue_after=retry, message=message)


def _delete(observed: Observed, kind_cluster: Object, now: datetime) -> Decision:
    """Decides to delete the instance and the Secrets that the KINDCluster owns, and to remove the finalizer."""
    if not has_finalizer(kind_cluster, FINALIZER):
        return Decision()
    instance = observed.instance
    if instance.phase == "unknown":
        return _deleting(kind_cluster, now, instance.error, instance.reason)
    if instance.phase == "deleting":
        return _deleting(kind_cluster, now)
    effects: list[Effect] = [DeleteInstance(kind_cluster)]
    secrets = (observed.ca_secret, observed.config)
    effects += [Delete(SECRET, secret) for secret in secrets if secret and owned_by(secret, kind_cluster)]
    effects.append(RemoveFinalizer(KIND_CLUSTER, kind_cluster, FINALIZER))
    waiting = _deleting(kind_cluster, now)
    return Decision(tuple(effects), waiting.status, message="deleted")


def _deleting(kind_cluster: Object, now: datetime, error: str = "", reason: str = "") -> Decision:
    """Decides to wait for the deletion; `error` says why the last attempt failed, empty if it continues."""
    message = f"cannot delete: {error}" if error else "deleting"
    status: Object = {
        "ready": False,
        "phase": "Deleting",
        "failureMessage": message if error else None,
        "conditions": _conditions(kind_cluster, now, "False", reason if error and reason else "Deleting", error),
    }
    return Decision(status=status, requeue_after=FAILED_RETRY if error else STARTING_RETRY, message=message)


def _paused(kind_cluster: Object, now: datetime) -> Object:
    conditions = set_condition(_current(kind_cluster), PAUSED, "True", "Paused", now=now)
    return {"conditions": [*conditions, *_history(kind_cluster)]}


def _secret(kind_cluster: Object, name: str, data: dict[str, bytes]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": kind_cluster["metadata"]["namespace"],
            "ownerReferences": [owner_reference(kind_cluster)],
        },
        "data": {field: base64.b64encode(value).decode() for field, value in data.items()},
    }


def _conditions(
    kind_cluster: Object,
    now: datetime,
    ready: str,
    reason: str,
    message: str = "",
    *,
    entry: tuple[str, str, str] | None = None,
) -> list[Object]:
    """Returns `status.conditions`: Ready, Paused, and the history, to which `entry` is added if there is one.

    The oldest entries are dropped. `entry` has type, message and reason, as upstream writes them. The conditions have
    no `observedGeneration`: publishing the endpoint makes a new generation, and `kubectl wait` ignores conditions about
    an older generation.
    """
    state = set_condition(_current(kind_cluster), READY, ready, reason, truncate(message), now=now)
    state = set_condition(state, PAUSED, "False", "NotPaused", now=now)
    history = _history(kind_cluster)
    if entry is not None:
        type_, text, cause = entry
        new: Object = {"type": type_, "timestamp": rfc3339(now), "message": text, "reason": cause}
        history = [*history, _as_condition(new)]
    return [*state, *history[-MAX_HISTORY:]]


def _current(kind_cluster: Object) -> list[Object]:
    """Returns the conditions Ready and Paused, without the history."""
    return [entry for entry in dig(kind_cluster, "status.conditions", []) if entry.get("type") in (READY, PAUSED)]


def _history(kind_cluster: Object) -> list[Object]:
    """Returns the history in `status.conditions`: past events, each with the fields of a condition."""
    entries = dig(kind_cluster, "status.conditions", [])
    return [_as_condition(entry) for entry in entries if entry.get("type") not in (READY, PAUSED)]


def _as_condition(entry: Object) -> Object:
    """Adds the fields of a condition to an entry of the history.

    The status of all entries is True, since each stands for an event that did happen. So it does not matter which of
    several entries of one type a reader finds. The condition Ready has the current state.
    """
    type_ = CREATED if entry.get("message") == CREATED_MESSAGE else NOT_CREATED
    time = {"lastTransitionTime": entry["timestamp"]} if entry.get("timestamp") else {}
    return {"type": type_, "status": "True", **time, **entry}
