"""Decides about one Cluster's kubeconfig: Secret `<cluster>-kubeconfig` is created from `<cluster>-ca`, and renewed.

A user's kubeconfig is never changed, and a kubeconfig of Cluster API core only on request.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from shared.api.cluster import CLUSTER_NAME_LABEL, KUBECONFIG_AVAILABLE
from shared.api.conditions import rfc3339
from shared.api.core import MANAGED_BY_CORE
from shared.api.names import REGENERATE_ANNOTATION, RENEW_ANNOTATION, ca_secret_of, kubeconfig_secret_of
from shared.api.resources import CLUSTER, SECRET
from shared.clients import Clients
from shared.effects import Create, Effect, Patch, Results
from shared.kube import Object, key_of, owner_reference
from shared.runtime import Decision

from .admin_kubeconfig import create_admin_kubeconfig
from .certificates import Status, awaits_secrets, decide_certificates
from .existing import FIELD_MANAGER, GENERATED_TYPE, Existing
from .need import is_managed_by_core, why_not_now
from .observe import Observed
from .record import (
    EXPIRED,
    EXPIRES,
    GENERATED,
    INVALID,
    NOT_RENEWED,
    USER_PROVIDED,
    describe,
)
from .renewal import Threshold, endpoint_fault, expiry, is_due, is_requested, wanted_server, why_changed

if TYPE_CHECKING:
    from shared.certificates import CertificateAuthority

CA_RETRY = 30.0
"""Seconds until the next read of a CA or certificate: its creation triggers an event, but events may get lost."""
RENEW_HINT = f"to have functions renew it, annotate the Cluster with {RENEW_ANNOTATION}"
WARNING_BEFORE = timedelta(days=30)
"""How long before its expiry a kubeconfig without renewal is reported."""


@dataclass(frozen=True)
class WriteKubeconfig:
    """Effect: issues an admin certificate, and writes the kubeconfig that contains it.

    `secret` is a new Secret without data, or the identity of the Secret to renew with its observed resource version.
    """

    secret: Object
    cluster: str
    server: str
    ca: CertificateAuthority
    until: datetime

    def execute(self, clients: Clients) -> Object:
        """Returns the Secret, even if a concurrent execution has created it.

        Raises `Conflict` if the Secret to renew was changed, `NotFound` if it was deleted.
        """
        document = create_admin_kubeconfig(self.cluster, self.server, self.ca, until=self.until)
        data = {"value": base64.b64encode(document).decode()}
        if "resourceVersion" in self.secret["metadata"]:
            return Patch(SECRET, self.secret, {"data": data}, manager=FIELD_MANAGER).execute(clients)
        return Create(SECRET, {**self.secret, "data": data}, FIELD_MANAGER).execute(clients)


def decide(observed: Observed, now: datetime, _results: Results | None = None) -> Decision:
    """Decides which requested certificates to generate, whether to write the kubeconfig, and what to report."""
    cluster = observed.cluster
    if cluster is None:
        return Decision(message="the Cluster does not exist")
    status = Status(cluster, now)
    if generated := decide_certificates(status, cluster, observed.certificates):
        return status.decision(*generated, proceed=True)
    decision = _decide_kubeconfig(status, cluster, observed)
    is_wait_missing = decision.requeue_after is None and awaits_secrets(cluster, status.conditions)
    return replace(decision, requeue_after=CA_RETRY) if is_wait_missing else decision


def _decide_kubeconfig(status: Status, cluster: Object, observed: Observed) -> Decision:
    """Decides whether to write the kubeconfig, and what to report."""
    existing = observed.existing
    if reason := why_not_now(cluster):
        changed = status.conditions != status.initial
        return status.decision(message=reason) if changed else Decision(message=reason)
    if existing is None:
        return _create(status, cluster, observed)
    if existing.generated:
        return _keep_valid(status, cluster, existing, observed)
    _report_user_provided(status, existing)
    return status.decision()


def _create(status: Status, cluster: Object, observed: Observed) -> Decision:
    """Decides to create the Secret, or to wait for the CA, or for Cluster API core."""
    key, ca = kubeconfig_secret_of(key_of(cluster)), observed.ca
    if is_managed_by_core(cluster, status.now):
        message = f"Cluster API core manages this Cluster: waiting until core has created Secret {key.name}"
        status.set_false(KUBECONFIG_AVAILABLE, MANAGED_BY_CORE, message)
        return status.decision(message=message)
    if fault := endpoint_fault(cluster):
        status.set_false(KUBECONFIG_AVAILABLE, "InvalidEndpoint", fault, event_type="Warning")
        return status.decision(message=fault)
    if ca is None:
        message = f"Waiting for Secret {ca_secret_of(key_of(cluster)).name} with tls.crt and tls.key"
        status.set_false(KUBECONFIG_AVAILABLE, "WaitingForCA", message)
        return status.decision(requeue_after=CA_RETRY, message=message)
    if isinstance(ca, str):
        status.set_false(KUBECONFIG_AVAILABLE, "InvalidCA", ca, event_type="Warning")
        return status.decision(requeue_after=CA_RETRY, message=ca)
    secret: Object = {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {
            **key._asdict(),
            "labels": {CLUSTER_NAME_LABEL: key_of(cluster).name},
            "ownerReferences": [owner_reference(cluster)],
        },
        "type": GENERATED_TYPE,
    }
    status.add_event("KubeconfigGenerated", f"Secret {key.name} created")
    return _write(status, cluster, secret, ca, Threshold.of(cluster, observed.setting))


def _keep_valid(status: Status, cluster: Object, existing: Existing, observed: Observed) -> Decision:
    """Decides to renew a generated kubeconfig if there is a reason and no obstacle."""
    threshold, ca = Threshold.of(cluster, observed.setting), observed.ca
    changed = why_changed(existing, cluster, ca)
    is_due_now = is_due(existing, threshold.before, status.now)
    is_left_to_core = _is_left_to_core(status, cluster, threshold) and not is_requested(cluster)
    if is_left_to_core or not (changed or is_due_now):
        _report_generated(status, cluster, existing, threshold)
        return status.decision()
    if fault := endpoint_fault(cluster):
        ca = fault
    elif ca is None:
        ca = f"Secret {ca_secret_of(key_of(cluster)).name} does not exist"
    elif not isinstance(ca, str) and not changed and existing.expires and expiry(ca, status.now) <= existing.expires:
        ca = "the CA expires at the same time: rotate the CA first"
    if isinstance(ca, str):
        if existing.fault:
            _report_fault(status, existing, ca)
        else:
            _report(status, existing, NOT_RENEWED, describe(existing, ca), event_type="Warning")
        return status.decision(message=ca)
    cause = changed or f"it was valid until {rfc3339(existing.expires or status.now)}"
    status.add_event("KubeconfigRenewed", f"Secret {key_of(existing.secret).name} renewed: {cause}")
    return _write(status, cluster, existing.secret, ca, threshold)


def _is_left_to_core(status: Status, cluster: Object, threshold: Threshold) -> bool:
    """Returns whether core manages the Cluster, and no annotation or setting requests renewals by this function."""
    return is_managed_by_core(cluster, status.now) and not threshold.is_set


def _write(status: Status, cluster: Object, secret: Object, ca: CertificateAuthority, threshold: Threshold) -> Decision:
    """Decides to write a new kubeconfig into the Secret, and then to remove the annotation that requests it."""
    new = Existing(True, wanted_server(cluster), expiry(ca, status.now))
    effects: list[Effect] = [WriteKubeconfig(secret, key_of(cluster).name, new.server, ca, new.expires or status.now)]
    if is_requested(cluster):
        effects.append(Patch(CLUSTER, cluster, {"metadata": {"annotations": {REGENERATE_ANNOTATION: None}}}))
    _report_generated(status, cluster, new, threshold)
    return status.decision(*effects)


def _report_generated(status: Status, cluster: Object, existing: Existing, threshold: Threshold) -> None:
    """Sets the condition of a generated kubeconfig that needs nothing now."""
    if existing.fault:
        _report_fault(status, existing, f"Cluster API core manages this Cluster: {RENEW_HINT}")
        return
    if _is_left_to_core(status, cluster, threshold):
        message = f"{describe(existing)}; not renewed, because Cluster API core manages this Cluster: {RENEW_HINT}"
        _report_validity(status, existing, MANAGED_BY_CORE, message, event_type="Normal")
        return
    note = f"; {threshold.fault}" if threshold.fault else ""
    report = _report_validity if threshold.before is None else _report
    report(status, existing, GENERATED, describe(existing) + note, event_type="Warning" if note else "")


def _report_user_provided(status: Status, existing: Existing) -> None:
    """Sets the condition with the facts about a user's own kubeconfig."""
    if existing.fault:
        _report_fault(status, existing)
        return
    message = f"{describe(existing)}; the Secret was not generated, so it stays unchanged"
    _report_validity(status, existing, USER_PROVIDED, message)


def _report_fault(status: Status, existing: Existing, obstacle: str = "") -> None:
    """Sets the condition to the fault of the kubeconfig, with the obstacle to its renewal if it was generated."""
    status.set_false(KUBECONFIG_AVAILABLE, INVALID, describe(existing, obstacle), event_type="Warning")


def _report_validity(status: Status, existing: Existing, reason: str, message: str, *, event_type: str = "") -> None:
    """Sets the condition of a kubeconfig that is not renewed, and warns if it expires soon."""
    if is_due(existing, WARNING_BEFORE, status.now):
        reason = EXPIRED if is_due(existing, timedelta(0), status.now) else EXPIRES
        event_type = "Warning"
    _report(status, existing, reason, message, event_type=event_type)


def _report(status: Status, existing: Existing, reason: str, message: str, *, event_type: str = "") -> None:
    value = "False" if is_due(existing, timedelta(0), status.now) else "True"
    is_news = reason != MANAGED_BY_CORE  # that event is recorded once, although its message changes with the expiry
    status.set(KUBECONFIG_AVAILABLE, value, reason, message, event_type=event_type, progress=not is_news)
