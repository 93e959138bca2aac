"""Values of wrong types in answers of a hostile workload API server are errors of that server, not of the function."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from functions.addon_cleanup.observe import _read_leftovers
from functions.addon_cleanup.removal import RemoveLeftovers
from shared.addons.labelled import labelled_entries
from shared.addons.owner import OWNER
from shared.api.names import OWNED, OWNED_LABEL
from shared.api.resources import CONFIG_MAP, DEPLOYMENT
from shared.applier import prune
from shared.applier.connection import ConnectionFailed
from shared.applier.inventory import Plan, Step, content_hash, entry_of
from shared.applier.live import recheck_readiness
from shared.applier.outcome import SyncIncomplete
from shared.applier.policy import Policy
from shared.applier.sync import Sync
from shared.clients import Clients, ClusterClients
from shared.kube import ApiError, Object, Unavailable, connect
from shared.kube.crds import CRD
from tests.support.hostile import HostileServer, answering, kubeconfig, paths

WRONG = ("text", 5, [5], {"a": [5]}, [{"a": 5}])
DESIRED: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "n", "labels": {OWNED_LABEL: OWNED}},
    "spec": {"replicas": 1},
}
LIVE: Object = {
    **DESIRED,
    "metadata": {
        **DESIRED["metadata"],
        "uid": "u",
        "resourceVersion": "1",
        "generation": 2,
        "annotations": {"a": "b"},
        "finalizers": ["f"],
        "ownerReferences": [{"uid": "o"}],
        "managedFields": [{"manager": "m", "operation": "Apply"}],
    },
    "spec": {"replicas": 1, "updateStrategy": {"type": "x"}},
    "status": {
        "observedGeneration": 2,
        "replicas": 1,
        "updatedReplicas": 1,
        "availableReplicas": 1,
        "conditions": [{"type": "Progressing", "status": "True"}],
    },
}
DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com", "uid": "u", "resourceVersion": "1", "labels": {OWNED_LABEL: OWNED}},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [{"name": "v1", "served": True, "storage": True}],
    },
    "status": {"conditions": [{"type": "Established", "status": "True"}]},
}


def mutants(obj: Any) -> Iterator[Any]:
    """Yields copies of `obj`, each with one value dropped or replaced by one of a wrong type."""
    for name, value in list(obj.items()) if isinstance(obj, dict) else list(enumerate(obj)):
        without = copy.copy(obj)
        del without[name]
        yield without
        for wrong in (*WRONG, *(mutants(value) if isinstance(value, dict | list) else ())):
            with_wrong = copy.copy(obj)
            with_wrong[name] = wrong
            yield with_wrong


def survives(answers: Iterator[Object], work: Callable[[ClusterClients], object]) -> None:
    """Does the work against a server that gives each of the answers in turn."""
    with HostileServer(answering(b"")) as server:
        cluster = ClusterClients(connect.workload(kubeconfig(server.url)).once())
        for answer in answers:
            server.behaviour = answering(json.dumps(answer).encode())
            with suppress(ApiError, SyncIncomplete):
                work(cluster)
        assert len(server.seen) > 20


def sync(cluster: ClusterClients, plan: Plan, **policy: Any) -> None:
    resources = {("apps/v1", "Deployment"): DEPLOYMENT, (CRD.api_version, CRD.kind): CRD}
    Sync(cluster, plan, resources, Policy(OWNER, **policy)).execute(Clients())


@pytest.mark.parametrize("action", ["apply", "verify"])
def test_any_value_of_an_applied_object_can_be_wrong(action: Any) -> None:
    entry = replace(entry_of(DESIRED), uid="u", hash=content_hash(DESIRED))
    plan = Plan((Step(DESIRED, entry, action, new=action == "apply"),))
    survives(mutants(LIVE), lambda cluster: sync(cluster, plan, wait=True))


def test_object_without_uid_is_an_error_of_the_server() -> None:
    answer = {**LIVE, "metadata": {"name": "web"}}
    plan = Plan((Step(DESIRED, entry_of(DESIRED), "apply"),))
    with (
        HostileServer(answering(json.dumps(answer).encode())) as server,
        pytest.raises(SyncIncomplete, match="the response cannot be parsed: is this an API server"),
    ):
        sync(ClusterClients(connect.workload(kubeconfig(server.url))), plan)


def test_any_value_of_a_cause_of_a_conflict_can_be_wrong() -> None:
    causes = [{"reason": "FieldManagerConflict", "message": 'conflict with "x"', "field": ".metadata"}]
    status = {"kind": "Status", "code": 409, "reason": "Conflict", "details": {"causes": causes}}
    plan = Plan((Step(DESIRED, entry_of(DESIRED), "apply"),))
    with HostileServer(answering(b"")) as server:
        cluster = ClusterClients(connect.workload(kubeconfig(server.url)))
        for answer in (status, *mutants(status)):
            server.behaviour = answering(json.dumps(answer).encode(), "409 Conflict")
            with pytest.raises(SyncIncomplete):
                sync(cluster, plan, conflicts="yield")


def test_version_of_a_definition_that_is_no_number_is_an_error_of_the_server() -> None:
    crd = {**DEFINITION, "status": {}}
    changed = {"type": "MODIFIED", "object": {**crd, "metadata": {**crd["metadata"], "resourceVersion": "text"}}}
    plan = Plan((Step(crd, entry_of(crd), "apply"),))
    behaviour = paths(
        {CRD.path(): answering(json.dumps(changed).encode() + b"\n")}, answering(json.dumps(crd).encode())
    )
    with HostileServer(behaviour) as server, pytest.raises(SyncIncomplete, match="the response cannot be parsed"):
        sync(ClusterClients(connect.workload(kubeconfig(server.url))), plan)


def test_any_value_of_a_definition_that_is_pruned_can_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune, "_GONE_WITHIN", 0.0)
    plan = Plan((), prune=(replace(entry_of(DEFINITION), uid="u", hash="h"),))

    def work(cluster: ClusterClients) -> None:
        with suppress(Unavailable):
            cluster.discovery.served()
        sync(cluster, plan)

    page: Object = {"metadata": {"remainingItemCount": 1}, "items": [{"metadata": {"name": "a", "namespace": "n"}}]}
    kinds = [{"resource": CRD.plural, "responseKind": {"kind": CRD.kind}, "scope": "Cluster"}]
    groups = [{"metadata": {"name": CRD.group}, "versions": [{"version": "v1", "resources": kinds}]}]
    discovery = {"kind": "APIGroupDiscoveryList", "items": groups}

    right = {"crd": DEFINITION, "listed": page, "kinds": discovery}

    with HostileServer(answering(b"")) as server:
        for wrong in right:
            for answer in mutants(right[wrong]):
                now = {**right, wrong: answer}

                def behave(path: str, closing: Event, now: dict[str, Any] = now) -> Iterator[bytes]:
                    what = "listed" if path.endswith("/things") else "kinds" if path in ("/api", "/apis") else "crd"
                    return answering(json.dumps(now[what]).encode())(path, closing)

                server.behaviour = behave
                with suppress(SyncIncomplete):
                    work(ClusterClients(connect.workload(kubeconfig(server.url)).once()))


def test_any_value_of_an_object_that_is_looked_at_again_can_be_wrong() -> None:
    entry = replace(entry_of(DESIRED), waiting="is not ready")

    def work(cluster: ClusterClients) -> None:
        cluster.discovery._loaded = True
        cluster.discovery._add([DEPLOYMENT])
        recheck_readiness(cluster, entry)

    survives(mutants(LIVE), work)


def test_any_value_of_a_list_can_be_wrong() -> None:
    page = {"items": [LIVE]}
    survives(mutants(page), lambda cluster: labelled_entries(cluster, [CONFIG_MAP]))

    def clean_up(cluster: ClusterClients) -> None:
        found = _read_leftovers(cluster)
        if not isinstance(found, ConnectionFailed):
            RemoveLeftovers(cluster, found).execute(Clients())

    service = {**LIVE, "spec": {"type": "LoadBalancer", "persistentVolumeReclaimPolicy": "Delete", "claimRef": {}}}
    survives(mutants({**page, "items": [service]}), clean_up)
