"""The kubeconfig that is created for a Cluster, and the decision when to create and when to renew it."""

from __future__ import annotations

import base64
import json
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from functions.kubeconfig.admin_kubeconfig import VALIDITY, create_admin_kubeconfig, server_url
from functions.kubeconfig.ca import ca_in
from functions.kubeconfig.decide import WriteKubeconfig, decide
from functions.kubeconfig.existing import Existing, inspect
from functions.kubeconfig.observe import Observed, is_ca_needed
from functions.kubeconfig.reconciled import is_reconciled
from functions.kubeconfig.renewal import Threshold, is_due
from functions.kubeconfig.triggers import cluster_of
from shared.api.conditions import get_condition, rfc3339
from shared.api.core import CORE_ANNOTATION
from shared.api.names import REGENERATE_ANNOTATION, RENEW_ANNOTATION
from shared.api.resources import CLUSTER
from shared.certificates import CertificateAuthority, fingerprints, load_certificates
from shared.effects import Patch
from shared.event import change_event
from shared.kube import Key, Object

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def ca(
    key: Private,
    form: serialization.PrivateFormat,
    *,
    since: datetime = NOW - 3 * DAY,
    until: datetime = NOW + 3650 * DAY,
) -> CertificateAuthority:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key_pem = key.private_bytes(pem, form, serialization.NoEncryption())
    return CertificateAuthority(certificate.public_bytes(pem), key_pem)


RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
EC384 = ec.generate_private_key(ec.SECP384R1())
PKCS1, PKCS8 = serialization.PrivateFormat.TraditionalOpenSSL, serialization.PrivateFormat.PKCS8  # of EC keys: SEC1
CA = ca(EC, PKCS8)
OTHER_CA = ca(EC384, PKCS8)
SERIAL_0 = CertificateAuthority(
    b"""-----BEGIN CERTIFICATE-----
MIIBYDCCAQagAwIBAgIBADAKBggqhkjOPQQDAjAVMRMwEQYDVQQDDAprdWJlcm5l
dGVzMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAVMRMwEQYDVQQD
DAprdWJlcm5ldGVzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE3qN+EIxVxctF
+lRz7Fi8wHT63Qu4Z/dJtH7xbrAEjmnx5A2upfoww2NKGE8QD4RyPNDYfRA5uHCQ
1IjoXnZRUaNFMEMwEgYDVR0TAQH/BAgwBgEB/wIBADAOBgNVHQ8BAf8EBAMCAqQw
HQYDVR0OBBYEFG8vuD0oygGFGufWUJ/zDaRuDC50MAoGCCqGSM49BAMCA0gAMEUC
IAcO447tWMw+NlMSv58CoEzh3hYFFdEEQc+S4HBLj40dAiEAkHLCFUdyZ7qAbkJs
V6C4tCsIvSYLalgH8Ythec8nzDs=
-----END CERTIFICATE-----
""",
    b"""-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIExlyHM3B+gxB8uiWow2UgqgXxSgjrLxHx5bdz0Jz5uDoAoGCCqGSM49
AwEHoUQDQgAE3qN+EIxVxctF+lRz7Fi8wHT63Qu4Z/dJtH7xbrAEjmnx5A2upfow
w2NKGE8QD4RyPNDYfRA5uHCQ1IjoXnZRUQ==
-----END EC PRIVATE KEY-----
""",
)
"""A CA with the serial number 0, as all have that Cluster API generates; the library makes none."""


