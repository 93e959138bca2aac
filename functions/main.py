"""The targets for functions-framework: `functions-framework --source functions/main.py --target NAME`.

NAME is the name of a function, or `functions` for all of them in one process, each at the path `/<name>`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from functions import catalog


def __getattr__(name: str) -> Any:
    """Returns the target of this name, which is made once. Raises AttributeError if there is no such function."""
    if name == "functions":
        made = catalog.targets()
    elif name == "cluster_hooks":  # Cluster API calls it, not an event
        made = import_module("functions.cluster_hooks.function").target()
    elif name in catalog.names():
        made = catalog.target(name)
    else:
        raise AttributeError(f"there is no function {name}")
    globals()[name] = made
    return made
