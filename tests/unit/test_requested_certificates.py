"""The certificates that a Cluster requests: which are looked up, generated, and reported."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from functions.kubeconfig.certificates import Certificates, GenerateCertificate, find_certificates, pending
from functions.kubeconfig.decide import decide
from functions.kubeconfig.observe import Observed
from functions.kubeconfig.reconciled import is_reconciled
from shared.api.conditions import get_condition
from shared.api.names import CERTIFICATES_ANNOTATION
from shared.certificates import CertificateAuthority
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Key, Object, Resource, key_of

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
    assert is_reconciled(obj, change_event(obj, "update", source="/test")) is not bool(expected)


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
    assert is_reconciled(obj, change_event(obj, "update", source="/test"))


def test_recorded_certificates_stay_recorded_when_more_are_requested() -> None:
    decision = decide(Observed(cluster("sa", "ca"), certificates=Certificates({"sa": ""})), NOW)
    [condition] = (decision.status or {})["conditions"]
    assert condition["message"] == "ca, sa"


class Secrets:
    """The Secrets of a management cluster."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}

    def find(self, _resource: Resource, key: Key) -> Object | None:
        return self.objects.get(key)

    def create(self, _resource: Resource, body: Object) -> Object:
        return self.objects.setdefault(key_of(body), body)


def test_generated_certificates_follow_the_convention_of_cluster_api() -> None:
    obj, secrets = cluster(f"ca etcd proxy sa {CLIENT}"), Secrets()
    clients = cast(Clients, SimpleNamespace(management=secrets))
    for _round in range(2):
        for effect in decide(Observed(obj, certificates=find_certificates(clients, obj, NOW)), NOW).effects:
            effect.execute(clients)
    assert not decide(Observed(obj, certificates=find_certificates(clients, obj, NOW)), NOW).effects
    assert [key.name for key in secrets.objects] == [f"demo-{one}" for one in ("ca", "etcd", "proxy", "sa", CLIENT)]
    parts = {}
    for key, secret in secrets.objects.items():
        assert secret["type"] == "cluster.x-k8s.io/secret"
        assert secret["metadata"]["labels"] == {"cluster.x-k8s.io/cluster-name": "demo"}
        assert [owner["uid"] for owner in secret["metadata"]["ownerReferences"]] == ["u"]
        assert list(secret["data"]) == ["tls.crt", "tls.key"]
        parts[key.name] = [base64.b64decode(value) for value in secret["data"].values()]
    authorities = [CertificateAuthority.load(*parts[f"demo-{one}"]) for one in ("ca", "etcd", "proxy")]
    assert all(one.expires > NOW + timedelta(days=3640) for one in authorities)
    public, private = parts["demo-sa"]
    assert b"BEGIN PUBLIC KEY" in public
    assert serialization.load_pem_private_key(private, None).public_key() == serialization.load_pem_public_key(public)
    client = x509.load_pem_x509_certificate(parts[f"demo-{CLIENT}"][0])
    client.verify_directly_issued_by(x509.load_pem_x509_certificate(parts["demo-etcd"][0]))
    assert client.not_valid_after_utc == authorities[1].expires
