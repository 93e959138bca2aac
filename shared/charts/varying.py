"""Charts that do not render to the same text twice: what they call for that, as far as their text tells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .archive import inspect, pack

_FUNCTIONS = (
    *("randAlphaNum", "randAlpha", "randNumeric", "randAscii", "randBytes", "randInt", "uuidv4", "shuffle"),
    *("genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert"),
    *("genSignedCertWithKey", "htpasswd", "bcrypt", "encryptAES", "now", "ago", "keys", "values"),
)
"""Of the template language: random ones, those of time, and two that give a mapping's parts in any order."""

_CALLS = re.compile(rb'(?<![\w.$"])(?:' + "|".join(_FUNCTIONS).encode() + rb")(?!\w)")
_NOW = re.compile(rb'"(?:\\.|[^"\\])*"|`[^`]*`|(?<![\w.$])now(?!\w)')
_ANOTHER_DAY = b'(toDate "2006-01-02" "2001-02-03")'
_CHART = re.compile(r"[^/]+/(?:charts/(?:[^/]+\.tgz/)?+[^/]+/)*")
"""The folder of a chart, or of a subchart in it: as files, or packed."""
_INERT = re.compile(r"crds/|.*\.(md|tgz)$|(.*/)?LICENSE[^/]*$", re.DOTALL)


def may_vary(members: Mapping[str, bytes]) -> bool:
    """Whether a template calls what may give something else the next time; values count, since `tpl` runs them."""
    return any(text_may_vary(content) for path, content in members.items() if may_run(path))


def may_run(path: str) -> bool:
    """Whether Helm may run the file as a template: whatever is below `templates/`, and through `tpl` most others.

    Notes count, since they may fail, or define what other templates include.
    """
    chart = _CHART.match(path)
    inside = path[chart.end() :] if chart else path
    return inside.startswith("templates/") or _INERT.match(inside) is None


def text_may_vary(text: bytes) -> bool:
    return any(_CALLS.search(action) for action in _actions(text))


def on_another_day(chart: bytes, name: str) -> bytes:
    """The chart archive with `now` being another time: two renderings of one moment would not show that it matters."""
    return pack(_rewritten(inspect(chart, name)))


def text_on_another_day(text: bytes) -> bytes:
    """The same for one template."""
    if b"now" not in text:
        return text
    before, *parts = text.split(b"{{")
    return b"{{".join([before, *map(_replaced, parts)])


def _replaced(part: bytes) -> bytes:
    action, end, rest = part.partition(b"}}")
    return _NOW.sub(lambda found: _ANOTHER_DAY if found[0] == b"now" else found[0], action) + end + rest


def _rewritten(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """With what is inside packed subcharts rewritten and packed again."""
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
            rewritten[path] = text_on_another_day(content) if may_run(path) else content
    return rewritten


def _actions(text: bytes) -> Iterator[bytes]:
    """What is between double braces; in time that grows with the text alone, whatever is in it."""
    for part in text.split(b"{{")[1:]:
        yield part.partition(b"}}")[0]
