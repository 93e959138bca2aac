"""From a KINDCluster to a running API server with its CA, kubeconfig and endpoint published."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.api.cluster import CLUSTER_NAME_LABEL, PAUSED_ANNOTATION
from shared.api.resources import KIND_CLUSTER, SECRET
from shared.clients import Clients
from shared.effects import Create, Delete, Effect, Patch, RemoveFinalizer, Results, ensure_finalizer
from shared.kube import Object, deleting, dig, has_finalizer, owned_by, owner_reference
from shared.runtime import Decision, Notice

from .observe import Observed, cluster_name, config_name
from .runtime import Instance, Runtime, RuntimeProblem

FINALIZER = "kindclusters.infrastructure.cluster-k8s.io/cluster-finalizer"
HISTORY = 20
"""Entries of status.conditions that are kept; the field is a history, its name is upstream's."""

# Seconds until the next look.
STARTING_RETRY = 0.5
FAILED_RETRY = 10.0


@dataclass(frozen=True)
class Start:
    """Has the runtime create the instance; it goes on by itself after that."""

    runtime: Runtime
    uid: str
    authority: tuple[bytes, bytes] | None

    def execute(self, _clients: Clients) -> None:
        self.runtime.create(self.uid, self.authority)


@dataclass(frozen=True)
class Stop:
    runtime: Runtime
    uid: str

    def execute(self, _clients: Clients) -> None:
        self.runtime.delete(self.uid)


def decide(observed: Observed, now: datetime) -> Decision:
    kind_cluster = observed.kind_cluster
    if kind_cluster is None:
        return Decision()
    if deleting(kind_cluster):
        return _delete(observed, kind_cluster)
    if PAUSED_ANNOTATION in dig(kind_cluster, "metadata.annotations", {}):
        return Decision(message="paused")
    effects: list[Effect] = [*ensure_finalizer(KIND_CLUSTER, kind_cluster, FINALIZER)]
    if observed.runtime is None:
        return _failed(observed, effects, now)
    match observed.instance.phase:
        case "ready":
            return _ready(observed, kind_cluster, effects, now)
        case "starting":
            return Decision(tuple(effects), _pending("Provisioning"), requeue=STARTING_RETRY, message="starting")
        case "failed":
            effects.append(_start(observed, observed.runtime))
            return _failed(observed, effects, now)
        case _:
            effects.append(_start(observed, observed.runtime))
            return Decision(tuple(effects), _pending("Provisioning"), requeue=STARTING_RETRY, message="created")


def report(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision:
    """A runtime that refuses is a state of the object, with its reason, not an error of ours."""
    if isinstance(results.error, RuntimeProblem) and observed.kind_cluster is not None:
        problem, results.error = str(results.error), None
        failed = Observed(observed.kind_cluster, instance=Instance("failed", problem))
        return _failed(failed, list(decision.effects), now)
    return decision


def _start(observed: Observed, runtime: Runtime) -> Start:
    data = dig(observed.authority, "data", {})
    brought = None
    if data.get("tls.crt") and data.get("tls.key"):
        brought = (base64.b64decode(data["tls.crt"]), base64.b64decode(data["tls.key"]))
    return Start(runtime, (observed.kind_cluster or {})["metadata"]["uid"], brought)


def _ready(observed: Observed, kind_cluster: Object, effects: list[Effect], now: datetime) -> Decision:
    instance = observed.instance
    certificate, private = instance.authority
    name = cluster_name(kind_cluster)
    if observed.authority is None:
        secret = _secret(kind_cluster, f"{name}-ca", {"tls.crt": certificate, "tls.key": private})
        secret["metadata"]["labels"] = {CLUSTER_NAME_LABEL: name}
        secret["type"] = "cluster.x-k8s.io/secret"
        effects.append(Create(SECRET, secret))
    wanted = _secret(kind_cluster, config_name(kind_cluster), {"config": instance.kubeconfig})
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
    notices: tuple[Notice, ...] = ()
    if dig(kind_cluster, "status.ready") is not True:
        message = "Cluster was successfully created"
        status["conditions"] = _history(kind_cluster, message, "", now)
        notices = (Notice("ClusterCreated", f"{message}, API server at {instance.host}:{instance.port}"),)
    return Decision(tuple(effects), status, notices, message="ready")


def _failed(observed: Observed, effects: list[Effect], now: datetime) -> Decision:
    reason = observed.instance.error or "the runtime gave no reason"
    message = f"Cluster cannot be created: {reason}"
    status: Object = {"ready": False, "phase": "Failed", "failureMessage": message}
    notices: tuple[Notice, ...] = ()
    if dig(observed.kind_cluster, "status.failureMessage") != message:
        status["conditions"] = _history(observed.kind_cluster or {}, "Cluster cannot be created", reason, now)
        notices = (Notice("ClusterNotCreated", message, "Warning"),)
    return Decision(tuple(effects), status, notices, requeue=FAILED_RETRY, message=message)


def _delete(observed: Observed, kind_cluster: Object) -> Decision:
    if not has_finalizer(kind_cluster, FINALIZER):
        return Decision()
    if observed.runtime is None:
        message = f"cannot delete: {observed.instance.error}"
        return Decision(status={"failureMessage": message}, requeue=FAILED_RETRY, message=message)
    effects: list[Effect] = [Stop(observed.runtime, kind_cluster["metadata"]["uid"])]
    secrets = (observed.authority, observed.config)
    effects += [Delete(SECRET, secret) for secret in secrets if secret and owned_by(secret, kind_cluster)]
    effects.append(RemoveFinalizer(KIND_CLUSTER, kind_cluster, FINALIZER))
    return Decision(tuple(effects), {"phase": "Deleting"}, message="deleted")


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
    return {"ready": False, "phase": phase}


def _history(kind_cluster: Object, message: str, reason: str, now: datetime) -> list[Any]:
    entry = {"timestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ"), "message": message, "reason": reason}
    return [*dig(kind_cluster, "status.conditions", []), entry][-HISTORY:]
