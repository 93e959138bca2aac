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
from pathlib import Path

import pytest

from shared.api.conditions import get_condition
from shared.api.provider import BOOTSTRAP, CORE, HASH_ANNOTATION, INFRASTRUCTURE
from shared.api.resources import CONFIG_MAP, DEPLOYMENT
from shared.event import change_event
from shared.kube import Key, dig
from tests.support.core_provider import CORE_KEY, MANAGER, SPACE, condition, installed, value, want
from tests.support.provider_releases import config_map, deployment, publish, text, whole
from tests.support.provider_world import Providers
from tests.support.receiver import Receiver
from tests.support.site import Told
from tests.support.until import until


def applied_hash(providers: Providers) -> str:
    return str(dig(providers.get(*CORE_KEY), ("metadata", "annotations", HASH_ANNOTATION)))


def listing(providers: Providers, *versions: str) -> None:
    """The site's list of releases, beside their files."""
    files = providers.site.answer
    body = json.dumps([{"tag_name": version} for version in versions]).encode()
    providers.site.answer = lambda asked: Told(body=body) if asked.path.startswith("/repos/") else files(asked)


# -- versions ------------------------------------------------------------------------------------------------------


def test_a_version_that_is_left_open(providers: Providers, releases: Path) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        publish(releases, version, [config_map("one", version)])
    listing(providers, "v1.1.0")
    want(providers, "")
    core = providers.until_ready(*CORE_KEY)
    assert (dig(core, "spec.version"), installed(providers)) == ("v1.1.0", "v1.1.0")
    listing(providers, "v1.2.0", "v1.1.0")
    want(providers, "")  # as whoever keeps it in a file says it again: it was resolved, and stays
    providers.until_ready(*CORE_KEY)
    providers.settle(*CORE_KEY, resync=True)
    assert installed(providers) == "v1.1.0"
    for cleared, version in (("", "v1.2.0"), (None, "v1.3.0")):
        publish(releases, version, [config_map("one", version)])
        listing(providers, version)
        providers.client.patch(CORE.resource, Key(SPACE, "cluster-api"), {"spec": {"version": cleared}})
        core = providers.until_ready(*CORE_KEY)
        assert (dig(core, "spec.version"), installed(providers)) == (version, version)
        assert condition(providers, "ProviderUpgraded")[0] == "True"


def test_no_way_down_by_leaving_the_version_open(providers: Providers, releases: Path) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        publish(releases, version, [config_map("one", version)])
    want(providers, "v1.2.0")
    providers.until_ready(*CORE_KEY)
    listing(providers, "v1.1.0")
    providers.client.patch(CORE.resource, Key(SPACE, "cluster-api"), {"spec": {"version": None}})
    for _ in range(2):
        providers.settle(*CORE_KEY)
        status, reason, message = condition(providers, "PreflightCheckPassed")
        assert (status, reason) == ("False", "UnsupportedProviderDowngradeReason")
        assert "v1.2.0" in message
        assert "v1.1.0" in message
    assert value(providers, "one") == "v1.2.0"


def test_an_incorrect_version_of_the_core_provider(providers: Providers, releases: Path) -> None:
    publish(releases, "v1.1.0", [config_map("one", "v1.1.0")], BOOTSTRAP)
    want(providers, "v0.0.1-incorrect")
    providers.settle(*CORE_KEY)
    assert condition(providers)[0] == "False"
    other = (BOOTSTRAP, "kubeadm", SPACE)
    providers.apply(*other, version="v1.1.0", fetchConfig={"url": providers.url(BOOTSTRAP.file)})
    providers.settle(*other)
    conditions = dig(providers.get(*other), "status.conditions")
    assert {entry["type"] for entry in conditions if entry["status"] != "True"} == {"PreflightCheckPassed", "Ready"}
    assert get_condition(conditions, "ProviderInstalled") is None


