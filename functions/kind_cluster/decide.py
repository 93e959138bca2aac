"""Decides about one KINDCluster: creates its instance, and publishes CA, kubeconfig and endpoint.

When the KINDCluster is deleted, the instance and the Secrets of the KINDCluster are deleted too.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from shared.api.cluster import CLUSTER_NAME_LABEL, created_at
from shared.api.conditions import READY, rfc3339
from shared.api.names import requested_certificates
from shared.api.resources import KIND_CLUSTER, SECRET
from shared.clients import Clients
from shared.effects import Create, Delete, Effect, Patch, RemoveFinalizer, Results, ensure_finalizer
from shared.kube import Object, deleting, dig, has_finalizer, key_of, owned_by, owner_reference, owners
from shared.runtime import Decision
from shared.runtime.status import PAUSED, StatusBuilder

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
"""The number of past events in `status.conditions`."""

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


@dataclass
class _Status(StatusBuilder[Literal["Ready", "Paused"]]):
    """Builds the conditions `Ready` and `Paused`, and after them past events, because upstream keeps a history there.

    The conditions have no `observedGeneration`: publishing the endpoint makes a new generation, and `kubectl wait`
    ignores conditions about an older generation.
    """

    history: list[Object] = field(default_factory=list, init=False)
    has_generation = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.conditions = [entry for entry in self.initial if entry.get("type") in (READY, PAUSED)]
        self.history = [_as_condition(entry) for entry in self.initial if entry.get("type") not in (READY, PAUSED)]

    def record(self, type_: str, message: str, cause: str = "") -> None:
        """Adds an event of now to the history, as upstream writes it, with the cause as its reason."""
        entry: Object = {"type": type_, "timestamp": rfc3339(self.now), "message": message, "reason": cause}
        self.history.append(_as_condition(entry))

    def summarized(self) -> list[Object]:
        """Returns the conditions and the latest past events."""
        return [*self.conditions, *self.history[-MAX_HISTORY:]]

    def report(
        self, phase: str, reason: str, text: str, *effects: Effect, failure: str | None = None, **arguments: Any
    ) -> Decision:
        """Returns the decision for an instance that is not ready; `arguments` are as for `decision`."""
        self.set_false(READY, reason, text)
        self.set(PAUSED, "False", "NotPaused")
        return self.decision(*effects, ready=False, phase=phase, failureMessage=failure, **arguments)


def decide(observed: Observed, now: datetime, results: Results | None = None) -> Decision:
    """Decides by the phase of the instance: starts an absent or failed one, and publishes a ready one.

    Reports in the status of the KINDCluster that the runtime has failed, or that a deletion continues.
    """
    error = results.error if results else None
    if isinstance(error, RuntimeUnavailable | StillDeleting):
        unknown = replace(observed, instance=Instance("unknown", str(error), reason=error.reason))
        return replace(decide(unknown, now), reports=error)
    kind_cluster, instance = observed.kind_cluster, observed.instance
    if kind_cluster is None:
        return Decision()
    if is_managed_elsewhere(kind_cluster):
        return Decision(message="managed by another program")
    if observed.served_elsewhere:
        return Decision(message="the functions of another installation reconcile this KINDCluster")
    if observed.published:
        retry = STARTING_RETRY if instance.phase == "starting" else None
        return Decision(requeue_after=retry, message=instance.phase)
    status = _Status(kind_cluster, now)
    if is_paused(kind_cluster, observed.cluster):
        status.set_true(PAUSED, "Paused")
        return status.decision(message="paused")
    if deleting(kind_cluster):
        return _delete(status, observed, kind_cluster)
    if observed.cluster is not None and not owned_by(kind_cluster, observed.cluster):
        return _unowned(status, instance)
    effects: list[Effect] = [*ensure_finalizer(KIND_CLUSTER, kind_cluster, FINALIZER)]
    match instance.phase:
        case "ready":
            return _ready(status, observed, kind_cluster, effects)
        case "starting" | "deleting":
            return _pending(status, effects, instance.step)
        case "unknown":
            return _failed(status, instance, [])
        case "failed":
            if not instance.retry_after:
                effects.append(_start(observed, kind_cluster))
            return _failed(status, instance, effects)
        case "absent" if "ca" in requested_certificates(observed.cluster or {}) and observed.ca_secret is None:
            return _pending(status, effects, "waiting for the CA that the Cluster requests")
        case "absent":
            start = _start(observed, kind_cluster)
            return _pending(status, [*effects, start], instance.error, instance.reason or CREATING)


def _start(observed: Observed, kind_cluster: Object) -> CreateInstance:
    data = dig(observed.ca_secret, "data", {})
    user_ca = None
    if data.get("tls.crt") and data.get("tls.key"):
        user_ca = (base64.b64decode(data["tls.crt"]), base64.b64decode(data["tls.key"]))
    return CreateInstance(kind_cluster, user_ca)


def _ready(status: _Status, observed: Observed, kind_cluster: Object, effects: list[Effect]) -> Decision:
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
        return _blocked(status, OTHER_CA, _OTHER_CA.format(f"{name}-ca"), effects)
    if observed.config and (others := _other_owners(kind_cluster, observed.config)):
        message = _SAME_NAME.format(key_of(observed.config).name, others[0])
        return _blocked(status, SECRET_TAKEN, message, effects)
    version = other_version(kind_cluster, instance)
    status.set_true(READY, "Provisioned", version)
    status.set(PAUSED, "False", "NotPaused")
    if dig(kind_cluster, "status.ready") is not True:
        status.record(CREATED, CREATED_MESSAGE)
        address = f"API server at {instance.host}:{instance.port}"
        status.add_event(CREATED, "; ".join(filter(None, [f"{CREATED_MESSAGE}, {address}", version])))
    fields: Object = {"phase": "Ready", "failureMessage": None, "initialization": {"provisioned": True}}
    return status.decision(*effects, message="ready", ready=True, **fields)


def _has_other_ca(secret: Object, certificate: bytes) -> bool:
    """Returns whether the Secret has CAs, but not the API server's CA; False for invalid PEM."""
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


