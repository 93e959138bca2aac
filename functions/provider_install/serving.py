"""The serving certificates that are left to us: whose Secrets they go into, which are due, and their issuing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared.api import provider as provider_api
from shared.api.resources import SECRET
from shared.components import certificates
from shared.components.certificates import CERTIFICATE_NAME, Request
from shared.effects import Create, Effect, Patch
from shared.kube import Object, dig, owner_reference

from . import objects
from .observe import Observed


def taken(observed: Observed, provider: Object) -> str:
    """Which Secret that a certificate is to be kept in is somebody else's."""
    for request in observed.requests:
        secret = observed.secrets[request.secret]
        if secret is not None and not _for_certificates(secret, provider):
            return (
                f"Secret {request.secret}, where Certificate {request.certificate} is to be kept, exists and is not "
                "this provider's: delete it, or have the Certificate name another"
            )
    return ""


def _for_certificates(secret: Object, provider: Object) -> bool:
    """Made by a provider of this name or by cert-manager, or good for nothing else."""
    label = dig(secret, ("metadata", "labels", provider_api.PROVIDER_LABEL))
    made = label == provider_api.label_of(provider) or CERTIFICATE_NAME in dig(secret, "metadata.annotations", {})
    return made or set(dig(secret, "data", {})) <= {"ca.crt", "tls.crt", "tls.key"}


def due(observed: Observed, now: datetime) -> list[Request]:
    """Those that are not there, do not serve, or come to their end."""
    wanted = []
    for request in observed.requests:
        secret = observed.secrets[request.secret]
        renewal = certificates.renewal(secret, request) if secret else None
        if renewal is None or renewal <= now:
            wanted.append(request)
    return wanted


def issue(observed: Observed, provider: Object, requests: Sequence[Request]) -> tuple[Effect, ...]:
    return tuple(_issue(provider, request, observed.secrets[request.secret]) for request in requests)


def _issue(provider: Object, request: Request, before: Object | None) -> Effect:
    """Created or changed only in the state that was seen: of two that issue at once, one wins."""
    secret = certificates.issue(request, before)
    if before is not None:
        return Patch(SECRET, before, {"data": secret["data"]})
    secret["metadata"] |= {"labels": objects.labels(provider), "ownerReferences": [owner_reference(provider)]}
    return Create(SECRET, secret)


def renew_at(observed: Observed) -> datetime | None:
    """When the first of our certificates is to be renewed."""
    times = [certificates.renewal(observed.secrets[one.secret] or {}, one) for one in observed.requests]
    return min((time for time in times if time), default=None)
