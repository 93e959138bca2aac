"""Issues the serving certificates of providers' webhooks, and injects their CAs, in clusters without cert-manager.

Each Certificate object becomes a Secret with a certificate of its own CA. The Secret's `ca.crt` also has the previous
CA, so that connections work while a renewed certificate reaches the pods.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.kube.resources import Key, Object, dig, key_of, split_api_version

CERT_MANAGER = "cert-manager.io"
INJECT = f"{CERT_MANAGER}/inject-ca-from"
CERTIFICATE_NAME = f"{CERT_MANAGER}/certificate-name"
"""The annotation of Secrets that cert-manager has issued."""

VALIDITY = timedelta(days=365)
RENEWED_BEFORE = timedelta(days=120)
"""A certificate is renewed this long before it expires: a third of its validity, as cert-manager does."""


@dataclass(frozen=True)
class CertificateRequest:
    """The DNS names and IP addresses that a Certificate object requests, and the Secret for the certificate."""

    certificate: Key
    secret: Key
    names: tuple[str, ...]
    addresses: tuple[str, ...] = ()


def certificate_requests(objects: Iterable[Mapping[str, Any]]) -> list[CertificateRequest]:
    """Returns the requests of cert-manager's Certificate objects."""
    found = []
    for obj in objects:
        if _group(obj) == CERT_MANAGER and obj["kind"] == "Certificate" and dig(obj, "spec.secretName"):
            key, names = key_of(obj), tuple(map(str, dig(obj, "spec.dnsNames", [])))
            addresses = tuple(filter(is_address, map(str, dig(obj, "spec.ipAddresses", []))))
            found.append(
                CertificateRequest(key, Key(key.namespace, str(dig(obj, "spec.secretName"))), names, addresses)
            )
    return found


def is_address(text: str) -> bool:
    """Returns whether a text is an IP address, not a DNS name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def issue(request: CertificateRequest, before: Mapping[str, Any] | None = None) -> Object:
    """Returns a Secret with a new key and certificate; `before` is the Secret that it replaces."""
    from shared.certificates import CertificateAuthority

    name = (request.names or (request.certificate.name,))[0]
    ca = CertificateAuthority.generate(f"{request.certificate.name} CA", VALIDITY)
    pair = ca.issue(name[:64], dns=request.names, ips=request.addresses, server=True, valid_for=VALIDITY)
    trusted = ca.cert_pem + _first(_data(before or {}, "ca.crt"))
    data = {"ca.crt": trusted, "tls.crt": pair.cert_pem, "tls.key": pair.key_pem}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": request.secret.name, "namespace": request.secret.namespace},
        "type": "kubernetes.io/tls",
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


def renewal_time(secret: Mapping[str, Any], request: CertificateRequest) -> datetime | None:
    """Returns when to renew the Secret's certificate; None if the Secret does not serve the request."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        certificate = x509.load_pem_x509_certificate(_data(secret, "tls.crt"))
        key = load_pem_private_key(_data(secret, "tls.key"), password=None)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return None
    served = set(names.get_values_for_type(x509.DNSName)) >= set(request.names)
    wanted = {ipaddress.ip_address(address) for address in request.addresses}
    fits = served and set(names.get_values_for_type(x509.IPAddress)) >= wanted
    fits = fits and key.public_key() == certificate.public_key()
    if not fits or not _data(secret, "ca.crt"):
        return None
    return certificate.not_valid_after_utc - RENEWED_BEFORE


def inject_ca_bundles(objects: Sequence[Object], secrets: Mapping[Key, Mapping[str, Any]]) -> list[Object]:
    """Returns the objects except cert-manager's, with CAs injected.

    Args:
        objects: The objects; annotation `cert-manager.io/inject-ca-from` names a Certificate.
        secrets: The issued Secrets by the key of their Certificate.
    """
    result = []
    for obj in objects:
        if _group(obj) == CERT_MANAGER:
            continue
        secret = secrets.get(_key(dig(obj, ("metadata", "annotations", INJECT), "")))
        result.append(obj if secret is None else with_ca_bundle(obj, str(dig(secret, ("data", "ca.crt"), ""))))
    return result


def with_ca_bundle(obj: Object, ca: str) -> Object:
    """Returns the object with a CA (PEM in base64) for the webhook servers that it names."""
    obj = deepcopy(obj)
    match obj["kind"]:
        case "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration":
            for webhook in obj.get("webhooks") or []:
                webhook.setdefault("clientConfig", {})["caBundle"] = ca
        case "CustomResourceDefinition":
            client = dig(obj, "spec.conversion.webhook.clientConfig")
            if client is not None:
                client["caBundle"] = ca
        case "APIService":
            obj.setdefault("spec", {})["caBundle"] = ca
    return obj


def _group(obj: Mapping[str, Any]) -> str:
    return split_api_version(obj["apiVersion"])[0]


def _key(text: str) -> Key:
    namespace, _, name = str(text).partition("/")
    return Key(namespace, name)


def _data(secret: Mapping[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(dig(secret, ("data", name), ""))
    except ValueError:
        return b""


def _first(bundle: bytes) -> bytes:
    """Returns the first certificate of a bundle; empty if it has expired."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    try:
        certificate = x509.load_pem_x509_certificates(bundle)[0]
    except (ValueError, IndexError):
        return b""
    return certificate.public_bytes(Encoding.PEM) if certificate.not_valid_after_utc > datetime.now(UTC) else b""
