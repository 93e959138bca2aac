"""Rows of the overview: Clusters that match a search, providers and cluster stacks. Pure functions of objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from infra.operations.clusters import ClusterSummary, summarize
from infra.operations.providers.status import ProviderSummary, status_of
from shared.api.conditions import READY, get_condition
from shared.kube import Key, Object, dig, key_of

PAGE_SIZE = 100
STATES = ("waiting", "ready", "paused", "deleting")


@dataclass(frozen=True)
class Search:
    """The Clusters that a page shows: those with all words of `text` and in `state`; empty for all."""

    text: str = ""
    state: str = ""
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Search:
        """Reads a query; invalid values count as absent."""
        state, page = query.get("state", ""), query.get("page", "")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
        return cls(query.get("q", "").strip()[:200], state if state in STATES else "", max(1, number))


@dataclass(frozen=True)
class ClusterPage:
    """One page of the Clusters that match a search.

    Attributes:
        rows: The Clusters of this page.
        matching: The number of matching Clusters on all pages.
        page: The number of this page, from 1.
        pages: The number of pages, at least 1.
        counts: The number of Clusters in each state, of all Clusters.
    """

    rows: list[ClusterSummary]
    matching: int
    page: int
    pages: int
    counts: Mapping[str, int]


@dataclass(frozen=True)
class StackRow:
    """A ClusterStack in short."""

    key: Key
    kubernetes: str
    channel: str
    latest: str
    usable: str
    ready: str
    why: str


def state_of(cluster: ClusterSummary) -> str:
    """Returns one of `STATES`."""
    if cluster.deleting:
        return "deleting"
    if cluster.paused:
        return "paused"
    return "waiting" if cluster.waiting_for or cluster.addons_ready is False else "ready"


def cluster_page(clusters: Iterable[Object], addons: Iterable[Object], search: Search) -> ClusterPage:
    """Returns the page of a search; the last page if there are fewer pages."""
    summaries = summarize(clusters, {key_of(addon): addon for addon in addons})
    words = search.text.lower().split()
    found = [
        cluster
        for cluster in summaries
        if search.state in ("", state_of(cluster)) and all(word in _text(cluster) for word in words)
    ]
    pages = max(1, -(-len(found) // PAGE_SIZE))
    page = min(search.page, pages)
    rows = found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    return ClusterPage(rows, len(found), page, pages, Counter(map(state_of, summaries)))


def provider_rows(providers: Iterable[Object]) -> list[ProviderSummary]:
    """Returns the status of each provider, in the order of installation of the kinds."""
    return [status_of(provider) for provider in providers]


def stack_rows(stacks: Iterable[Object]) -> list[StackRow]:
    """Returns the ClusterStacks in the order of their keys."""
    return [_stack(stack) for stack in sorted(stacks, key=key_of)]


def _stack(stack: Object) -> StackRow:
    ready: Mapping[str, Any] = get_condition(dig(stack, "status.conditions"), READY) or {}
    return StackRow(
        key_of(stack),
        kubernetes=dig(stack, "spec.kubernetesVersion", ""),
        channel=dig(stack, "spec.channel", ""),
        latest=dig(stack, "status.latestRelease", ""),
        usable=dig(stack, "status.usableVersions", ""),
        ready=ready.get("status") or "Unknown",
        why=": ".join(str(ready[part]) for part in ("reason", "message") if ready.get(part)),
    )


def _text(cluster: ClusterSummary) -> str:
    parts = (str(cluster.key), cluster.phase, cluster.class_name, cluster.applied_class, cluster.kubernetes)
    return " ".join((*parts, cluster.waiting_for)).lower()
