"""Functions register themselves by their folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import flask
import pytest

import functions
from functions import catalog, main
from functions.sweep.triggers import SWEPT, swept_kinds
from shared.api.provider import KINDS
from shared.api.resources import (
    CLUSTER,
    CLUSTER_ADDON,
    CLUSTER_RESOURCE_SET,
    CLUSTER_RESOURCE_SET_BINDING,
    CLUSTER_ROLLOUT,
    CLUSTER_STACK,
    CLUSTER_STACK_RELEASE,
    HELM_CHART_PROXY,
    HELM_RELEASE_PROXY,
    KIND_CLUSTER,
)
from shared.clients import Clients
from shared.event import PING, Event
from shared.kube import Resource
from shared.profiles import belongs
from shared.runtime import Function, Task, http

FOLDERS = {path.parent.name for path in Path(catalog.__file__).parent.glob("*/function.py")}


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a function `look_at` outside this project."""
    folder = tmp_path / "functions" / "look_at"
    folder.mkdir(parents=True)
    monkeypatch.setattr(functions, "__path__", [*functions.__path__, str(folder.parent)])
    return folder


def test_every_function_is_found_by_its_folder() -> None:
    assert set(catalog.names()) == FOLDERS - {"cluster_hooks"}, "Cluster API calls the hooks, no event does"


def shape(name: str) -> object:
    """Returns what handles the events of a function: its steps, or its task."""
    module = import_module(f"functions.{name}.function")
    return getattr(module, "FUNCTION", None) or getattr(module.handle, "__self__", None)


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_function_has_one_of_two_shapes(name: str) -> None:
    """A function with a primary object runs the four steps; a function without is a task."""
    function = shape(name)
    assert isinstance(function, Function | Task)
    assert function.triggers.name == name


_REACHING = {*(kind.resource for kind in KINDS), HELM_CHART_PROXY, HELM_RELEASE_PROXY, CLUSTER_ROLLOUT}


@pytest.mark.parametrize("name", sorted(FOLDERS - {"cluster_hooks"}))
def test_function_that_reaches_beyond_a_namespace_trusts_no_event(name: str) -> None:
    """Providers and Helm releases name Secrets of any namespace; a local function starts programs.

    A ClusterRollout changes Clusters, whose writes do not fail if the ClusterRollout has changed.
    """
    declared = catalog.triggers()[name]
    function = shape(name)
    if isinstance(function, Function):
        reaches_beyond = declared.local or not _REACHING.isdisjoint(declared.primaries)
        assert function.trusts_events is not reaches_beyond


def test_declarations_are_sorted_by_name() -> None:
    assert list(catalog.triggers()) == sorted(catalog.names())


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_folder_is_a_package_so_that_its_imports_are_checked(name: str) -> None:
    assert (Path(catalog.__file__).parent / name / "__init__.py").is_file()


@pytest.mark.parametrize("name", ["sweep", "cluster_hooks"])
def test_main_has_a_target_for_each_function_and_for_all(name: str) -> None:
    assert getattr(main, name).__name__ == name
    assert getattr(main, name) is getattr(main, name)
    assert callable(main.functions)
    with pytest.raises(AttributeError, match="there is no function nothing"):
        _ = main.nothing


def test_function_in_another_folder_on_the_path_is_found(elsewhere: Path) -> None:
    assert "look_at" not in catalog.names()
    (elsewhere / "triggers.py").write_text('from shared.triggers import Triggers\nTRIGGERS = Triggers("look_at")\n')
    assert "look_at" in catalog.names()
    assert catalog.triggers()["look_at"].watches == ()
    assert "look_at" not in catalog.triggers(without=("look_at",))


def test_declaration_with_another_name_than_its_folder_is_refused(elsewhere: Path) -> None:
    other = elsewhere.with_name("misnamed")
    elsewhere.rename(other)
    (other / "triggers.py").write_text('from shared.triggers import Triggers\nTRIGGERS = Triggers("look_at")\n')
    with pytest.raises(ValueError, match=r"functions/misnamed/triggers.py declares the name 'look_at'"):
        catalog.triggers()


def test_function_that_waits_for_its_primary_object_hears_of_every_new_one() -> None:
    """Otherwise a change that arrives before the primary object would be lost."""
    for name, declared in catalog.triggers().items():
        own = [watch for watch in declared.watches if watch.resource in declared.primaries]
        hears = [watch for watch in own if "add" in watch.changes and not watch.selector]
        waiting = [watch for watch in declared.watches if watch.needs_primary]
        assert not waiting or {watch.resource for watch in hears} == set(declared.primaries), name
        assert not [watch for watch in waiting if watch.resource in declared.primaries], name


