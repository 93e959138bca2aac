"""Determines the runtimes and the container engine for KINDClusters on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping

from functions.kind_cluster.runtime import DEFAULT, NONE, RuntimeUnavailable
from infra.local.kind import folder
from infra.local.kind.engine import Engine

__all__ = ["EngineMissing", "engine", "folder", "setting"]

_VARIABLE, _KIND = "KIND_RUNTIME", "kind"


class EngineMissing(Exception):
    """No container engine works; the message says why."""


def setting(*, allowed: bool, local: bool = False, env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the environment variable for the functions that names the runtimes.

    Args:
        allowed: Whether KINDClusters may be containers.
        local: Whether they may also be processes of a local run. Then the variable in `env` chooses among both, because
            the user of a local run sets it.
        env: The environment variables of this process.
    """
    if not local:
        return {_VARIABLE: _KIND if allowed else NONE}
    names = (env.get(_VARIABLE) or DEFAULT).split(",")
    return {_VARIABLE: ",".join([*names, _KIND] if allowed and _KIND not in names else names)}


def engine() -> str:
    """Returns the name of the container engine. Raises `EngineMissing` if there is none, or it does not answer."""
    try:
        chosen = Engine.choose()
        chosen.running()
    except RuntimeUnavailable as error:
        raise EngineMissing(f"KINDClusters cannot be containers of this machine: {error}") from error
    return chosen.name
