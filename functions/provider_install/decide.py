"""What follows for one provider whose components are there: guards, then certificates, stored versions, the rollout.

Webhooks come last, and only once what answers them runs: a webhook without its backend blocks everybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from shared.api import cluster as cluster_api
from shared.api import provider as provider_api
from shared.api.conditions import rfc3339
from shared.api.resources import SECRET
from shared.components import certificates
from shared.components.certificates import CERTIFICATE_NAME, Request
from shared.components.errors import ComponentsError
from shared.effects import Create, Effect, Patch, ensure_finalizer, write_ahead
from shared.kube import Object, deleting, dig, owner_reference
from shared.kube.crds import CRD
from shared.providers import ownership, phases
from shared.providers.state import INSTALLED, State, checked
from shared.runtime import Decision
from shared.workload import inventory
from shared.workload.desired import MANAGEMENT, UnknownKinds, defined_by, desired
from shared.workload.inventory import Plan
from shared.workload.policy import Policy
from shared.workload.prune import KEPT
from shared.workload.reach import Reached
from shared.workload.rollout import Rollout

from .observe import Observed
from .storage import MigrateStorage, dropped

LATE = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService")
"""Kinds that stand before a backend."""

# Seconds until the next look.
INPUT_RETRY = 30.0
BROKEN_RETRY = 120.0
"""For what only a change of the provider, or of something it refers to, can mend; both come with an event."""


def decide(observed: Observed, now: datetime, *, resync: bool = False) -> Decision:
    provider = observed.provider
    if provider is None or deleting(provider):
        return Decision(message="the provider is gone, or going")
    if cluster_api.is_paused(provider):
        return Decision(message="paused")
    if not checked(provider):
        return Decision(message="not checked yet")
    if observed.unchanged:
        return Decision(message="installed as it stands")
    state = State(provider, now)
    if observed.inputs.problem:
        return _broken(state, "ReferencedObjectMissing", observed.inputs.problem, INPUT_RETRY)
    if observed.fetched is None:
        # Storage may have lost them: fetched again, which ends here again.
        return Decision(reply=phases.next_step(phases.CHECKED, provider, resync=resync), message="not fetched yet")
    if not isinstance(observed.policy, Policy):
        return _broken(state, "InvalidAnnotation", str(observed.policy), BROKEN_RETRY)
    if isinstance(observed.rendered, ComponentsError):
        return _broken(state, observed.rendered.reason, str(observed.rendered), BROKEN_RETRY)
    assert observed.management is not None
    if taken := _taken(observed, provider):
        return _broken(state, "CertificateSecretTaken", taken, INPUT_RETRY)
    if due := _due(observed, now):
        effects = tuple(_issue(provider, request, observed.secrets[request.secret]) for request in due)
        return Decision(effects, proceed=True, message=f"{len(due)} certificates issued")
    return _roll_out(state, observed, provider, observed.policy, observed.management, observed.rendered)


def _broken(state: State, reason: str, message: str, again: float) -> Decision:
    state.false(INSTALLED, reason, message, tell="Warning")
    return Decision(status=state.status(), notices=tuple(state.notices), requeue=again, message=message)


# -- certificates ----------------------------------------------------------------------------------------------


def _taken(observed: Observed, provider: Object) -> str:
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
    """Made by a provider of this name, or by cert-manager."""
    label = dig(secret, ("metadata", "labels", provider_api.PROVIDER_LABEL))
    return label == provider_api.label_of(provider) or CERTIFICATE_NAME in dig(secret, "metadata.annotations", {})


def _due(observed: Observed, now: datetime) -> list[Request]:
    """Those that are not there, do not serve, or come to their end."""
    due = []
    for request in observed.requests:
        secret = observed.secrets[request.secret]
        renewal = certificates.renewal(secret, request) if secret else None
        if renewal is None or renewal <= now:
            due.append(request)
    return due


def _issue(provider: Object, request: Request, before: Object | None) -> Effect:
    """Created or changed only in the state that was seen: of two that issue at once, one wins."""
    secret = certificates.issue(request, before)
    if before is not None:
        return Patch(SECRET, before, {"data": secret["data"]})
    secret["metadata"] |= {"labels": _labels(provider), "ownerReferences": [owner_reference(provider)]}
    return Create(SECRET, secret)


def renew_at(observed: Observed) -> datetime | None:
    """When the first of our certificates is to be renewed."""
    times = [certificates.renewal(observed.secrets[one.secret] or {}, one) for one in observed.requests]
    return min((time for time in times if time), default=None)


# -- rollout ---------------------------------------------------------------------------------------------------


def _roll_out(
    state: State,
    observed: Observed,
    provider: Object,
    policy: Policy,
    management: Reached,
    rendered: Sequence[Object],
) -> Decision:
    objects = list(rendered)
    if observed.requests:
        secrets = {request.certificate: observed.secrets[request.secret] or {} for request in observed.requests}
        objects = [*certificates.with_own(objects, secrets), *(_kept(provider, secret) for secret in secrets.values())]
    try:
        namespace = provider["metadata"]["namespace"]
        wanted = desired(objects, management.served, default_namespace=namespace, where=MANAGEMENT)
    except UnknownKinds as error:
        return _broken(state, "InstallFailed", f"{error}; install what defines them first", INPUT_RETRY)
    plan, whole = _plan(observed, policy, wanted, state)
    resource = provider_api.kind_of(provider).resource
    effects: list[Effect] = [*ensure_finalizer(resource, provider, provider_api.FINALIZER)]
    effects += _begin(state, observed, provider, plan, whole)
    for crd in wanted:
        live = observed.crds.get(crd["metadata"]["name"]) if crd["kind"] == CRD.kind else None
        if live is not None and dropped(live, crd):
            effects.append(MigrateStorage(live, crd))
    resources = {**management.served, **defined_by(wanted)}
    # A Deployment's selector, or what a role binding points to, can only be changed by making it anew.
    policy = replace(policy, recreate=True, owner=ownership.owner(provider))
    effects.append(Rollout(management.workload, plan, resources, policy))
    if whole:
        effects += _remember(provider, observed.digest)
    return Decision(tuple(effects))


def _remember(provider: Object, digest: str) -> list[Effect]:
    """What the gate goes by: reached only once everything before it has succeeded."""
    if dig(provider, ("metadata", "annotations", provider_api.HASH_ANNOTATION)) == digest:
        return []
    patch: Object = {"metadata": {"annotations": {provider_api.HASH_ANNOTATION: digest}}}
    return [Patch(provider_api.kind_of(provider).resource, provider, patch)]


def _kept(provider: Object, secret: Object) -> Object:
    """The Secret as an object to apply: what was read, as the provider's own, whoever made it."""
    metadata = {
        "name": secret["metadata"]["name"],
        "namespace": secret["metadata"]["namespace"],
        "labels": _labels(provider),
        "ownerReferences": [owner_reference(provider)],
    }
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": secret["type"], "data": secret["data"]}