@pytest.mark.parametrize(
    ("authority", "kind", "header"),
    [
        pytest.param(ca(RSA, PKCS1), rsa.RSAPrivateKey, b"RSA PRIVATE KEY", id="RSA, PKCS#1"),
        pytest.param(ca(RSA, PKCS8), rsa.RSAPrivateKey, b"RSA PRIVATE KEY", id="RSA, PKCS#8"),
        pytest.param(ca(EC, PKCS1), ec.EllipticCurvePrivateKey, b"EC PRIVATE KEY", id="EC, SEC1"),
        pytest.param(CA, ec.EllipticCurvePrivateKey, b"EC PRIVATE KEY", id="EC, PKCS#8"),
        pytest.param(OTHER_CA, ec.EllipticCurvePrivateKey, b"EC PRIVATE KEY", id="EC, P-384"),
        pytest.param(SERIAL_0, ec.EllipticCurvePrivateKey, b"EC PRIVATE KEY", id="serial number 0"),
    ],
)
def test_kubeconfig_holds_an_admin_certificate_signed_by_the_ca(
    authority: CertificateAuthority, kind: type[Private], header: bytes
) -> None:
    document = yaml.safe_load(create_admin_kubeconfig("foo", "https://h:1", authority, until=NOW + 9 * DAY))
    assert (document["apiVersion"], document["kind"]) == ("v1", "Config")
    assert document["current-context"] == "foo-admin@foo"
    [context], [cluster], [user] = document["contexts"], document["clusters"], document["users"]
    assert context == {"name": "foo-admin@foo", "context": {"cluster": "foo", "user": "foo-admin"}}
    assert (cluster["name"], user["name"]) == ("foo", "foo-admin")
    assert cluster["cluster"]["server"] == "https://h:1"
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == authority.cert_pem
    certificate = x509.load_pem_x509_certificate(base64.b64decode(user["user"]["client-certificate-data"]))
    [issuer] = load_certificates(authority.cert_pem)
    certificate.verify_directly_issued_by(issuer)
    names = {attribute.oid: attribute.value for attribute in certificate.subject}
    assert names == {NameOID.COMMON_NAME: "kubernetes-admin", NameOID.ORGANIZATION_NAME: "system:masters"}
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    signs = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert (signs.critical, signs.value.digital_signature, signs.value.key_encipherment) == (True, True, True)
    assert (signs.value.key_cert_sign, signs.value.crl_sign, signs.value.data_encipherment) == (False, False, False)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca) == (True, False)
    key_pem = base64.b64decode(user["user"]["client-key-data"])
    client_key = serialization.load_pem_private_key(key_pem, None)
    assert header in key_pem
    assert isinstance(client_key, kind)
    assert client_key.public_key() == certificate.public_key()
    assert certificate.serial_number > 0
    assert certificate.not_valid_before_utc == issuer.not_valid_before_utc
    assert certificate.not_valid_after_utc == NOW + 9 * DAY


def test_bundle_is_trusted_as_a_whole_and_the_certificate_of_the_key_signs() -> None:
    bundle = CertificateAuthority.load(OTHER_CA.cert_pem + b"# the new one\n" + CA.cert_pem, CA.key_pem)
    document = yaml.safe_load(create_admin_kubeconfig("foo", "https://h:1", bundle, until=NOW + DAY))
    trusted = base64.b64decode(document["clusters"][0]["cluster"]["certificate-authority-data"])
    assert fingerprints(trusted) == CA.fingerprints | OTHER_CA.fingerprints
    client = base64.b64decode(document["users"][0]["user"]["client-certificate-data"])
    x509.load_pem_x509_certificate(client).verify_directly_issued_by(x509.load_pem_x509_certificate(CA.cert_pem))


def test_certificate_expires_with_its_ca_at_the_latest() -> None:
    short = ca(EC, PKCS8, until=NOW + 9 * DAY)
    document = yaml.safe_load(create_admin_kubeconfig("foo", "https://h:1", short, until=NOW + VALIDITY))
    client = base64.b64decode(document["users"][0]["user"]["client-certificate-data"])
    assert x509.load_pem_x509_certificate(client).not_valid_after_utc == NOW + 9 * DAY


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("localhost", "https://localhost:6443"),
        ("/localhost", "https://localhost:6443"),
        ("api.example.com", "https://api.example.com:6443"),
        ("::1", "https://[::1]:6443"),
        ("[::1]", "https://[::1]:6443"),
    ],
)
def test_server_url_has_brackets_around_ipv6(host: str, url: str) -> None:
    assert server_url(host, 6443) == url


def cluster(annotations: Object | None = None, **spec: object) -> Object:
    endpoint = {"controlPlaneEndpoint": {"host": "h", "port": 1}}
    metadata: Object = {"name": "demo", "namespace": "ns", "uid": "u", "generation": 1, "resourceVersion": "1"}
    metadata["annotations"] = annotations or {}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": metadata,
        "spec": {**endpoint, **spec},
        "status": {"phase": "Provisioning", "observedGeneration": 1},
    }


def of_core(obj: Object) -> Object:
    """Returns the Cluster with a condition that only Cluster API core writes."""
    entry = {"type": "TopologyReconciled", "status": "True", "observedGeneration": 1}
    return {**obj, "status": {**obj["status"], "conditions": [entry]}}


def secret(data: dict[str, bytes], **metadata: object) -> Object:
    encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", **metadata}, "data": encoded}


SERVER = "https://h:1"
OURS = Existing(True, SERVER, NOW + 300 * DAY, CA.fingerprints, secret=secret({}, name="demo-kubeconfig"))
THEIRS = Existing(False, "https://elsewhere:1", NOW + 300 * DAY)


