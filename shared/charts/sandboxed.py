"""The Helm engine and the YAML reader, called where they can be ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from .. import sandbox
from ..kube.resources import Object
from ..sandbox import LimitExceeded, Limits
from .errors import ManifestError, RenderError, ValuesError
from .manifests import Manifest

LIMITS: Final = Limits(cpu=20, wall=60.0, memory=256)
"""Of one chart, values template or rendered text."""


def call(function: str, *arguments: Any, name: str) -> Any:
    """Calls a function of `native` about the file `name`. Raises `ChartError`, also where a limit is exceeded."""
    try:
        return sandbox.call(
            f"shared.charts.native:{function}",
            *arguments,
            limits=LIMITS,
            raises=(ManifestError, RenderError, ValuesError),
        )
    except LimitExceeded as error:
        raise RenderError(f"{name}: rendering {error}, and was ended") from error


def parse(texts: Iterable[Manifest], *, default_namespace: str, name: str = "the rendered chart") -> list[Object]:
    """See `manifests.parse`; `name` stands for all texts where they take too long to read."""
    objects: list[Object] = call("parse", [tuple(text) for text in texts], default_namespace, name=name)
    return objects
