"""Serving certificates of providers' webhooks in clusters without cert-manager."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from shared.components.certificates import (
    INJECT,
    RENEWED_BEFORE,
    CertificateRequest,
    certificate_requests,
    inject_ca_bundles,
    issue,
    renewal_time,
)
from shared.kube import Key, Object, dig

NAMES = ("webhook.capi-system.svc", "webhook.capi-system.svc.cluster.local")
REQUEST = CertificateRequest(Key("capi-system", "serving"), Key("capi-system", "webhook-cert"), NAMES)
CERTIFICATE: Object = {
    "apiVersion": "cert-manager.io/v1",
    "kind": "Certificate",
    "metadata": {"name": "serving", "namespace": "capi-system"},
    "spec": {"dnsNames": list(NAMES), "secretName": "webhook-cert", "issuerRef": {"kind": "Issuer", "name": "self"}},
}


def certificates(secret: Object, name: str) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(base64.b64decode(secret["data"][name]))


def test_certificate_objects_become_requests() -> None:
    issuer = {**CERTIFICATE, "kind": "Issuer"}
    other = {**CERTIFICATE, "apiVersion": "example.com/v1"}
    assert certificate_requests([issuer, CERTIFICATE, other]) == [REQUEST]
    addressed = {**CERTIFICATE, "spec": {**CERTIFICATE["spec"], "ipAddresses": ["::1", "no address", "127.0.0.1"]}}
    assert certificate_requests([addressed]) == [replace(REQUEST, addresses=("::1", "127.0.0.1"))]


def test_certificate_is_for_the_addresses_too() -> None:
    request = replace(REQUEST, addresses=("::1",))
    secret = issue(request)
    (certificate,) = certificates(secret, "tls.crt")
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["::1"]
    assert renewal_time(secret, request) is not None
    assert renewal_time(secret, replace(request, addresses=("0:0:0:0:0:0:0:1",))) is not None
    assert renewal_time(secret, replace(request, addresses=("::1", "::2"))) is None


def test_issued_certificate_has_the_requested_names_and_its_ca() -> None:
    secret = issue(REQUEST)
    assert (secret["type"], secret["metadata"]) == (
        "kubernetes.io/tls",
        {"name": "webhook-cert", "namespace": "capi-system"},
    )
    [serving], [ca] = certificates(secret, "tls.crt"), certificates(secret, "ca.crt")
    names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == list(NAMES)
    key = ca.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    key.verify(serving.signature, serving.tbs_certificate_bytes, ec.ECDSA(SHA256()))
    until = renewal_time(secret, REQUEST)
    assert until is not None
    assert until == serving.not_valid_after_utc - RENEWED_BEFORE
    assert until > datetime.now(UTC) + timedelta(days=200)


def test_secret_that_does_not_serve_the_request_has_no_renewal_time() -> None:
    secret, other = issue(REQUEST), issue(REQUEST)
    data = secret["data"]
    broken: list[Object] = [
        {**secret, "data": {}},
        {**secret, "data": {**data, "tls.key": other["data"]["tls.key"]}},
        {**secret, "data": {**data, "tls.crt": base64.b64encode(b"no certificate").decode()}},
        {**secret, "data": {**data, "ca.crt": ""}},
        {"kind": "Secret"},
    ]
    assert [renewal_time(found, REQUEST) for found in broken] == [None] * len(broken)
    more = CertificateRequest(REQUEST.certificate, REQUEST.secret, (*NAMES, "another.svc"))
    assert renewal_time(secret, more) is None


def test_renewed_secret_still_trusts_the_previous_ca() -> None:
    first = issue(REQUEST)
    second = issue(REQUEST, first)
    third = issue(REQUEST, second)
    [a], [b, before_b], [c, before_c] = (certificates(secret, "ca.crt") for secret in (first, second, third))
    assert (before_b, before_c) == (a, b)
    assert len({a, b, c}) == 3


def test_ca_is_injected_into_annotated_objects_and_cert_manager_objects_are_removed() -> None:
    annotations = {INJECT: "capi-system/serving"}
    webhook: Object = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "w", "annotations": annotations},
        "webhooks": [{"name": "a", "clientConfig": {"service": {"name": "s"}}}, {"name": "b"}],
    }
    crd: Object = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "c", "annotations": annotations},
        "spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": "s"}}}}},
    }
    plain: Object = {**crd, "spec": {}}
    foreign: Object = {**webhook, "metadata": {"name": "f", "annotations": {INJECT: "elsewhere/serving"}}}
    secret = issue(REQUEST)
    objects = [CERTIFICATE, webhook, crd, plain, foreign]
    result = inject_ca_bundles(objects, {REQUEST.certificate: secret})
    ca = secret["data"]["ca.crt"]
    assert [hook["clientConfig"]["caBundle"] for hook in result[0]["webhooks"]] == [ca, ca]
    assert dig(result[1], "spec.conversion.webhook.clientConfig") == {"service": {"name": "s"}, "caBundle": ca}
    assert result[2:] == [plain, foreign]
    assert "caBundle" not in webhook["webhooks"][0]["clientConfig"]