def _labels(provider: Object) -> dict[str, str]:
    return {provider_api.COMPONENT_LABEL: "", provider_api.PROVIDER_LABEL: provider_api.label_of(provider)}


def _plan(observed: Observed, policy: Policy, wanted: Sequence[Object], state: State) -> tuple[Plan, bool]:
    """The rollout that is due, and whether it is the whole one: new webhooks come once their backends run."""
    known, resumed = observed.known, observed.resumed
    whole = inventory.plan(wanted, known, resumed=resumed)
    if not policy.wait or not any(step.action == "apply" and step.obj["kind"] in LATE for step in whole.steps):
        return whole, True
    early = [obj for obj in wanted if obj["kind"] not in LATE]
    first = inventory.plan(early, known, resumed=resumed, prune=False)
    done = resumed and all(step.action == "keep" and not step.entry.waiting for step in first.steps)
    overdue = resumed and _waited(observed, state.now) > policy.wait_timeout
    return (whole, True) if done or overdue else (first, False)


def _waited(observed: Observed, now: datetime) -> float:
    """Seconds since this rollout was begun."""
    begun = dig(observed.provider, "status.target.begun")
    return (now - datetime.fromisoformat(begun)).total_seconds() if begun else 0.0


def _begin(state: State, observed: Observed, provider: Object, plan: Plan, whole: bool) -> Sequence[Effect]:
    """The intent, written before anything is applied, so that no crash can orphan an object."""
    stays = {entry.identity for entry in observed.known if entry.status == KEPT}
    goes = {entry.identity for entry in plan.prune} - stays
    if (whole or observed.resumed) and not plan.count("apply") and not goes:
        return ()
    reason, what = "Installing", provider_api.version_of(provider)
    if observed.upgrades:
        reason, what = "Upgrading", f"from {provider_api.installed_version(provider)} to {what}"
    state.false(INSTALLED, reason, f"{reason.lower()} {what}: {len(plan.steps)} objects", tell="Normal")
    resources = inventory.dump(inventory.intent(plan))
    target = {**dig(provider, "status.target", {}), "inputs": observed.digest}
    if not observed.resumed:
        target["begun"] = rfc3339(state.now)
    status = state.status(resources=resources, target=target)
    return write_ahead(provider_api.kind_of(provider).resource, provider, status)
