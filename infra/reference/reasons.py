"""The page of the reasons of conditions: what each means, and what to do, from the tables of `explain`."""

from __future__ import annotations

import re

from infra.operations.reasons import TABLES

from .markdown import HEAD, plain

_HEAD = f"""{HEAD}# Reasons of conditions

The reasons of conditions that are not as wanted, by kind. `capi-functions explain REASON` prints the same, and
`capi-functions describe` below each condition that has the reason.

"""
_LINK = re.compile(r"\]\((?!\w+://)")


def page() -> str:
    """Returns the text of the page, whose links are relative to docs/reference/."""
    sections = TABLES[TABLES.index("## ") :].replace("## provider\n", "## Providers\n")
    return _HEAD + _LINK.sub("](../", plain(sections))
