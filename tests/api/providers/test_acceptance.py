"""The acceptance cases of Cluster API Operator's own tests, by id, end to end on a real API server.

    E1, E7, PF13        test_newest_version_is_installed_and_written_into_the_spec,
                        test_additional_manifests_and_patches_are_applied
    RF9                 test_invalid_core_version_blocks_other_providers_until_corrected
    RF10                test_waiting_providers_are_installed_once_the_core_provider_runs
    HC8, HC10           test_hash_changes_with_inputs_only
    D-4                 test_open_version_does_not_downgrade
    D-10                test_failed_provider_does_not_block_others
    D-11                test_corrected_provider_is_installed
    D-15                test_availability_covers_all_deployments

in test_provider_lifecycle.py:

    RF10                test_other_providers_wait_for_the_core_provider
    HC9                 test_changed_secret_is_rolled_out

in test_provider_namespaces.py:

    E11, RF4            test_second_core_provider_waits_for_the_deletion_of_the_first
    D-3                 test_two_kinds_may_have_one_name_in_one_namespace
    D-20                test_terminating_namespace_gets_no_objects

in test_provider_sources.py:

    E8, E9, E10, OC7    test_one_artifact_serves_several_providers
    E12, E13, E14       test_site_without_internet_access_installs_and_upgrades_from_config_maps
    E15, E16, D-2       test_kept_download_serves_a_recreated_provider
    RF11                test_selector_decides_upgrade_and_downgrade
    HC11, D-12          test_changed_config_map_of_a_selector_is_installed
    D-6                 test_changed_source_of_the_same_version_is_installed

in test_provider_unusual_components.py:

    D-9                 test_two_megabytes_of_crds_are_installed

All others are tables in tests/unit: test_components_*.py and test_provider_*.py, by the same ids.
"""

from __future__ import annotations

import json

import pytest

from shared.api.conditions import get_condition
from shared.api.provider import BOOTSTRAP, CORE, INFRASTRUCTURE
from shared.api.resources import CONFIG_MAP, DEPLOYMENT
from shared.event import change_event
from shared.kube import Key, dig
from tests.support.event_receiver import EventReceiver
from tests.support.fake_provider import MANAGER, SPACE, FakeProvider
from tests.support.http_server import Response
from tests.support.provider_releases import config_map, deployment, text, whole
from tests.support.provider_world import Providers, is_ready
from tests.support.until import until


def inputs_hash(core: FakeProvider) -> str:
    return str(dig(core.object, "status.target.inputs"))


def listing(providers: Providers, *versions: str) -> None:
    """Returns the site's list of releases, beside their files."""
    files = providers.site.answer
    body = json.dumps([{"tag_name": version} for version in versions]).encode()
    providers.site.answer = lambda request: (
        Response(body=body) if request.path.startswith("/repos/") else files(request)
    )


# -- versions ------------------------------------------------------------------------------------------------------


def test_newest_version_is_installed_and_written_into_the_spec(core: FakeProvider, providers: Providers) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version)
    listing(providers, "v1.1.0")
    provider = core.install(None)
    assert (dig(provider, "spec.version"), core.installed) == ("v1.1.0", "v1.1.0")
    listing(providers, "v1.2.0", "v1.1.0")
    core.install(None)  # as whoever keeps it in a file says it again: it was resolved, and stays
    core.reconcile(resync=True)
    assert core.installed == "v1.1.0"
    for cleared, version in (("", "v1.2.0"), (None, "v1.3.0")):
        core.publish(version)
        listing(providers, version)
        providers.client.patch(CORE.resource, core.at, {"spec": {"version": cleared}})
        provider = core.until_ready()
        assert (dig(provider, "spec.version"), core.installed) == (version, version)
        assert core.condition_of("ProviderUpgraded")[0] == "True"


def test_open_version_does_not_downgrade(core: FakeProvider, providers: Providers) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version)
    core.install("v1.2.0")
    listing(providers, "v1.1.0")
    providers.client.patch(CORE.resource, core.at, {"spec": {"version": None}})
    for _ in range(2):
        core.reconcile()
        status, reason, message = core.condition_of("PreflightCheckPassed")
        assert (status, reason) == ("False", "UnsupportedProviderDowngradeReason")
        assert "v1.2.0" in message
        assert "v1.1.0" in message
    assert core.value == "v1.2.0"


def test_invalid_core_version_blocks_other_providers_until_corrected(core: FakeProvider) -> None:
    other = core.other(BOOTSTRAP, "kubeadm")
    other.publish("v1.1.0")
    core.apply("v0.0.1-incorrect")
    core.reconcile()
    assert core.condition_of()[0] == "False"
    other.apply("v1.1.0")
    other.reconcile()
    conditions = dig(other.object, "status.conditions")
    assert {entry["type"] for entry in conditions if entry["status"] != "True"} == {"PreflightCheckPassed", "Ready"}
    assert get_condition(conditions, "ProviderInstalled") is None


