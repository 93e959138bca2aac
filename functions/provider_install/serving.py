"""Issues the serving certificates of webhooks that cert-manager does not issue, and finds those due for renewal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared.api import provider as provider_api
from shared.api.resources import SECRET
from shared.components import certificates
from shared.components.certificates import CERTIFICATE_NAME, CertificateRequest
from shared.effects import Create, Effect, Patch
from shared.kube import Object, dig, owner_reference

from . import objects
from .observe import Observed


def foreign_secret(observed: Observed, provider: Object) -> str:
    """Returns a message about the first Secret that exists and is not the provider's; empty if there is none."""
    for request in observed.requests:
        secret = observed.secrets[request.secret]
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


def due(observed: Observed, now: datetime) -> list[CertificateRequest]:
    """Returns the certificates that do not exist, are invalid, or are due for renewal."""
    wanted = []
    for request in observed.requests:
        secret = observed.secrets[request.secret]
        renewal = certificates.renewal_time(secret, request) if secret else None
        if renewal is None or renewal <= now:
            wanted.append(request)
    return wanted


def issue(observed: Observed, provider: Object, requests: Sequence[CertificateRequest]) -> tuple[Effect, ...]:
    """Returns the effects that write new certificates to the Secrets of `requests`."""
    return tuple(_issue(provider, request, observed.secrets[request.secret]) for request in requests)


def _issue(provider: Object, request: CertificateRequest, before: Object | None) -> Effect:
    """Returns the effect that writes a new certificate: a create, or a patch of the Secret that was read.

    Of two concurrent writes the second fails with a conflict.
    """
    secret = certificates.issue(request, before)
    if before is not None:
        return Patch(SECRET, before, {"data": secret["data"]})
    secret["metadata"] |= {"labels": objects.labels(provider), "ownerReferences": [owner_reference(provider)]}
    return Create(SECRET, secret)


def next_renewal(observed: Observed) -> datetime | None:
    """Returns when the first of the certificates issued here is to be renewed."""
    times = [certificates.renewal_time(observed.secrets[one.secret] or {}, one) for one in observed.requests]
    return min((time for time in times if time), default=None)
