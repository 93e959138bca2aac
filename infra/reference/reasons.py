"""The page of the reasons of conditions: what each means, and what to do, from the table of `explain`."""

from __future__ import annotations

import re
from itertools import groupby

from infra.operations.reasons import REASONS, Reason

from .markdown import HEAD, table

_HEAD = f"""{HEAD}# Reasons of conditions

The reasons of conditions that are not as wanted, by kind. `capi-functions explain REASON` prints the same, and
`capi-functions describe` below each condition that has the reason.
"""
_LINK = re.compile(r"\]\((?!\w+://)")


def page() -> str:
    """Returns the text of the page."""
    ordered = sorted(REASONS, key=lambda reason: reason.kind)
    return _HEAD + "".join(_section(kind, list(found)) for kind, found in groupby(ordered, lambda each: each.kind))


def _section(kind: str, reasons: list[Reason]) -> str:
    rows = [
        (
            f"`{reason.condition}`" if reason.condition else "several",
            ", ".join(f"`{name}`" for name in reason.names),
            _from_here(reason.meaning),
            _from_here(reason.remedy),
        )
        for reason in reasons
    ]
    title = "Providers" if kind == "provider" else kind
    return f"\n## {title}\n\n{table(('condition', 'reason', 'what it means', 'what to do'), rows)}"


def _from_here(markdown: str) -> str:
    """Returns text whose links, which are relative to docs/, are relative to docs/reference/."""
    return _LINK.sub("](../", markdown)
