"""What a ClusterStack says of its source, its provider and its releases."""

from __future__ import annotations

from shared.api.conditions import get_condition
from shared.kube import Object, dig
from shared.runtime.verdict import Verdict

from .observe import Observed, usable
from .provider import Blueprint
from .selection import explicit, subscribes

CLIENT, SYNCED = "AssetsClientAPIAvailable", "ReleasesSynced"
PROVIDER, RELEASES = "ProviderClusterStackReleasesSynced", "ClusterStackReleasesSynced"
AVAILABLE = "ClusterStackReleaseAvailable"


def judge_source(verdict: Verdict, observed: Observed) -> None:
    remote = observed.remote
    if remote.unusable:
        verdict.false(CLIENT, "FailedCreateAssetsClient", remote.unusable, "Error", tell="Warning")
        verdict.drop(SYNCED)  # of the sources before
    elif not subscribes(dig(verdict.obj, "spec", {})):
        verdict.drop(CLIENT, SYNCED)
    elif remote.failure:
        verdict.true(CLIENT)
        verdict.false(SYNCED, "FailedToSync", remote.failure, "Warning", tell="Warning")
    else:
        verdict.true(CLIENT)
        verdict.true(SYNCED)


def judge_provider(verdict: Verdict, observed: Observed, plan: Blueprint | str) -> None:
    refused = _refused(observed, PROVIDER)
    if dig(verdict.obj, "spec.noProvider") is True:
        verdict.drop(PROVIDER)
    elif refused:
        verdict.false(PROVIDER, "FailedToCreateOrUpdate", "; ".join(refused), "Warning", tell="Warning")
    elif isinstance(plan, Blueprint):
        verdict.true(PROVIDER)
    elif observed.template.state == "failed":
        verdict.false(PROVIDER, "FailedToCreateOrUpdate", plan, "Warning", tell="Warning")
    else:
        verdict.false(PROVIDER, "ProviderTemplateNotFound", plan, "Error", tell="Warning")


def judge_releases(verdict: Verdict, observed: Observed) -> None:
    problems = [f"spec.versions: {problem}" for problem in explicit(dig(verdict.obj, "spec", {}))[1]]
    problems += _refused(observed, RELEASES)
    if observed.failure:
        problems.append(f"releases that are not wanted any more stay: {observed.failure}")
    if problems:
        verdict.false(RELEASES, "FailedToCreateOrUpdate", "; ".join(problems), "Warning", tell="Warning")
    else:
        verdict.true(RELEASES)


def _refused(observed: Observed, condition: str) -> list[str]:
    return [refusal.message for refusal in observed.refusals if refusal.condition == condition]


def judge_availability(verdict: Verdict, releases: list[Object]) -> None:
    if any(map(usable, releases)):
        verdict.true(AVAILABLE)
    else:
        verdict.false(AVAILABLE, "NoReleaseReady", "no release is ready yet; status.summary says how far each is")


def source_fails(verdict: Verdict) -> bool:
    """Something outside is amiss, which may be over before long."""
    return any(
        (get_condition(verdict.conditions, condition) or {}).get("status") == "False"
        for condition in (CLIENT, SYNCED, PROVIDER)
    )