def kubeconfig(
    authority: CertificateAuthority = CA, *, until: datetime = NOW + 300 * DAY, server: str = SERVER, **metadata: object
) -> Object:
    """Returns the Secret that was generated for the Cluster, but for its metadata."""
    document = create_admin_kubeconfig("demo", server, authority, until=until)
    name = {"name": "demo-kubeconfig", "namespace": "ns", "resourceVersion": "7", "ownerReferences": [{"uid": "u"}]}
    return {**secret({"value": document}, **{**name, **metadata}), "type": "cluster.x-k8s.io/secret"}


FUTURE = ca(EC, PKCS8, since=NOW + 2 * DAY)
ENCRYPTED = EC.private_bytes(serialization.Encoding.PEM, PKCS8, serialization.BestAvailableEncryption(b"x"))


@pytest.mark.parametrize(
    ("certificate", "key", "words"),
    [
        (b"", CA.key_pem, "tls.crt is missing"),
        (CA.cert_pem, b"", "tls.key is missing"),
        (b"garbage", CA.key_pem, "the certificate is not PEM"),
        (CA.cert_pem, b"garbage", "the key is not PEM"),
        (CA.cert_pem, CA.key_pem + b"#" * 4096, "more than 4 KiB"),
        (CA.cert_pem, ENCRYPTED, "the key is encrypted"),
        (CA.cert_pem, OTHER_CA.key_pem, "belongs to another key"),
        (ca(EC, PKCS8, until=NOW - DAY).cert_pem, CA.key_pem, f"expired at {rfc3339(NOW - DAY)}"),
        (FUTURE.cert_pem, CA.key_pem, f"not valid before {rfc3339(NOW + 2 * DAY)}"),
    ],
    ids=(
        "no crt",
        "no key",
        "invalid crt",
        "invalid key",
        "long",
        "encrypted",
        "other key",
        "expired",
        "not yet valid",
    ),
)
def test_fault_of_an_unusable_ca_is_reported(certificate: bytes, key: bytes, words: str) -> None:
    fault = ca_in(secret({"tls.crt": certificate, "tls.key": key}, name="demo-ca"), NOW)
    assert isinstance(fault, str)
    assert fault.startswith("Secret demo-ca cannot be used: ")
    assert words in fault


def test_usable_and_missing_ca_are_reported() -> None:
    assert ca_in(secret({"tls.crt": CA.cert_pem, "tls.key": CA.key_pem}), NOW) == CA
    assert ca_in(None, NOW) is None
    assert "tls.crt is missing" in str(ca_in(secret({}), NOW))


def test_ca_of_a_clock_that_is_ahead_by_hours_is_used() -> None:
    ahead = ca(EC, PKCS8, since=NOW + timedelta(hours=14))
    assert ca_in(secret({"tls.crt": ahead.cert_pem, "tls.key": ahead.key_pem}), NOW) == ahead


OWN, OF_CA = (secret({}, name=name, namespace="ns") for name in ("demo-kubeconfig", "demo-ca"))


@pytest.mark.parametrize(
    ("obj", "existing", "about", "resync", "is_needed"),
    [
        pytest.param(cluster(), None, None, False, True, id="none yet"),
        pytest.param(of_core(cluster()), None, OF_CA, False, False, id="core creates it"),
        pytest.param(cluster(), kubeconfig(), None, False, False, id="event of the Cluster"),
        pytest.param(cluster(), kubeconfig(), OWN, False, False, id="own event"),
        pytest.param(cluster(), kubeconfig(), OF_CA, False, True, id="event of the CA"),
        pytest.param(cluster(), kubeconfig(), None, True, True, id="a look at everything"),
        pytest.param(cluster(), kubeconfig(until=NOW + DAY), None, False, True, id="due"),
        pytest.param(cluster(), kubeconfig(server="https://other:1"), None, False, True, id="another endpoint"),
        pytest.param(cluster({REGENERATE_ANNOTATION: ""}), kubeconfig(), None, False, True, id="requested"),
        pytest.param(cluster(), kubeconfig(ownerReferences=[]), None, True, False, id="of a user"),
    ],
)
def test_ca_is_read_where_a_kubeconfig_may_have_to_be_written(
    obj: Object, existing: Object | None, about: Object | None, resync: bool, is_needed: bool
) -> None:
    event = change_event(about or obj, "add", source="/test", reference=about is not None, resync=resync)
    assert is_ca_needed(event, obj, existing and inspect(existing, obj), "", NOW) is is_needed


