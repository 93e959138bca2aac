"""Decides about one KINDCluster: starts its API server, publishes CA, kubeconfig and endpoint, and deletes them."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import datetime

from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.conditions import rfc3339
from shared.api.names import requested_certificates
from shared.api.resources import KIND_CLUSTER, SECRET
from shared.clients import Clients
from shared.effects import Create, Delete, Effect, Patch, RemoveFinalizer, Results, ensure_finalizer
from shared.kube import Object, deleting, dig, has_finalizer, owned_by, owner_reference
from shared.runtime import Decision, KubernetesEvent

from .observe import PROVISIONING, Observed, cluster_name, config_secret_name, has_condition_fields, is_paused
from .runtime import Instance, RuntimeUnavailable, from_env
from .triggers import FINALIZER

HISTORY = 20
"""The number of entries kept in status.conditions, which upstream uses as a history."""

CREATED, NOT_CREATED = "ClusterCreated", "ClusterNotCreated"
CREATED_MESSAGE = "Cluster was successfully created"
NOT_CREATED_MESSAGE = "Cluster cannot be created"

# Seconds until the next reconciliation.
STARTING_RETRY = 0.5
FAILED_RETRY = 10.0


@dataclass(frozen=True)
class Start:
    """Effect: starts the creation of the instance, which continues in the background; `ca` is the user's own CA."""

    uid: str
    ca: tuple[bytes, bytes] | None = field(default=None, repr=False)

    def execute(self, _clients: Clients) -> None:
        from_env().create(self.uid, self.ca)


@dataclass(frozen=True)
class Stop:
    """Effect: deletes the instance."""

    uid: str

    def execute(self, _clients: Clients) -> None:
        from_env().delete(self.uid)


def decide(observed: Observed, now: datetime) -> Decision:
    """Decides by the phase of the instance: starts an absent or failed one, and publishes a ready one."""
    kind_cluster = observed.kind_cluster
    if kind_cluster is None:
        return Decision()
    if observed.published:
        retry = STARTING_RETRY if observed.instance.phase == "starting" else None
        return Decision(requeue_after=retry, message=observed.instance.phase)
    if is_paused(kind_cluster, observed.cluster):
        return Decision(message="paused")
    if deleting(kind_cluster):
        return _delete(observed, kind_cluster)
    if observed.cluster is not None and not owned_by(kind_cluster, observed.cluster):
        # As infrastructure providers of Cluster API do. Otherwise the adoption conflicts with the first writes here.
        return Decision(requeue_after=STARTING_RETRY, message="waiting until the Cluster owns it")
    effects: list[Effect] = [*ensure_finalizer(KIND_CLUSTER, kind_cluster, FINALIZER)]
    match observed.instance.phase:
        case "ready":
            return _ready(observed, kind_cluster, effects, now)
        case "starting":
            return Decision(tuple(effects), _pending(PROVISIONING), requeue_after=STARTING_RETRY, message="starting")
        case "unknown":
            return _failed(observed, effects, now)
        case "failed":
            return _failed(observed, [*effects, _start(observed, kind_cluster)], now)
        case "absent" if "ca" in requested_certificates(observed.cluster or {}) and observed.ca_secret is None:
            message = "waiting for the CA that the Cluster requests"
            return Decision(tuple(effects), requeue_after=STARTING_RETRY, message=message)
        case "absent":
            effects.append(_start(observed, kind_cluster))
            return Decision(tuple(effects), _pending(PROVISIONING), requeue_after=STARTING_RETRY, message="created")


