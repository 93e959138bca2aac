"""Whether anybody does what a provider object asks for: functions of a local run, or those of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from infra.generate.workloads import NAME, PART_OF, name_of
from shared.api.resources import DEPLOYMENT
from shared.applier.policy import PREFIX
from shared.kube import ApiError, dig, key_of
from shared.providers.annotations import WEBHOOKS

from ..connection import Management
from .requests import Settings

NEEDED = tuple(f"provider_{phase}" for phase in ("preflight", "fetch", "install", "report"))
WAIT = f"{PREFIX}wait"
WITHOUT_PODS = {WAIT: "false", WEBHOOKS: "none"}
_FORBIDDEN = 403


def obstacle(asked: Management) -> str:
    """Why waiting for them would be in vain; empty also where that cannot be told."""
    if asked.run:
        return ""
    try:
        return missing(asked.client.list(DEPLOYMENT, selector="=".join(PART_OF)))
    except ApiError as error:
        if error.status == _FORBIDDEN:
            return ""
        raise


def without_pods(settings: Settings, *, local: bool) -> tuple[Settings, list[str]]:
    """A local run has nothing that runs pods: providers there wait for none of theirs, and come without webhooks, which
    nobody would answer. What the user asks for stands."""
    given = {name: value for name, value in WITHOUT_PODS.items() if name not in settings.annotations} if local else {}
    if not given:
        return settings, []
    listed = " and ".join(f'{name}: "{value}"' for name, value in given.items())
    without = ", hence come without their webhooks" if WEBHOOKS in given else ""
    note = f"nothing runs pods in this run: providers that are created get {listed}{without}"
    return replace(settings, annotations={**settings.annotations, **given}), [note]


def missing(deployments: Iterable[Mapping[str, Any]]) -> str:
    """What there is not of the functions, by their Deployments."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for deployment in deployments:
        found.setdefault(dig(deployment, ("metadata", "labels", NAME), ""), []).append(deployment)
    absent = [name for name in map(name_of, NEEDED) if name not in found]
    if len(absent) == len(NEEDED):
        return "the cluster has no Deployments of functions; `kubectl apply -k infra/knative` installs them"
    if absent:
        return f"the cluster has no Deployment of {', '.join(absent)}; `kubectl apply -k infra/knative` installs all"
    stopped = [
        key
        for name in map(name_of, NEEDED)
        if not any(dig(one, "spec.replicas", 1) for one in found[name])
        for key in map(key_of, found[name])
    ]
    if not stopped:
        return ""
    scale = f"`kubectl -n {stopped[0].namespace} scale deployment {' '.join(key.name for key in stopped)} --replicas 1`"
    return f"functions are scaled to 0; {scale} starts them"
