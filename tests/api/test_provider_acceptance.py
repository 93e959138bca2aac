"""What Cluster API Operator's own tests ask for (its ids in the reference's list), end to end, on a real API server.

    E1, E7, PF13            test_a_version_that_is_left_open, test_more_manifests_and_patches
    E8, E9, E10, OC7        test_artifacts_of_a_registry (test_provider_sources.py)
    E11, RF4                test_two_core_providers (test_provider_places.py)
    E12, E13, E14           test_without_a_way_out (test_provider_sources.py)
    E15, E16                test_what_was_kept_serves_another (test_provider_sources.py)
    RF9                     test_an_incorrect_version_of_the_core_provider
    RF10                    test_core_first (test_providers.py), test_others_go_on_once_the_core_provider_works
    RF11                    test_selectors_upgrade_and_downgrade (test_provider_sources.py)
    HC8, HC10               test_what_changes_the_hash
    HC9                     test_a_rotated_secret_rolls_out (test_providers.py)
    HC11, D-12              test_what_selectors_find_counts (test_provider_sources.py)
    D-2                     test_what_was_kept_serves_another (test_provider_sources.py)
    D-3                     test_one_name_in_two_kinds_and_one_namespace (test_provider_places.py)
    D-4                     test_no_way_down_by_leaving_the_version_open
    D-6                     test_another_source_at_the_same_version (test_provider_sources.py)
    D-9                     test_two_megabytes_of_kinds (test_provider_odd_components.py)
    D-10                    test_a_broken_provider_blocks_nobody
    D-11                    test_success_after_failure
    D-15                    test_several_deployments_are_summed_up
    D-20                    test_a_namespace_that_is_terminating (test_provider_places.py)

All others are tables in tests/unit: test_components_*.py and test_provider_*.py, by the same ids.
"""

from __future__ import annotations

import json

import pytest

from shared.api.conditions import get_condition
from shared.api.provider import BOOTSTRAP, CORE, HASH_ANNOTATION, INFRASTRUCTURE
from shared.api.resources import CONFIG_MAP, DEPLOYMENT
from shared.event import change_event
from shared.kube import Key, dig
from tests.support.made_up import MANAGER, SPACE, MadeUp
from tests.support.provider_releases import config_map, deployment, text, whole
from tests.support.provider_world import Providers
from tests.support.receiver import Receiver
from tests.support.site import Told
from tests.support.until import until


def inputs_hash(core: MadeUp) -> str:
    return str(dig(core.object, ("metadata", "annotations", HASH_ANNOTATION)))


def listing(providers: Providers, *versions: str) -> None:
    """The site's list of releases, beside their files."""
    files = providers.site.answer
    body = json.dumps([{"tag_name": version} for version in versions]).encode()
    providers.site.answer = lambda asked: Told(body=body) if asked.path.startswith("/repos/") else files(asked)


# -- versions ------------------------------------------------------------------------------------------------------


def test_a_version_that_is_left_open(core: MadeUp, providers: Providers) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version)
    listing(providers, "v1.1.0")
    provider = core.install(None)
    assert (dig(provider, "spec.version"), core.installed) == ("v1.1.0", "v1.1.0")
    listing(providers, "v1.2.0", "v1.1.0")
    core.install(None)  # as whoever keeps it in a file says it again: it was resolved, and stays
    core.look(resync=True)
    assert core.installed == "v1.1.0"
    for cleared, version in (("", "v1.2.0"), (None, "v1.3.0")):
        core.publish(version)
        listing(providers, version)
        providers.client.patch(CORE.resource, core.at, {"spec": {"version": cleared}})
        provider = core.until_ready()
        assert (dig(provider, "spec.version"), core.installed) == (version, version)
        assert core.told("ProviderUpgraded")[0] == "True"


def test_no_way_down_by_leaving_the_version_open(core: MadeUp, providers: Providers) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version)
    core.install("v1.2.0")
    listing(providers, "v1.1.0")
    providers.client.patch(CORE.resource, core.at, {"spec": {"version": None}})
    for _ in range(2):
        core.look()
        status, reason, message = core.told("PreflightCheckPassed")
        assert (status, reason) == ("False", "UnsupportedProviderDowngradeReason")
        assert "v1.2.0" in message
        assert "v1.1.0" in message
    assert core.value == "v1.2.0"


