"""Looks up the certificates that a Cluster requests, and generates the missing ones.

An annotation lists them (`shared.api.names`); names and contents of the Secrets are Cluster API's convention. An
existing Secret is never changed, and a lost Secret is never generated again, because a new CA would invalidate every
certificate that the old CA issued.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from shared.api.cluster import (
    CERTIFICATES_AVAILABLE,
    CLUSTER_NAME_LABEL,
    ClusterCondition,
    control_plane_ref,
    is_paused,
)
from shared.api.conditions import get_condition, is_true
from shared.api.names import (
    CERTIFICATES_ANNOTATION,
    CONTROL_PLANE_CERTIFICATES,
    certificate_secret_of,
    requested_certificates,
)
from shared.api.resources import SECRET
from shared.clients import Clients
from shared.effects import Create
from shared.event import Event
from shared.kube import Object, deleting, dig, key_of, owner_reference
from shared.runtime.status import StatusBuilder

from .ca import ca_in
from .existing import FIELD_MANAGER, GENERATED_TYPE
from .need import is_status_current

if TYPE_CHECKING:
    from shared.certificates import CertificateAuthority, KeyPair

_ETCD, _ETCD_CLIENT = "etcd", "apiserver-etcd-client"
_INVALID, _MISSING = "InvalidCertificates", "MissingCertificates"
KNOWN = (*CONTROL_PLANE_CERTIFICATES, _ETCD_CLIENT)
"""The certificates that can be requested, in the order of the record."""
_FAULT = "; "
"""The separator in the message between the record and a fault."""
_NAMES = {"ca": "kubernetes", _ETCD: "etcd-ca", "proxy": "front-proxy-ca"}
"""The common names of CAs, as kubeadm chooses them."""


@dataclass(frozen=True)
class Certificates:
    """The observed Secrets of the pending certificates."""

    faults: Mapping[str, str] = field(default_factory=dict)
    """The fault of each existing certificate; empty if it is usable."""
    etcd_ca: CertificateAuthority | str | None = None
    """The CA that issues the client certificate for etcd, only loaded for this; otherwise as in `ca_in`."""
    lost: tuple[str, ...] = ()
    """The recorded certificates that no longer exist."""


@dataclass(frozen=True)
class GenerateCertificate:
    """Effect: creates `secret` with a new CA or key pair; with `ca` its client certificate."""

    secret: Object
    purpose: str
    ca: CertificateAuthority | None = None

    def execute(self, clients: Clients) -> Object:
        """Returns the new Secret, or the Secret of a repeated or concurrent execution."""
        pair = self._pair()
        data = {"tls.crt": pair.cert_pem, "tls.key": pair.key_pem}
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        return Create(SECRET, {**self.secret, "data": encoded}, FIELD_MANAGER).execute(clients)

    def _pair(self) -> KeyPair | CertificateAuthority:
        from shared.certificates import CertificateAuthority, service_account_keys

        if self.ca is not None:
            return self.ca.issue("kube-apiserver-etcd-client", until=self.ca.expires)
        if self.purpose in _NAMES:
            return CertificateAuthority.generate(_NAMES[self.purpose])
        return service_account_keys()


def pending(cluster: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the requested certificates that the record lacks; none while this function may not create them."""
    if not _is_task(cluster):
        return ()
    return tuple(purpose for purpose in requested_certificates(cluster) if purpose not in _recorded(cluster))


def _is_task(cluster: Mapping[str, Any]) -> bool:
    """Returns whether this function may create the Cluster's certificates now."""
    is_left = deleting(cluster) or is_paused(cluster) or control_plane_ref(cluster)
    return not is_left and is_status_current(cluster)


def annotation_fault(cluster: Mapping[str, Any]) -> str:
    """Returns why the annotation cannot be followed, empty if it can."""
    unknown = [purpose for purpose in pending(cluster) if purpose not in KNOWN]
    if not unknown:
        return ""
    return f"annotation {CERTIFICATES_ANNOTATION} has {unknown[0]!r}; allowed are {', '.join(KNOWN)}"


def needs_secrets(cluster: Mapping[str, Any], event: Event) -> bool:
    """Returns whether to read Secrets, because some are pending, or the record may be outdated."""
    if not _is_task(cluster) or annotation_fault(cluster):
        return False
    record, key = _recorded(cluster), key_of(cluster)
    is_doubted = bool(record) and not is_true(dig(cluster, "status.conditions"), CERTIFICATES_AVAILABLE)
    deleted = event.key if event.kind == SECRET.kind and event.change == "delete" else None
    is_lost = deleted in [certificate_secret_of(key, purpose) for purpose in record]
    return bool(pending(cluster)) or is_doubted or is_lost or (bool(record) and event.is_look)


def find_certificates(clients: Clients, cluster: Object, event: Event, now: datetime) -> Certificates:
    """Reads the Secrets of the certificates that are pending or recorded, and of the CA that issues one of them."""
    if not needs_secrets(cluster, event):
        return Certificates()
    purposes, record, key = pending(cluster), _recorded(cluster), key_of(cluster)
    needed = dict.fromkeys((*record, *purposes, *([_ETCD] if _ETCD_CLIENT in purposes else [])))
    found = {purpose: clients.management.find(SECRET, certificate_secret_of(key, purpose)) for purpose in needed}
    return examine(purposes, record, {purpose: secret for purpose, secret in found.items() if secret is not None}, now)


