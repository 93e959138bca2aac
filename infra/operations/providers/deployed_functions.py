"""Checks whether functions that install providers run, in a local run or in Deployments of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from infra.generate.workloads import NAME, PART_OF, SINGLE, SINGLE_PROVIDERS, name_of
from shared.api.resources import DEPLOYMENT
from shared.applier.policy import PREFIX
from shared.kube import ApiError, dig, key_of
from shared.providers.annotations import WEBHOOKS

from ..management_cluster import ManagementCluster
from .requests import ProviderSettings

NEEDED = tuple(f"provider_{phase}" for phase in ("preflight", "fetch", "install", "report"))
WAIT = f"{PREFIX}wait"
WITHOUT_PODS = {WAIT: "false", WEBHOOKS: "none"}
_FORBIDDEN = 403


def why_not_reconciled(connection: ManagementCluster) -> str:
    """Returns why no function reconciles providers; empty if functions do, or if the Deployments may not be read."""
    if connection.run:
        return ""
    try:
        return missing_functions(connection.client.list(DEPLOYMENT, selector="=".join(PART_OF)))
    except ApiError as error:
        if error.status == _FORBIDDEN:
            return ""
        raise


def annotate_for_no_pods(settings: ProviderSettings, *, local: bool) -> tuple[ProviderSettings, list[str]]:
    """Adds the annotations that providers need in a local run, where no pods run, and returns a note about them.

    Such providers are installed without webhooks, which no pod would answer, and without waiting for their workloads.
    Annotations of the user are kept.
    """
    given = {name: value for name, value in WITHOUT_PODS.items() if name not in settings.annotations} if local else {}
    if not given:
        return settings, []
    listed = " and ".join(f'{name}: "{value}"' for name, value in given.items())
    without = ", and are installed without webhooks" if WEBHOOKS in given else ""
    note = f"this local run has no pods: created providers get the annotations {listed}{without}"
    return replace(settings, annotations={**settings.annotations, **given}), [note]


def missing_functions(deployments: Iterable[Mapping[str, Any]]) -> str:
    """Returns the functions that are not deployed or are scaled to 0; empty if all run."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for deployment in deployments:
        found.setdefault(dig(deployment, ("metadata", "labels", NAME), ""), []).append(deployment)
    single = not found.keys().isdisjoint((SINGLE, SINGLE_PROVIDERS))
    needed = [SINGLE_PROVIDERS] if single else [*map(name_of, NEEDED)]
    absent = [name for name in needed if name not in found]
    if len(absent) == len(NEEDED):
        return (
            "the cluster has no Deployments of functions; `kubectl apply -k infra/manifests/single` installs all in two"
        )
    if absent and single:
        return (
            f"the cluster has no Deployment {SINGLE_PROVIDERS}; `kubectl apply -k infra/manifests/single` installs it"
        )
    if absent:
        missing = ", ".join(absent)
        return f"the cluster has no Deployment of {missing}; `kubectl apply -k infra/manifests/forwarder` installs all"
    stopped = [
        key
        for name in needed
        if not any(dig(one, "spec.replicas", 1) for one in found[name])
        for key in map(key_of, found[name])
    ]
    if not stopped:
        return ""
    scale = f"`kubectl -n {stopped[0].namespace} scale deployment {' '.join(key.name for key in stopped)} --replicas 1`"
    return f"functions are scaled to 0; {scale} starts them"