def jwt(expires: datetime, subject: str = "") -> bytes:
    claims = {"exp": int(expires.timestamp()), "sub": subject}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=")
    return b"e30." + payload + b".c2ln"


def of_user(user: Object, **of_cluster: object) -> Object:
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": "https://elsewhere:1", **of_cluster}}],
        "users": [{"name": "x", "user": user}],
    }
    return secret({"value": yaml.safe_dump(document).encode()}, name="demo-kubeconfig", namespace="ns")


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


CLIENT = CA.issue("me", until=NOW + 20 * DAY)
CREDENTIALS = {
    "client-certificate-data": encoded(CLIENT.cert_pem),
    "client-key-data": encoded(CLIENT.key_pem),
}
LATER, TWENTY_DAYS = NOW + 300 * DAY, NOW + 20 * DAY
ELSEWHERE = "https://elsewhere:1"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(kubeconfig(), OURS, id="generated"),
        pytest.param(kubeconfig(ownerReferences=[]), replace(OURS, generated=False), id="not owned"),
        pytest.param({**kubeconfig(), "type": "Opaque"}, replace(OURS, generated=False), id="of another type"),
        pytest.param(of_user(CREDENTIALS), Existing(False, ELSEWHERE, TWENTY_DAYS), id="client certificate"),
        pytest.param(of_user({"token": "opaque"}), Existing(False, ELSEWHERE), id="token"),
        *(
            pytest.param(
                of_user({"token": jwt(LATER, name).decode()}), Existing(False, ELSEWHERE, LATER), id=f"JWT{name}"
            )
            for name in ("", "x", "xx")
        ),
        pytest.param(of_user({"token": "a.b.c"}), Existing(False, ELSEWHERE), id="token with dots"),
    ],
)
def test_existing_kubeconfig_is_inspected(found: Object, expected: Existing) -> None:
    assert replace(inspect(found, cluster()), certificate=b"") == expected


def with_broken_name() -> Object:
    """Returns credentials whose certificate has a name that is no text."""
    pair = CA.issue("kubernetes-admin")
    der = load_certificates(pair.cert_pem)[0].public_bytes(serialization.Encoding.DER)
    broken = encoded(der.replace(b"kubernetes-admin", b"\xff" * 16)).encode()
    pem = b"-----BEGIN CERTIFICATE-----\n" + broken + b"\n-----END CERTIFICATE-----\n"
    return {"client-certificate-data": encoded(pem), "client-key-data": encoded(pair.key_pem)}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (of_user(with_broken_name()), "cannot be used"),
        (secret({}), 'missing key "value" in secret data'),
        ({**secret({}), "data": {"value": "%"}}, "not base64"),
        (secret({"value": b"{"}), "cannot be used"),
        (of_user({"exec": {"command": "x"}}), "only inline credentials are accepted"),
        (of_user({**CREDENTIALS, "client-key-data": encoded(CA.key_pem)}), "belongs to another key"),
        (
            of_user({**CREDENTIALS, "client-key-data": encoded(b"x")}),
            "the client certificate or its key cannot be used: the key is not PEM",
        ),
        (of_user({}, **{"certificate-authority-data": encoded(b"x")}), "the CA certificate is not PEM"),
    ],
)
def test_fault_of_a_kubeconfig_is_observed(found: Object, words: str) -> None:
    existing = inspect(found, cluster())
    assert not existing.generated
    assert words in existing.fault
    assert existing.fault.endswith("correct it, or delete it to have it generated")


BAD_SERVER = "https://[https://h]:1"
DAMAGED = inspect(kubeconfig(server=BAD_SERVER), cluster())


@pytest.mark.parametrize(
    ("found", "generated"),
    [
        pytest.param(kubeconfig(server=BAD_SERVER), True, id="for an endpoint that was no host and port"),
        pytest.param(kubeconfig(server=BAD_SERVER, ownerReferences=[]), False, id="not owned"),
        pytest.param({**kubeconfig(server=BAD_SERVER), "type": "Opaque"}, False, id="of another type"),
        pytest.param(
            {**of_user({"exec": {"command": "x"}}), "type": "cluster.x-k8s.io/secret"}
            | {"metadata": kubeconfig()["metadata"]},
            False,
            id="generated once, and edited since",
        ),
    ],
)
def test_generated_kubeconfig_is_recognized_by_its_user_although_it_cannot_be_used(
    found: Object, generated: bool
) -> None:
    existing = inspect(found, cluster())
    assert existing.fault
    assert existing.generated is generated


