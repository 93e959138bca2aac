"""`provider adopt`: which providers another program has installed, by what it left in the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared.api.provider import BY_KIND, COMPONENT_LABEL, CORE_NAME, KINDS, PROVIDER_LABEL, ProviderKind
from shared.api.resources import CLUSTERCTL_PROVIDER, DEPLOYMENT
from shared.components import versions
from shared.kube import Client, NotServed, Object, dig, key_of

from ..failures import Failure
from .requests import Wanted

_OPERATOR = f"{COMPONENT_LABEL}/core=capi-operator"
_TAG = re.compile(r":([A-Za-z0-9_][A-Za-z0-9_.-]*)(?:@.*)?$")


@dataclass(frozen=True)
class Found:
    """`unclear` says of providers that are there why they cannot be adopted by themselves."""

    providers: tuple[Wanted, ...]
    unclear: tuple[str, ...] = ()


def find(client: Client) -> Found:
    """What clusterctl has recorded; of the rest, what Deployments with its labels tell."""
    recorded, running = list(_records(client)), list(client.list(DEPLOYMENT, selector=PROVIDER_LABEL))
    return found(recorded, running)


def found(records: Iterable[Mapping[str, Any]], deployments: Iterable[Mapping[str, Any]]) -> Found:
    listed, unclear = [], []
    for record in records:
        kind, name = BY_KIND.get(str(record.get("type"))), str(record.get("providerName") or "")
        version = str(record.get("version") or "")
        if kind is None or not name or versions.try_parse(version) is None:
            unclear.append(f"clusterctl's record {key_of(record)} is of no known type, name and version")
            continue
        watched = str(record.get("watchedNamespace") or "")
        listed.append(Wanted(kind, name, key_of(record).namespace, version, watched=watched))
    known = {(one.kind, one.name) for one in listed}
    grouped: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for deployment in deployments:
        label = dig(deployment, ("metadata", "labels", PROVIDER_LABEL), "")
        grouped.setdefault((label, key_of(deployment).namespace), []).append(deployment)
    for (label, namespace), those in grouped.items():
        place = of_label(label)
        if place is None:
            unclear.append(f"Deployment {key_of(those[0])} is labelled as of {label!r}, which is no provider")
        elif place not in known:
            tags = {tag for deployment in those for tag in _tags(deployment)}
            if len(tags) == 1:
                listed.append(Wanted(*place, namespace, tags.pop()))
            else:
                told = f"images are of {' and '.join(sorted(tags))}" if tags else "images name no version"
                unclear.append(f"{place[0].kind} {namespace}/{place[1]}: its version is not clear, {told}")
    return Found(tuple(sorted(listed, key=lambda one: (KINDS.index(one.kind), one.key))), tuple(unclear))


def of_label(label: str) -> tuple[ProviderKind, str] | None:
    """The provider whose objects carry this label, such as `infrastructure-docker`."""
    for kind in KINDS:
        if kind.is_core and label == CORE_NAME:
            return kind, label
        if not kind.is_core and label.startswith(f"{kind.prefix}-") and len(label) > len(kind.prefix) + 1:
            return kind, label.removeprefix(f"{kind.prefix}-")
    return None


def operator(client: Client) -> str:
    """What to do about a Cluster API Operator that is at work; empty where there is none."""
    for deployment in client.list(DEPLOYMENT, selector=_OPERATOR):
        if dig(deployment, "spec.replicas", 1):
            namespace, name = key_of(deployment)
            stop = f"kubectl -n {namespace} scale deployment {name} --replicas 0"
            return f"Cluster API Operator is at work on the same objects: `{stop}` stops it, then try again"
    return ""


def chosen(candidates: Sequence[Wanted], kind: ProviderKind, name: str) -> list[Wanted]:
    """Raises `Failure`."""
    those = [one for one in candidates if (one.kind, one.name) == (kind, name)]
    if not those:
        there = ", ".join(f"{one.kind.prefix} {one.name}" for one in candidates) or "nothing"
        raise Failure(f"no other program has installed {kind.kind} {name}; there is {there}")
    return those


def paused(wanted: Iterable[Wanted]) -> list[Wanted]:
    return [replace(one, paused=True) for one in wanted]


def _records(client: Client) -> Iterable[Object]:
    try:
        yield from client.list(CLUSTERCTL_PROVIDER)
    except NotServed:
        return


def _tags(deployment: Mapping[str, Any]) -> Iterable[str]:
    """Those that are versions."""
    for container in dig(deployment, "spec.template.spec.containers", []):
        match = _TAG.search(container.get("image") or "")
        if match and versions.try_parse(match[1]):
            yield match[1]
