"""Inspects a kubeconfig Secret: its creator, server and validity."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from shared.kube import MANAGER, Object, dig, key_of, owned_by
from shared.kube.connect import KubeconfigError, inline_credentials
from shared.kube.credentials import Credentials
from shared.kube.loading_rules import entry, parse

from .admin_kubeconfig import ADMIN

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

GENERATED_TYPE = "cluster.x-k8s.io/secret"
"""The type of the Secrets that Cluster API and this function generate."""
FIELD_MANAGER = f"{MANAGER}-kubeconfig"
"""The field manager of this function's Secrets and conditions."""
_HINT = "correct it, or delete it to have it generated"


@dataclass(frozen=True)
class Existing:
    """The facts about a kubeconfig Secret for decisions; none of them is secret."""

    generated: bool
    """Whether Cluster API or this function generated it. All others belong to users and are never changed."""
    server: str = ""
    expires: datetime | None = None
    """When the client certificate or the token expires; None: never, or unknown."""
    trusted: frozenset[bytes] = frozenset()
    """The fingerprints of the CA certificates."""
    certificate: bytes = b""
    """The client certificate in PEM; empty without one, or if it was not read."""
    fault: str = ""
    """Why it cannot be used, as a sentence for the user; else only `generated` is known then."""
    secret: Object = field(default_factory=dict, compare=False, repr=False)
    """Identity and version of the Secret, without its data."""


def inspect(secret: Object, cluster: Mapping[str, object]) -> Existing:
    """Returns the facts about the Secret."""
    identity: Object = {name: secret[name] for name in ("apiVersion", "kind", "metadata") if name in secret}
    is_ours = owned_by(secret, cluster) and secret.get("type") == GENERATED_TYPE
    try:
        credentials = inline_credentials(_content(secret))
        certificate = _certificate(credentials)
        trusted = _fingerprints(credentials.ca)
        is_admin = certificate is not None and _is_admin(certificate)
    except (KubeconfigError, ValueError) as error:
        fault = f"Secret {key_of(secret).name} cannot be used: {error}; {_HINT}"
        return Existing(is_ours and _has_admin(secret, cluster), fault=fault, secret=identity)
    expires = certificate.not_valid_after_utc if certificate else _token_expiry(credentials.bearer())
    return Existing(is_ours and is_admin, credentials.host, expires, trusted, credentials.certificate, secret=identity)


def _is_admin(certificate: Certificate) -> bool:
    return f"CN={ADMIN}" in certificate.subject.rfc4514_string().split(",")


def _has_admin(secret: Object, cluster: Mapping[str, object]) -> bool:
    """Returns whether this kubeconfig contains the user of generated kubeconfigs, even if it is otherwise invalid."""
    from shared.certificates import load_certificates

    try:
        user = entry(parse(_content(secret), untyped=True), "users", f"{key_of(cluster).name}-admin", "user")
        return _is_admin(load_certificates(base64.b64decode(user["client-certificate-data"], validate=True))[0])
    except (KubeconfigError, ValueError, KeyError, TypeError):
        return False


def _content(secret: Object) -> bytes:
    try:
        content = base64.b64decode(dig(secret, "data.value") or "", validate=True)
    except (binascii.Error, TypeError) as error:
        raise ValueError('the key "value" is not base64') from error
    if not content:
        raise ValueError('missing key "value" in secret data')
    return content


def _certificate(credentials: Credentials) -> Certificate | None:
    """Returns the client certificate, None if there is none. Raises `ValueError` if it cannot be used."""
    from cryptography.exceptions import UnsupportedAlgorithm

    from shared.certificates import load_certificates, load_key

    if not credentials.certificate:
        return None
    try:
        certificate = load_certificates(credentials.certificate)[0]
        fits = load_key(credentials.key).public_key() == certificate.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"the client certificate or its key cannot be used: {error}") from None
    if not fits:
        raise ValueError("the client certificate belongs to another key")
    return certificate


def _fingerprints(ca: bytes) -> frozenset[bytes]:
    from shared.certificates import fingerprints

    try:
        return fingerprints(ca) if ca else frozenset()
    except ValueError:
        raise ValueError("the CA certificate is not PEM") from None


def _token_expiry(token: str) -> datetime | None:
    """Returns when a token expires; None if it is no JWT, or does not expire."""
    _, _, rest = token.partition(".")
    payload = rest.partition(".")[0]
    try:
        found = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"]
        return datetime.fromtimestamp(int(found), UTC)
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
        return None
