"""The conditions of a HelmChartProxy, in the order and with the reasons of Cluster API Addon Provider Helm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from shared.api.conditions import READY, abridged, get_condition, set_condition
from shared.kube import Object, dig, key_of
from shared.runtime.status import StatusBuilder

PROXIES_READY: Literal["HelmReleaseProxiesReady"] = "HelmReleaseProxiesReady"
UP_TO_DATE: Literal["HelmReleaseProxySpecsUpToDate"] = "HelmReleaseProxySpecsUpToDate"
STRATEGY_ACCEPTED: Literal["RolloutStrategyAccepted"] = "RolloutStrategyAccepted"
_ORDER = (READY, PROXIES_READY, UP_TO_DATE)

_MAX_TEXT = 500
"""Characters of one group of a message, so that a hundred clusters do not exceed the limit of a condition."""
_MAX_GROUPS = _MAX_NAMES = 3

Verdict = tuple[str, str, str]
"""Status, reason and message of a condition."""


class ProxyStatus(
    StatusBuilder[Literal["HelmReleaseProxiesReady", "HelmReleaseProxySpecsUpToDate", "RolloutStrategyAccepted"]]
):
    """Builds the status of a HelmChartProxy."""

    def summarized(self) -> list[Object]:
        """Returns the conditions in their order, with `Ready`, which summarizes the two others."""
        status, reason, message = _summary([get_condition(self.conditions, type_) for type_ in _ORDER[1:]])
        conditions = set_condition(
            self.conditions, READY, status, reason, message, now=self.now, observed_generation=self.generation
        )
        rank = {type_: position for position, type_ in enumerate(_ORDER)}
        return sorted(conditions, key=lambda condition: rank.get(condition["type"], len(rank)))


def aggregate(releases: Iterable[Object]) -> Verdict:
    """Returns the verdict about the conditions `Ready` of HelmReleaseProxies: False beats Unknown beats True."""
    groups: dict[tuple[str, str], list[str]] = {}
    for release in releases:
        ready = get_condition(dig(release, "status.conditions"), READY) or {}
        status = str(ready.get("status") or "Unknown")
        text = str(ready.get("message") or ready.get("reason") or "Ready is not reported yet")
        groups.setdefault((status, text), []).append(key_of(release).name)
    if not groups:
        return "True", "Ready", ""
    bad = [(*group, names) for group, names in groups.items() if group[0] != "True"]
    bad.sort(key=lambda group: (group[0] != "False", -len(group[2]), group[2][0]))
    return *_worst(status for status, _ in groups), _lines(bad)


def reference(cluster: Mapping[str, Any]) -> Object:
    """Returns the entry of a Cluster in `status.matchingClusters`."""
    key = key_of(cluster)
    return {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": key.name, "namespace": key.namespace}


def _lines(groups: list[tuple[str, str, list[str]]]) -> str:
    lines = []
    for _, text, names in groups[:_MAX_GROUPS]:
        kind = "HelmReleaseProxy" if len(names) == 1 else "HelmReleaseProxies"
        told = text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
        lines.append(f"* {kind} {abridged(sorted(names), _MAX_NAMES, ', ')}: {told}")
    if more := sum(len(names) for _, _, names in groups[_MAX_GROUPS:]):
        lines.append(f"And {more} more with other messages")
    return "\n".join(lines)


def _summary(conditions: Iterable[Mapping[str, Any] | None]) -> Verdict:
    lines, statuses = [], []
    for type_, condition in zip(_ORDER[1:], conditions, strict=True):
        found = condition or {"status": "Unknown", "reason": "NotYetReported"}
        statuses.append(str(found.get("status")))
        if found.get("status") != "True":
            lines.append(f"* {type_}: {found.get('message') or found.get('reason')}")
    return *_worst(statuses), "\n".join(lines)


def _worst(statuses: Iterable[str]) -> tuple[str, str]:
    found = set(statuses)
    if "False" in found:
        return "False", "IssuesReported"
    return ("Unknown", "UnknownReported") if "Unknown" in found else ("True", "InfoReported")