def test_generated_kubeconfig_that_cannot_be_used_is_replaced_as_soon_as_that_is_possible() -> None:
    for obj, authority in ((cluster(controlPlaneEndpoint={"host": "https://h", "port": 1}), CA), (cluster(), None)):
        waiting = Observed(obj, DAMAGED, authority)
        assert not decide(waiting, NOW).effects
        found = get_condition((decide(waiting, NOW).status or {})["conditions"], "KubeconfigAvailable") or {}
        assert (found["status"], found["reason"]) == ("False", "InvalidKubeconfig")
        obj = reported(waiting)
        assert is_reconciled(obj, change_event(obj, "update", source="/test"), NOW)
    corrected = reported(Observed(cluster(controlPlaneEndpoint={"host": "https://h", "port": 1}), DAMAGED, CA))
    corrected["spec"] = cluster()["spec"]
    assert not is_reconciled(corrected, change_event(corrected, "update", source="/test"), NOW)
    decision = decide(Observed(corrected, DAMAGED, CA), NOW)
    assert [event.reason for event in decision.kubernetes_events] == ["KubeconfigRenewed"]
    assert [effect.server for effect in decision.effects if isinstance(effect, WriteKubeconfig)] == [SERVER]
    of_others = reported(Observed(of_core(cluster()), DAMAGED, CA))
    assert is_reconciled(of_others, change_event(of_others, "update", source="/test"), NOW)
    of_others["metadata"]["annotations"] = {REGENERATE_ANNOTATION: ""}
    assert not is_reconciled(of_others, change_event(of_others, "update", source="/test"), NOW)


@pytest.mark.parametrize(
    ("annotation", "setting", "expected"),
    [
        (None, "", Threshold(182 * DAY)),
        (None, "30", Threshold(30 * DAY, is_set=True)),
        ("60", "30", Threshold(60 * DAY, is_set=True)),
        ("0", "30", Threshold(None, is_set=True)),
        ("364", "", Threshold(364 * DAY, is_set=True)),
    ],
)
def test_threshold_is_that_of_the_annotation_else_of_the_setting(
    annotation: str | None, setting: str, expected: Threshold
) -> None:
    obj = cluster({} if annotation is None else {RENEW_ANNOTATION: annotation})
    assert Threshold.of(obj, setting) == expected


@pytest.mark.parametrize("value", ["365", "-1", "1.5", "soon", "\u0661", "9" * 5000])
def test_invalid_threshold_is_reported_and_not_used(value: str) -> None:
    found = Threshold.of(cluster({RENEW_ANNOTATION: value}), "30")
    assert (found.before, found.is_set) == (182 * DAY, False)
    assert RENEW_ANNOTATION in found.fault
    decision = decide(Observed(cluster({RENEW_ANNOTATION: value}), OURS), NOW)
    assert [event.type for event in decision.kubernetes_events] == ["Warning"]


def test_new_kubeconfig_is_due_only_at_the_threshold_of_its_validity() -> None:
    new = replace(OURS, expires=NOW + VALIDITY)
    assert is_due(new, VALIDITY, NOW + timedelta(seconds=1))
    assert not is_due(new, VALIDITY - timedelta(hours=1), NOW)


def test_cluster_is_reconciled_until_its_kubeconfig_is_due() -> None:
    obj = reported(Observed(cluster({RENEW_ANNOTATION: "30"}), OURS))
    event, due = change_event(obj, "update", source="/test"), NOW + 270 * DAY
    assert is_reconciled(obj, event, due)
    assert not is_reconciled(obj, event, due + timedelta(seconds=1))


WITH_CA = ca(EC, PKCS8, until=NOW + 20 * DAY)
BUNDLE = CertificateAuthority(CA.cert_pem + OTHER_CA.cert_pem, CA.key_pem)
SIGNED = replace(OURS, trusted=BUNDLE.fingerprints, certificate=CA.issue("kubernetes-admin").cert_pem)
SOON = replace(OURS, expires=NOW + 20 * DAY)
EXPIRES_WITH_CA = Observed(cluster(), replace(SOON, trusted=WITH_CA.fingerprints), WITH_CA)