ADDON_KINDS = {
    CLUSTER,
    CLUSTER_ADDON,
    CLUSTER_STACK,
    CLUSTER_STACK_RELEASE,
    CLUSTER_ROLLOUT,
    HELM_CHART_PROXY,
    HELM_RELEASE_PROXY,
}
SET_KINDS = {CLUSTER_RESOURCE_SET, CLUSTER_RESOURCE_SET_BINDING}
PROVIDER_KINDS = {kind.resource for kind in KINDS}


@pytest.mark.parametrize(
    ("profile", "kinds"),
    [
        ("all", ADDON_KINDS | PROVIDER_KINDS | SET_KINDS | {KIND_CLUSTER}),
        ("addons", ADDON_KINDS),
        ("kubeconfig", {CLUSTER}),
        ("providers", PROVIDER_KINDS),
    ],
)
def test_sweep_lists_every_kind_that_a_function_of_the_profile_reconciles(profile: str, kinds: set[Resource]) -> None:
    """A Cluster also shows without its own functions that it lacks addons, or those of its class."""
    assert set(swept_kinds(one for one in SWEPT if belongs(one.profiles, [profile]))) == kinds


@pytest.mark.parametrize("target", ["functions", "sweep"])
def test_collections_after_the_fork_leave_what_was_loaded_before_it(target: str) -> None:
    code = f"import gc; from functions.main import {target}; print(gc.get_freeze_count() > 10 * len(gc.get_objects()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]


@pytest.mark.parametrize(("profile", "loaded"), [("addons", "False"), ("providers", "True"), ("", "True")])
def test_only_the_functions_of_the_installation_are_loaded(profile: str, loaded: str) -> None:
    module = "functions.provider_install.function"
    code = f"import sys; from functions.main import functions; print({module!r} in sys.modules)"
    environment = os.environ | {"CAPI_FUNCTIONS_PROFILES": profile}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [loaded]


PROVIDER_FUNCTIONS = {"component_prune", *(name for name in catalog.names() if name.startswith("provider_"))}


@pytest.mark.parametrize(
    ("profiles", "served"),
    [
        ("", {*catalog.names()}),
        ("standalone", {*catalog.names()} - PROVIDER_FUNCTIONS),
        ("providers", PROVIDER_FUNCTIONS | {"sweep", "dead_letters"}),
    ],
)
def test_process_serves_only_the_functions_of_its_profiles(
    profiles: str, served: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise whoever reaches the process with the rights of providers has it parse charts and kubeconfigs."""
    monkeypatch.setenv("CAPI_FUNCTIONS_PROFILES", profiles)
    assert catalog.handlers().keys() == served
    app = flask.Flask("served")
    serve = http.dispatch(catalog.handlers())
    with app.test_request_context("/addon_apply", method="POST"):
        assert (serve(flask.request).status_code == 404) == ("addon_apply" not in served)


def test_process_of_an_unknown_profile_serves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPI_FUNCTIONS_PROFILES", "provider")
    with pytest.raises(ValueError, match="there is no profile provider"):
        catalog.handlers()


def test_function_that_does_not_load_leaves_the_others_served(elsewhere: Path) -> None:
    (elsewhere / "triggers.py").write_text('from shared.triggers import Triggers\nTRIGGERS = Triggers("look_at")\n')
    (elsewhere / "function.py").write_text("import missing_module")
    handlers = catalog.handlers()
    assert handlers.keys() == {*catalog.names()} > {"look_at", "sweep"}
    with pytest.raises(ModuleNotFoundError, match="missing_module"):
        handlers["look_at"](Clients(), Event(type=PING, source="/test", id="1"))


def test_each_finalizer_is_declared_by_one_function() -> None:
    """Commands name the function that a deletion waits for by these declarations."""
    declared = [each.finalizer for each in catalog.triggers().values() if each.finalizer]
    assert len(declared) == len(set(declared))
    files = [file for folder in ("functions", "shared") for file in Path(folder).rglob("*.py")]
    written = {
        found
        for file in files
        for found in re.findall(r'^[A-Z_]*FINALIZER(?:: Final)? = "(.+)"', file.read_text(), re.M)
    }
    assert written == set(declared)
