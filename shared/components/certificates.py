"""What cert-manager does for providers, for clusters without it: serving certificates of their webhooks, and the CA in
webhook configurations and CRDs.

Each Certificate object becomes a Secret with a certificate of a CA of its own. The Secret's `ca.crt` also holds the CA
before, so that a renewal breaks no connection while the new files are on their way into the pods.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.kube.resources import Key, Object, dig, key_of, split_api_version

CERT_MANAGER = "cert-manager.io"
INJECT = f"{CERT_MANAGER}/inject-ca-from"
CERTIFICATE_NAME = f"{CERT_MANAGER}/certificate-name"
"""On a Secret that cert-manager keeps a certificate in."""

VALIDITY = timedelta(days=365)
RENEWED_BEFORE = timedelta(days=120)
"""The end of its validity, as cert-manager does it by default: a third of the time."""


@dataclass(frozen=True)
class Request:
    """What a Certificate object asks for, and the Secret to put it into."""

    certificate: Key
    secret: Key
    names: tuple[str, ...]


def requests(objects: Iterable[Mapping[str, Any]]) -> list[Request]:
    """One for each of cert-manager's Certificates."""
    found = []
    for obj in objects:
        if _group(obj) == CERT_MANAGER and obj["kind"] == "Certificate" and dig(obj, "spec.secretName"):
            key, names = key_of(obj), tuple(map(str, dig(obj, "spec.dnsNames", [])))
            found.append(Request(key, Key(key.namespace, str(dig(obj, "spec.secretName"))), names))
    return found


def issue(request: Request, before: Mapping[str, Any] | None = None) -> Object:
    """A Secret with a fresh key and certificate; `before` is the one that it takes the place of."""
    from shared.certificates import Authority

    name = (request.names or (request.certificate.name,))[0]
    authority = Authority.generate(f"{request.certificate.name} CA", VALIDITY)
    pair = authority.issue(name[:64], dns=request.names, server=True, valid_for=VALIDITY)
    trusted = authority.cert_pem + _first(_data(before or {}, "ca.crt"))
    data = {"ca.crt": trusted, "tls.crt": pair.cert_pem, "tls.key": pair.key_pem}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": request.secret.name, "namespace": request.secret.namespace},
        "type": "kubernetes.io/tls",
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


def renewal(secret: Mapping[str, Any], request: Request) -> datetime | None:
    """When the Secret's certificate is to be renewed; None for one that does not serve."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        certificate = x509.load_pem_x509_certificate(_data(secret, "tls.crt"))
        key = load_pem_private_key(_data(secret, "tls.key"), password=None)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return None
    served = set(names.get_values_for_type(x509.DNSName))
    fits = key.public_key() == certificate.public_key() and served >= set(request.names)
    if not fits or not _data(secret, "ca.crt"):
        return None
    return certificate.not_valid_after_utc - RENEWED_BEFORE


def with_own(objects: Sequence[Object], secrets: Mapping[Key, Mapping[str, Any]]) -> list[Object]:
    """The objects without cert-manager's, with the CAs of these Secrets (by the key of their Certificate) injected."""
    result = []
    for obj in objects:
        if _group(obj) == CERT_MANAGER:
            continue
        secret = secrets.get(_key(dig(obj, ("metadata", "annotations", INJECT), "")))
        result.append(obj if secret is None else _injected(obj, str(dig(secret, ("data", "ca.crt"), ""))))
    return result


def _injected(obj: Object, authority: str) -> Object:
    obj = deepcopy(obj)
    match obj["kind"]:
        case "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration":
            for webhook in obj.get("webhooks") or []:
                webhook.setdefault("clientConfig", {})["caBundle"] = authority
        case "CustomResourceDefinition":
            client = dig(obj, "spec.conversion.webhook.clientConfig")
            if client is not None:
                client["caBundle"] = authority
        case "APIService":
            obj.setdefault("spec", {})["caBundle"] = authority
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
    """The first certificate of a bundle, if it is valid still."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    try:
        certificate = x509.load_pem_x509_certificates(bundle)[0]
    except (ValueError, IndexError):
        return b""
    return certificate.public_bytes(Encoding.PEM) if certificate.not_valid_after_utc > datetime.now(UTC) else b""