@pytest.mark.parametrize(
    ("observed", "status", "reason", "written", "requeue_after"),
    [
        pytest.param(Observed(cluster()), "False", "WaitingForCA", False, 30.0, id="no CA"),
        pytest.param(Observed(cluster(), None, "no key"), "False", "InvalidCA", False, 30.0, id="unusable CA"),
        pytest.param(Observed(cluster(), None, CA), "True", "Generated", True, None, id="none yet"),
        *(
            pytest.param(
                Observed(cluster(controlPlaneEndpoint={"host": host, "port": port}), None, CA),
                *("False", "InvalidEndpoint", False, None),
                id=f"no host and port: {host} {port}",
            )
            for host, port in [("https://h", 1), ("h:1", 1), ("h/x", 443), ("u@h", 1), ("a b", 1), ("h", 70000)]
        ),
        pytest.param(
            Observed(cluster(controlPlaneEndpoint={"host": "https://h2", "port": 1}), OURS, CA),
            *("True", "NotRenewed", False, None),
            id="endpoint became a URL",
        ),
        pytest.param(Observed(cluster(), OURS), "True", "Generated", False, None, id="valid"),
        pytest.param(Observed(cluster(), OURS, CA), "True", "Generated", False, None, id="valid, for this CA"),
        pytest.param(Observed(cluster(), OURS, OTHER_CA), "True", "Generated", True, None, id="CA rotated"),
        pytest.param(
            Observed(cluster(), SIGNED, BUNDLE), "True", "Generated", False, None, id="valid, for this bundle"
        ),
        pytest.param(
            Observed(cluster(), SIGNED, CertificateAuthority(BUNDLE.cert_pem, OTHER_CA.key_pem)),
            *("True", "Generated", True, None),
            id="the other CA of the bundle signs now",
        ),
        pytest.param(Observed(cluster(), OURS, "no key"), "True", "Generated", False, None, id="CA without key"),
        pytest.param(
            Observed(cluster(controlPlaneEndpoint={"host": "h2", "port": 1}), OURS, CA),
            *("True", "Generated", True, None),
            id="another endpoint",
        ),
        pytest.param(
            Observed(cluster({REGENERATE_ANNOTATION: ""}), OURS, CA), "True", "Generated", True, None, id="requested"
        ),
        pytest.param(Observed(cluster(), SOON, CA), "True", "Generated", True, None, id="due"),
        pytest.param(Observed(cluster(), OURS, CA, "330"), "True", "Generated", True, None, id="due by the setting"),
        pytest.param(
            Observed(cluster({RENEW_ANNOTATION: "10"}), SOON, CA, "330"),
            *("True", "Generated", False, None),
            id="not due by its annotation",
        ),
        pytest.param(Observed(cluster(), SOON, CA, "0"), "True", "Expires", False, None, id="renewal is off"),
        pytest.param(Observed(cluster(), SOON), "True", "NotRenewed", False, None, id="due, CA deleted"),
        pytest.param(Observed(cluster(), SOON, "no key"), "True", "NotRenewed", False, None, id="due, CA unusable"),
        pytest.param(
            EXPIRES_WITH_CA,
            *("True", "NotRenewed", False, None),
            id="expires with its CA",
        ),
        pytest.param(
            Observed(cluster(), replace(OURS, expires=NOW - DAY), "no key"),
            *("False", "NotRenewed", False, None),
            id="expired",
        ),
        pytest.param(
            Observed(cluster(), replace(OURS, expires=NOW - DAY), CA), "True", "Generated", True, None, id="was expired"
        ),
        pytest.param(Observed(cluster(), THEIRS), "True", "UserProvided", False, None, id="of a user"),
        pytest.param(
            Observed(cluster({REGENERATE_ANNOTATION: ""}), THEIRS), *("True", "UserProvided", False, None), id="theirs"
        ),
        pytest.param(
            Observed(cluster(), replace(THEIRS, expires=None)), "True", "UserProvided", False, None, id="without expiry"
        ),
        pytest.param(
            Observed(cluster(), replace(THEIRS, expires=NOW + 29 * DAY)),
            *("True", "Expires", False, None),
            id="user's expires soon",
        ),
        pytest.param(
            Observed(cluster(), replace(THEIRS, expires=NOW - DAY)),
            *("False", "Expired", False, None),
            id="user's has expired",
        ),
        pytest.param(
            Observed(cluster(), Existing(False, fault="no server")),
            *("False", "InvalidKubeconfig", False, None),
            id="user's is invalid",
        ),
    ],
)
def test_decision_and_condition_by_observed_secrets(
    observed: Observed, status: str, reason: str, written: bool, requeue_after: float | None
) -> None:
    decision = decide(observed, NOW)
    found = get_condition((decision.status or {})["conditions"], "KubeconfigAvailable")
    assert found is not None
    assert (found["status"], found["reason"]) == (status, reason)
    is_warning = reason in ("InvalidCA", "InvalidEndpoint", "NotRenewed", "Expires", "Expired", "InvalidKubeconfig")
    assert [event.type for event in decision.kubernetes_events if event.condition] == ["Warning"] * is_warning
    writes = [effect for effect in decision.effects if isinstance(effect, WriteKubeconfig)]
    assert bool(writes) is written
    assert decision.requeue_after == requeue_after
    assert decide(observed, NOW) == decision
    if written:
        assert found["message"] == f"Valid until {rfc3339(NOW + VALIDITY)} for {writes[0].server}"


