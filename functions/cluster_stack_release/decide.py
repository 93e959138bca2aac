"""What follows for one ClusterStackRelease: guards in the order of what must be there, then the rollout.

Once ready it stays so: what fails later, such as the repair of an object, is told by the conditions.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.api import cluster as cluster_api
from shared.kube import deleting, dig, key_of
from shared.releases.missing import CONDITION as DOWNLOADED
from shared.releases.missing import MissingAssets
from shared.runtime import Decision
from shared.runtime.status import PAUSED, V1Beta1StatusBuilder

from .conditions import BROKEN_RETRY, PROVIDER, PROVIDER_RETRY, broken, finalizer
from .deletion import delete
from .observe import Assets, Observed, provided
from .rollout import roll_out

ASSETS_RETRY = 10.0
"""Seconds until the next look."""


def decide(observed: Observed, now: datetime) -> Decision:
    release = observed.release
    if release is None:
        return Decision(message="the ClusterStackRelease is gone")
    builder = V1Beta1StatusBuilder(release, now)
    if cluster_api.is_paused(release):
        return Decision(status=builder.paused_status(), message="paused")
    builder.remove(PAUSED)
    if deleting(release):
        return delete(builder, observed)
    if observed.name is None:
        message = f"{key_of(release).name!r} is no name of a release in its form with dashes"
        return broken(builder, DOWNLOADED, "IssueWithReleaseAssets", message, requeue_after=None)
    if not isinstance(observed.assets, Assets):
        return _not_downloaded(builder, observed.assets or MissingAssets(observed.name.tag))
    builder.set_true(DOWNLOADED)
    if observed.management is None or not provided(observed.provider):
        return _not_provided(builder, observed, observed.assets)
    builder.set_true(PROVIDER)
    return roll_out(builder, observed, observed.assets, observed.name, observed.management)


def _not_downloaded(builder: V1Beta1StatusBuilder, lost: MissingAssets) -> Decision:
    if lost.failure:
        decision = broken(builder, DOWNLOADED, lost.reason, lost.message)
    else:
        builder.set_false(DOWNLOADED, lost.reason, lost.message)
        decision = Decision(finalizer(builder), builder.status(), requeue_after=ASSETS_RETRY, message=lost.message)
    place = key_of(builder.obj).namespace
    wish = lost.wish(builder.obj, place, builder.now, source="/cluster_stack_release", every=BROKEN_RETRY)
    return replace(decision, reply=wish)


def _not_provided(builder: V1Beta1StatusBuilder, observed: Observed, assets: Assets) -> Decision:
    provider = observed.provider
    what = f"{provider.kind} {dig(builder.obj, 'spec.providerRef.name', '')}"
    if provider.state == "failed":
        message = f"{what}: {provider.error}"
    elif provider.state == "absent":
        message = f"{what} does not exist yet"
    else:
        message = f"{what} is not ready yet"
    builder.set_false(PROVIDER, "ProcessOngoing", message)
    return Decision(
        effects=finalizer(builder),
        status=builder.status(kubernetesVersion=assets.kubernetes),
        requeue_after=PROVIDER_RETRY,
        message=message,
    )
