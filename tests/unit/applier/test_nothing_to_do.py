"""What an object and an event alone show: whether the function has anything to do about it.

Here a person wrote the cases; `test_reconciled.py` generates more. Providers have a table of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.addon_apply.triggers import TRIGGERS as ADDON_APPLY
from functions.addon_cleanup.triggers import TRIGGERS as ADDON_CLEANUP
from functions.addon_create.triggers import TRIGGERS as ADDON_CREATE
from functions.cluster.decide import decide
from functions.cluster.observed import Observed
from functions.cluster.status import FINALIZER as CLUSTER_FINALIZER
from functions.cluster.triggers import TRIGGERS as OF_CLUSTER
from functions.cluster_stack.conditions import AVAILABLE, CLIENT, PROVIDER, RELEASES, SYNCED
from functions.cluster_stack.deletion import FINALIZER
from functions.cluster_stack.triggers import TRIGGERS as CLUSTER_STACKS
from functions.kind_cluster.triggers import FINALIZER as KIND_FINALIZER
from functions.kind_cluster.triggers import TRIGGERS as KIND_CLUSTERS
from functions.kubeconfig.decide import decide as decide_kubeconfig
from functions.kubeconfig.existing import Existing
from functions.kubeconfig.observe import Observed as ObservedKubeconfig
from functions.kubeconfig.triggers import TRIGGERS as KUBECONFIG
from shared.api.conditions import remove_condition
from shared.api.names import ADDON_FINALIZER
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE, KIND_CLUSTER, SECRET
from shared.event import Change, Event, change_event, own_event
from shared.kube import Object, Resource
from shared.references import LookupResult
from shared.triggers import Triggers
from tests.support import objects
from tests.support.addon_cases import TAG

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
PAUSED = {"annotations": {"cluster.x-k8s.io/paused": ""}}


def obj(resource: Resource, metadata: Object | None = None, **fields: Any) -> Object:
    about = {"namespace": "ns", "name": "demo", "uid": "u", "generation": 1}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {**about, **(metadata or {})},
        "spec": {},
        **fields,
    }


def about(changed: Object, change: Change = "update", *, reference: bool = False) -> Event:
    return change_event(changed, change, source="/test", reference=reference)


def conditions(**statuses: str) -> list[Object]:
    return [{"type": type_, "status": status, "reason": "x"} for type_, status in statuses.items()]


def judged(triggers: Triggers, primary: Object, event: Event | None = None) -> bool:
    assert triggers.is_reconciled is not None
    return triggers.is_reconciled(primary, event or about(primary), NOW)


# -- addon_apply -------------------------------------------------------------------------------------------------

CLASS = TAG
APPLIED = {"HelmChartApplied": "True", "ClusterReady": "True", "Ready": "True"}


def addon(
    metadata: Object | None = None, spec: Object | None = None, known: Mapping[str, str] | None = None, **status: Any
) -> Object:
    """Returns an addon that is applied for its Cluster, after a change."""
    return obj(
        CLUSTER_ADDON,
        {"name": "cluster-addon-demo", "finalizers": [ADDON_FINALIZER], **(metadata or {})},
        spec={"clusterStack": CLASS, "clusterRef": {"name": "demo", "uid": "u"}, **(spec or {})},
        status={"ready": True, "release": TAG, "conditions": conditions(**APPLIED, **(known or {})), **status},
    )


def cluster(metadata: Object | None = None, class_name: str = CLASS, **spec: Any) -> Object:
    return obj(CLUSTER, metadata, spec={"topology": {"classRef": {"name": class_name}}, **spec})


def annotated(name: str, value: str) -> Object:
    return {"annotations": {f"capi-functions.dev/{name}": value}}


BACK = annotated("rollback-from", TAG)
OTHER = annotated("rollback-from", "other")
ROLLED_BACK = [{"type": "HelmChartApplied", "status": "False", "reason": "RolledBack"}]
SECRET_OF_DEMO = obj(SECRET, {"name": "demo-kubeconfig"})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(addon(), True, id="applied"),
        pytest.param(addon(ready=False), False, id="not ready"),
        pytest.param(addon(ready="true"), False, id="ready of the wrong type"),
        pytest.param(addon(conditions=conditions(Ready="False")), False, id="condition not ready"),
        pytest.param(addon(spec={"clusterStack": ""}), False, id="no class applied"),
        pytest.param(addon(spec={"hook": "BeforeClusterDelete"}), False, id="a hook in progress"),
        pytest.param(addon({"finalizers": []}), False, id="no finalizer"),
        pytest.param(addon(GOING), False, id="being deleted"),
        pytest.param(addon(GOING | {"finalizers": ["other"]}), True, id="deleted, left to others"),
        pytest.param(addon(BACK), False, id="rollback requested"),
        pytest.param(addon(BACK, ready=False, conditions=ROLLED_BACK), True, id="rolled back"),
        pytest.param(
            addon(annotated("rollback-from", "other"), ready=False, conditions=ROLLED_BACK), False, id="rollback ended"
        ),
        pytest.param(addon(OTHER), True, id="rollback from another class"),
        pytest.param(addon(annotated("drift", "report")), True, id="valid policy"),
        pytest.param(addon(annotated("drift", "what?")), False, id="invalid policy"),
    ],
)
def test_addon_shows_that_it_is_applied(found: Object, expected: bool) -> None:
    fetched = own_event("release.fetched", source="/test", subject=TAG, about=found, data={"release": TAG})
    assert [judged(ADDON_APPLY, found), judged(ADDON_APPLY, found, fetched)] == [expected, expected]


@pytest.mark.parametrize(
    ("found", "event", "expected"),
    [
        pytest.param(addon(), about(cluster()), True, id="its class"),
        pytest.param(addon(), about(cluster(class_name="docker-ferrol-1-27-v3")), False, id="another class"),
        pytest.param(addon(ready=False), about(cluster()), False, id="not ready"),
        pytest.param(addon(), about(cluster(PAUSED)), False, id="paused"),
        pytest.param(addon(), about(cluster(), "delete"), False, id="deleted"),
        pytest.param(addon(), about(cluster(), reference=True), False, id="a bare reference"),
        pytest.param(addon(), about(cluster({"uid": "new"})), False, id="a new Cluster of its name"),
        pytest.param(addon(), about(cluster(annotated("drift", "what?"))), False, id="invalid policy on the Cluster"),
        pytest.param(addon(annotated("drift", "what?")), about(cluster()), False, id="invalid policy on the addon"),
        pytest.param(addon(), about(SECRET_OF_DEMO, reference=True), False, id="another kubeconfig"),
    ],
)
def test_addon_is_applied_for_the_cluster_of_the_event(found: Object, event: Event, expected: bool) -> None:
    assert judged(ADDON_APPLY, found, event) is expected


# -- addon_cleanup, addon_create ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [({}, True), ({"hook": "AfterControlPlaneInitialized"}, True), ({"hook": "BeforeClusterDelete"}, False)],
    ids=["no hook", "another hook", "the hook of a deletion"],
)
def test_addon_needs_a_cleanup_while_a_hook_requests_it(spec: Object, expected: bool) -> None:
    assert judged(ADDON_CLEANUP, addon(spec=spec)) is expected


def test_addon_that_exists_is_created() -> None:
    assert judged(ADDON_CREATE, addon(ready=False), about(cluster())) is True


# -- cluster -----------------------------------------------------------------------------------------------------

HOST = {"host": "h", "port": 6443}
REFERENCE = {"apiGroup": KIND_CLUSTER.group, "kind": KIND_CLUSTER.kind, "name": "demo"}
OWNED = {
    "ownerReferences": [{"apiVersion": CLUSTER.api_version, "kind": "Cluster", "name": "demo", "uid": "u"}],
    "labels": {"cluster.x-k8s.io/cluster-name": "demo"},
}


def infra(metadata: Object | None = None, ready: bool = True, **spec: Any) -> Object:
    status = {"ready": ready, "conditions": conditions(Ready="True" if ready else "False")}
    return obj(KIND_CLUSTER, {**OWNED, **(metadata or {})}, spec={"controlPlaneEndpoint": HOST, **spec}, status=status)


def provisioned(metadata: Object | None = None, *, core: int = 0, **spec: Any) -> Object:
    """Returns a Cluster whose status tells of its ready infrastructure; `core`: the generation that core observed."""
    found = obj(
        CLUSTER,
        {"finalizers": [CLUSTER_FINALIZER]},
        spec={"infrastructureRef": REFERENCE, "controlPlaneEndpoint": HOST},
    )
    lookup = LookupResult("present", KIND_CLUSTER.kind, infra(), KIND_CLUSTER)
    reported = decide(Observed(found, infrastructure=lookup), NOW).status or {}
    found["status"] = {name: value for name, value in reported.items() if value is not None}
    if core:
        others = remove_condition(found["status"]["conditions"], "Available")
        entry = {"type": "Available", "status": "True", "observedGeneration": core}
        found["status"]["conditions"] = [*others, entry]
        found["metadata"]["managedFields"] = [objects.written_by_core()]
    return {**found, "metadata": {**found["metadata"], **(metadata or {})}, "spec": {**found["spec"], **spec}}


@pytest.mark.parametrize(
    ("found", "event", "expected"),
    [
        pytest.param(provisioned(), about(infra()), True, id="nothing new"),
        pytest.param(provisioned(), about(infra({"resourceVersion": "9"})), True, id="a field that does not matter"),
        pytest.param(provisioned(), about(infra(ready=False)), False, id="not ready any more"),
        pytest.param(provisioned(), about(infra({"ownerReferences": []})), False, id="no owner any more"),
        pytest.param(provisioned(), about(infra(), "delete"), False, id="deleted"),
        pytest.param(provisioned(), about(infra(), reference=True), False, id="a bare reference"),
        pytest.param(provisioned(GOING), about(infra()), False, id="the Cluster is being deleted"),
        pytest.param(provisioned({"finalizers": []}), about(infra()), False, id="the finalizer is missing"),
        pytest.param(provisioned(), about(infra({"name": "other"}, ready=False)), True, id="of another Cluster"),
        pytest.param(
            provisioned(infrastructureRef={**REFERENCE, "kind": "Other"}),
            about(infra(ready=False)),
            True,
            id="not the one that it refers to",
        ),
        pytest.param(
            provisioned(controlPlaneRef={"apiGroup": "g", "kind": "K", "name": "k"}),
            about(infra()),
            False,
            id="with a control-plane object, which is to be read",
        ),
        pytest.param(provisioned(infrastructureRef=None), about(infra()), False, id="not referred to any more"),
        pytest.param({**provisioned(), "status": None}, about(infra()), False, id="without status"),
        pytest.param(
            provisioned(controlPlaneEndpoint=None), about(infra()), False, id="the endpoint is not in the spec yet"
        ),
        pytest.param(provisioned(core=1), about(infra(ready=False)), True, id="Cluster API core manages it"),
        pytest.param(
            provisioned({"generation": 2}, core=1), about(infra(ready=False)), False, id="core has missed a change"
        ),
    ],
)
def test_cluster_shows_what_an_infrastructure_object_tells(found: Object, event: Event, expected: bool) -> None:
    assert judged(OF_CLUSTER, found, event) is expected


def unpaused() -> Object:
    """Returns a provisioned Cluster that was paused, so that its status still says so."""
    found = provisioned()
    for entry in found["status"]["conditions"]:
        entry["status"] = "True" if entry["type"] == "Paused" else entry["status"]
    return found


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(provisioned(), True, id="provisioned"),
        pytest.param(provisioned({"generation": 2}), False, id="another generation"),
        pytest.param(provisioned(PAUSED), False, id="paused since"),
        pytest.param(provisioned(GOING), False, id="being deleted"),
        pytest.param(provisioned({"finalizers": []}), False, id="the finalizer is missing"),
        pytest.param(unpaused(), False, id="its pause is still reported"),
        pytest.param(provisioned(GOING, core=1), False, id="deletion beside Cluster API core"),
        pytest.param(provisioned({"finalizers": []}, core=1), True, id="Cluster API core manages it"),
    ],
)
def test_cluster_shows_that_it_is_provisioned(found: Object, expected: bool) -> None:
    assert judged(OF_CLUSTER, found) is expected


# -- cluster_stack, kind_cluster, kubeconfig ---------------------------------------------------------------------

WELL: list[Object] = [
    {"type": type_, "status": "True", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for type_ in ("Ready", CLIENT, SYNCED, PROVIDER, RELEASES, AVAILABLE)
]
STACK = obj(CLUSTER_STACK, {"finalizers": [FINALIZER]}, status={"conditions": WELL, "observedGeneration": 1})
CHANGED = obj(CLUSTER_STACK, {"finalizers": [FINALIZER], "generation": 2}, status=STACK["status"])
UNREADY = obj(CLUSTER_STACK, {"finalizers": [FINALIZER]}, status={"conditions": conditions(Ready="False")})


@pytest.mark.parametrize(
    ("stack", "event", "expected"),
    [
        (STACK, about(STACK, "add"), True),
        (STACK, about(STACK), False),
        (CHANGED, about(CHANGED, "add"), False),
        (UNREADY, about(UNREADY, "add"), False),
        (STACK, about(obj(CLUSTER_STACK_RELEASE), "add"), False),
    ],
    ids=["a start", "its source may have new releases", "changed while nobody watched", "not ready", "another release"],
)
def test_ready_cluster_stack_has_nothing_to_do_at_a_start(stack: Object, event: Event, expected: bool) -> None:
    assert judged(CLUSTER_STACKS, stack, event) is expected


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [({"finalizers": [KIND_FINALIZER]}, False), ({**GOING, "finalizers": [KIND_FINALIZER]}, False), (GOING, True)],
    ids=["only the runtime knows", "being deleted", "deleted"],
)
def test_kind_cluster_has_nothing_to_do_once_its_instance_is_deleted(metadata: Object, expected: bool) -> None:
    assert judged(KIND_CLUSTERS, obj(KIND_CLUSTER, metadata, status={"ready": True})) is expected


def with_kubeconfig(status: str = "True", metadata: Object | None = None, **spec: Any) -> Object:
    """Returns a Cluster after its kubeconfig was created, but for the status of the condition, and a change."""
    found = obj(CLUSTER, spec={"controlPlaneEndpoint": HOST}, status={"phase": "Provisioned"})
    existing = Existing(True, "https://h:6443", datetime(2027, 1, 1, tzinfo=UTC))
    reported = decide_kubeconfig(ObservedKubeconfig(found, existing), NOW).status or {}
    recorded = [{**entry, "status": status} for entry in reported["conditions"]]
    return {
        **found,
        "metadata": {**found["metadata"], **(metadata or {})},
        "spec": {**found["spec"], **spec},
        "status": {"phase": "Provisioned", "conditions": recorded},
    }


@pytest.mark.parametrize(
    ("found", "event", "expected"),
    [
        (with_kubeconfig(), None, True),
        (with_kubeconfig("False"), None, False),
        (with_kubeconfig("False", controlPlaneEndpoint=None), None, True),
        (with_kubeconfig(), about(SECRET_OF_DEMO, "delete"), False),
        (with_kubeconfig(), about(with_kubeconfig(), reference=True), False),
        (with_kubeconfig("False", PAUSED), about(SECRET_OF_DEMO, "delete"), True),
        (with_kubeconfig("False", GOING), about(SECRET_OF_DEMO, "delete"), True),
    ],
    ids=["it exists", "it does not", "no endpoint", "deleted Secret", "a bare reference", "paused", "being deleted"],
)
def test_cluster_shows_that_its_kubeconfig_exists(found: Object, event: Event | None, expected: bool) -> None:
    assert judged(KUBECONFIG, found, event) is expected
