"""Finds the functions: each folder of this package with a `triggers.py` is a function, named like the folder.

Declarations load quickly; a function itself loads with its handler or target.

Loaded modules are never freed, so targets exempt them from garbage collection.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import functions
from shared.profiles import belongs, parse
from shared.triggers import Triggers

if TYPE_CHECKING:
    import flask

    from shared.clients import Clients
    from shared.event import Event
    from shared.runtime import Answer, Function
    from shared.runtime.http import Handler


def names() -> tuple[str, ...]:
    """Returns the names of all functions, sorted."""
    folders = (folder for place in functions.__path__ for folder in Path(place).iterdir())
    return tuple(sorted({folder.name for folder in folders if (folder / "triggers.py").is_file()}))


def triggers(without: Collection[str] = (), profiles: Collection[str] = ("all",)) -> dict[str, Triggers]:
    """Returns the declarations of the functions of these profiles by name, except those named in `without`.

    Raises ValueError if a declaration has another name than its folder.
    """
    declared = {name: _declaration(name) for name in names() if name not in without}
    return {name: each for name, each in declared.items() if belongs(each.profiles, profiles)}


def handler(name: str) -> Handler:
    """Returns the handler of function `name`: called with clients and an event, it returns an answer."""
    handle: Handler = import_module(f"functions.{name}.function").handle
    return handle


def handlers() -> dict[str, Handler]:
    """Returns the handlers of the functions that this process serves, by name.

    A process must not lend its rights to functions that are not its own. The handler of a function that does not load
    raises at each event. Raises ValueError for a profile that does not exist.
    """
    selected = _profiles()
    found: dict[str, Handler] = {}
    for name in names():
        try:
            if belongs(_declaration(name).profiles, selected):
                found[name] = handler(name)
        except Exception:  # the others are served; at an event it is loaded again, and the failure is logged then
            found[name] = partial(_load_and_handle, name)
    return found


def _load_and_handle(name: str, clients: Clients, event: Event) -> Answer:
    from shared.runtime import Answer

    if not belongs(_declaration(name).profiles, _profiles()):
        return Answer(404, f"{name} is not a function of the profiles that this process runs")
    return handler(name)(clients, event)


def steps(name: str) -> Function[Any]:
    """Returns the module's `FUNCTION`, for callers that only observe and decide."""
    function: Function[Any] = import_module(f"functions.{name}.function").FUNCTION
    return function


def target(name: str) -> Callable[[flask.Request], flask.Response]:
    """Returns the target of function `name` that functions-framework serves, for `functions/main.py`."""
    from shared.runtime import http

    made = http.target(name, handler(name), declared=lambda: [_declaration(name)])
    gc.freeze()
    return made


def targets() -> Callable[[flask.Request], flask.Response]:
    """Returns one target of all functions, for `functions/main.py`."""
    from shared.runtime import http

    made = http.dispatch(handlers(), declared=_installed)
    gc.freeze()
    return made


def _installed() -> list[Triggers]:
    """Returns the declarations of the functions of this installation, without those for local runs only."""
    return [declared for declared in triggers(profiles=_profiles()).values() if not declared.local]


def _profiles() -> tuple[str, ...]:
    from shared.settings import SETTINGS

    return parse(SETTINGS.get("CAPI_FUNCTIONS_PROFILES", ""))


def _declaration(name: str) -> Triggers:
    declared: Triggers = import_module(f"functions.{name}.triggers").TRIGGERS
    if declared.name != name:
        raise ValueError(
            f"functions/{name}/triggers.py declares the name {declared.name!r}: use the name of the folder"
        )
    return declared
