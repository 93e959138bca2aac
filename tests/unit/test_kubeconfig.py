"""The kubeconfig that is created for a Cluster, and the decision when to create it."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from functions.kubeconfig.admin_kubeconfig import CA as Authority
from functions.kubeconfig.admin_kubeconfig import create_admin_kubeconfig, server_url
from functions.kubeconfig.decide import CreateKubeconfig, decide
from functions.kubeconfig.observe import Observed, observe
from functions.kubeconfig.reconciled import is_reconciled
from functions.kubeconfig.triggers import cluster_of
from shared.api.conditions import get_condition
from shared.api.resources import SECRET
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Key, Object, Resource, key_of
from shared.runtime import Request

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def ca(key: Private, form: serialization.PrivateFormat) -> tuple[bytes, bytes]:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - timedelta(days=3))
        .not_valid_after(NOW + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return certificate.public_bytes(pem), key.private_bytes(pem, form, serialization.NoEncryption())


RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
PKCS1, PKCS8 = serialization.PrivateFormat.TraditionalOpenSSL, serialization.PrivateFormat.PKCS8
CA = ca(EC, PKCS8)


@pytest.mark.parametrize(("key", "form"), [(RSA, PKCS1), (RSA, PKCS8), (EC, PKCS1), (EC, PKCS8)])
def test_kubeconfig_holds_an_admin_certificate_signed_by_the_ca(
    key: Private, form: serialization.PrivateFormat
) -> None:
    ca_certificate, ca_key = ca(key, form)
    authority = Authority(ca_certificate, ca_key)
    document = yaml.safe_load(create_admin_kubeconfig("foo", "https://h:1", authority, until=NOW + timedelta(days=9)))
    assert (document["apiVersion"], document["kind"]) == ("v1", "Config")
    assert document["current-context"] == "foo-admin@foo"
    [context], [cluster], [user] = document["contexts"], document["clusters"], document["users"]
    assert context == {"name": "foo-admin@foo", "context": {"cluster": "foo", "user": "foo-admin"}}
    assert (cluster["name"], user["name"]) == ("foo", "foo-admin")
    assert cluster["cluster"]["server"] == "https://h:1"
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == ca_certificate
    certificate = x509.load_pem_x509_certificate(base64.b64decode(user["user"]["client-certificate-data"]))
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(ca_certificate))
    names = {attribute.oid: attribute.value for attribute in certificate.subject}
    assert names == {NameOID.COMMON_NAME: "kubernetes-admin", NameOID.ORGANIZATION_NAME: "system:masters"}
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    signs = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert (signs.critical, signs.value.digital_signature, signs.value.key_encipherment) == (True, True, True)
    assert (signs.value.key_cert_sign, signs.value.crl_sign, signs.value.data_encipherment) == (False, False, False)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca) == (True, False)
    client_key = serialization.load_pem_private_key(base64.b64decode(user["user"]["client-key-data"]), None)
    assert client_key.public_key() == certificate.public_key()
    assert certificate.not_valid_before_utc == NOW - timedelta(days=3)
    assert certificate.not_valid_after_utc == NOW + timedelta(days=9)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("localhost", "https://localhost:6443"),
        ("/localhost", "https://localhost:6443"),
        ("::1", "https://[::1]:6443"),
        ("[::1]", "https://[::1]:6443"),
    ],
)
def test_server_url_has_brackets_around_ipv6(host: str, url: str) -> None:
    assert server_url(host, 6443) == url


def cluster(**spec: object) -> Object:
    endpoint = {"controlPlaneEndpoint": {"host": "h", "port": 1}}
    metadata = {"name": "demo", "namespace": "ns", "uid": "u", "generation": 1}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": metadata,
        "spec": {**endpoint, **spec},
        "status": {"phase": "Provisioning", "observedGeneration": 1},
    }


def secret(data: dict[str, bytes], **metadata: object) -> Object:
    encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    return {"kind": "Secret", "metadata": {"name": "s", **metadata}, "data": encoded}


USABLE = Authority(*CA)
OURS = secret({"value": b"x"}, ownerReferences=[{"uid": "u"}])
BROUGHT = secret({"value": b"whatever"})


class Secrets:
    """The Secrets of a management cluster."""

    def __init__(self, *existing: Object) -> None:
        self.objects = {key_of(one): one for one in existing}

    def find(self, _resource: Resource, key: Key) -> Object | None:
        return self.objects.get(key)

    def create(self, resource: Resource, body: Object) -> Object:
        assert resource == SECRET
        self.objects[key_of(body)] = body
        return body


def observed_with(data: dict[str, bytes] | None) -> Observed:
    """Observes the Cluster where its CA Secret has this data."""
    obj = cluster()
    existing = [] if data is None else [secret(data, **Key("ns", "demo-ca")._asdict())]
    clients = cast(Clients, SimpleNamespace(management=Secrets(*existing)))
    return observe(clients, Request(change_event(obj, "add", source="/test"), Key("ns", "demo"), obj))


@pytest.mark.parametrize(
    ("certificate", "key", "words"),
    [
        (b"", CA[1], "tls.crt is missing"),
        (CA[0], b"", "tls.key is missing"),
        (b"garbage", CA[1], "tls.crt is not a PEM"),
        (CA[0], b"garbage", "tls.key is not a PEM"),
        (CA[0], ca(RSA, PKCS8)[1], "does not belong"),
    ],
)
def test_fault_of_an_unusable_ca_is_observed(certificate: bytes, key: bytes, words: str) -> None:
    fault = observed_with({"tls.crt": certificate, "tls.key": key}).ca
    assert isinstance(fault, str)
    assert words in fault


def test_usable_and_missing_ca_are_observed() -> None:
    assert observed_with({"tls.crt": CA[0], "tls.key": CA[1]}).ca == USABLE
    assert observed_with(None).ca is None
    assert "tls.crt is missing" in str(observed_with({}).ca)


@pytest.mark.parametrize(
    ("observed", "reason", "created", "requeue_after"),
    [
        (Observed(cluster()), "WaitingForCA", False, 30.0),
        (Observed(cluster(), None, "tls.key is missing"), "InvalidCA", False, 30.0),
        (Observed(cluster(), None, USABLE), "Generated", True, None),
        (Observed(cluster(), OURS), "Generated", False, None),
        (Observed(cluster(), BROUGHT), "UserProvided", False, None),
    ],
)
def test_decision_and_condition_by_observed_secrets(
    observed: Observed, reason: str, created: bool, requeue_after: float | None
) -> None:
    decision = decide(observed, NOW)
    found = get_condition((decision.status or {})["conditions"], "KubeconfigAvailable")
    assert found is not None
    assert found["reason"] == reason
    assert [type(effect) for effect in decision.effects] == ([CreateKubeconfig] if created else [])
    assert decision.requeue_after == requeue_after


def test_decision_is_the_same_whenever_it_is_made_of_the_same() -> None:
    assert decide(Observed(cluster(), None, USABLE), NOW) == decide(Observed(cluster(), None, USABLE), NOW)


def test_unusable_ca_is_reported_once() -> None:
    obj, fault = cluster(), "tls.key is missing"
    first = decide(Observed(obj, None, fault), NOW)
    assert [event.reason for event in first.kubernetes_events] == ["InvalidCA"]
    obj["status"] |= first.status or {}
    assert not decide(Observed(obj, None, fault), NOW).kubernetes_events


@pytest.mark.parametrize(
    "observed",
    [
        Observed(None),
        Observed(cluster(paused=True), None, USABLE),
        Observed(cluster(controlPlaneEndpoint={}), None, USABLE),
        Observed(cluster(controlPlaneRef={"kind": "K", "name": "n"}), None, USABLE),
        Observed({**cluster(), "metadata": {**cluster()["metadata"], "deletionTimestamp": "t"}}, None, USABLE),
        Observed({**cluster(), "status": {}}, None, USABLE),
        Observed({**cluster(), "metadata": {**cluster()["metadata"], "generation": 2}}, None, USABLE),
    ],
)
def test_no_effect_while_paused_deleted_unobserved_or_owned_by_control_plane(observed: Observed) -> None:
    decision = decide(observed, NOW)
    assert not decision.effects
    assert decision.status is None


def test_created_secret_follows_cluster_api_contract() -> None:
    decision = decide(Observed(cluster(), None, USABLE), NOW)
    assert [(event.reason, event.type) for event in decision.kubernetes_events] == [("KubeconfigGenerated", "Normal")]
    [effect] = decision.effects
    assert isinstance(effect, CreateKubeconfig)
    secrets = Secrets()
    body = effect.execute(cast(Clients, SimpleNamespace(management=secrets)))
    assert list(secrets.objects) == [("ns", "demo-kubeconfig")]
    assert body["type"] == "cluster.x-k8s.io/secret"
    assert body["metadata"]["labels"] == {"cluster.x-k8s.io/cluster-name": "demo"}
    [reference] = body["metadata"]["ownerReferences"]
    assert "controller" not in reference
    assert list(body["data"]) == ["value"]
    user = yaml.safe_load(base64.b64decode(body["data"]["value"]))["users"][0]["user"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))
    assert certificate.not_valid_after_utc == NOW + timedelta(days=365)


AVAILABLE = {"type": "KubeconfigAvailable", "status": "True", "reason": "Generated"}


@pytest.mark.parametrize(
    ("spec", "condition", "reconciled"),
    [
        pytest.param({}, None, False, id="endpoint without kubeconfig"),
        pytest.param({"controlPlaneEndpoint": {}}, None, True, id="no endpoint yet"),
        pytest.param({}, AVAILABLE, True, id="kubeconfig exists"),
        pytest.param({}, AVAILABLE | {"reason": "UserProvided"}, False, id="reported in other words"),
        pytest.param({}, AVAILABLE | {"status": "False"}, False, id="no kubeconfig"),
        pytest.param({"paused": True}, None, True, id="paused"),
        pytest.param(
            {"controlPlaneRef": {"kind": "K", "name": "k"}}, None, True, id="task of a control-plane provider"
        ),
    ],
)
def test_cluster_event_shows_whether_a_kubeconfig_is_to_be_created(
    spec: Object, condition: Object | None, reconciled: bool
) -> None:
    obj = cluster(**spec)
    written = (decide(Observed(obj, OURS), NOW).status or {}).get("conditions", [])
    obj["status"]["conditions"] = [{**written[0], **condition}] if condition and written else []
    assert is_reconciled(obj, change_event(obj, "update", source="/test")) is reconciled


def test_event_of_a_secret_is_a_reason_to_read_it_while_a_kubeconfig_is_needed() -> None:
    obj = cluster()
    obj["status"] |= decide(Observed(obj, OURS), NOW).status or {}
    event = change_event(secret({}, namespace="ns") | {"apiVersion": "v1"}, "delete", source="/test")
    assert not is_reconciled(obj, event)
    assert is_reconciled(cluster(paused=True), event)


@pytest.mark.parametrize(
    ("name", "key"),
    [("demo-ca", "demo"), ("demo-kubeconfig", "demo"), ("test-capa-ca", "test-capa"), ("foo", None), ("foo-bar", None)],
)
def test_secret_name_maps_to_cluster(name: str, key: str | None) -> None:
    found = cluster_of({"metadata": {"name": name, "namespace": "ns"}})
    assert found == (Key("ns", key) if key else None)
