"""Determines from the text of a chart the needs of its rendering."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from .varying import may_run, may_vary


class Traits(NamedTuple):
    """The traits of a chart with its subcharts. `depth` is the greatest depth of a file; -1 without files."""

    depth: int
    needs_cluster_facts: bool
    """Whether the chart may use the Kubernetes version, the API list or live objects."""
    looks_up: bool
    """Whether the chart may look up live objects."""
    remote_schema: bool
    """Whether the schema of the values refers to an external schema; values are not validated then."""
    varies: bool
    """Whether the output of the chart may differ between two renderings."""
    has_notes: bool = False
    """Whether the chart itself, not only a subchart, has notes."""


def traits_of(members: Mapping[str, bytes]) -> Traits:
    """Returns the traits of a chart; `members` are the files of its archive (see `archive.inspect`)."""
    return Traits(
        max((path.count("/") for path in members), default=-1),
        needs_cluster_facts(members),
        uses_lookup(members),
        has_remote_schema(members),
        may_vary(members),
        any(map(is_notes, members)),
    )


_LOOKS_UP: Final = re.compile(rb"""\blookup\s+["'`$(.]""")
_CLUSTER_FACTS: Final = re.compile(rb"\bCapabilities\b|" + _LOOKS_UP.pattern)
_CONSTRAINT: Final = re.compile(rb"""^["']?kubeVersion["']?\s*:""", re.MULTILINE)
_NOTES: Final = re.compile(r"[^/]+/templates/NOTES\.txt")
_INSIDE: Final = re.compile("#")
_BUILT_IN: Final = {
    "$ref": _INSIDE,
    "$dynamicRef": _INSIDE,
    "$recursiveRef": _INSIDE,
    "$schema": re.compile("https?://json-schema.org/"),
}
"""The references in a schema that need no external schema."""


def is_notes(path: str) -> bool:
    """Returns whether a file has the notes of the chart itself, not of a subchart."""
    return _NOTES.fullmatch(path) is not None


def needs_cluster_facts(members: Mapping[str, bytes]) -> bool:
    """Returns whether a chart, or a subchart, may use the Kubernetes version, the API list or live objects.

    A mention counts, also in values and other files, because `tpl` can run them. A false positive costs time only.
    """
    return any(
        _CONSTRAINT.search(content) if _has_file_name(path, "Chart.yaml") else _CLUSTER_FACTS.search(content)
        for path, content in members.items()
        if may_run(path)
    )


def uses_lookup(members: Mapping[str, bytes]) -> bool:
    """Returns whether a chart, or a subchart, may look up objects of the cluster; a mention counts."""
    return any(_LOOKS_UP.search(content) for path, content in members.items() if may_run(path))


def has_remote_schema(members: Mapping[str, bytes]) -> bool:
    """Returns whether the schema of the values may refer to an external schema."""
    return any(_refers(content) for path, content in members.items() if _has_file_name(path, "values.schema.json"))


def _refers(schema: bytes) -> bool:
    """Returns whether the schema refers to an external schema; true if it cannot be parsed."""
    pairs: list[tuple[str, Any]] = []
    try:
        json.loads(schema.decode(errors="replace"), object_pairs_hook=pairs.extend)  # sees every object inside
    except (ValueError, RecursionError):
        return True  # Helm may accept it, such as with a byte order mark or a number of any length
    return any(_BUILT_IN[key].match(str(value)) is None for key, value in pairs if key in _BUILT_IN)


def _has_file_name(path: str, file_name: str) -> bool:
    """Returns whether the path leads to a file with this name, in any folder."""
    return path.rpartition("/")[2] == file_name
