"""The Helm engine and the YAML reader, called where they can be ended."""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Any, Final

from shared.manifests import Manifest

from .. import sandbox
from ..kube.resources import Object
from ..sandbox import LimitExceeded, Limits
from .errors import ArchiveError, OutputError, RenderError, ValuesError
from .traits import Traits

LIMITS: Final = Limits(cpu=20, wall=60.0, memory=256)
"""Of one chart, values template or rendered text."""

_MOST_KNOWN: Final = 256
_KNOWN: OrderedDict[str, Traits] = OrderedDict()
"""By the chart's digest: they are asked for several times for each rendering."""
_LOCK: Final = Lock()


def call(function: str, *arguments: Any, name: str) -> Any:
    """Calls a function of `native` about the file `name`. Raises `ChartError`, also where a limit is exceeded."""
    try:
        return sandbox.call(
            f"shared.charts.native:{function}",
            *arguments,
            limits=LIMITS,
            raises=(ArchiveError, OutputError, RenderError, ValuesError),
        )
    except LimitExceeded as error:
        raise RenderError(f"{name}: rendering {error}, and was ended") from error


def traits(chart: bytes, name: str) -> Traits:
    """What the chart's text tells. Raises ArchiveError, which names the archive `name`."""
    digest = hashlib.sha256(chart).hexdigest()
    with _LOCK:
        if digest in _KNOWN:
            _KNOWN.move_to_end(digest)
            return _KNOWN[digest]
    found = Traits(*call("traits", chart, name, name=name))
    with _LOCK:
        _KNOWN[digest] = found
        while len(_KNOWN) > _MOST_KNOWN:
            _KNOWN.popitem(last=False)
    return found


def on_another_day(chart: bytes, name: str) -> bytes:
    """See `varying.on_another_day`. Raises ArchiveError."""
    return base64.b64decode(call("on_another_day", chart, name, name=name))


def parse(texts: Iterable[Manifest], *, default_namespace: str, name: str = "the rendered chart") -> list[Object]:
    """See `manifests.parse`. Raises OutputError; `name` stands for all texts where they take too long to read."""
    objects: list[Object] = call("parse", [tuple(text) for text in texts], default_namespace, name=name)
    return objects
