"""Calls the Helm engine and the YAML parser in a worker process, which is killed if it exceeds a limit."""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Any, Final

from shared.manifests import APPLIED_HOOKS, Manifest

from .. import sandbox
from ..kube.resources import Object
from ..sandbox import LimitExceeded, Limits
from .errors import ArchiveError, OutputError, RenderError, ValuesError
from .traits import Traits

LIMITS: Final = Limits(cpu=20, wall=60.0, memory=256)
"""The limits for one call: CPU time and wall time in seconds, memory in MiB."""

_MAX_CACHED: Final = 256
_CACHE: OrderedDict[str, Traits] = OrderedDict()
"""Traits by the digest of the chart: each rendering needs them several times."""
_LOCK: Final = Lock()


def call(function: str, *arguments: Any, name: str) -> Any:
    """Calls a function of `native`; `name` is the file, for messages.

    Raises:
        RenderError: The call exceeded a limit.
        ChartError: The function raised it.
    """
    try:
        return sandbox.call(
            f"shared.charts.native:{function}",
            *arguments,
            limits=LIMITS,
            raises=(ArchiveError, OutputError, RenderError, ValuesError),
        )
    except LimitExceeded as error:
        raise RenderError(f"{name}: processing {error}, and was ended") from error


def traits(chart: bytes, name: str) -> Traits:
    """Returns the traits of a chart; `name` is the archive, for messages.

    Raises `ArchiveError`, or `RenderError` if the call exceeded a limit.
    """
    digest = hashlib.sha256(chart).hexdigest()
    with _LOCK:
        if digest in _CACHE:
            _CACHE.move_to_end(digest)
            return _CACHE[digest]
    found = Traits(*call("traits", chart, name, name=name))
    with _LOCK:
        _CACHE[digest] = found
        while len(_CACHE) > _MAX_CACHED:
            _CACHE.popitem(last=False)
    return found


def with_fixed_time(chart: bytes, name: str) -> bytes:
    """Returns the chart archive with a fixed time in place of `now`.

    Raises `ArchiveError`, or `RenderError` if the call exceeded a limit.
    """
    return base64.b64decode(call("with_fixed_time", chart, name, name=name))


def parse(
    texts: Iterable[Manifest],
    *,
    default_namespace: str,
    name: str = "the rendered chart",
    hooks: Iterable[str] = APPLIED_HOOKS,
) -> list[Object]:
    """Parses texts as `manifests.parse` does; `name` stands for all texts, in messages about limits.

    Raises `OutputError`, or `RenderError` if the call exceeded a limit.
    """
    given = [tuple(text) for text in texts]
    objects: list[Object] = call("parse", given, default_namespace, sorted(hooks), name=name)
    return objects