def test_an_incorrect_version_of_the_core_provider(core: MadeUp) -> None:
    other = core.other(BOOTSTRAP, "kubeadm")
    other.publish("v1.1.0")
    core.want("v0.0.1-incorrect")
    core.look()
    assert core.told()[0] == "False"
    other.want("v1.1.0")
    other.look()
    conditions = dig(other.object, "status.conditions")
    assert {entry["type"] for entry in conditions if entry["status"] != "True"} == {"PreflightCheckPassed", "Ready"}
    assert get_condition(conditions, "ProviderInstalled") is None


def test_others_go_on_once_the_core_provider_works(
    core: MadeUp, providers: Providers, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = core.other(BOOTSTRAP, "kubeadm", "other-system")
    for each in (other, core):
        each.publish("v1.1.0")
    other.want("v1.1.0")
    other.look()
    assert other.told("PreflightCheckPassed")[0] == "False"
    provider = core.install("v1.1.0")
    with Receiver() as sink:
        monkeypatch.setenv("K_SINK", sink.url)
        providers.send(change_event(provider, "update", source="/test"), ["provider_wake"])
    [(_, event, _)] = sink.received
    assert event.key == other.at
    providers.send(event)
    assert other.told("PreflightCheckPassed")[0] == "True"
    other.until_ready()


@pytest.mark.parametrize("resync", [False, True])
def test_paused(core: MadeUp, providers: Providers, resync: bool) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version)
    core.install("v1.1.0")
    core.want("v1.2.0", {"cluster.x-k8s.io/paused": ""})
    before = providers.versions()
    core.look(resync=resync)
    assert providers.versions() == before
    core.install("v1.2.0")
    assert core.value == "v1.2.0"


# -- what it is made from ------------------------------------------------------------------------------------------


def test_more_manifests_and_patches(core: MadeUp, providers: Providers) -> None:
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    listing(providers, "v1.1.0")
    providers.config_map("more", SPACE, manifests=text([config_map("added", "by hand")]))
    patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {labels: {test: label}}"
    provider = core.install(None, additionalManifests={"name": "more"}, manifestPatches=[patch])
    assert core.installed == dig(provider, "spec.version") == "v1.1.0"
    assert core.value_of("added") == "by hand"
    assert dig(providers.client.get(DEPLOYMENT, MANAGER), "metadata.labels.test") == "label"
    # Edited, it rolls out, too; taken away again, it goes.
    providers.config_map("more", SPACE, manifests=text([config_map("added", "by hand again")]))
    core.until_ready()
    assert core.value_of("added") == "by hand again"
    core.install("v1.1.0")
    assert providers.client.find(CONFIG_MAP, Key(SPACE, "added")) is None
    assert dig(providers.client.get(DEPLOYMENT, MANAGER), "metadata.labels.test") is None


def test_what_changes_the_hash(core: MadeUp) -> None:
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    first = inputs_hash(core)
    core.want("v1.1.0")
    core.look(resync=True)
    assert inputs_hash(core) == first
    core.install("v1.1.0", deployment={"tolerations": []})  # HC8: to say none is not to say nothing
    second = inputs_hash(core)
    core.install("v1.1.0", deployment={"replicas": 2})
    third = inputs_hash(core)
    core.want("v1.1.77")
    core.look()
    assert core.told()[0] == "False"
    assert inputs_hash(core) == third
    assert len({first, second, third}) == 3


def test_success_after_failure(core: MadeUp) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version, whole("made-up", version))
    core.install("v1.1.0")
    core.want("v1.1.77")
    core.look()
    assert core.told()[0] == "False"
    core.install("v1.2.0")
    assert core.told()[0] == core.told("ProviderUpgraded")[0] == "True"


def test_a_broken_provider_blocks_nobody(core: MadeUp) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version)
    core.install("v1.1.0")
    broken = core.other(INFRASTRUCTURE, "made-up", "other-system")
    broken.want("v1.1.0")
    broken.look()
    assert broken.told()[0] == "False"
    core.install("v1.2.0")


def test_several_deployments_are_summed_up(core: MadeUp, providers: Providers) -> None:
    second = deployment("second", "v1.1.0")
    second["spec"]["template"]["metadata"]["labels"]["capi-functions.dev/pod"] = "pending"
    core.publish("v1.1.0", [deployment("made-up", "v1.1.0"), second])
    core.want("v1.1.0")
    core.look()
    until(lambda: dig(providers.client.get(DEPLOYMENT, MANAGER), "status.availableReplicas") == 1)
    for name in ("second", "made-up"):  # whichever was heard of last
        key = Key(SPACE, f"{name}-controller-manager")
        providers.tell(providers.client.get(DEPLOYMENT, key), DEPLOYMENT)
        status, reason, message = core.told("Ready")
        assert (status, reason) == ("False", "WorkloadsUnavailable")
        assert "second-controller-manager" in message
