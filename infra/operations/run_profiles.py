"""The profiles of a run, by the programs that run beside it."""

from __future__ import annotations

from shared import profiles

_BESIDE_CORE = "addons,providers,kubeconfig"
"""The profiles beside a Cluster API core, whose kubeconfigs are renewed on request."""


def profiles_or_default(given: str, *, beside_core: bool, kind: bool = False) -> str:
    """Returns the profiles in --profile, else the profiles beside a Cluster API core, or all.

    With `kind` the functions of these profiles serve KINDClusters.
    """
    chosen = given or (_BESIDE_CORE if beside_core else "all")
    serves = profiles.belongs(profiles.KIND_CLUSTERS, profiles.parse(chosen))
    return chosen if serves or not kind else f"{chosen},kind"


def nobody_reconciles(chosen: str, *, beside_core: bool) -> str:
    """Returns a warning if no program reconciles the Clusters of a run with these profiles; else an empty text."""
    from functions import catalog

    if beside_core or "cluster" in catalog.triggers(profiles=profiles.parse(chosen)):
        return ""
    return (
        "no Cluster API core runs, and no function of these profiles reconciles Clusters: a new Cluster stays as it "
        "is; --profile standalone, or all, runs the function cluster"
    )