def test_others_go_on_once_the_core_provider_works(
    providers: Providers, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(releases, "v1.1.0", [config_map("other", "v1.1.0")], BOOTSTRAP)
    publish(releases, "v1.1.0", [config_map("one", "v1.1.0")])
    other = (BOOTSTRAP, "kubeadm", "other-system")
    providers.apply(*other, version="v1.1.0", fetchConfig={"url": providers.url(BOOTSTRAP.file)})
    providers.settle(*other)
    assert providers.condition(providers.get(*other), "PreflightCheckPassed")["status"] == "False"
    want(providers, "v1.1.0")
    core = providers.until_ready(*CORE_KEY)
    with Receiver() as sink:
        monkeypatch.setenv("K_SINK", sink.url)
        providers.send(change_event(core, "update", source="/test"), ["provider_wake"])
    [(_, event, _)] = sink.received
    assert event.key == Key("other-system", "kubeadm")
    providers.send(event)
    assert providers.condition(providers.get(*other), "PreflightCheckPassed")["status"] == "True"
    providers.until_ready(*other)


@pytest.mark.parametrize("resync", [False, True])
def test_paused(providers: Providers, releases: Path, resync: bool) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        publish(releases, version, [config_map("one", version)])
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    config = {"url": providers.url("core-components.yaml")}
    providers.apply(*CORE_KEY, {"cluster.x-k8s.io/paused": ""}, version="v1.2.0", fetchConfig=config)
    before = providers.versions()
    providers.settle(*CORE_KEY, resync=resync)
    assert providers.versions() == before
    want(providers, "v1.2.0")
    providers.until_ready(*CORE_KEY)
    assert value(providers, "one") == "v1.2.0"


# -- what it is made from ------------------------------------------------------------------------------------------


def test_more_manifests_and_patches(providers: Providers, releases: Path) -> None:
    publish(releases, "v1.1.0", whole("made-up", "v1.1.0"))
    listing(providers, "v1.1.0")
    providers.config_map("more", SPACE, manifests=text([config_map("added", "by hand")]))
    patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {labels: {test: label}}"
    want(providers, "", additionalManifests={"name": "more"}, manifestPatches=[patch])
    core = providers.until_ready(*CORE_KEY)
    assert installed(providers) == dig(core, "spec.version") == "v1.1.0"
    assert value(providers, "added") == "by hand"
    assert dig(providers.client.get(DEPLOYMENT, MANAGER), "metadata.labels.test") == "label"
    # Edited, it rolls out, too; taken away again, it goes.
    providers.config_map("more", SPACE, manifests=text([config_map("added", "by hand again")]))
    providers.until_ready(*CORE_KEY)
    assert value(providers, "added") == "by hand again"
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    assert providers.client.find(CONFIG_MAP, Key(SPACE, "added")) is None
    assert dig(providers.client.get(DEPLOYMENT, MANAGER), "metadata.labels.test") is None


def test_what_changes_the_hash(providers: Providers, releases: Path) -> None:
    publish(releases, "v1.1.0", whole("made-up", "v1.1.0"))
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    first = applied_hash(providers)
    want(providers, "v1.1.0")
    providers.settle(*CORE_KEY, resync=True)
    assert applied_hash(providers) == first
    want(providers, "v1.1.0", deployment={"tolerations": []})  # HC8: to say none is not to say nothing
    providers.until_ready(*CORE_KEY)
    second = applied_hash(providers)
    want(providers, "v1.1.0", deployment={"replicas": 2})
    providers.until_ready(*CORE_KEY)
    third = applied_hash(providers)
    want(providers, "v1.1.77")
    providers.settle(*CORE_KEY)
    assert condition(providers)[0] == "False"
    assert applied_hash(providers) == third
    assert len({first, second, third}) == 3


def test_success_after_failure(providers: Providers, releases: Path) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        publish(releases, version, whole("made-up", version))
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    want(providers, "v1.1.77")
    providers.settle(*CORE_KEY)
    assert condition(providers)[0] == "False"
    want(providers, "v1.2.0")
    providers.until_ready(*CORE_KEY)
    assert condition(providers)[0] == condition(providers, "ProviderUpgraded")[0] == "True"


def test_a_broken_provider_blocks_nobody(providers: Providers, releases: Path) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        publish(releases, version, [config_map("one", version)])
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    broken = (INFRASTRUCTURE, "made-up", "other-system")
    providers.apply(*broken, version="v1.1.0", fetchConfig={"url": providers.url(INFRASTRUCTURE.file)})
    providers.settle(*broken)
    assert providers.condition(providers.get(*broken), "ProviderInstalled")["status"] == "False"
    want(providers, "v1.2.0")
    providers.until_ready(*CORE_KEY)


def test_several_deployments_are_summed_up(providers: Providers, releases: Path) -> None:
    second = deployment("second", "v1.1.0")
    second["spec"]["template"]["metadata"]["labels"]["capi-functions.dev/pod"] = "pending"
    publish(releases, "v1.1.0", [deployment("made-up", "v1.1.0"), second])
    want(providers, "v1.1.0")
    providers.settle(*CORE_KEY)
    until(lambda: dig(providers.client.get(DEPLOYMENT, MANAGER), "status.availableReplicas") == 1)
    for name in ("second", "made-up"):  # whichever was heard of last
        key = Key(SPACE, f"{name}-controller-manager")
        providers.tell(providers.client.get(DEPLOYMENT, key), DEPLOYMENT)
        status, reason, message = condition(providers, "Ready")
        assert (status, reason) == ("False", "WorkloadsUnavailable")
        assert "second-controller-manager" in message