def test_waiting_providers_are_installed_once_the_core_provider_runs(
    core: FakeProvider, providers: Providers, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = core.other(BOOTSTRAP, "kubeadm", "other-system")
    for each in (other, core):
        each.publish("v1.1.0")
    other.apply("v1.1.0")
    other.reconcile()
    assert other.condition_of("PreflightCheckPassed")[0] == "False"
    provider = core.install("v1.1.0")
    with EventReceiver() as sink:
        monkeypatch.setenv("K_SINK", sink.url)
        providers.send(change_event(provider, "update", source="/test"), ["provider_wake"])
    [(_, event, _)] = sink.received
    assert event.key == other.at
    providers.send(event)
    assert other.condition_of("PreflightCheckPassed")[0] == "True"
    other.until_ready()


@pytest.mark.parametrize("resync", [False, True])
def test_paused_provider_is_left_unchanged(core: FakeProvider, providers: Providers, resync: bool) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version)
    core.install("v1.1.0")
    core.apply("v1.2.0", {"cluster.x-k8s.io/paused": ""})
    before = providers.versions()
    core.reconcile(resync=resync)
    assert providers.versions() == before
    core.install("v1.2.0")
    assert core.value == "v1.2.0"


def test_inputs_that_change_during_a_pause_are_installed_after_it(core: FakeProvider, providers: Providers) -> None:
    """The event of the unpaused provider contains the object, which has to show that its inputs have changed."""
    core.publish("v1.1.0", [config_map(core.label, "${GREETING}")])
    reference = {"configSecret": {"name": "variables"}}
    providers.secret("variables", core.namespace, GREETING="before")
    core.install("v1.1.0", **reference)
    core.apply("v1.1.0", {"cluster.x-k8s.io/paused": ""}, **reference)
    core.reconcile()
    assert is_ready(core.object)
    providers.secret("variables", core.namespace, GREETING="after")
    core.reconcile()
    assert core.value == "before"
    core.apply("v1.1.0", **reference)
    providers.send(change_event(core.object, "update", source="/test"))
    assert core.value == "after"


# -- inputs --------------------------------------------------------------------------------------------------------


def test_additional_manifests_and_patches_are_applied(core: FakeProvider, providers: Providers) -> None:
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    listing(providers, "v1.1.0")
    providers.config_map("more", SPACE, manifests=text([config_map("added", "by hand")]))
    patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {labels: {test: label}}"
    provider = core.install(None, additionalManifests={"name": "more"}, manifestPatches=[patch])
    assert core.installed == dig(provider, "spec.version") == "v1.1.0"
    assert core.value_of("added") == "by hand"
    assert dig(providers.client.get(DEPLOYMENT, MANAGER), "metadata.labels.test") == "label"
    # A change of the ConfigMap is rolled out; without the reference its objects are deleted.
    providers.config_map("more", SPACE, manifests=text([config_map("added", "by hand again")]))
    core.until_ready()
    assert core.value_of("added") == "by hand again"
    core.install("v1.1.0")
    assert providers.client.find(CONFIG_MAP, Key(SPACE, "added")) is None
    assert dig(providers.client.get(DEPLOYMENT, MANAGER), "metadata.labels.test") is None


def test_hash_changes_with_inputs_only(core: FakeProvider) -> None:
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    first = inputs_hash(core)
    core.apply("v1.1.0")
    core.reconcile(resync=True)
    assert inputs_hash(core) == first
    core.install("v1.1.0", deployment={"tolerations": []})  # HC8: to say none is not to say nothing
    second = inputs_hash(core)
    core.install("v1.1.0", deployment={"replicas": 2})
    third = inputs_hash(core)
    core.apply("v1.1.77")
    core.reconcile()
    assert core.condition_of()[0] == "False"
    assert inputs_hash(core) == third
    assert len({first, second, third}) == 3


def test_corrected_provider_is_installed(core: FakeProvider) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version, whole("made-up", version))
    core.install("v1.1.0")
    core.apply("v1.1.77")
    core.reconcile()
    assert core.condition_of()[0] == "False"
    core.install("v1.2.0")
    assert core.condition_of()[0] == core.condition_of("ProviderUpgraded")[0] == "True"


def test_failed_provider_does_not_block_others(core: FakeProvider) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version)
    core.install("v1.1.0")
    broken = core.other(INFRASTRUCTURE, "made-up", "other-system")
    broken.apply("v1.1.0")
    broken.reconcile()
    assert broken.condition_of()[0] == "False"
    core.install("v1.2.0")


def test_availability_covers_all_deployments(core: FakeProvider, providers: Providers) -> None:
    second = deployment("second", "v1.1.0")
    second["spec"]["template"]["metadata"]["labels"]["capi-functions.dev/pod"] = "pending"
    core.publish("v1.1.0", [deployment("made-up", "v1.1.0"), second])
    core.apply("v1.1.0")
    core.reconcile()
    until(lambda: dig(providers.client.get(DEPLOYMENT, MANAGER), "status.availableReplicas") == 1)
    for name in ("second", "made-up"):  # whichever was heard of last
        key = Key(SPACE, f"{name}-controller-manager")
        providers.send_change(providers.client.get(DEPLOYMENT, key), DEPLOYMENT)
        status, reason, message = core.condition_of("Ready")
        assert (status, reason) == ("False", "WorkloadsUnavailable")
        assert "second-controller-manager" in message
