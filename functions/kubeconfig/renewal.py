"""Decides whether a generated kubeconfig must be renewed, and what prevents it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from shared.api import cluster as cluster_api
from shared.api.names import REGENERATE_ANNOTATION, RENEW_ANNOTATION
from shared.kube import dig
from shared.network import origin

from .admin_kubeconfig import VALIDITY, server_url
from .existing import Existing

if TYPE_CHECKING:
    from shared.certificates import CertificateAuthority

RENEW_SETTING = "KUBECONFIG_RENEW_DAYS"
DEFAULT_DAYS = 182
"""Half of the validity, as in Cluster API's own control-plane provider, leaves half a year to notice failures."""


@dataclass(frozen=True)
class Threshold:
    """How long before its expiry a kubeconfig is renewed."""

    before: timedelta | None
    """None: it is not renewed."""
    is_set: bool = False
    """Whether the annotation or the setting defines it; then it also applies beside Cluster API core."""
    fault: str = ""
    """Why the annotation or the setting is not used."""

    @classmethod
    def of(cls, cluster: Mapping[str, Any], setting: str) -> Threshold:
        """Returns the threshold of the Cluster's annotation, else of the setting, else the default."""
        annotated = (dig(cluster, "metadata.annotations") or {}).get(RENEW_ANNOTATION)
        name, text = (RENEW_ANNOTATION, str(annotated)) if annotated is not None else (RENEW_SETTING, setting)
        days, longest = text.strip(), VALIDITY.days - 1
        if not days:
            return cls(timedelta(days=DEFAULT_DAYS))
        if not (days.isascii() and days.isdigit() and len(days) < 9 and int(days) <= longest):
            wanted = f"a number of days from 1 to {longest}, or 0 for no renewal"
            return cls(timedelta(days=DEFAULT_DAYS), fault=f"{name} is not {wanted}: {DEFAULT_DAYS} days are used")
        return cls(timedelta(days=int(days)) if int(days) else None, is_set=True)


def is_requested(cluster: Mapping[str, Any]) -> bool:
    """Returns whether the Cluster's annotation requests a new kubeconfig."""
    return REGENERATE_ANNOTATION in (dig(cluster, "metadata.annotations") or {})


def wanted_server(cluster: Mapping[str, Any]) -> str:
    """Returns the URL of the Cluster's endpoint; empty without one."""
    endpoint = cluster_api.endpoint(cluster)
    return server_url(*endpoint) if endpoint else ""


def endpoint_fault(cluster: Mapping[str, Any]) -> str:
    """Returns why no kubeconfig can use the Cluster's endpoint; empty if one can."""
    host, port = cluster_api.endpoint(cluster) or ("", 0)
    try:
        origin(wanted_server(cluster))
        is_host = set(host.strip("/")).isdisjoint("/?#@")
    except ValueError:
        is_host = False
    return "" if is_host else f"spec.controlPlaneEndpoint is not a host and a port: {host[:100]!r}, {port}"


def why_changed(existing: Existing, cluster: Mapping[str, Any], ca: CertificateAuthority | str | None) -> str:
    """Returns why the kubeconfig must be renewed, empty if it need not. `ca` is the result of reading the CA."""
    if is_requested(cluster):
        return f"requested by the annotation {REGENERATE_ANNOTATION}"
    if existing.fault:
        return "the former kubeconfig could not be used"
    if existing.server != wanted_server(cluster):
        return f"the endpoint is {wanted_server(cluster)} now"
    if ca is None or isinstance(ca, str):
        return ""
    is_signed = not existing.certificate or ca.has_issued(existing.certificate)
    return "" if is_signed and existing.trusted == ca.fingerprints else "the CA has changed"


def is_due(existing: Existing, before: timedelta | None, now: datetime) -> bool:
    """Returns whether the kubeconfig expires in less than `before`."""
    return existing.expires is not None and before is not None and existing.expires - now < before


def expiry(ca: CertificateAuthority, now: datetime) -> datetime:
    """Returns when a new kubeconfig expires: after its validity, and never later than its CA."""
    return min((now + VALIDITY).replace(microsecond=0), ca.expires)