@pytest.mark.parametrize(
    ("observed", "status", "reason", "written"),
    [
        pytest.param(Observed(of_core(cluster()), None, CA), "False", "ManagedByClusterAPI", False, id="none yet"),
        pytest.param(Observed(of_core(cluster()), OURS, CA), "True", "ManagedByClusterAPI", False, id="valid"),
        pytest.param(Observed(of_core(cluster()), SOON, CA), "True", "Expires", False, id="expires"),
        pytest.param(Observed(of_core(cluster()), SOON, CA, "182"), "True", "Generated", True, id="due by the setting"),
        pytest.param(
            Observed(of_core(cluster({RENEW_ANNOTATION: "182"})), SOON, CA), "True", "Generated", True, id="annotated"
        ),
        pytest.param(
            Observed(of_core(cluster({REGENERATE_ANNOTATION: ""})), OURS, CA),
            *("True", "ManagedByClusterAPI", True),
            id="requested",
        ),
        pytest.param(
            Observed(of_core(cluster({RENEW_ANNOTATION: "182"})), None, CA),
            *("False", "ManagedByClusterAPI", False),
            id="core creates it",
        ),
        pytest.param(
            Observed(of_core(cluster({CORE_ANNOTATION: "ignore"})), None, CA),
            "True",
            "Generated",
            True,
            id="not core's",
        ),
        pytest.param(Observed(of_core(cluster()), THEIRS), "True", "UserProvided", False, id="of a user"),
    ],
)
def test_beside_core_a_kubeconfig_is_never_created_and_renewed_on_request(
    observed: Observed, status: str, reason: str, written: bool
) -> None:
    decision = decide(observed, NOW)
    found = get_condition((decision.status or {})["conditions"], "KubeconfigAvailable") or {}
    assert (found["status"], found["reason"]) == (status, reason)
    assert bool(decision.effects) is written
    if reason == "ManagedByClusterAPI":
        events = [(event.reason, event.type) for event in decision.kubernetes_events if event.condition]
        assert events == ([(reason, "Normal")] if status == "True" else [])
        assert written or is_reconciled(
            reported(observed), change_event(reported(observed), "update", source="/test"), NOW
        )


URL_AS_HOST = cluster(controlPlaneEndpoint={"host": "https://h", "port": 1})
REPORTED = [
    Observed(URL_AS_HOST, None, CA),
    Observed(URL_AS_HOST, OURS, CA),
    Observed(cluster(), OURS),
    Observed(cluster(), SOON),
    Observed(cluster(), SOON, "Secret demo-ca cannot be used: no key"),
    Observed(cluster(), replace(SOON, trusted=WITH_CA.fingerprints), WITH_CA),
    Observed(cluster({RENEW_ANNOTATION: "x"}), OURS),
    Observed(cluster(), THEIRS),
    Observed(cluster(), replace(THEIRS, expires=None)),
    Observed(cluster(), replace(THEIRS, expires=NOW + DAY)),
    Observed(cluster(), replace(THEIRS, expires=NOW - DAY)),
    Observed(cluster(), Existing(False, fault="Secret demo-kubeconfig cannot be used: no")),
]


@pytest.mark.parametrize("observed", REPORTED)
def test_condition_records_all_that_the_next_decision_needs(observed: Observed) -> None:
    obj = reported(observed)
    assert is_reconciled(obj, change_event(obj, "update", source="/test"), NOW)


def reported(observed: Observed) -> Object:
    """Returns the Cluster after what was observed has been reported."""
    obj = deepcopy(observed.cluster) or {}
    obj["status"] |= decide(observed, NOW).status or {}
    return obj


@pytest.mark.parametrize("observed", [Observed(cluster(), OURS), EXPIRES_WITH_CA])
@pytest.mark.parametrize("change", [{"host": "h2", "port": 1}, {"host": "h", "port": 2}, None])
def test_changed_endpoint_and_a_request_are_something_to_do(observed: Observed, change: Object | None) -> None:
    obj = reported(observed)
    if change:
        obj["spec"]["controlPlaneEndpoint"] = change
    else:
        obj["metadata"]["annotations"] = {REGENERATE_ANNOTATION: ""}
    assert not is_reconciled(obj, change_event(obj, "update", source="/test"), NOW)


