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
from shared.runtime.verdict import PAUSED, Verdict

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
    verdict = Verdict(release, now)
    if cluster_api.is_paused(release):
        return Decision(status=verdict.paused(), message="paused")
    verdict.drop(PAUSED)
    if deleting(release):
        return delete(verdict, observed)
    if observed.name is None:
        message = f"{key_of(release).name!r} is no name of a release in its form with dashes"
        return broken(verdict, DOWNLOADED, "IssueWithReleaseAssets", message, requeue=None)
    if not isinstance(observed.assets, Assets):
        return _not_downloaded(verdict, observed.assets or MissingAssets(observed.name.tag))
    verdict.true(DOWNLOADED)
    if observed.management is None or not provided(observed.provider):
        return _not_provided(verdict, observed, observed.assets)
    verdict.true(PROVIDER)
    return roll_out(verdict, observed, observed.assets, observed.name, observed.management)


def _not_downloaded(verdict: Verdict, lost: MissingAssets) -> Decision:
    if lost.failure:
        decision = broken(verdict, DOWNLOADED, lost.reason, lost.message)
    else:
        verdict.false(DOWNLOADED, lost.reason, lost.message)
        decision = Decision(finalizer(verdict), verdict.status(), requeue=ASSETS_RETRY, message=lost.message)
    place = key_of(verdict.obj).namespace
    wish = lost.wish(verdict.obj, place, verdict.now, source="/cluster_stack_release", every=BROKEN_RETRY)
    return replace(decision, reply=wish)


def _not_provided(verdict: Verdict, observed: Observed, assets: Assets) -> Decision:
    provider = observed.provider
    what = f"{provider.kind} {dig(verdict.obj, 'spec.providerRef.name', '')}"
    if provider.state == "failed":
        message = f"{what}: {provider.error}"
    elif provider.state == "absent":
        message = f"{what} does not exist yet"
    else:
        message = f"{what} is not ready yet"
    verdict.false(PROVIDER, "ProcessOngoing", message)
    return Decision(
        effects=finalizer(verdict),
        status=verdict.status(kubernetesVersion=assets.kubernetes),
        requeue=PROVIDER_RETRY,
        message=message,
    )
