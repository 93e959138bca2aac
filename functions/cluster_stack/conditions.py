"""Sets a ClusterStack's conditions about its source, its provider and its releases."""

from __future__ import annotations

from typing import Final, Literal

from shared.api.conditions import abridged, get_condition
from shared.kube import Object, dig
from shared.runtime.status import PAUSED, V1Beta1StatusBuilder

from .observe import Observed, usable
from .provider import ProviderTemplate
from .selection import MAX_RELEASES, auto_subscribes, listed_versions

CLIENT: Final = "AssetsClientAPIAvailable"
SYNCED: Final = "ReleasesSynced"
PROVIDER: Final = "ProviderClusterStackReleasesSynced"
RELEASES: Final = "ClusterStackReleasesSynced"
AVAILABLE: Final = "ClusterStackReleaseAvailable"
StackStatusBuilder = V1Beta1StatusBuilder[
    Literal[
        "AssetsClientAPIAvailable",
        "ReleasesSynced",
        "ProviderClusterStackReleasesSynced",
        "ClusterStackReleasesSynced",
        "ClusterStackReleaseAvailable",
        "Paused",
    ]
]


def set_conditions(
    builder: StackStatusBuilder,
    observed: Observed,
    template: ProviderTemplate | str,
    releases: list[Object],
    left_out: int = 0,
) -> None:
    """Sets all conditions of a ClusterStack.

    Args:
        builder: Builds the status.
        observed: The inputs of the decision.
        template: The provider's template; a str says why it cannot be used.
        releases: The releases that exist and are kept.
        left_out: The number of releases above the limit.

    `is_reconciled` checks whether this would change the status of a stack without problems.
    """
    builder.remove(PAUSED)
    _set_source_conditions(builder, observed)
    _set_provider_condition(builder, observed, template)
    _set_releases_condition(builder, observed, left_out)
    _set_available_condition(builder, releases)


def _set_source_conditions(builder: StackStatusBuilder, observed: Observed) -> None:
    """Sets the conditions about access to the source and about its list of releases."""
    listing = observed.listing
    if listing.config_error:
        builder.set_false(CLIENT, "FailedCreateAssetsClient", listing.config_error, "Error", event_type="Warning")
        builder.remove(SYNCED)  # it may be about earlier sources
    elif not auto_subscribes(dig(builder.obj, "spec", {})):
        builder.remove(CLIENT, SYNCED)
    elif listing.failure:
        builder.set_true(CLIENT)
        builder.set_false(SYNCED, "FailedToSync", listing.failure, "Warning", event_type="Warning")
    else:
        builder.set_true(CLIENT)
        builder.set_true(SYNCED)


def _set_provider_condition(builder: StackStatusBuilder, observed: Observed, template: ProviderTemplate | str) -> None:
    """Sets the condition about the template and the objects cloned from it."""
    rejected = _rejected(observed, PROVIDER)
    if dig(builder.obj, "spec.noProvider") is True:
        builder.remove(PROVIDER)
    elif rejected:
        builder.set_false(PROVIDER, "FailedToCreateOrUpdate", abridged(rejected), "Warning", event_type="Warning")
    elif isinstance(template, ProviderTemplate):
        builder.set_true(PROVIDER)
    elif observed.template.state == "failed":
        builder.set_false(PROVIDER, "FailedToCreateOrUpdate", template, "Warning", event_type="Warning")
    else:
        builder.set_false(PROVIDER, "ProviderTemplateNotFound", template, "Error", event_type="Warning")


def _set_releases_condition(builder: StackStatusBuilder, observed: Observed, left_out: int) -> None:
    """Sets the condition about the ClusterStackReleases that are created and deleted."""
    problems = [f"spec.versions: {problem}" for problem in listed_versions(dig(builder.obj, "spec", {}))[1]]
    problems += _rejected(observed, RELEASES)
    if observed.failure:
        problems.append(f"obsolete releases are not deleted: {observed.failure}")
    excess = (
        f"a ClusterStack has at most {MAX_RELEASES} ClusterStackReleases, and {left_out} more are selected. "
        "ClusterStackReleases in use, in spec.versions, and the newest are kept. Set spec.autoSubscribe to false and "
        "list the wanted releases in spec.versions, or offer fewer channels in the source"
    )
    problems += [excess] if left_out else []
    if problems:
        reason = "TooManyReleases" if problems == [excess] else "FailedToCreateOrUpdate"
        builder.set_false(RELEASES, reason, abridged(problems), "Warning", event_type="Warning")
    else:
        builder.set_true(RELEASES)


def _rejected(observed: Observed, condition: str) -> list[str]:
    return [rejection.message for rejection in observed.rejections if rejection.condition == condition]


def _set_available_condition(builder: StackStatusBuilder, releases: list[Object]) -> None:
    """Sets the condition about whether at least one release is ready."""
    if any(map(usable, releases)):
        builder.set_true(AVAILABLE)
    else:
        builder.set_false(
            AVAILABLE, "NoReleaseReady", "no release is ready yet; status.summary shows the progress of each release"
        )


def has_external_failure(builder: StackStatusBuilder) -> bool:
    """Returns whether the source or the provider fails, because such failures are often transient."""
    return any(
        (get_condition(builder.conditions, condition) or {}).get("status") == "False"
        for condition in (CLIENT, SYNCED, PROVIDER)
    )
