"""The certificates that a Cluster requests: which are looked up, generated, and reported."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.kubeconfig.certificates import Certificates, GenerateCertificate, examine, needs_secrets, pending
from functions.kubeconfig.decide import decide
from functions.kubeconfig.observe import Observed
from functions.kubeconfig.reconciled import is_reconciled
from shared.api.conditions import get_condition
from shared.api.names import CERTIFICATES_ANNOTATION
from shared.certificates import CertificateAuthority
from shared.event import Event, change_event
from shared.kube import Object

NOW = datetime.now(UTC)
CLIENT = "apiserver-etcd-client"
ETCD_CA = CertificateAuthority.generate("etcd-ca")


def cluster(requested: str | None, recorded: str = "", *, metadata: Object | None = None, **spec: object) -> Object:
    """Returns a Cluster without an endpoint that requests certificates; `recorded` is what its condition says."""
    annotations = {} if requested is None else {CERTIFICATES_ANNOTATION: requested}
    condition = {"type": "CertificatesAvailable", "status": "True", "reason": "Available", "message": recorded}
    own = {"name": "demo", "namespace": "ns", "uid": "u", "generation": 1, "annotations": annotations}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {**own, **(metadata or {})},
        "spec": spec,
        "status": {"phase": "Provisioning", "observedGeneration": 1, "conditions": [condition] if recorded else []},
    }


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(cluster(None), "", id="not requested"),
        pytest.param(cluster(""), "ca etcd proxy sa", id="those of a control plane"),
        pytest.param(cluster("ca, sa"), "ca sa", id="a list"),
        pytest.param(cluster("", "ca, etcd, proxy, sa"), "", id="all were there"),
        pytest.param(cluster(f"ca {CLIENT}", "ca, etcd"), CLIENT, id="one more"),
        pytest.param(cluster("", controlPlaneRef={"kind": "K", "name": "k"}), "", id="of a control-plane provider"),
        pytest.param(cluster("", paused=True), "", id="paused"),
        pytest.param(cluster("", metadata={"deletionTimestamp": "t", "annotations": {}}), "", id="being deleted"),
        pytest.param(cluster("", metadata={"generation": 2}), "", id="status is outdated"),
    ],
)
def test_certificates_are_pending_until_they_were_there(obj: Object, expected: str) -> None:
    assert " ".join(pending(obj)) == expected
    assert is_reconciled(obj, change_event(obj, "update", source="/test"), NOW) is not bool(expected)


@pytest.mark.parametrize(
    ("requested", "found", "etcd_ca", "generated", "reported"),
    [
        ("", {}, None, "ca etcd proxy sa", None),
        ("", {"ca": "", "sa": ""}, None, "etcd proxy", None),
        ("sa proxy", {"ca": ""}, None, "proxy sa", None),
        ("", dict.fromkeys(("ca", "etcd", "proxy", "sa"), ""), None, "", "ca, etcd, proxy, sa"),
        (f"etcd {CLIENT}", {}, None, "etcd", None),
        (f"etcd {CLIENT}", {"etcd": ""}, ETCD_CA, CLIENT, None),
        (CLIENT, {}, ETCD_CA, CLIENT, None),
        (CLIENT, {CLIENT: ""}, None, "", CLIENT),
        (CLIENT, {}, None, "", "Secret demo-etcd does not exist"),
        (f"proxy {CLIENT}", {}, ETCD_CA, "proxy", None),
        (f"ca {CLIENT}", {}, "tls.key is missing", "", "tls.key is missing"),
        ("ca etcd", {"etcd": "Secret demo-etcd has no tls.crt"}, None, "", "Secret demo-etcd has no tls.crt"),
        ("ca, front-proxy", {}, None, "", f"{CERTIFICATES_ANNOTATION} has 'front-proxy'"),
    ],
)
def test_missing_certificates_are_generated_and_then_reported(
    requested: str, found: Mapping[str, str], etcd_ca: Any, generated: str, reported: str | None
) -> None:
    obj = cluster(requested)
    decision = decide(Observed(obj, certificates=Certificates(found, etcd_ca)), NOW)
    effects = [effect for effect in decision.effects if isinstance(effect, GenerateCertificate)]
    assert " ".join(effect.purpose for effect in effects) == generated
    assert decision.proceed is bool(generated), "what was generated is looked up again"
    assert all(effect.ca == (etcd_ca if effect.purpose == CLIENT else None) for effect in effects)
    condition = get_condition((decision.status or {}).get("conditions"), "CertificatesAvailable")
    assert (condition is not None) is (reported is not None)
    if condition is not None:
        is_fault = " " in (reported or "").replace(", ", "")
        assert condition["status"] == ("False" if is_fault else "True")
        assert (reported or "") in condition["message"]
        assert [event.type for event in decision.kubernetes_events] == (["Warning"] if is_fault else [])
        assert condition["reason"] in (("InvalidCertificates", "InvalidAnnotation") if is_fault else ("Available",))
    if generated:
        names = ", ".join(f"demo-{purpose}" for purpose in generated.split())
        assert [event.message for event in decision.kubernetes_events] == [f"Secrets created: {names}"]


def test_annotation_that_cannot_be_followed_is_reported_once() -> None:
    obj = cluster("front-proxy")
    obj["status"] |= decide(Observed(obj), NOW).status or {}
    assert is_reconciled(obj, change_event(obj, "update", source="/test"), NOW)


def test_recorded_certificates_stay_recorded_when_more_are_requested() -> None:
    decision = decide(Observed(cluster("sa", "ca"), certificates=Certificates({"sa": ""})), NOW)
    [condition] = (decision.status or {})["conditions"]
    assert condition["message"] == "ca, sa"


@pytest.mark.parametrize(
    ("requested", "found", "reason", "recorded"),
    [
        ("ca, sa, typo", {}, "InvalidAnnotation", "ca"),
        ("ca, sa " + "x" * 9000, {}, "InvalidAnnotation", "ca"),
        (f"ca sa {CLIENT}", {"sa": ""}, "InvalidCertificates", "ca, sa"),
        ("ca sa", {"sa": "Secret demo-sa has no tls.crt"}, "InvalidCertificates", "ca"),
    ],
)
def test_record_outlives_a_fault(requested: str, found: Mapping[str, str], reason: str, recorded: str) -> None:
    """Otherwise a lost CA would be generated anew, which makes all invalid that it issued."""
    obj = cluster(requested, "ca")
    obj["status"] |= decide(Observed(obj, certificates=Certificates(found)), NOW).status or {}
    [condition] = obj["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", reason)
    obj["metadata"]["annotations"] = {CERTIFICATES_ANNOTATION: "ca, sa"}
    assert pending(obj) == (() if "sa" in recorded else ("sa",))
    obj["metadata"]["annotations"] = {CERTIFICATES_ANNOTATION: recorded}
    assert not is_reconciled(obj, change_event(obj, "update", source="/test"), NOW)
    [condition] = (decide(Observed(obj), NOW).status or {})["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == ("True", "Available", recorded)


def test_fault_without_a_record_leaves_with_its_annotation() -> None:
    obj = cluster("front-proxy, ca")
    obj["status"] |= decide(Observed(obj), NOW).status or {}
    obj["metadata"]["annotations"] = {}
    assert not is_reconciled(obj, change_event(obj, "update", source="/test"), NOW)
    assert decide(Observed(obj), NOW).status == {"conditions": []}


def about(name: str, change: Any, *, resync: bool = False) -> Event:
    obj = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "ns"}}
    return change_event(obj, change, source="/test", reference=True, resync=resync)


@pytest.mark.parametrize(
    ("requested", "event", "reads"),
    [
        pytest.param("ca sa", about("demo-ca", "delete"), True, id="a Secret of the record is deleted"),
        pytest.param(None, about("demo-sa", "delete"), True, id="the same, requested no more"),
        pytest.param("ca sa", about("demo-ca", "add"), False, id="its creation"),
        pytest.param("ca sa", about("demo-etcd", "delete"), False, id="a Secret that was not there"),
        pytest.param("ca sa", about("demo-sa", "update", resync=True), True, id="a look at everything"),
        pytest.param("ca sa etcd", about("demo-etcd", "add"), True, id="pending"),
        pytest.param("ca typo", about("demo-ca", "delete"), False, id="an annotation that cannot be followed"),
    ],
)
def test_secrets_are_read_where_they_may_contradict_the_record(
    requested: str | None, event: Event, reads: bool
) -> None:
    obj = cluster(requested, "ca, sa")
    assert needs_secrets(obj, event) is reads
    if "typo" not in (requested or ""):  # that is still to be reported
        assert is_reconciled(obj, event, NOW) is not reads


def test_lost_certificate_is_reported_until_it_is_restored_and_never_generated() -> None:
    obj = cluster("", "ca, etcd, proxy, sa")
    decision = decide(Observed(obj, certificates=Certificates(lost=("ca", "etcd"))), NOW)
    assert (decision.effects, decision.requeue_after) == ((), 30.0)
    assert [(event.reason, event.type) for event in decision.kubernetes_events] == [("MissingCertificates", "Warning")]
    obj["status"] |= decision.status or {}
    [condition] = obj["status"]["conditions"]
    assert condition["status"] == "False"
    assert "Secret demo-ca was deleted" in condition["message"]
    update = change_event(obj, "update", source="/test")
    assert needs_secrets(obj, update), "it may have been restored"
    assert not is_reconciled(obj, update, NOW)
    again = decide(Observed(obj, certificates=Certificates(lost=("ca", "etcd"))), NOW)
    assert not again.effects
    assert not again.kubernetes_events
    [restored] = (decide(Observed(obj), NOW).status or {})["conditions"]
    assert (restored["status"], restored["message"]) == ("True", "ca, etcd, proxy, sa")


def test_fault_of_a_certificate_is_looked_at_again() -> None:
    found = {"sa": "Secret demo-sa has no tls.crt"}
    assert decide(Observed(cluster("sa"), certificates=Certificates(found)), NOW).requeue_after == 30.0
    paused = cluster("sa", paused=True)
    paused["status"] |= decide(Observed(cluster("sa"), certificates=Certificates(found)), NOW).status or {}
    assert decide(Observed(paused), NOW).requeue_after is None


def secret(purpose: str, certificate: bytes = b"", key: bytes = b"") -> Object:
    data = {name: base64.b64encode(part).decode() for name, part in (("tls.crt", certificate), ("tls.key", key))}
    return {"metadata": {"name": f"demo-{purpose}", "namespace": "ns"}, "data": data}


OF_ETCD = secret("etcd", ETCD_CA.cert_pem, ETCD_CA.key_pem)


@pytest.mark.parametrize(
    ("purposes", "secrets", "faults", "etcd_ca"),
    [
        pytest.param("ca sa", [], {}, None, id="none"),
        pytest.param("ca sa", [secret("sa", b"x")], {"sa": ""}, None, id="without a key"),
        pytest.param("ca", [secret("ca", key=b"x")], {"ca": "Secret demo-ca has no tls.crt"}, None, id="key alone"),
        pytest.param(f"etcd {CLIENT}", [], {}, None, id="no CA for the client yet"),
        pytest.param(f"etcd {CLIENT}", [OF_ETCD], {"etcd": ""}, ETCD_CA, id="CA for the client"),
        pytest.param(CLIENT, [OF_ETCD], {}, ETCD_CA, id="CA that is not requested"),
        pytest.param(CLIENT, [OF_ETCD, secret(CLIENT, b"x")], {CLIENT: ""}, None, id="client exists"),
        pytest.param("etcd", [OF_ETCD], {"etcd": ""}, None, id="no client requested"),
    ],
)
def test_secrets_that_exist_are_examined(
    purposes: str, secrets: list[Object], faults: Mapping[str, str], etcd_ca: CertificateAuthority | None
) -> None:
    found = {one["metadata"]["name"].removeprefix("demo-"): one for one in secrets}
    assert examine(purposes.split(), (), found, NOW) == Certificates(faults, etcd_ca)
    assert examine((), (*found, "lost"), found, NOW).lost == ("lost",)


def test_ca_of_etcd_that_cannot_sign_is_a_fault_of_the_client_alone() -> None:
    found = examine(["etcd", CLIENT], (), {"etcd": secret("etcd", ETCD_CA.cert_pem)}, NOW)
    assert found.faults == {"etcd": ""}
    assert found.etcd_ca == "Secret demo-etcd cannot be used: tls.key is missing or empty"
