"""The table of `provider list`."""

from __future__ import annotations

from collections.abc import Iterable

from infra.operations.providers.status import ProviderSummary
from infra.operations.text import plain

from .text import columns

_HEADINGS = ("KIND", "NAME", "NAMESPACE", "INSTALLED", "WANTED", "CONTRACT", "READY", "REASON")


def format_table(found: Iterable[ProviderSummary]) -> list[str]:
    """Returns the lines of a table; the last column, the reason, is not padded."""
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for one in found:
        why = "" if one.ready == "True" and one.reason == "Ready" else one.why
        cells = (one.kind, one.name, one.namespace, one.installed, one.wanted or "newest", one.contract, one.ready)
        rows.append((*(plain(cell) or "-" for cell in cells), why))
    return columns(rows)
