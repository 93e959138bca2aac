"""Registration by folder: a module of a package registers itself by defining an agreed attribute."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any


def registered(package: str, attribute: str) -> tuple[Any, ...]:
    """Returns the attribute of each module in the package that defines it, in the order of the modules' names.

    All modules of the package are imported, so a module must import slow packages inside functions only.
    """
    return _registered(package, attribute, tuple(import_module(package).__path__))


@lru_cache
def _registered(package: str, attribute: str, folders: tuple[str, ...]) -> tuple[Any, ...]:
    modules = (import_module(f"{package}.{found.name}") for found in iter_modules(folders))
    return tuple(getattr(module, attribute) for module in modules if hasattr(module, attribute))