def report_failure(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision | None:
    """Reports a failure of the runtime in the status of the KINDCluster, so that the event does not fail as well."""
    if observed.kind_cluster is None or not isinstance(results.error, RuntimeUnavailable):
        return None
    failed = Observed(observed.kind_cluster, Instance("failed", str(results.error)))
    return _failed(failed, list(decision.effects), now)


def _start(observed: Observed, kind_cluster: Object) -> Start:
    data = dig(observed.ca_secret, "data", {})
    user_ca = None
    if data.get("tls.crt") and data.get("tls.key"):
        user_ca = (base64.b64decode(data["tls.crt"]), base64.b64decode(data["tls.key"]))
    return Start(kind_cluster["metadata"]["uid"], user_ca)


def _ready(observed: Observed, kind_cluster: Object, effects: list[Effect], now: datetime) -> Decision:
    """Decides to publish a ready instance: CA and kubeconfig in Secrets, the endpoint in the spec."""
    instance = observed.instance
    certificate, private = instance.ca
    name = cluster_name(kind_cluster)
    if observed.ca_secret is None:
        secret = _secret(kind_cluster, f"{name}-ca", {"tls.crt": certificate, "tls.key": private})
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
    status: Object = {
        "ready": True,
        "phase": "Ready",
        "failureMessage": None,
        "initialization": {"provisioned": True},
    }
    kubernetes_events: tuple[KubernetesEvent, ...] = ()
    if dig(kind_cluster, "status.ready") is not True:
        status["conditions"] = _history(kind_cluster, CREATED, CREATED_MESSAGE, "", now)
        kubernetes_events = (
            KubernetesEvent(CREATED, f"{CREATED_MESSAGE}, API server at {instance.host}:{instance.port}"),
        )
    elif not has_condition_fields(kind_cluster):
        status["conditions"] = _with_condition_fields(kind_cluster)
    return Decision(tuple(effects), status, kubernetes_events, message="ready")


def _failed(observed: Observed, effects: list[Effect], now: datetime) -> Decision:
    """Decides to report a failed instance, and to try again after a while."""
    reason = observed.instance.error or "the runtime gave no reason"
    message = f"{NOT_CREATED_MESSAGE}: {reason}"
    status: Object = {"ready": False, "phase": "Failed", "failureMessage": message}
    kubernetes_events: tuple[KubernetesEvent, ...] = ()
    # The history decides whether the failure is new: phase and message of the status change with each attempt.
    last = dig(observed.kind_cluster, "status.conditions", [])[-1:]
    if [(entry.get("message"), entry.get("reason")) for entry in last] != [(NOT_CREATED_MESSAGE, reason)]:
        status["conditions"] = _history(observed.kind_cluster or {}, NOT_CREATED, NOT_CREATED_MESSAGE, reason, now)
        kubernetes_events = (KubernetesEvent(NOT_CREATED, message, "Warning"),)
    return Decision(tuple(effects), status, kubernetes_events, requeue_after=FAILED_RETRY, message=message)


def _delete(observed: Observed, kind_cluster: Object) -> Decision:
    """Decides to delete the instance and the Secrets that the KINDCluster owns, and to remove the finalizer."""
    if not has_finalizer(kind_cluster, FINALIZER):
        return Decision()
    if observed.instance.phase == "unknown":
        message = f"cannot delete: {observed.instance.error}"
        return Decision(status={"failureMessage": message}, requeue_after=FAILED_RETRY, message=message)
    effects: list[Effect] = [Stop(kind_cluster["metadata"]["uid"])]
    secrets = (observed.ca_secret, observed.config)
    effects += [Delete(SECRET, secret) for secret in secrets if secret and owned_by(secret, kind_cluster)]
    effects.append(RemoveFinalizer(KIND_CLUSTER, kind_cluster, FINALIZER))
    return Decision(tuple(effects), {"phase": "Deleting", "failureMessage": None}, message="deleted")


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


def _pending(phase: str) -> Object:
    return {"ready": False, "phase": phase, "failureMessage": None}


def _history(kind_cluster: Object, type_: str, message: str, reason: str, now: datetime) -> list[Object]:
    """Returns `status.conditions` with a new entry, without the oldest entries."""
    entry = {"type": type_, "timestamp": rfc3339(now), "message": message, "reason": reason}
    return [*_with_condition_fields(kind_cluster), _as_condition(entry)][-HISTORY:]


def _with_condition_fields(kind_cluster: Object) -> list[Object]:
    return [_as_condition(entry) for entry in dig(kind_cluster, "status.conditions", [])]


def _as_condition(entry: Object) -> Object:
    """Adds the fields of a condition to an entry of the history.

    The condition's status is True, since the event of each entry did happen; the current state is in `status.ready` and
    `status.phase`. All entries have the same status, so readers may take any entry of a type.
    """
    type_ = CREATED if entry.get("message") == CREATED_MESSAGE else NOT_CREATED
    time = {"lastTransitionTime": entry["timestamp"]} if entry.get("timestamp") else {}
    return {"type": type_, "status": "True", **time, **entry}
