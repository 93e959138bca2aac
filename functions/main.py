"""The targets for functions-framework: `functions-framework --source functions/main.py --target NAME`.

NAME is the name of a function, or `functions` for all of them in one process, each at the path `/<name>`.
"""

from __future__ import annotations

from typing import Any

from functions import catalog


def __getattr__(name: str) -> Any:
    """Returns the target of this name, which is made once. Raises AttributeError if there is no such function."""
    if name != "functions" and name not in catalog.names():
        raise AttributeError(f"there is no function {name}")
    made = globals()[name] = catalog.targets() if name == "functions" else catalog.target(name)
    return made
