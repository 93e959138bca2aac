"""Decides what to do for a provider with stored components: guards, certificates, storage migration, the sync."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from shared.api import provider as provider_api
from shared.api.conditions import READY, is_true
from shared.applier.connection import ClusterConnection
from shared.applier.desired import MANAGEMENT, UnknownKinds, desired, kinds_defined_by
from shared.applier.inventory import why_too_large
from shared.applier.policy import Policy, PolicyError
from shared.applier.sync import Sync
from shared.components.errors import ComponentsError
from shared.effects import Results, ensure_finalizer
from shared.kube import Object, dig
from shared.kube.crds import CRD
from shared.providers import phases
from shared.providers.status import PROVIDER_INSTALLED, ProviderStatusBuilder, why_not_due
from shared.providers.storage_migration import MigrateStorage, removed_versions
from shared.runtime import Decision

from . import certificates, objects, planning
from .observe import Observed
from .report import report

INPUT_RETRY = 30.0
"""Seconds until a missing object or kind is looked for again."""
INVALID_RETRY = 120.0
"""Seconds until the next attempt after an error that only a change of the provider or of an object that it references
can resolve. Either change triggers an event; the interval is for the case that the event is lost."""


def decide(observed: Observed, now: datetime, results: Results | None = None) -> Decision:
    """Decides the next step: a wait, or the sync."""
    decision = _decide(observed, now)
    return report(observed, decision, results, now) if results else decision


def _decide(observed: Observed, now: datetime) -> Decision:
    provider = observed.provider
    if (reason := why_not_due(provider)) or provider is None:
        return Decision(message=reason)
    if observed.installed:
        return _installed(provider)
    builder = ProviderStatusBuilder(provider, now)
    if observed.inputs.problem:
        return _failed(builder, "ReferencedObjectMissing", observed.inputs.problem, INPUT_RETRY)
    if observed.components is None:
        # Storage may have lost the components: `provider_fetch` downloads them again and starts this phase again.
        return Decision(
            reply=phases.completion_event(phases.CHECKED, provider, resync=observed.resync), message="not fetched yet"
        )
    if isinstance(observed.policy, PolicyError):
        return _failed(builder, "InvalidAnnotation", str(observed.policy), INVALID_RETRY)
    if isinstance(observed.rendered, ComponentsError):
        return _failed(builder, observed.rendered.reason, str(observed.rendered), INVALID_RETRY)
    assert observed.management is not None
    assert observed.policy is not None
    if message := certificates.foreign_secret(provider, observed.requests, observed.secrets):
        return _failed(builder, "CertificateSecretTaken", message, INPUT_RETRY)
    return _sync(builder, observed, provider, observed.policy, observed.management, observed.rendered)


def _installed(provider: Object) -> Decision:
    """Decides for an installed provider to check its workloads, unless they were checked."""
    if is_true(dig(provider, "status.conditions"), READY):
        return Decision(message="already installed")
    step = phases.completion_event(phases.INSTALLED, provider, resync=False)
    return Decision(reply=step, message="already installed, and not ready")


def _failed(builder: ProviderStatusBuilder, reason: str, message: str, seconds: float) -> Decision:
    builder.set_false(PROVIDER_INSTALLED, reason, message, event_type="Warning")
    return builder.decision(requeue_after=seconds, message=message)


def _sync(
    builder: ProviderStatusBuilder,
    observed: Observed,
    provider: Object,
    policy: Policy,
    management: ClusterConnection,
    rendered: Sequence[Object],
) -> Decision:
    secrets = {request.certificate: observed.serving_secrets[request.secret] or {} for request in observed.requests}
    try:
        built = objects.all_objects(provider, rendered, secrets, management.served)
        desired_objects = desired(
            built,
            management.served,
            policy.owner,
            default_namespace=provider["metadata"]["namespace"],
            where=MANAGEMENT,
        )
    except UnknownKinds as error:
        return _failed(
            builder, "InstallFailed", f"{error}; first install the CRDs that define these kinds", INPUT_RETRY
        )
    plan, complete = planning.plan(observed, policy, desired_objects, builder)
    if problem := why_too_large(plan):
        return _failed(builder, "TooManyObjects", problem, INVALID_RETRY)
    resource = provider_api.kind_of(provider).resource
    effects = certificates.renewals(observed.issued, observed.secrets)
    effects += ensure_finalizer(resource, provider, provider_api.FINALIZER)
    effects += planning.record_intent(builder, observed, provider, plan, complete)
    for crd in desired_objects:
        live = observed.crds.get(crd["metadata"]["name"]) if crd["kind"] == CRD.kind else None
        if live is not None and removed_versions(live, crd):
            effects.append(MigrateStorage(live, crd))
    resources = {**management.served, **kinds_defined_by(desired_objects)}
    # The selector of a Deployment and the roleRef of a binding are immutable, so such an object is recreated.
    policy = replace(policy, recreate=True)
    effects.append(Sync(management.cluster, plan, resources, policy, live=observed.live))
    return Decision(tuple(effects), kubernetes_events=tuple(builder.kubernetes_events))
