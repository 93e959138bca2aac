"""Decides about one ClusterStackRelease: first its prerequisites in order, then the sync.

Once a release is ready, `status.ready` stays true; conditions show later failures, such as a failed repair.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.api import cluster as cluster_api
from shared.effects import Results
from shared.kube import deleting, dig, key_of
from shared.releases.missing_assets import DOWNLOADED, MissingAssets
from shared.runtime import Decision
from shared.runtime.status import PAUSED

from .conditions import FAILURE_RETRY, PROVIDER, PROVIDER_RETRY, ReleaseStatusBuilder, decide_failure, finalizer_effects
from .deletion import reconcile_deletion
from .observe import Assets, Observed
from .ownership import policy
from .sync import decide_sync, report

ASSETS_RETRY = 10.0
"""Seconds until the next reconciliation."""


def decide(observed: Observed, now: datetime, results: Results | None = None) -> Decision:
    """Decides the next step: a wait for the first missing prerequisite, the sync, or the deletion."""
    decision = _decide(observed, now)
    return report(observed, decision, results, now) if results else decision


def _decide(observed: Observed, now: datetime) -> Decision:
    release = observed.release
    if release is None:
        return Decision(message="the ClusterStackRelease does not exist")
    builder = ReleaseStatusBuilder(release, now)
    if cluster_api.is_paused(release):
        return Decision(status=builder.paused_status(), message="paused")
    builder.remove(PAUSED)
    if deleting(release):
        return reconcile_deletion(builder, observed)
    if observed.name is None:
        message = f"{key_of(release).name!r} is not the name of a release: <provider>-<name>-<Kubernetes>-<version>"
        return decide_failure(builder, DOWNLOADED, "IssueWithReleaseAssets", message, requeue_after=None)
    if not isinstance(observed.assets, Assets):
        return _not_downloaded(builder, observed.assets or MissingAssets(observed.name.tag))
    builder.set_true(DOWNLOADED)
    if observed.management is None or observed.rendered is None:
        return _not_provided(builder, observed, observed.assets)
    builder.set_true(PROVIDER)
    owned = policy(release, observed.name, observed.recorded)
    kubernetes = observed.assets.kubernetes
    return decide_sync(builder, observed.rendered, observed.management, kubernetes, observed.claimed, owned)


def _not_downloaded(builder: ReleaseStatusBuilder, missing: MissingAssets) -> Decision:
    """Decides to wait for the release in storage, and requests its download."""
    if missing.failure:
        decision = decide_failure(builder, DOWNLOADED, missing.reason, missing.message)
    else:
        builder.set_false(DOWNLOADED, missing.reason, missing.message)
        decision = builder.decision(*finalizer_effects(builder), requeue_after=ASSETS_RETRY, message=missing.message)
    namespace = key_of(builder.obj).namespace
    request = missing.fetch_request(
        builder.obj, namespace, builder.now, source="/cluster_stack_release", every=FAILURE_RETRY
    )
    return replace(decision, reply=request)


def _not_provided(builder: ReleaseStatusBuilder, observed: Observed, assets: Assets) -> Decision:
    """Decides to wait until the provider's object is ready."""
    provider = observed.provider
    what = f"{provider.kind} {dig(builder.obj, 'spec.providerRef.name', '')}"
    if provider.state == "failed":
        message = f"{what}: {provider.error}"
    elif provider.state == "absent":
        message = f"{what} does not exist yet"
    else:
        message = f"{what} is not ready yet"
    builder.set_false(PROVIDER, "ProcessOngoing", message)
    effects = finalizer_effects(builder)
    return builder.decision(
        *effects, requeue_after=PROVIDER_RETRY, message=message, kubernetesVersion=assets.kubernetes
    )