def examine(
    purposes: Collection[str], record: Collection[str], secrets: Mapping[str, Object], now: datetime
) -> Certificates:
    """Returns the Secrets of the pending certificates, and which recorded certificates are lost."""
    faults = {purpose: _fault(secrets[purpose]) for purpose in purposes if purpose in secrets}
    is_client_missing = _ETCD_CLIENT in purposes and _ETCD_CLIENT not in faults
    lost = tuple(purpose for purpose in record if purpose not in secrets)
    return Certificates(faults, ca_in(secrets.get(_ETCD), now) if is_client_missing else None, lost)


def _fault(secret: Object) -> str:
    """Returns the fault of the certificate. The key may be missing, because another program may issue certificates."""
    return "" if dig(secret, "data", {}).get("tls.crt") else f"Secret {key_of(secret).name} has no tls.crt"


class Status(StatusBuilder[ClusterCondition]):
    """Builds conditions without a generation, because they do not depend on the spec.

    `kubectl wait` ignores a condition of an older generation.
    """

    has_generation = False


def decide_certificates(status: Status, cluster: Object, certificates: Certificates) -> tuple[GenerateCertificate, ...]:
    """Decides to generate missing certificates; sets the condition once all exist, or if one cannot be generated.

    Certificates of a CA that is still to be generated are not among them; they follow when the CA exists.
    """
    purposes, record = pending(cluster), _recorded(cluster)
    if not purposes:
        if _is_task(cluster):
            _report_record(status, cluster, record, certificates.lost)
        return ()
    if fault := annotation_fault(cluster):
        _report_fault(status, "InvalidAnnotation", record, fault)
        return ()
    missing = [purpose for purpose in KNOWN if purpose in purposes and purpose not in certificates.faults]
    fault = next(filter(None, certificates.faults.values()), "")
    if _ETCD_CLIENT in missing and _ETCD not in missing and (etcd_fault := _etcd_fault(cluster, certificates)):
        fault = fault or etcd_fault
    usable = [purpose for purpose, why_not in certificates.faults.items() if not why_not]
    if fault:
        _report_fault(status, _INVALID, [*record, *usable], fault)
        return ()
    if not missing:
        _report_record(status, cluster, [*record, *usable], certificates.lost)
        return ()
    effects = [_generate(cluster, purpose, certificates) for purpose in missing if purpose != _ETCD_CLIENT]
    effects = effects or [_generate(cluster, _ETCD_CLIENT, certificates)]
    names = ", ".join(effect.secret["metadata"]["name"] for effect in effects)
    status.add_event("CertificatesGenerated", f"Secrets created: {names}")
    return tuple(effects)


def awaits_secrets(cluster: Object, conditions: list[Object]) -> bool:
    """Returns whether a user has to create or correct a Secret, for which this function may get no event."""
    found = get_condition(conditions, CERTIFICATES_AVAILABLE) or {}
    return _is_task(cluster) and found.get("status") == "False" and found.get("reason") in (_INVALID, _MISSING)


def _report_record(status: Status, cluster: Object, record: Collection[str], lost: Collection[str]) -> None:
    """Sets the condition with the existing and the lost certificates; without a record there is no condition."""
    if lost:
        name = certificate_secret_of(key_of(cluster), next(iter(lost))).name
        _report_fault(
            status, _MISSING, record, f"Secret {name} was deleted: restore it, because it is not generated again"
        )
    elif not record:
        status.remove(CERTIFICATES_AVAILABLE)
    elif not status.is_true(CERTIFICATES_AVAILABLE) or _text(record) != _text(_recorded(cluster)):
        status.set_true(CERTIFICATES_AVAILABLE, "Available", _text(record))


def _report_fault(status: Status, reason: str, record: Collection[str], fault: str) -> None:
    """Sets the condition to the record and a fault, so that a recorded certificate is never generated again."""
    message = f"{_text(record)}{_FAULT}{fault}" if record else fault
    status.set_false(CERTIFICATES_AVAILABLE, reason, message, event_type="Warning")


def _text(record: Collection[str]) -> str:
    return ", ".join(purpose for purpose in KNOWN if purpose in record)


def _recorded(cluster: Mapping[str, Any]) -> list[str]:
    """Returns the certificates that the condition records as existing."""
    condition = get_condition(dig(cluster, "status.conditions"), CERTIFICATES_AVAILABLE) or {}
    record = str(condition.get("message") or "").partition(_FAULT)[0].split(", ")
    return record if set(record) <= set(KNOWN) else []


def _etcd_fault(cluster: Object, certificates: Certificates) -> str:
    """Returns why the client certificate for etcd cannot be issued, empty if it can."""
    if certificates.etcd_ca is None:
        name = certificate_secret_of(key_of(cluster), _ETCD).name
        return f"Secret {name} does not exist, whose CA issues {_ETCD_CLIENT}: request {_ETCD} as well, or create it"
    return certificates.etcd_ca if isinstance(certificates.etcd_ca, str) else ""


def _generate(cluster: Object, purpose: str, certificates: Certificates) -> GenerateCertificate:
    key = key_of(cluster)
    secret: Object = {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {
            **certificate_secret_of(key, purpose)._asdict(),
            "labels": {CLUSTER_NAME_LABEL: key.name},
            "ownerReferences": [owner_reference(cluster)],
        },
        "type": GENERATED_TYPE,
    }
    ca = certificates.etcd_ca if purpose == _ETCD_CLIENT and not isinstance(certificates.etcd_ca, str) else None
    return GenerateCertificate(secret, purpose, ca)
