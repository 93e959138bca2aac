"""An object that a function takes for reconciled asks for nothing: its decision on what it would read is empty.

The cases are generated: an object is reconciled in each world until it settles; then the object, but not the world, is
changed in every way in which it could be found after a lost write or a change by a user. What the status
records of other objects stays: their changes are events of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, cast

import pytest

from functions import catalog
from functions.cluster import decide as cluster_decide
from functions.cluster.observed import Observed as ObservedCluster
from functions.cluster.probe import Probe, due
from functions.cluster.recorded import recorded
from functions.cluster_stack import decide as cluster_stack_decide
from functions.cluster_stack.deletion import FINALIZER as STACK_FINALIZER
from functions.cluster_stack.observe import Observed as ObservedStack
from functions.cluster_stack.observe import SourceListing
from functions.cluster_stack.provider import CloneTemplate
from functions.cluster_stack.selection import select
from functions.cluster_stack.writes import Attempt
from functions.cluster_stack_release import decide as cluster_stack_release_decide
from functions.cluster_stack_release.observe import Assets
from functions.cluster_stack_release.observe import Observed as ObservedRelease
from functions.cluster_stack_release.rendering import RenderedClass
from functions.kind_cluster import decide as kind_cluster_decide
from functions.kind_cluster.observe import Observed as ObservedKindCluster
from functions.kind_cluster.runtime import Instance
from functions.kind_cluster.triggers import FINALIZER as KIND_FINALIZER
from functions.kubeconfig import decide as kubeconfig_decide
from functions.kubeconfig.decide import WriteKubeconfig
from functions.kubeconfig.existing import Existing
from functions.kubeconfig.observe import Observed as ObservedKubeconfig
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.conditions import remove_condition, rfc3339
from shared.api.core import core_state
from shared.api.resources import CLUSTER, CLUSTER_STACK, CLUSTER_STACK_RELEASE, CONFIG_MAP, KIND_CLUSTER, SECRET
from shared.applier.connection import ClusterConnection
from shared.applier.inventory import content_hash
from shared.applier.outcome import SyncOutcome
from shared.applier.sync import Sync
from shared.certificates import CertificateAuthority
from shared.clients import ClusterClients
from shared.effects import Patch
from shared.event import Event, change_event
from shared.kube import Object, Resource, dig
from shared.references import LookupResult
from shared.releases.naming import ReleaseName
from shared.releases.usage import FINALIZER as RELEASE_FINALIZER
from shared.runtime import Decision
from tests.support import objects
from tests.support.releases import config_map
from tests.support.results import results_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAME = {"name": "demo", "namespace": "ns"}


@dataclass(frozen=True)
class Case:
    """An object, an event about it or about an object beside it, and the decision on what would be read."""

    primary: Object
    event: Event
    decision: Decision


def merged(obj: Any, patch: Any) -> Any:
    """Returns the object after a merge patch."""
    if not isinstance(patch, dict):
        return patch
    base = dict(obj) if isinstance(obj, dict) else {}
    new = base | {name: merged(base.get(name), value) for name, value in patch.items()}
    return {name: value for name, value in new.items() if value is not None}


def events(resource: Resource, obj: Object) -> Iterator[Event]:
    yield change_event(obj, "add", source="/test")
    yield change_event(obj, "update", source="/test", reference=True)


_MIRRORED = {"failureDomains", "resources", "kubernetesVersion", "summary", "latestRelease", "usableVersions"}
"""Fields of a status that are copied from other objects."""


def changed(obj: Object) -> Iterator[Object]:
    """Yields the object as it is, and with one change each."""

    def patched(*patches: Object) -> Object:
        found = obj
        for patch in patches:
            found = merged(found, patch)
        return found

    new_generation: Object = {"metadata": {"generation": dig(obj, "metadata.generation", 1) + 1}}
    yield obj
    yield patched({"metadata": {"annotations": {"mine": "x"}, "labels": {"mine": "x"}}})
    yield patched({"metadata": {"annotations": {PAUSED_ANNOTATION: ""}}})
    yield patched({"metadata": {"finalizers": None}})
    yield patched({"metadata": {"deletionTimestamp": rfc3339(NOW)}})
    yield patched({"metadata": {"deletionTimestamp": rfc3339(NOW), "finalizers": ["other"]}})
    yield patched(new_generation)
    yield patched(new_generation, {"spec": {"paused": True}})
    yield patched({"status": None})
    conditions = dig(obj, "status.conditions", [])
    for field in set(obj.get("status") or {}) - _MIRRORED:
        yield patched({"status": {field: None}})
    for number, condition in enumerate(conditions):
        others = conditions[:number] + conditions[number + 1 :]
        yield patched({"status": {"conditions": others}})
        for status in {"True", "False", "Unknown"} - {condition["status"]}:
            if status != "True":  # a write that nobody made
                yield patched({"status": {"conditions": [*others, {**condition, "status": status}]}})
    foreign = {"type": "Foreign", "status": "False", "reason": "r", "lastTransitionTime": rfc3339(NOW)}
    yield patched({"status": {"conditions": [*conditions, foreign]}})


# -- cluster -------------------------------------------------------------------------------------------------------

LONG_AGO = rfc3339(NOW - timedelta(hours=1))


def cluster(spec: Object, **metadata: Any) -> Object:
    own = {**NAME, "uid": "u", "resourceVersion": "1", "generation": 1, "creationTimestamp": LONG_AGO, **metadata}
    return {"apiVersion": CLUSTER.api_version, "kind": CLUSTER.kind, "metadata": own, "spec": spec}


def referenced(kind: Resource, ready: str, status: Object, spec: Object | None = None, **metadata: Any) -> LookupResult:
    conditions = [{"type": type_, "status": ready, "reason": "R", "message": "m"} for type_ in ("Ready", "Available")]
    obj: Object = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {**NAME, "uid": kind.kind, "resourceVersion": "1", **metadata},
        "spec": spec or {},
        "status": {**status, **({"conditions": conditions} if ready else {})},
    }
    return LookupResult("present", kind.kind, obj, kind)


HOST: Object = {"controlPlaneEndpoint": {"host": "h", "port": 6443}}
DONE: Object = {"initialization": {"provisioned": True, "controlPlaneInitialized": True}}
DOMAINS: Object = {**DONE, "failureDomains": {"b": {"controlPlane": True}, "a": {}}}
FOREIGN = {"ownerReferences": [{"apiVersion": CLUSTER.api_version, "kind": "Cluster", "name": "other", "uid": "o"}]}


CONTROL_PLANE_KIND = Resource("g", "v1", "ControlPlane", "controlplanes")


def worlds(kind: Resource) -> Iterator[LookupResult]:
    yield LookupResult("absent", kind.kind)
    yield LookupResult("failed", kind.kind, error="HTTP 500")
    for ready, status, spec in product(("", "True", "False"), ({}, DOMAINS), ({}, HOST)):
        yield referenced(kind, ready, status, spec)
    yield referenced(kind, "True", DONE, HOST, **FOREIGN)
    yield referenced(kind, "True", DONE, HOST, deletionTimestamp=rfc3339(NOW))


def clusters() -> Iterator[tuple[Object, LookupResult, LookupResult]]:
    """Yields each Cluster with its infrastructure and control-plane object."""
    unreferenced = [LookupResult("unreferenced")]
    own_host: list[Object] = [{}, HOST]
    topologies: list[Object] = [{}, {"topology": {"classRef": {"name": "c"}}}]
    for topology, host, has_infrastructure, has_control_plane in product(
        topologies, own_host, (False, True), (False, True)
    ):
        spec = {**topology, **host}
        if has_infrastructure:
            spec["infrastructureRef"] = {"apiGroup": KIND_CLUSTER.group, "kind": KIND_CLUSTER.kind, "name": "demo"}
        if has_control_plane:
            spec["controlPlaneRef"] = {"apiGroup": "g", "kind": CONTROL_PLANE_KIND.kind, "name": "demo"}
        found = list(worlds(KIND_CLUSTER)) if has_infrastructure else unreferenced
        beside = list(worlds(CONTROL_PLANE_KIND)) if has_control_plane else unreferenced
        step = 4 if has_infrastructure and has_control_plane else 1
        for infrastructure, control_plane in product(found[::step], beside[::step]):
            yield cluster(spec), deepcopy(infrastructure), deepcopy(control_plane)


def read_cluster(obj: Object, infrastructure: LookupResult, control_plane: LookupResult) -> ObservedCluster:
    core = core_state(obj, NOW)
    if core in ("live", "late"):
        return ObservedCluster(obj, core=core)
    attempt = Probe("succeeded") if due(obj, NOW) == 0 else None
    return ObservedCluster(obj, infrastructure, control_plane, core=core, probe=attempt)


def settled_cluster(obj: Object, infrastructure: LookupResult, control_plane: LookupResult) -> Object:
    """Reconciles until nothing changes, as the API server and the runtime would store it."""
    references = [one for one in (infrastructure, control_plane) if one.object is not None]
    for _ in range(4):
        decision = cluster_decide.decide(read_cluster(obj, infrastructure, control_plane), NOW)
        generation = obj["metadata"]["generation"]
        for effect in decision.effects:
            assert isinstance(effect, Patch)
            if effect.resource == CLUSTER:
                obj = merged(obj, effect.patch)
                obj["metadata"]["generation"] += "spec" in effect.patch
            for one in references:
                if effect.obj is one.object:
                    (one.object or {}).update(merged(one.object, effect.patch))
        if obj["metadata"]["generation"] == generation:
            obj = merged(obj, {"status": decision.status})
    return obj


def unread(obj: Object, infrastructure: LookupResult, control_plane: LookupResult) -> Object:
    """Returns the Cluster after a reconciliation in which its Machines could not be listed."""
    observed = read_cluster(obj, infrastructure, control_plane)
    failed = replace(observed, descendants=None, failure="machinesets: HTTP 503")
    return dict(merged(obj, {"status": cluster_decide.decide(failed, NOW).status}))


def of_core(obj: Object, generation: int, by: str) -> Object:
    """Returns the Cluster with a condition that Cluster API core wrote at a generation."""
    entry = {"type": "Available", "status": "True", "observedGeneration": generation}
    others = remove_condition(dig(obj, "status.conditions"), "Available")
    found = merged(obj, {"status": {"conditions": [*others, entry]}})
    fields = [{"manager": "kubectl", "time": by, "fieldsV1": {"f:spec": {}}}, objects.written_by_core()]
    return dict(merged(found, {"metadata": {"managedFields": fields, "generation": 2}}))


def cluster_cases() -> Iterator[Case]:
    for number, (obj, infrastructure, control_plane) in enumerate(clusters()):
        settled = settled_cluster(obj, infrastructure, control_plane)
        variants = list(changed(settled))
        for found in (
            settled,
            *variants[number % 5 :: 5],
            unread(settled, infrastructure, control_plane),
            obj,
            of_core(settled, 2, LONG_AGO),
            of_core(settled, 1, LONG_AGO),
            of_core(settled, 1, rfc3339(NOW)),
        ):
            decision = cluster_decide.decide(read_cluster(found, infrastructure, control_plane), NOW)
            of_infrastructure = events(KIND_CLUSTER, infrastructure.object) if infrastructure.object else ()
            of_control_plane = events(CONTROL_PLANE_KIND, control_plane.object) if control_plane.object else ()
            other = merged(referenced(KIND_CLUSTER, "True", DONE).object, {"metadata": {"name": "other"}})
            of_objects = (*of_infrastructure, *of_control_plane, *events(KIND_CLUSTER, other))
            for event in (*events(CLUSTER, found), *of_objects):
                yield Case(found, event, decision)


# -- kubeconfig ----------------------------------------------------------------------------------------------------


def kubeconfig_cases() -> Iterator[Case]:
    server, later = "https://h:6443", NOW.replace(microsecond=0) + timedelta(days=300)
    authority = CertificateAuthority.generate("kubernetes")
    ours = Existing(True, server, later, authority.fingerprints)
    soon = NOW.replace(microsecond=0) + timedelta(days=9)
    token = Existing(False, server)
    status: Object = {"phase": "Provisioned", "observedGeneration": 1}
    controlled = {"controlPlaneRef": {"kind": "K", "name": "k"}}
    kinds = (
        None,
        ours,
        replace(ours, server="https://other:6443"),
        replace(ours, expires=soon),
        token,
        replace(token, expires=soon),
        replace(token, expires=NOW.replace(microsecond=0) - timedelta(days=1)),
        Existing(False, fault="Secret demo-kubeconfig cannot be used: no"),
    )
    for existing, ca, spec, phase in product(
        kinds,
        (None, "Secret demo-ca cannot be used: tls.key is missing", authority),
        ({}, HOST, {**HOST, **controlled}),
        ("Pending", "Provisioned"),
    ):
        obj = {**cluster(spec), "status": {**status, "phase": phase}}
        first = kubeconfig_decide.decide(ObservedKubeconfig(obj, existing, ca), NOW)
        written = [effect for effect in first.effects if isinstance(effect, WriteKubeconfig)]
        created = replace(ours, expires=written[0].until) if written else existing
        settled = merged(obj, {"status": first.status})
        secret = {"apiVersion": "v1", "kind": SECRET.kind, "metadata": {**NAME, "name": "demo-kubeconfig"}}
        for found in (*changed(settled), obj):
            # A Secret that is deleted or replaced is an event of its own.
            recorded = {"present": created, "deleted": None}
            for state, secret_now in recorded.items():
                decision = kubeconfig_decide.decide(ObservedKubeconfig(found, secret_now, ca), NOW)
                if state == "present":
                    for event in events(CLUSTER, found):
                        yield Case(found, event, decision)
                for event in events(SECRET, secret):
                    yield Case(found, event, decision)


# -- kind_cluster --------------------------------------------------------------------------------------------------


def kind_cluster_cases() -> Iterator[Case]:
    phases = ("absent", "starting", "ready", "failed", "unknown")
    for phase, finalizers in product(phases, ([], [KIND_FINALIZER])):
        found = referenced(KIND_CLUSTER, "", {}, {"clusterName": "dev"}, finalizers=finalizers).object or {}
        instance = Instance(phase, "no room", "h", 1, (b"c", b"k"), b"x")
        status = kind_cluster_decide.decide(ObservedKindCluster(found, instance), NOW).status
        for obj in changed(merged(found, {"status": status})):
            decision = kind_cluster_decide.decide(ObservedKindCluster(obj, instance), NOW)
            for event in (*events(KIND_CLUSTER, obj), *events(CLUSTER, cluster({}))):
                yield Case(obj, event, decision)


# -- cluster_stack -------------------------------------------------------------------------------------------------

TAG = "docker-ferrol-1-27-v1"
STACK: Object = {"provider": "docker", "name": "ferrol", "kubernetesVersion": "1.27"}
TEMPLATE = LookupResult("present", "ToyClusterStackReleaseTemplate", {"apiVersion": "g/v1", "spec": {"template": {}}})


def stack_worlds() -> Iterator[ObservedStack]:
    """Yields what is read about a ClusterStack, before its first reconciliation."""
    specs: list[Object] = [
        {"noProvider": True},
        {"noProvider": True, "autoSubscribe": False, "versions": ["v1"]},
        {"noProvider": True, "versions": ["v1", "what"]},
        {"providerRef": {"apiVersion": "g/v1", "kind": TEMPLATE.kind, "name": "t"}},
    ]
    listings = [
        SourceListing((TAG,)),
        SourceListing(failure="HTTP 503"),
        SourceListing(config_error="no such folder"),
        SourceListing(failure="HTTP 429", blocked_until=NOW + timedelta(minutes=10)),
    ]
    for spec, listing, state, template in product(
        specs, listings, ("", "ready", "pending"), (TEMPLATE, LookupResult("absent", TEMPLATE.kind))
    ):
        if spec.get("autoSubscribe") is False:
            listing = SourceListing()
        stack = referenced(CLUSTER_STACK, "", {}, STACK | spec, uid="s", generation=1, finalizers=[STACK_FINALIZER])
        owner = {"ownerReferences": [{"uid": "s"}], "name": TAG}
        release = referenced(CLUSTER_STACK_RELEASE, "", {"ready": state == "ready"}, **owner).object or {}
        owned = {TAG: state == "ready"} if state else {}
        selection = select(STACK | spec, owned, listing.names)
        yield ObservedStack(
            stack.object,
            (release,) if state else (),
            listing,
            selection,
            template=LookupResult("unreferenced") if spec.get("noProvider") else template,
        )


def decide_stack(observed: ObservedStack, stack: Object) -> Decision:
    """Decides without what is repeated whenever a stack is read: the poll, and unchanged objects for the provider."""
    decision = cluster_stack_decide.decide(replace(observed, stack=stack), NOW)
    cloned = [one for one in decision.effects if isinstance(one, Attempt) and isinstance(one.effect, CloneTemplate)]
    effects = [one for one in decision.effects if one not in cloned]
    later = None if decision.requeue_after == observed.poll else decision.requeue_after
    return replace(decision, effects=tuple(effects), requeue_after=later)


def cluster_stack_cases() -> Iterator[Case]:
    for observed in stack_worlds():
        stack = observed.stack or {}
        settled = merged(stack, {"status": decide_stack(observed, stack).status})
        for found in (*changed(settled), stack):
            paused = merged(found, {"status": decide_stack(observed, found).status})
            for obj in (found, paused):
                decision = decide_stack(observed, obj)
                for event in (*events(CLUSTER_STACK, obj), *events(CLUSTER, cluster({}))):
                    yield Case(obj, event, decision)


# -- cluster_stack_release -----------------------------------------------------------------------------------------


def release_decision(release: Object, rendered: RenderedClass) -> Decision:
    """Returns what is reported after the decision, without a sync that finds its objects as they are recorded."""
    served = {("v1", "ConfigMap"): CONFIG_MAP}
    assets, here = Assets("class.tgz", b"", "v1.27.3"), ClusterConnection(cast(ClusterClients, None), served)
    name = ReleaseName.parse(TAG)
    observed = ObservedRelease(release, name, assets, management=here, rendered=rendered)
    if dig(release, "metadata.deletionTimestamp"):
        observed = ObservedRelease(release, name, management=here)
    decision = cluster_stack_release_decide.decide(observed, NOW)
    syncs = [one for one in decision.effects if isinstance(one, Sync)]
    if syncs:
        steps = syncs[0].plan.steps
        entries = tuple(replace(one.entry, uid="c", hash=content_hash(one.obj), status="synced") for one in steps)
        results = results_of(decision, {Sync: SyncOutcome(entries)})
        decision = cluster_stack_release_decide.decide(observed, NOW, results)
    idle = [one for one in syncs if {step.action for step in one.plan.steps} <= {"verify"} and not one.plan.prune]
    return replace(decision, effects=tuple(one for one in decision.effects if one not in idle))


def cluster_stack_release_cases() -> Iterator[Case]:
    usable = RenderedClass((config_map("c", namespace="ns"),))
    fresh = referenced(CLUSTER_STACK_RELEASE, "", {}, finalizers=[RELEASE_FINALIZER]).object or {}
    fresh = merged(fresh, {"metadata": {"name": TAG}})
    for rendered in (usable, RenderedClass(problem="no objects"), RenderedClass(problem="Nothing", unknown_kinds=True)):
        settled = merged(fresh, {"status": release_decision(fresh, rendered).status})
        for found in (*changed(settled), fresh):
            for obj in (found, merged(found, {"status": release_decision(found, rendered).status})):
                decision = release_decision(obj, rendered)
                for event in (*events(CLUSTER_STACK_RELEASE, obj), *events(CLUSTER, cluster({}))):
                    yield Case(obj, event, decision)


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    "cluster": cluster_cases,
    "kubeconfig": kubeconfig_cases,
    "kind_cluster": kind_cluster_cases,
    "cluster_stack": cluster_stack_cases,
    "cluster_stack_release": cluster_stack_release_cases,
}


@pytest.mark.parametrize("name", CASES)
def test_reconciled_object_asks_for_nothing(name: str) -> None:
    is_reconciled = catalog.triggers()[name].is_reconciled
    assert is_reconciled is not None
    counts: Counter[bool] = Counter()
    for case in CASES[name]():
        found = is_reconciled(case.primary, case.event, NOW)
        counts[found] += 1
        if found:
            assert case.decision.asks_for_nothing(case.primary), f"{case.event}\n{case.primary}\n{case.decision}"
    assert min(counts[True], counts[False]) >= 4, "the cases are no test"


# -- settled objects cost no request -------------------------------------------------------------------------------

READY = referenced(KIND_CLUSTER, "", DOMAINS, HOST)
CONTROL_PLANE = referenced(CONTROL_PLANE_KIND, "True", DONE)
TO_KIND: Object = {"infrastructureRef": {"apiGroup": KIND_CLUSTER.group, "kind": KIND_CLUSTER.kind, "name": "demo"}}
TO_CONTROL_PLANE: Object = {"controlPlaneRef": {"apiGroup": "g", "kind": CONTROL_PLANE_KIND.kind, "name": "demo"}}
UNREFERENCED = LookupResult("unreferenced")


@pytest.mark.parametrize(
    ("obj", "infrastructure", "control_plane"),
    [
        pytest.param(cluster({}), UNREFERENCED, UNREFERENCED, id="without references"),
        pytest.param(cluster(HOST), UNREFERENCED, UNREFERENCED, id="with an endpoint of its own"),
        pytest.param(
            cluster({"topology": {"classRef": {"name": "c"}}}), UNREFERENCED, UNREFERENCED, id="no topology controller"
        ),
        pytest.param(cluster(TO_KIND), READY, UNREFERENCED, id="provisioned"),
        pytest.param(cluster(TO_KIND | TO_CONTROL_PLANE), READY, CONTROL_PLANE, id="with a control plane"),
        pytest.param(cluster(TO_KIND | {"paused": True}), READY, UNREFERENCED, id="paused"),
    ],
)
def test_settled_cluster_is_reconciled_at_no_request(
    obj: Object, infrastructure: LookupResult, control_plane: LookupResult
) -> None:
    settled = settled_cluster(obj, deepcopy(infrastructure), deepcopy(control_plane))
    is_reconciled = catalog.triggers()["cluster"].is_reconciled
    assert is_reconciled is not None
    assert is_reconciled(settled, change_event(settled, "update", source="/test"), NOW)
    assert not is_reconciled(obj, change_event(obj, "add", source="/test"), NOW)


@pytest.mark.parametrize("control_plane", [UNREFERENCED, CONTROL_PLANE])
def test_cluster_whose_machines_could_not_be_listed_is_read_again(control_plane: LookupResult) -> None:
    spec = TO_KIND | (TO_CONTROL_PLANE if control_plane.object else {})
    settled = settled_cluster(cluster(spec), deepcopy(READY), control_plane := deepcopy(control_plane))
    failed = unread(settled, READY, control_plane)
    event = change_event(failed, "update", source="/test")
    assert not catalog.triggers()["cluster"].is_reconciled_as_listed(failed, event, NOW)
    assert recorded(failed, event, "none") is None, "an attempt to connect alone is not enough"
