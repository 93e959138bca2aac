"""A KINDCluster's status shows its current state; its history keeps past events."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.kind_cluster.decide import CreateInstance, DeleteInstance, decide
from functions.kind_cluster.observe import Observed, cluster_name, config_secret_name, is_published
from functions.kind_cluster.runtime import Instance, RuntimeUnavailable, StillDeleting
from functions.kind_cluster.triggers import FINALIZER
from shared.api.names import CERTIFICATES_ANNOTATION
from shared.api.resources import KIND_CLUSTER
from shared.certificates import CertificateAuthority
from shared.effects import Create, Delete, Patch, RemoveFinalizer, Results, would_change
from shared.kube import Object, dig, owner_reference

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAILED = Instance("failed", "no room")
STATES = ("Ready", "Paused")
TRUE = {"type": "Ready", "status": "True", "reason": "Provisioned", "message": ""}
NOT_PAUSED = {"type": "Paused", "status": "False", "reason": "NotPaused", "message": ""}


def kind_cluster() -> Object:
    metadata = {"name": "demo", "namespace": "default", "uid": "u", "resourceVersion": "1", "finalizers": [FINALIZER]}
    return {"apiVersion": "g/v1", "kind": "KINDCluster", "metadata": metadata, "spec": {"clusterName": "dev"}}


def history(status: Object | None) -> list[Object]:
    """Returns the past events among the conditions of a status."""
    return [entry for entry in (status or {})["conditions"] if entry.get("type") not in STATES]


def state(status: Object | None, type_: str = "Ready") -> tuple[str, str, str]:
    """Returns status, reason and message of a condition."""
    [found] = [entry for entry in (status or {})["conditions"] if entry.get("type") == type_]
    return found["status"], found["reason"], found["message"]


def turn(obj: Object, instance: Instance, minute: int = 0) -> list[str]:
    """Decides once and stores the status. Returns the reasons of the events."""
    decision = decide(Observed(obj, instance), NOW + timedelta(minutes=minute))
    merged = {**obj.get("status", {}), **(decision.status or {})}
    obj["status"] = {name: value for name, value in merged.items() if value is not None}
    return [event.reason for event in decision.kubernetes_events]


@pytest.mark.parametrize("then", [Instance("absent"), Instance("starting"), Instance("ready", host="h", port=1)])
def test_failure_message_is_removed_after_recovery(then: Instance) -> None:
    obj = kind_cluster()
    turn(obj, FAILED)
    assert "no room" in obj["status"]["failureMessage"]
    turn(obj, then)
    assert "failureMessage" not in obj["status"]
    assert history(obj["status"])[0]["reason"] == "no room"


@pytest.mark.parametrize(
    ("phase", "going", "effects"),
    [
        ("absent", False, [CreateInstance]),
        ("starting", False, []),
        ("failed", False, [CreateInstance]),
        ("deleting", False, []),
        ("unknown", False, []),
        ("absent", True, [DeleteInstance, RemoveFinalizer]),
        ("failed", True, [DeleteInstance, RemoveFinalizer]),
        ("deleting", True, []),
        ("unknown", True, []),
    ],
)
def test_runtime_is_called_by_effects_where_it_can_be_used(phase: Any, going: bool, effects: list[Any]) -> None:
    obj = kind_cluster()
    obj["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}
    found = decide(Observed(obj, Instance(phase, "no room")), NOW).effects
    assert [type(one) for one in found] == effects


def test_instance_is_started_once_the_cluster_owns_it() -> None:
    obj = kind_cluster()
    owner: Object = {"metadata": {"name": "demo", "namespace": "default", "uid": "c"}}
    obj["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    waiting = decide(Observed(obj, Instance("absent"), cluster=owner), NOW)
    assert (waiting.effects, waiting.status, waiting.requeue_after) == ((), None, 10.0)
    late = decide(Observed(obj, Instance("absent"), cluster=owner), NOW + timedelta(seconds=10))
    assert (late.effects, late.requeue_after) == ((), 10.0)
    assert state(late.status) == ("False", "WaitingForCluster", "waiting until the Cluster owns the KINDCluster")
    running = decide(Observed(obj, READY, cluster=owner), NOW + timedelta(seconds=10))
    assert (running.status, running.requeue_after) == (None, 10.0)
    obj["metadata"]["ownerReferences"] = [{"uid": "c"}]
    assert decide(Observed(obj, Instance("absent"), cluster=owner), NOW).effects == (CreateInstance(obj),)


@pytest.mark.parametrize(("requested", "waits"), [("", True), ("ca", True), ("sa", False)])
def test_instance_is_started_with_the_ca_that_the_cluster_requests(requested: str, waits: bool) -> None:
    obj, ca = kind_cluster(), {"data": {"tls.crt": "Y2VydGlmaWNhdGU=", "tls.key": "a2V5"}}
    obj["metadata"]["ownerReferences"] = [{"uid": "c"}]
    owner: Object = {"metadata": {"uid": "c", "annotations": {CERTIFICATES_ANNOTATION: requested}}}
    waiting = decide(Observed(obj, Instance("absent"), cluster=owner), NOW)
    assert (waiting.effects == ()) is waits
    assert waiting.requeue_after == 0.5
    given = decide(Observed(obj, Instance("absent"), ca, cluster=owner), NOW)
    assert given.effects == (CreateInstance(obj, (b"certificate", b"key")),)


def test_failure_message_is_removed_on_deletion() -> None:
    obj = kind_cluster()
    turn(obj, FAILED)
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    turn(obj, Instance("absent"))
    assert (obj["status"]["phase"], "failureMessage" in obj["status"]) == ("Deleting", False)


def test_repeated_failure_adds_one_entry_and_one_event() -> None:
    obj = kind_cluster()
    reasons = [
        reason for minute in range(4) for reason in turn(obj, FAILED if minute % 2 else Instance("starting"), minute)
    ]
    assert reasons == ["ClusterNotCreated"]
    assert [entry["timestamp"] for entry in history(obj["status"])] == ["2026-01-01T00:01:00Z"]


def test_failure_after_success_adds_another_entry_and_event() -> None:
    obj = kind_cluster()
    instances = (FAILED, Instance("ready", host="h", port=1), FAILED)
    reasons = [reason for minute, instance in enumerate(instances) for reason in turn(obj, instance, minute)]
    assert reasons == ["ClusterNotCreated", "ClusterCreated", "ClusterNotCreated"]
    assert len(history(obj["status"])) == 3


@pytest.mark.parametrize("instance", [FAILED, Instance("starting"), Instance("ready", host="h", port=1)])
def test_conditions_hold_for_the_spec_that_the_function_itself_changes(instance: Instance) -> None:
    """`kubectl wait` ignores a condition of an older generation, and publishing the endpoint makes a newer one."""
    obj = kind_cluster()
    obj["metadata"]["generation"] = 1
    turn(obj, instance)
    assert not [entry for entry in obj["status"]["conditions"] if "observedGeneration" in entry]


def test_reconciling_an_unchanged_failure_changes_nothing() -> None:
    obj = kind_cluster()
    turn(obj, FAILED)
    again = decide(Observed(obj, FAILED), NOW + timedelta(hours=1))
    assert not would_change(dig(obj, "status"), again.status)


# -- publishing --------------------------------------------------------------------------------------------------

READY = Instance("ready", host="h", port=6443, ca=(b"certificate", b"key"), kubeconfig=b"kubeconfig")
ENDPOINT = {"host": "h", "port": 6443}
PUBLISHED = {"ready": True, "phase": "Ready", "failureMessage": None, "initialization": {"provisioned": True}}
MADE = {"timestamp": "2025-01-01T00:00:00Z", "message": "Cluster was successfully created", "reason": ""}
SHOWN = {"type": "ClusterCreated", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z", **MADE}


def changed(metadata: Object | None = None, status: Object | None = None, **spec: Any) -> Object:
    """Returns a KINDCluster whose instance is published, after a change."""
    obj = kind_cluster()
    return {
        **obj,
        "metadata": {**obj["metadata"], **(metadata or {})},
        "spec": {**obj["spec"], "controlPlaneEndpoint": ENDPOINT, **spec},
        "status": {
            "ready": True,
            "initialization": {"provisioned": True},
            **(status or {}),
            "conditions": [TRUE, NOT_PAUSED, *(status or {}).get("conditions", [SHOWN])],
        },
    }


def secret(name: str, owner_uid: str = "u", **data: str) -> Object:
    metadata = {"name": name, "namespace": "default", "resourceVersion": "7", "ownerReferences": [{"uid": owner_uid}]}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


CA, CONFIG = secret("dev-ca"), secret("dev-config", config="a3ViZWNvbmZpZw==")


def test_ready_instance_is_published_with_its_secrets_and_endpoint() -> None:
    decision = decide(Observed(kind_cluster(), READY), NOW)
    ca, config, endpoint = decision.effects
    assert isinstance(ca, Create)
    assert isinstance(config, Create)
    assert isinstance(endpoint, Patch)
    assert (ca.body["metadata"]["name"], ca.body["type"]) == ("dev-ca", "cluster.x-k8s.io/secret")
    assert ca.body["metadata"]["labels"] == {"cluster.x-k8s.io/cluster-name": "dev"}
    assert ca.body["data"] == {"tls.crt": "Y2VydGlmaWNhdGU=", "tls.key": "a2V5"}
    assert (config.body["metadata"]["name"], config.body["data"]) == ("dev-config", {"config": "a3ViZWNvbmZpZw=="})
    for body in (ca.body, config.body):
        assert (body["apiVersion"], body["kind"], body["metadata"]["namespace"]) == ("v1", "Secret", "default")
        assert [reference["uid"] for reference in body["metadata"]["ownerReferences"]] == ["u"]
    assert endpoint.patch == {"spec": {"controlPlaneEndpoint": ENDPOINT}}
    entry = {**SHOWN, "timestamp": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = dict(decision.status or {})
    assert history(status) == [entry]
    assert (state(status), state(status, "Paused")) == (("True", "Provisioned", ""), ("False", "NotPaused", ""))
    assert {**status, "conditions": []} == {**PUBLISHED, "conditions": []}
    [event] = decision.kubernetes_events
    assert (event.reason, event.type) == ("ClusterCreated", "Normal")
    assert "h:6443" in event.message
    assert decision.requeue_after is None


@pytest.mark.parametrize(
    ("observed", "effects", "entries"),
    [
        pytest.param(Observed(changed(), READY, CA, CONFIG), [], [SHOWN], id="published"),
        pytest.param(Observed(changed(), READY, CA), ["dev-config"], [SHOWN], id="kubeconfig deleted"),
        pytest.param(
            Observed(changed(), READY, CA, secret("dev-config", config="b2xk")),
            [{"data": {"config": "a3ViZWNvbmZpZw=="}}],
            [SHOWN],
            id="kubeconfig outdated",
        ),
        pytest.param(
            Observed(changed(), READY, CA, secret("dev-config", "other", config="b2xk")), [], [SHOWN], id="not its own"
        ),
        pytest.param(
            Observed(changed(controlPlaneEndpoint={"host": "h", "port": 1}), READY, CA, CONFIG),
            [{"spec": {"controlPlaneEndpoint": ENDPOINT}}],
            [SHOWN],
            id="another port",
        ),
        pytest.param(
            Observed(changed(status={"conditions": [MADE]}), READY, CA, CONFIG), [], [SHOWN], id="upstream's history"
        ),
    ],
)
def test_published_instance_is_kept_as_it_is(observed: Observed, effects: list[Any], entries: list[Object]) -> None:
    decision = decide(observed, NOW)
    found = [one.body["metadata"]["name"] if isinstance(one, Create) else one.patch for one in decision.effects]  # type: ignore[attr-defined]
    assert found == effects
    assert history(decision.status) == entries
    assert {**(decision.status or {}), "conditions": []} == {**PUBLISHED, "conditions": []}
    assert decision.kubernetes_events == ()


def pem(*names: str) -> bytes:
    return b"".join(CERTIFICATES[name].cert_pem for name in names)


def test_secret_of_another_kind_cluster_with_the_same_cluster_name_is_reported_once() -> None:
    obj, first, theirs = kind_cluster(), kind_cluster(), secret("dev-config", config="b2xk")
    first["metadata"] |= {"name": "first", "uid": "other"}
    theirs["metadata"]["ownerReferences"] = [
        {**owner_reference(first), "apiVersion": KIND_CLUSTER.api_version, "kind": KIND_CLUSTER.kind}
    ]
    decision = decide(Observed(obj, READY, CA, theirs), NOW)
    status = obj["status"] = decision.status or {}
    assert (status["ready"], status["phase"], state(status)[:2]) == (False, "Failed", ("False", "SecretTaken"))
    assert status["failureMessage"].startswith("Secret dev-config has the kubeconfig of KINDCluster first, which")
    assert [event.reason for event in decision.kubernetes_events] == ["SecretTaken"]
    again = decide(Observed(obj, READY, CA, theirs), NOW)
    assert (again.kubernetes_events, would_change(status, again.status)) == ((), False)


CERTIFICATES = {name: CertificateAuthority.generate(name) for name in ("ours", "theirs")}


@pytest.mark.parametrize(
    ("bundle", "ready"),
    [
        (pem("ours"), True),
        (pem("theirs", "ours"), True),
        (b"  " + pem("ours").replace(b"\n", b"\r\n"), True),
        (pem("theirs"), False),
        (b"", True),
        (b"no PEM", True),
    ],
    ids=["same", "bundle", "other line ends", "another", "none", "unreadable"],
)
def test_secret_with_another_ca_than_the_servers_is_reported_once(bundle: bytes, ready: bool) -> None:
    obj = kind_cluster()
    secrets = secret("dev-ca", **{"tls.crt": base64.b64encode(bundle).decode()}), CONFIG
    found = replace(READY, ca=(pem("ours"), b"key"))
    decision = decide(Observed(obj, found, *secrets), NOW)
    status = obj["status"] = decision.status or {}
    assert status["ready"] is ready
    if ready:
        return
    assert (status["phase"], state(status)[:2]) == ("Failed", ("False", "OtherCA"))
    assert state(status)[2].startswith("Secret dev-ca has another CA than the API server")
    assert [(event.reason, event.type) for event in decision.kubernetes_events] == [("OtherCA", "Warning")]
    again = decide(Observed(obj, found, *secrets), NOW)
    assert (again.kubernetes_events, would_change(status, again.status)) == ((), False)


@pytest.mark.parametrize(
    ("version", "wanted", "message"),
    [
        ("", "1.99", ""),
        ("v1.36.2", "1.36", ""),
        ("v1.36.2", None, ""),
        ("v1.36.2", "1.3", "it runs Kubernetes v1.36.2; spec.kubernetesVersion is 1.3"),
        ("v1.36.2", "1.99", "it runs Kubernetes v1.36.2; spec.kubernetesVersion is 1.99"),
    ],
)
def test_another_version_than_the_requested_is_reported(version: str, wanted: str | None, message: str) -> None:
    obj = kind_cluster()
    obj["spec"] |= {"kubernetesVersion": wanted, "controlPlaneEndpoint": ENDPOINT}
    found = replace(READY, version=version)
    decision = decide(Observed(obj, found), NOW)
    obj["status"] = decision.status
    assert state(obj["status"]) == ("True", "Provisioned", message)
    assert decision.kubernetes_events[0].message.endswith(message or "API server at h:6443")
    assert is_published(obj, found)
    reported_before = not wanted
    assert is_published(obj, replace(found, version="v1.0.0")) is reported_before


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(changed(), True, id="published"),
        pytest.param(changed(status={"conditions": []}), True, id="without history"),
        pytest.param(changed({"deletionTimestamp": "x"}), False, id="being deleted"),
        pytest.param(changed(status={"ready": False}), False, id="not ready"),
        pytest.param(changed(status={"ready": "true"}), False, id="ready of the wrong type"),
        pytest.param(changed(status={"initialization": {}}), False, id="not provisioned"),
        pytest.param(changed(controlPlaneEndpoint={"host": "h"}), False, id="no port"),
        pytest.param(changed(status={"conditions": [MADE]}), False, id="upstream's history"),
        pytest.param(changed(status={"conditions": [{**SHOWN, "status": ""}]}), False, id="an entry without status"),
    ],
)
def test_object_shows_that_its_instance_is_published(obj: Object, expected: bool) -> None:
    assert is_published(obj, Instance("ready")) is expected


CREATING = {"type": "Ready", "status": "False", "reason": "Creating", "message": "Writing configuration"}
STARTING = {"ready": False, "phase": "Provisioning", "conditions": [CREATING, NOT_PAUSED]}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"status": {"phase": "Ready"}}, False),
        ({"status": {**STARTING, "failureMessage": "no room"}}, False),
        ({"status": {**STARTING, "conditions": [CREATING]}}, False),
        ({"status": {**STARTING, "conditions": [{**CREATING, "message": "a step before"}, NOT_PAUSED]}}, False),
        ({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}, False),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False),
    ],
)
def test_starting_instance_is_published_by_its_phase(changes: Object, expected: bool) -> None:
    obj = {**kind_cluster(), "status": STARTING, **changes}
    assert is_published(obj, Instance("starting", step="Writing configuration")) is expected
    assert not is_published(obj, Instance("absent"))
    waiting = decide(Observed(obj, Instance("starting"), published=True), NOW)
    assert (waiting.effects, waiting.status, waiting.requeue_after) == ((), None, 0.5)


@pytest.mark.parametrize(
    ("observed", "message"),
    [
        (Observed(None), ""),
        (Observed(changed(), READY, published=True), "ready"),
        (Observed(changed({"annotations": {"cluster.x-k8s.io/managed-by": ""}}), FAILED), "managed by another program"),
        (Observed(changed({"deletionTimestamp": "x", "finalizers": []}), FAILED), ""),
    ],
    ids=["gone", "published", "managed elsewhere", "deleted"],
)
def test_there_is_nothing_to_do(observed: Observed, message: str) -> None:
    decision = decide(observed, NOW)
    assert (decision.effects, decision.status, decision.message) == ((), None, message)
    assert decision.requeue_after is None


@pytest.mark.parametrize(
    "observed",
    [
        Observed(changed({"annotations": {"cluster.x-k8s.io/paused": ""}}), FAILED),
        Observed(changed(), FAILED, cluster={"spec": {"paused": True}}),
        Observed(changed({"deletionTimestamp": "x"}), READY, cluster={"spec": {"paused": True}}),
    ],
    ids=["paused", "its Cluster is paused", "being deleted"],
)
def test_paused_object_is_left_alone_and_says_so(observed: Observed) -> None:
    decision = decide(observed, NOW)
    assert (decision.effects, decision.message, decision.requeue_after) == ((), "paused", None)
    assert state(decision.status, "Paused") == ("True", "Paused", "")
    assert state(decision.status) == ("True", "Provisioned", "")
    assert history(decision.status) == [SHOWN]
    obj = {**(observed.kind_cluster or {}), "status": {**changed()["status"], **(decision.status or {})}}
    assert not would_change(obj["status"], decide(replace(observed, kind_cluster=obj), NOW).status)


@pytest.mark.parametrize(
    ("instance", "phase", "ready", "requeue_after"),
    [
        (Instance("absent"), "Provisioning", ("False", "Creating", ""), 0.5),
        (Instance("starting", step="Preparing nodes"), "Provisioning", ("False", "Creating", "Preparing nodes"), 0.5),
        (Instance("absent", "gone", reason="InstanceGone"), "Provisioning", ("False", "InstanceGone", "gone"), 0.5),
        (Instance("deleting"), "Provisioning", ("False", "Creating", ""), 0.5),
        (FAILED, "Failed", ("False", "CreationFailed", "no room"), 10.0),
        (Instance("failed", "pull it", reason="ImageNotFound"), "Failed", ("False", "ImageNotFound", "pull it"), 10.0),
        (Instance("failed", "x", reason="PortTaken", retry_after=42), "Failed", ("False", "PortTaken", "x"), 42),
        (Instance("unknown", "x", reason="RuntimeUnavailable"), "Failed", ("False", "RuntimeUnavailable", "x"), 10.0),
    ],
)
def test_status_follows_the_phase_of_the_instance(
    instance: Instance, phase: str, ready: tuple[str, str, str], requeue_after: float
) -> None:
    decision = decide(Observed(kind_cluster(), instance), NOW)
    status = decision.status or {}
    assert (status["ready"], status["phase"], state(status)) == (False, phase, ready)
    assert decision.requeue_after == requeue_after
    assert any(isinstance(one, CreateInstance) for one in decision.effects) is (
        instance.phase in ("absent", "failed") and not instance.retry_after
    )


@pytest.mark.parametrize(("error", "shown"), [("no room", "no room"), ("", "the runtime gave no reason")])
def test_failure_is_reported_with_its_reason(error: str, shown: str) -> None:
    decision = decide(Observed(kind_cluster(), Instance("failed", error)), NOW)
    assert (decision.status or {})["failureMessage"] == f"Cluster cannot be created: {shown}"
    assert [(event.reason, event.type) for event in decision.kubernetes_events] == [("ClusterNotCreated", "Warning")]
    assert history(decision.status) == [
        {
            "type": "ClusterNotCreated",
            "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "timestamp": "2026-01-01T00:00:00Z",
            "message": "Cluster cannot be created",
            "reason": shown,
        }
    ]


def test_history_keeps_the_latest_twenty_entries() -> None:
    past = [{**SHOWN, "reason": str(number)} for number in range(20)]
    decision = decide(Observed(changed(status={"conditions": past}), FAILED), NOW)
    assert [entry["reason"] for entry in history(decision.status)] == [
        *(str(number) for number in range(1, 20)),
        "no room",
    ]


@pytest.mark.parametrize(
    ("data", "ca"),
    [
        ({"tls.crt": "Y2VydGlmaWNhdGU=", "tls.key": "a2V5"}, (b"certificate", b"key")),
        ({"tls.crt": "Y2VydGlmaWNhdGU="}, None),
        ({"tls.key": "a2V5"}, None),
    ],
    ids=["complete", "without key", "without certificate"],
)
def test_instance_starts_with_the_users_own_ca(data: dict[str, str], ca: tuple[bytes, bytes] | None) -> None:
    [start] = decide(Observed(kind_cluster(), Instance("absent"), secret("dev-ca", "other", **data)), NOW).effects
    assert start == CreateInstance(kind_cluster(), ca)


@pytest.mark.parametrize("owner", ["u", "other"])
def test_deletion_deletes_the_secrets_that_it_owns(owner: str) -> None:
    obj = changed({"deletionTimestamp": "x"})
    decision = decide(Observed(obj, READY, secret("dev-ca", owner), secret("dev-config", owner)), NOW)
    deleted = [one.obj["metadata"]["name"] for one in decision.effects if isinstance(one, Delete)]
    assert deleted == (["dev-ca", "dev-config"] if owner == "u" else [])
    assert isinstance(decision.effects[-1], RemoveFinalizer)
    status = decision.status or {}
    assert (status["phase"], status["failureMessage"], state(status)) == ("Deleting", None, ("False", "Deleting", ""))


def test_deletion_waits_for_a_runtime_that_can_be_used() -> None:
    unknown = Instance("unknown", "no docker", reason="RuntimeUnavailable")
    decision = decide(Observed(changed({"deletionTimestamp": "x"}), unknown), NOW)
    assert (decision.status or {})["failureMessage"] == "cannot delete: no docker"
    assert state(decision.status) == ("False", "RuntimeUnavailable", "no docker")
    assert (decision.effects, decision.requeue_after) == ((), 10.0)


@pytest.mark.parametrize(
    ("instance", "error", "message", "requeue_after"),
    [
        (READY, StillDeleting(), None, 0.5),
        (FAILED, StillDeleting("no docker", "RuntimeUnavailable"), "cannot delete: no docker", 10.0),
        (READY, RuntimeUnavailable("no docker"), "cannot delete: no docker", 10.0),
    ],
    ids=["in the background", "failed before", "refused"],
)
def test_deletion_that_is_not_done_keeps_the_finalizer(
    instance: Instance, error: Exception, message: str | None, requeue_after: float
) -> None:
    observed = Observed(changed({"deletionTimestamp": "x"}), instance)
    reported = decide(observed, NOW, Results([], error))
    assert reported.reports is error
    status = reported.status or {}
    assert (status["phase"], status["failureMessage"], reported.requeue_after) == ("Deleting", message, requeue_after)


def test_runtime_that_refuses_is_reported_like_a_failed_instance() -> None:
    observed = Observed(kind_cluster(), Instance("absent"))
    error = RuntimeUnavailable("no docker")
    reported = decide(observed, NOW, Results([], error))
    assert (reported.reports, (reported.status or {})["phase"]) == (error, "Failed")
    assert (reported.status or {})["failureMessage"] == "Cluster cannot be created: no docker"


@pytest.mark.parametrize(
    "error",
    [ValueError("a bug"), None],
    ids=["another error", "no error"],
)
def test_other_failures_are_not_reported(error: Exception | None) -> None:
    assert decide(Observed(kind_cluster()), NOW, Results([], error)).reports is None


@pytest.mark.parametrize(
    ("metadata", "spec", "name", "config"),
    [
        ({}, {"clusterName": "dev"}, "dev", "dev-config"),
        ({}, {}, "demo", "-config"),
        ({"labels": {"cluster.x-k8s.io/cluster-name": "labelled"}}, {"clusterName": "dev"}, "labelled", "dev-config"),
        (
            {
                "labels": {"cluster.x-k8s.io/cluster-name": "labelled"},
                "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "owner"}],
            },
            {},
            "owner",
            "-config",
        ),
    ],
    ids=["spec.clusterName", "its own name", "label", "owner"],
)
def test_names_of_cluster_and_kubeconfig(metadata: Object, spec: Object, name: str, config: str) -> None:
    obj = {"metadata": {"name": "demo", "namespace": "default", **metadata}, "spec": spec}
    assert (cluster_name(obj), config_secret_name(obj)) == (name, config)
