"""Reads the inputs of a decision about one Cluster's kubeconfig, and only the required Secrets."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from shared.api.names import ca_secret_of, kubeconfig_secret_of
from shared.api.resources import SECRET
from shared.clients import Clients
from shared.event import Event
from shared.kube import Object, key_of
from shared.runtime import Request
from shared.settings import SETTINGS

from .ca import ca_in
from .certificates import Certificates, find_certificates
from .existing import Existing, inspect
from .need import is_managed_by_core, why_not_now
from .renewal import RENEW_SETTING, Threshold, is_due, why_changed

if TYPE_CHECKING:
    from shared.certificates import CertificateAuthority


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one Cluster's kubeconfig."""

    cluster: Object | None
    existing: Existing | None = None
    """Secret `<cluster>-kubeconfig`."""
    ca: CertificateAuthority | str | None = None
    """Secret `<cluster>-ca`, or a sentence on why it cannot sign. None: it does not exist, or was not read."""
    setting: str = ""
    """The setting for the threshold of renewals."""
    certificates: Certificates = field(default_factory=Certificates)
    """The other certificates that the Cluster requests."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the kubeconfig Secret once the Cluster has an endpoint, and the CA Secret if a kubeconfig may be made."""
    key, cluster = request.key, request.primary
    if cluster is None:
        return Observed(None)
    now, setting = datetime.now(UTC), SETTINGS.get(RENEW_SETTING, "")
    certificates = find_certificates(clients, cluster, request.event, now)
    if why_not_now(cluster):
        return Observed(cluster, certificates=certificates)
    secret = clients.management.find(SECRET, kubeconfig_secret_of(key))
    existing = inspect(secret, cluster) if secret is not None else None
    if not is_ca_needed(request.event, cluster, existing, setting, now):
        return Observed(cluster, existing, None, setting, certificates)
    ca = ca_in(clients.management.find(SECRET, ca_secret_of(key)), now)
    return Observed(cluster, existing, ca, setting, certificates)


def is_ca_needed(event: Event, cluster: Object, existing: Existing | None, setting: str, now: datetime) -> bool:
    """Returns whether the kubeconfig may have to be written with the CA, once the Cluster has an endpoint."""
    if existing is None:
        return not is_managed_by_core(cluster, now)
    is_due_now = is_due(existing, Threshold.of(cluster, setting).before, now)
    is_changed = _may_show_another_ca(event, cluster) or bool(why_changed(existing, cluster, None))
    return existing.generated and (is_due_now or is_changed)


def _may_show_another_ca(event: Event, cluster: Object) -> bool:
    """Returns whether the event is about the CA Secret, or a resync."""
    return event.resync or (event.kind == SECRET.kind and event.key == ca_secret_of(key_of(cluster)))
