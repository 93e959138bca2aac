"""What a ClusterStack says of its source, its provider and its releases."""

from __future__ import annotations

from shared.api.conditions import get_condition
from shared.kube import Object, dig
from shared.runtime.status import V1Beta1StatusBuilder

from .observe import Observed, usable
from .provider import Blueprint
from .selection import explicit, subscribes

CLIENT, SYNCED = "AssetsClientAPIAvailable", "ReleasesSynced"
PROVIDER, RELEASES = "ProviderClusterStackReleasesSynced", "ClusterStackReleasesSynced"
AVAILABLE = "ClusterStackReleaseAvailable"


def judge_source(builder: V1Beta1StatusBuilder, observed: Observed) -> None:
    remote = observed.remote
    if remote.unusable:
        builder.set_false(CLIENT, "FailedCreateAssetsClient", remote.unusable, "Error", event_type="Warning")
        builder.remove(SYNCED)  # of the sources before
    elif not subscribes(dig(builder.obj, "spec", {})):
        builder.remove(CLIENT, SYNCED)
    elif remote.failure:
        builder.set_true(CLIENT)
        builder.set_false(SYNCED, "FailedToSync", remote.failure, "Warning", event_type="Warning")
    else:
        builder.set_true(CLIENT)
        builder.set_true(SYNCED)


def judge_provider(builder: V1Beta1StatusBuilder, observed: Observed, plan: Blueprint | str) -> None:
    refused = _refused(observed, PROVIDER)
    if dig(builder.obj, "spec.noProvider") is True:
        builder.remove(PROVIDER)
    elif refused:
        builder.set_false(PROVIDER, "FailedToCreateOrUpdate", "; ".join(refused), "Warning", event_type="Warning")
    elif isinstance(plan, Blueprint):
        builder.set_true(PROVIDER)
    elif observed.template.state == "failed":
        builder.set_false(PROVIDER, "FailedToCreateOrUpdate", plan, "Warning", event_type="Warning")
    else:
        builder.set_false(PROVIDER, "ProviderTemplateNotFound", plan, "Error", event_type="Warning")


def judge_releases(builder: V1Beta1StatusBuilder, observed: Observed) -> None:
    problems = [f"spec.versions: {problem}" for problem in explicit(dig(builder.obj, "spec", {}))[1]]
    problems += _refused(observed, RELEASES)
    if observed.failure:
        problems.append(f"releases that are not wanted any more stay: {observed.failure}")
    if problems:
        builder.set_false(RELEASES, "FailedToCreateOrUpdate", "; ".join(problems), "Warning", event_type="Warning")
    else:
        builder.set_true(RELEASES)


def _refused(observed: Observed, condition: str) -> list[str]:
    return [refusal.message for refusal in observed.refusals if refusal.condition == condition]


def judge_availability(builder: V1Beta1StatusBuilder, releases: list[Object]) -> None:
    if any(map(usable, releases)):
        builder.set_true(AVAILABLE)
    else:
        builder.set_false(AVAILABLE, "NoReleaseReady", "no release is ready yet; status.summary says how far each is")


def source_fails(builder: V1Beta1StatusBuilder) -> bool:
    """Something outside is amiss, which may be over before long."""
    return any(
        (get_condition(builder.conditions, condition) or {}).get("status") == "False"
        for condition in (CLIENT, SYNCED, PROVIDER)
    )
