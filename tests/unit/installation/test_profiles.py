"""Which functions run in an installation, by its profiles."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from functions import catalog
from functions.sweep import function as sweep
from functions.sweep.triggers import TRIGGERS
from shared import profiles
from shared.api.resources import CLUSTER
from shared.clients import Clients
from shared.event import PING, Event
from shared.kube import Object

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADDONS = {
    "addon_apply",
    "addon_cleanup",
    "addon_create",
    "chart_assets",
    "cluster_stack",
    "cluster_rollout",
    "cluster_stack_release",
    "cluster_wake",
    "helm_chart_proxy",
    "helm_release_proxy",
    "release_assets",
    "release_prune",
    "rollout_wake",
    "source_wake",
}
SETS = {"cluster_resource_set", "cluster_resource_set_binding"}
ALWAYS = {"dead_letters", "sweep"}
PROVIDERS = {"component_prune", *(name for name in catalog.names() if name.startswith("provider_"))}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("all",)),
        ("addons", ("addons",)),
        ("addons,providers", ("addons", "providers")),
        (" addons , kubeconfig ", ("addons", "kubeconfig")),
    ],
)
def test_profiles_are_separated_by_commas_or_whitespace(text: str, expected: tuple[str, ...]) -> None:
    assert profiles.parse(text) == expected


def test_unknown_profile_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="there is no profile addon; the profiles are: addons, providers,"):
        profiles.parse("addons,addon")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (("addons",), {*ADDONS, *ALWAYS}),
        (("providers",), {*PROVIDERS, *ALWAYS}),
        (("kubeconfig",), {"kubeconfig", *ALWAYS}),
        (("addons", "kubeconfig"), {*ADDONS, "kubeconfig", *ALWAYS}),
        (("kind",), {"kind_cluster", *ALWAYS}),
        (("addons", "kind"), {*ADDONS, "kind_cluster", *ALWAYS}),
        (("standalone",), {*ADDONS, *SETS, "kubeconfig", "cluster", "kind_cluster", *ALWAYS}),
        (("all",), set(catalog.names())),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, tuple) else "",
)
def test_profile_selects_functions(wanted: tuple[str, ...], expected: set[str]) -> None:
    assert set(catalog.triggers(profiles=wanted)) == expected


def test_every_function_is_in_a_named_profile() -> None:
    assert [name for name, declared in catalog.triggers().items() if not declared.profiles] == []


def test_sweep_leaves_out_functions_of_other_profiles() -> None:
    """Beside a core nobody here waits for the phase of a Cluster."""
    metadata = {"name": "demo", "namespace": "default", "generation": 1}
    cluster: Object = {"apiVersion": CLUSTER.api_version, "kind": CLUSTER.kind, "metadata": metadata, "spec": {}}
    every, addons = (list(catalog.triggers(("sweep",), wanted).values()) for wanted in (("all",), ("addons",)))
    assert list(sweep.not_reconciled([cluster], NOW, every)) == [cluster]
    assert list(sweep.not_reconciled([cluster], NOW, addons)) == []


def test_sweep_with_an_unknown_profile_names_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPI_FUNCTIONS_PROFILES", "adons")
    answer = sweep.handle(Clients(), Event(type=PING, source="/test", id="1"))
    assert (answer.status, answer.retry_after) == (503, 60.0)
    assert answer.message.startswith("setting CAPI_FUNCTIONS_PROFILES: there is no profile adons;")
    assert TRIGGERS.settings[0].name == "capi-functions-installation"
