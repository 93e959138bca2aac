"""The functions there are. Declarations load quickly; a function itself loads when it is first called."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shared.triggers import Triggers

if TYPE_CHECKING:
    from shared.runtime import Function
    from shared.runtime.http import Handler

NAMES = (
    "cluster",
    "kubeconfig",
    "addon_create",
    "release_assets",
    "addon_apply",
    "addon_cleanup",
    "kind_cluster",
    "cluster_stack",
    "cluster_stack_release",
    "provider_preflight",
    "provider_fetch",
    "provider_install",
    "provider_report",
    "provider_delete",
    "provider_wake",
    "sweep",
    "release_prune",
)


def triggers() -> dict[str, Triggers]:
    """Every function's declaration, by name."""
    return {name: import_module(f"functions.{name}.triggers").TRIGGERS for name in NAMES}


def handler(name: str) -> Handler:
    """The function `name`, to be called with clients and an event."""
    handle: Handler = import_module(f"functions.{name}.function").handle
    return handle


def phase(name: str, *, resync: bool) -> Function[Any]:
    """The steps of `name`, one of a provider's phases, for callers that run observe and decide but not act."""
    function: Function[Any] = import_module(f"functions.{name}.function").function(resync=resync)
    return function
