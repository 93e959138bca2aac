"""Issues the serving certificates of webhooks that cert-manager does not issue, and finds those due for renewal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from shared.api import provider as provider_api
from shared.api.resources import SECRET
from shared.components import certificates
from shared.components.certificates import CERTIFICATE_NAME, CertificateRequest
from shared.effects import Effect, Patch
from shared.kube import Key, Object, dig

Secrets = Mapping[Key, Object | None]
"""The Secrets of certificates, by key; None for a missing Secret."""


def foreign_secret(provider: Object, requests: Sequence[CertificateRequest], secrets: Secrets) -> str:
    """Returns a message about the first Secret that exists and is not the provider's; empty if there is none."""
    for request in requests:
        secret = secrets[request.secret]
        if secret is not None and not _is_replaceable(secret, provider):
            return (
                f"Secret {request.secret} of Certificate {request.certificate} exists and does not belong to this "
                "provider: delete it, or name another Secret in the Certificate"
            )
    return ""


def _is_replaceable(secret: Object, provider: Object) -> bool:
    """Returns whether this provider or cert-manager has created the Secret, or it holds nothing but a certificate."""
    label = dig(secret, ("metadata", "labels", provider_api.PROVIDER_LABEL))
    ours = label == provider_api.label_of(provider) or CERTIFICATE_NAME in dig(secret, "metadata.annotations", {})
    return ours or set(dig(secret, "data", {})) <= {"ca.crt", "tls.crt", "tls.key"}


def issue_due(requests: Sequence[CertificateRequest], secrets: Secrets, now: datetime) -> dict[Key, Object]:
    """Returns the Secrets, by key, with new certificates for those that are absent, invalid, or due for renewal."""
    return {
        request.secret: _issue(request, secrets[request.secret])
        for request in requests
        if _is_due(request, secrets[request.secret], now)
    }


def _is_due(request: CertificateRequest, secret: Object | None, now: datetime) -> bool:
    renewal = certificates.renewal_time(secret, request) if secret else None
    return renewal is None or renewal <= now


def _issue(request: CertificateRequest, before: Object | None) -> Object:
    secret = certificates.issue(request, before)
    return secret if before is None else {**before, "data": secret["data"]}


def renewals(issued: Mapping[Key, Object], secrets: Secrets) -> list[Effect]:
    """Returns the effects that renew certificates: of two the second conflicts. The sync creates new ones."""
    found = [(secret, before) for key, secret in issued.items() if (before := secrets[key]) is not None]
    return [Patch(SECRET, before, {"data": secret["data"]}) for secret, before in found]


def next_renewal(requests: Sequence[CertificateRequest], secrets: Secrets) -> datetime | None:
    """Returns when the first of the certificates issued here is to be renewed."""
    times = [certificates.renewal_time(secrets[request.secret] or {}, request) for request in requests]
    return min((time for time in times if time), default=None)
