"""Finds the helm program: in $HELM, by the function that this process has set, or in the PATH, as in the image."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from .errors import HelmMissing

Provider = Callable[[], Path]

_provider: Provider | None = None


def provide_helm(provider: Provider | None) -> None:
    """Sets the function that provides the program without $HELM. It may download it, or raise `HelmMissing`."""
    global _provider
    _provider = provider


def find_helm() -> Path:
    """Returns the path of the helm program. Raises `HelmMissing`."""
    named = os.environ.get("HELM")
    if not named and _provider is not None:
        return _provider()
    found = shutil.which(named or "helm")
    if found is None:
        wrong = f"$HELM is {named}, which is not an executable file"
        where = wrong if named else "$HELM is not set, and the PATH has no helm"
        raise HelmMissing(f"{where}; install the helm program (v4), or use this project's image, which has it")
    return Path(found)
