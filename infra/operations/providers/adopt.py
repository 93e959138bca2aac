"""`provider adopt`: finds the providers that another program has installed in the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared import semver
from shared.api.provider import BY_KIND, COMPONENT_LABEL, KINDS, PROVIDER_LABEL, ProviderKind, provider_of_label
from shared.api.resources import CLUSTERCTL_PROVIDER, DEPLOYMENT
from shared.kube import Client, NotServed, Object, dig, key_of

from ..failure import Failure
from .requests import ProviderRequest

_OPERATOR = f"{COMPONENT_LABEL}/core=capi-operator"
_TAG = re.compile(r":([A-Za-z0-9_][A-Za-z0-9_.-]*)(?:@.*)?$")


@dataclass(frozen=True)
class Installations:
    """The providers found. `unclear` has a text for each provider that cannot be adopted, with the reason."""

    providers: tuple[ProviderRequest, ...]
    unclear: tuple[str, ...] = ()


def find(client: Client) -> Installations:
    """Finds providers by clusterctl's records, and others by the labels and images of Deployments."""
    recorded, running = list(_records(client)), list(client.list(DEPLOYMENT, selector=PROVIDER_LABEL))
    return recognize(recorded, running)


def recognize(records: Iterable[Mapping[str, Any]], deployments: Iterable[Mapping[str, Any]]) -> Installations:
    """Returns the providers in clusterctl's `records`, and others whose `deployments` agree on one version."""
    listed, unclear = [], []
    for record in records:
        kind, name = BY_KIND.get(str(record.get("type"))), str(record.get("providerName") or "")
        version = str(record.get("version") or "")
        if kind is None or not name or semver.try_parse(version) is None:
            unclear.append(f"clusterctl's record {key_of(record)} has no known type, name and version")
            continue
        watched = str(record.get("watchedNamespace") or "")
        listed.append(ProviderRequest(kind, name, key_of(record).namespace, version, watched=watched))
    known = {(one.kind, one.name) for one in listed}
    grouped: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for deployment in deployments:
        label = dig(deployment, ("metadata", "labels", PROVIDER_LABEL), "")
        grouped.setdefault((label, key_of(deployment).namespace), []).append(deployment)
    for (label, namespace), labelled in grouped.items():
        place = provider_of_label(label)
        if place is None:
            unclear.append(
                f"Deployment {key_of(labelled[0])} has the provider label {label!r}, which names no provider"
            )
        elif place not in known:
            tags = {tag for deployment in labelled for tag in _tags(deployment)}
            if len(tags) == 1:
                listed.append(ProviderRequest(*place, namespace, tags.pop()))
            else:
                images = f"its images have {' and '.join(sorted(tags))}" if tags else "its images have no version"
                unclear.append(f"{place[0].kind} {namespace}/{place[1]}: the version is not clear, {images}")
    return Installations(tuple(sorted(listed, key=lambda one: (KINDS.index(one.kind), one.key))), tuple(unclear))


def stop_operator_hint(client: Client) -> str:
    """Returns how to stop a running Cluster API Operator; empty if none runs."""
    for deployment in client.list(DEPLOYMENT, selector=_OPERATOR):
        if dig(deployment, "spec.replicas", 1):
            namespace, name = key_of(deployment)
            stop = f"kubectl -n {namespace} scale deployment {name} --replicas 0"
            return f"Cluster API Operator reconciles the same objects: stop it with `{stop}`, then try again"
    return ""


def select(candidates: Sequence[ProviderRequest], kind: ProviderKind, name: str) -> list[ProviderRequest]:
    """Selects the candidate of this kind and name.

    Raises:
        Failure: There is none.
    """
    selected = [one for one in candidates if (one.kind, one.name) == (kind, name)]
    if not selected:
        found = ", ".join(f"{one.kind.prefix} {one.name}" for one in candidates) or "none"
        raise Failure(f"no other program has installed {kind.kind} {name}; found: {found}")
    return selected


def paused(requests: Iterable[ProviderRequest]) -> list[ProviderRequest]:
    """Returns the requests for providers that are created paused."""
    return [replace(one, paused=True) for one in requests]


def _records(client: Client) -> Iterable[Object]:
    try:
        yield from client.list(CLUSTERCTL_PROVIDER)
    except NotServed:
        return


def _tags(deployment: Mapping[str, Any]) -> Iterable[str]:
    """Yields the image tags that are versions."""
    for container in dig(deployment, "spec.template.spec.containers", []):
        match = _TAG.search(container.get("image") or "")
        if match and semver.try_parse(match[1]):
            yield match[1]
