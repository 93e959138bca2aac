"""Finds charts whose output varies: with random values, with the time, or in the order of mappings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .archive import inspect, pack

_FUNCTIONS = (
    *("randAlphaNum", "randAlpha", "randNumeric", "randAscii", "randBytes", "randInt", "uuidv4", "shuffle"),
    *("genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert"),
    *("genSignedCertWithKey", "htpasswd", "bcrypt", "encryptAES", "now", "ago", "keys", "values"),
)
"""Template functions whose result varies: random values, the time, and the keys or values of a mapping in any order."""

_CALLS = re.compile(rb'(?<![\w.$"])(?:' + "|".join(_FUNCTIONS).encode() + rb")(?!\w)")
_NOW = re.compile(rb'"(?:\\.?|[^"\\])*(?:"|\Z)|`[^`]*(?:`|\Z)|(?<![\w.$])now(?!\w)')
"""A string, or `now`. A string that nothing closes extends to the end, so that the text is read once."""
_FIXED_TIME = b'(toDate "2006-01-02" "2001-02-03")'
_CHART = re.compile(r"[^/]+/(?:charts/(?:[^/]+\.tgz/)?+[^/]+/)*")
"""The folder of a chart, or of a subchart: as files, or packed."""
_INERT = re.compile(r"crds/|.*\.(md|tgz)$|(.*/)?LICENSE[^/]*$", re.DOTALL)


def may_vary(members: Mapping[str, bytes]) -> bool:
    """Returns whether a template or a value calls a function that varies, because `tpl` can run values as templates."""
    return any(text_may_vary(content) for path, content in members.items() if may_run(path))


def may_run(path: str) -> bool:
    """Returns whether Helm may run the file as a template: all files below `templates/`, and by `tpl` most others.

    NOTES.txt counts, too, because it may fail, or define templates that other files include.
    """
    chart = _CHART.match(path)
    inside = path[chart.end() :] if chart else path
    return inside.startswith("templates/") or _INERT.match(inside) is None


def text_may_vary(text: bytes) -> bool:
    """Returns whether a template calls a function that varies."""
    return any(_CALLS.search(action) for action in _actions(text))


def with_fixed_time(chart: bytes, name: str) -> bytes:
    """Returns the chart archive with a fixed time in place of `now`, to show which output depends on the time."""
    return pack(_rewritten(inspect(chart, name)))


def text_with_fixed_time(text: bytes) -> bytes:
    """Returns a template with a fixed time in place of `now`."""
    if b"now" not in text:
        return text
    before, *parts = text.split(b"{{")
    return b"{{".join([before, *map(_replaced, parts)])


def _replaced(part: bytes) -> bytes:
    action, end, rest = part.partition(b"}}")
    return _NOW.sub(lambda found: _FIXED_TIME if found[0] == b"now" else found[0], action) + end + rest


def _rewritten(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the files of a chart and its packed subcharts, with a fixed time in place of `now`."""
    packed = {path: f"{path}/" for path in files if path.endswith(".tgz")}
    inside = tuple(packed.values())
    rewritten = {}
    for path, content in files.items():
        if path.startswith(inside):
            continue
        if path in packed:
            own = {
                other.removeprefix(packed[path]): data
                for other, data in files.items()
                if other.startswith(packed[path])
            }
            rewritten[path] = pack(_rewritten(own)) if own else content
        else:
            rewritten[path] = text_with_fixed_time(content) if may_run(path) else content
    return rewritten


def _actions(text: bytes) -> Iterator[bytes]:
    """Yields the actions between double braces, in time linear in the text."""
    for part in text.split(b"{{")[1:]:
        yield part.partition(b"}}")[0]
