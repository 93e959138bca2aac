"""The conditions of a HelmChartProxy, in the order and with the reasons of Cluster API Addon Provider Helm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shared.api.conditions import READY, abridged, get_condition
from shared.kube import Object, dig, key_of
from shared.runtime.status import SummarizedStatusBuilder

PROXIES_READY: Literal["HelmReleaseProxiesReady"] = "HelmReleaseProxiesReady"
UP_TO_DATE: Literal["HelmReleaseProxySpecsUpToDate"] = "HelmReleaseProxySpecsUpToDate"
STRATEGY_ACCEPTED: Literal["RolloutStrategyAccepted"] = "RolloutStrategyAccepted"

_MAX_TEXT = 500
"""Characters of one group of a message, so that a hundred clusters do not exceed the limit of a condition."""
_MAX_GROUPS = _MAX_NAMES = 3

Verdict = tuple[str, str, str]
"""Status, reason and message of a condition."""


@dataclass
class ProxyStatus(
    SummarizedStatusBuilder[
        Literal["HelmReleaseProxiesReady", "HelmReleaseProxySpecsUpToDate", "RolloutStrategyAccepted"]
    ]
):
    """Builds the status of a HelmChartProxy."""

    parts = (PROXIES_READY, UP_TO_DATE)


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
    found = {status for status, _ in groups}
    if found == {"True"}:
        return "True", "InfoReported", ""
    return *(("False", "IssuesReported") if "False" in found else ("Unknown", "UnknownReported")), _lines(bad)


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
