"""Reads the inputs of a decision about one Cluster's kubeconfig; Secrets only as far as they are needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from shared.api.names import ca_secret_of, kubeconfig_secret_of
from shared.api.resources import SECRET
from shared.clients import Clients
from shared.kube import Object
from shared.runtime import Request
from shared.settings import SETTINGS

from .ca import read_ca
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
    certificates = find_certificates(clients, cluster, now)
    if why_not_now(cluster):
        return Observed(cluster, certificates=certificates)
    secret = clients.management.find(SECRET, kubeconfig_secret_of(key))
    existing = inspect(secret, cluster) if secret is not None else None
    if existing is None:
        is_ca_needed = not is_managed_by_core(cluster, now)
    else:
        is_due_now = is_due(existing, Threshold.of(cluster, setting).before, now)
        is_changed = _may_show_another_ca(request) or bool(why_changed(existing, cluster, None))
        is_ca_needed = existing.generated and (is_due_now or is_changed)
    ca = read_ca(clients, ca_secret_of(key), now) if is_ca_needed else None
    return Observed(cluster, existing, ca, setting, certificates)


def _may_show_another_ca(request: Request) -> bool:
    """Returns whether the event is about the CA Secret, or asks for a look at everything."""
    event = request.event
    return event.resync or (event.kind == SECRET.kind and event.key == ca_secret_of(request.key))