def test_cluster_of_core_is_reported_once_whatever_becomes_of_its_kubeconfig() -> None:
    obj = reported(Observed(of_core(cluster()), OURS))
    assert not decide(Observed(obj, replace(OURS, expires=NOW + 200 * DAY)), NOW).kubernetes_events


def test_new_generation_is_no_reason_to_write() -> None:
    obj = reported(Observed(cluster(), OURS))
    obj["metadata"]["generation"] = obj["status"]["observedGeneration"] = 2
    assert decide(Observed(obj, OURS), NOW).asks_for_nothing(obj)


def test_renewal_says_why() -> None:
    [due, *_] = decide(
        Observed(cluster(), replace(SOON, secret=secret({}, name="demo-kubeconfig")), CA), NOW
    ).kubernetes_events
    assert due.message == f"Secret demo-kubeconfig renewed: it was valid until {rfc3339(NOW + 20 * DAY)}"


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
        Observed(cluster(paused=True), None, CA),
        Observed(cluster(controlPlaneEndpoint={}), None, CA),
        Observed(cluster(controlPlaneRef={"kind": "K", "name": "n"}), None, CA),
        Observed({**cluster(), "metadata": {**cluster()["metadata"], "deletionTimestamp": "t"}}, None, CA),
        Observed({**cluster(), "status": {}}, None, CA),
        Observed({**cluster(), "metadata": {**cluster()["metadata"], "generation": 2}}, None, CA),
    ],
)
def test_no_effect_while_paused_deleted_unobserved_or_owned_by_control_plane(observed: Observed) -> None:
    decision = decide(observed, NOW)
    assert not decision.effects
    assert decision.status is None


def test_creation_is_reported() -> None:
    decision = decide(Observed(cluster(), None, CA), NOW)
    assert [(event.reason, event.type) for event in decision.kubernetes_events] == [("KubeconfigGenerated", "Normal")]
    [effect] = decision.effects
    assert isinstance(effect, WriteKubeconfig)
    assert effect.until == NOW + timedelta(days=365)


def test_request_is_removed_after_the_renewal() -> None:
    obj = cluster({REGENERATE_ANNOTATION: "now"})
    decision = decide(Observed(obj, inspect(kubeconfig(), obj), CA), NOW)
    assert [(event.reason, event.type) for event in decision.kubernetes_events] == [("KubeconfigRenewed", "Normal")]
    renewal, request = decision.effects
    assert isinstance(renewal, WriteKubeconfig)
    assert renewal.secret["metadata"]["resourceVersion"] == "7"
    assert request == Patch(CLUSTER, obj, {"metadata": {"annotations": {REGENERATE_ANNOTATION: None}}})


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
    assert is_reconciled(obj, change_event(obj, "update", source="/test"), NOW) is reconciled


def test_condition_holds_for_every_generation() -> None:
    """`kubectl wait` ignores a condition of an older generation, and a change of the spec does not update this one."""
    obj = cluster()
    obj["status"]["conditions"] = [AVAILABLE | {"observedGeneration": 1}]
    [condition] = (decide(Observed(obj, OURS), NOW).status or {})["conditions"]
    assert "observedGeneration" not in condition


def test_event_of_a_secret_is_a_reason_to_read_it_while_a_kubeconfig_is_needed() -> None:
    obj = cluster()
    obj["status"] |= decide(Observed(obj, OURS), NOW).status or {}
    for name, reconciled in (("demo-kubeconfig", False), ("demo-ca", False), ("demo-etcd", True)):
        event = change_event(secret({}, name=name, namespace="ns"), "delete", source="/test")
        assert is_reconciled(obj, event, NOW) is reconciled
        assert is_reconciled(cluster(paused=True), event, NOW)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("demo-ca", "demo"),
        ("demo-sa", "demo"),
        ("demo-apiserver-etcd-client", "demo"),
        ("demo-kubeconfig", "demo"),
        ("test-capa-ca", "test-capa"),
        ("foo", None),
        ("foo-bar", None),
    ],
)
def test_secret_name_maps_to_cluster(name: str, key: str | None) -> None:
    found = cluster_of({"metadata": {"name": name, "namespace": "ns"}})
    assert found == (Key("ns", key) if key else None)