def _blocked(status: _Status, reason: str, message: str, effects: list[Effect]) -> Decision:
    """Decides to report that the instance runs, but cannot be used until a Secret is changed."""
    status.set_false(READY, reason, message, event_type="Warning", progress=True)
    retry = BLOCKED_RETRY
    return status.report("Failed", reason, message, *effects, failure=message, requeue_after=retry, message=message)


def _pending(status: _Status, effects: list[Effect], step: str = "", reason: str = CREATING) -> Decision:
    """Decides to wait until the instance is ready; `step` says what it does or waits for now."""
    return status.report(PROVISIONING, reason, step, *effects, requeue_after=STARTING_RETRY, message=step or "starting")


def _unowned(status: _Status, instance: Instance) -> Decision:
    """Decides to wait until the Cluster owns the KINDCluster, as infrastructure providers of Cluster API do.

    In the first `OWNER_RETRY` seconds of the KINDCluster nothing is written, because a write could conflict with the
    write of the owner reference. While the instance is ready, the status is kept.
    """
    since = created_at(status.obj) or status.now
    if instance.phase == "ready" or (status.now - since).total_seconds() < OWNER_RETRY:
        return Decision(requeue_after=OWNER_RETRY, message=UNOWNED)
    return replace(_pending(status, [], UNOWNED, "WaitingForCluster"), requeue_after=OWNER_RETRY)


def _failed(status: _Status, instance: Instance, effects: list[Effect]) -> Decision:
    """Decides to report a failed instance, and to try again after a while."""
    cause = instance.error or "the runtime gave no reason"
    message = f"{NOT_CREATED_MESSAGE}: {cause}"
    # The history decides whether the failure is new: phase and message of the status change with each attempt.
    last = [(entry.get("message"), entry.get("reason")) for entry in status.history[-1:]]
    if last != [(NOT_CREATED_MESSAGE, cause)]:
        status.record(NOT_CREATED, NOT_CREATED_MESSAGE, cause)
        status.add_event(NOT_CREATED, message, "Warning")
    retry = instance.retry_after or (BLOCKED_RETRY if instance.reason == NOT_ALLOWED else FAILED_RETRY)
    reason = instance.reason or "CreationFailed"
    return status.report("Failed", reason, cause, *effects, failure=message, requeue_after=retry, message=message)


def _delete(status: _Status, observed: Observed, kind_cluster: Object) -> Decision:
    """Decides to delete the instance and the Secrets that the KINDCluster owns, and to remove the finalizer."""
    if not has_finalizer(kind_cluster, FINALIZER):
        return Decision()
    instance = observed.instance
    if instance.phase == "unknown":
        return _deleting(status, instance.error, instance.reason)
    if instance.phase == "deleting":
        return _deleting(status)
    effects: list[Effect] = [DeleteInstance(kind_cluster)]
    secrets = (observed.ca_secret, observed.config)
    effects += [Delete(SECRET, secret) for secret in secrets if secret and owned_by(secret, kind_cluster)]
    effects.append(RemoveFinalizer(KIND_CLUSTER, kind_cluster, FINALIZER))
    return replace(_deleting(status), effects=tuple(effects), requeue_after=None, message="deleted")


def _deleting(status: _Status, error: str = "", reason: str = "") -> Decision:
    """Decides to wait for the deletion; `error` says why the last attempt failed, empty if it continues."""
    message = f"cannot delete: {error}" if error else "deleting"
    return status.report(
        "Deleting",
        reason if error and reason else "Deleting",
        error,
        failure=message if error else None,
        requeue_after=FAILED_RETRY if error else STARTING_RETRY,
        message=message,
    )


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


def _as_condition(entry: Object) -> Object:
    """Adds the fields of a condition to an entry of the history.

    The status of all entries is True, because each stands for an event that happened. So a reader may find any entry of
    a type. The condition Ready has the current state.
    """
    type_ = CREATED if entry.get("message") == CREATED_MESSAGE else NOT_CREATED
    time = {"lastTransitionTime": entry["timestamp"]} if entry.get("timestamp") else {}
    return {"type": type_, "status": "True", **time, **entry}
