"""The Clusters that match a search, page by page. Pure functions of objects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from infra.operations.listing import Row, cluster_row
from shared.api.cluster import is_paused
from shared.api.conditions import READY, is_true
from shared.api.names import addon_of
from shared.kube import Key, Object, deleting, dig, key_of

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

    rows: list[Row]
    matching: int
    page: int
    pages: int
    counts: Mapping[str, int]


def state_of(cluster: Row) -> str:
    """Returns one of `STATES`."""
    if deleting(cluster.obj):
        return "deleting"
    if is_paused(cluster.obj):
        return "paused"
    return "ready" if cluster.verdict.ready == "True" else "waiting"


def cluster_page(
    clusters: Iterable[Object], addons: Iterable[Object], search: Search, releases: Iterable[Object] = ()
) -> ClusterPage:
    """Returns the page of a search; the last page if there are fewer pages. `releases` are HelmReleaseProxies."""
    addon_by_key = {key_of(addon): addon for addon in addons}
    charts: dict[Key, list[bool]] = defaultdict(list)
    for release in releases:
        owner = Key(key_of(release).namespace, str(dig(release, "spec.clusterRef.name")))
        charts[owner].append(is_true(dig(release, "status.conditions"), READY))
    rows = [
        _with_charts(cluster_row(cluster, addon_by_key.get(addon_of(cluster))), charts.get(key_of(cluster), ()))
        for cluster in sorted(clusters, key=key_of)
    ]
    words = search.text.lower().split()
    found = [row for row in rows if search.state in ("", state_of(row)) and all(word in _text(row) for word in words)]
    pages = max(1, -(-len(found) // PAGE_SIZE))
    page = min(search.page, pages)
    shown = found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    return ClusterPage(shown, len(found), page, pages, Counter(map(state_of, rows)))


def _with_charts(row: Row, ready: Collection[bool]) -> Row:
    return replace(row, cells={**row.cells, "CHARTS": f"{sum(ready)} of {len(ready)} ready" if ready else ""})


def _text(row: Row) -> str:
    return " ".join((str(key_of(row.obj)), *row.cells.values(), row.verdict.text(most=4_000))).lower()
