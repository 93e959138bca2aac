"""The index of an https repository (`index.yaml`): the versions of a chart, and where their archives are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared import bounded_yaml

from .versions import parse_version

_MAX_VERSIONS = 20_000
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_FIELDS = {("version",): "version", ("urls", 0): "url", ("digest",): "digest"}


class InvalidIndex(ValueError):
    """A text is not the index of a repository; the message is a predicate."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One version of a chart. `url` may be relative; `digest`, in hexadecimal, is empty if the index has none."""

    version: str
    url: str
    digest: str = ""


def parse_index(data: bytes, chart: str) -> Sequence[IndexEntry]:
    """Returns the usable versions of a chart, in the order of the index; entries without version or URL are skipped.

    The index is read without being built, because it may have a million values. Raises `InvalidIndex`.
    """
    found: dict[str | int, dict[str, str]] = {}
    api_version = ""
    try:
        for place, text in bounded_yaml.scalars(data):
            if place == ("apiVersion",):
                api_version = text
            elif place[:2] == ("entries", chart) and len(place) > 3 and place[3:] in _FIELDS and text not in _NULL:
                found.setdefault(place[2], {})[_FIELDS[place[3:]]] = text
                if len(found) > _MAX_VERSIONS:
                    raise InvalidIndex(f"has more than {_MAX_VERSIONS} versions of the chart")
    except bounded_yaml.YAMLError as error:
        raise InvalidIndex(f"is not YAML: {' '.join(str(error).split())[:200]}") from None
    if api_version in _NULL:
        raise InvalidIndex("has no apiVersion, so it is not the index of a repository")
    return [
        IndexEntry(entry["version"], entry["url"], entry.get("digest", "").removeprefix("sha256:").lower())
        for entry in found.values()
        if "url" in entry and parse_version(entry.get("version", "")) is not None
    ]
