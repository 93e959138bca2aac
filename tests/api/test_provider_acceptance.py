"""What Cluster API Operator's own tests ask for (its ids in the reference's list), end to end, on a real API server.

    E1, E7, PF13            test_a_version_that_is_left_open, test_more_manifests_and_patches
    E8, E9, E10, OC7        test_artifacts_of_a_registry
    E11, RF4                test_two_core_providers (test_providers_hard.py)
    E12, E13, E14           test_without_a_way_out
    E15, E16                test_what_was_kept_serves_another
    RF9                     test_an_incorrect_version_of_the_core_provider
    RF10                    test_core_first (test_providers.py), test_others_go_on_once_the_core_provider_works
    RF11                    test_selectors_upgrade_and_downgrade
    HC8, HC10               test_what_changes_the_hash
    HC9                     test_a_rotated_secret_rolls_out (test_providers.py)
    HC11, D-12              test_what_selectors_find_counts
    D-2                     test_what_was_kept_serves_another
    D-3                     test_one_name_in_two_kinds_and_one_namespace (test_providers_hard.py)
    D-4                     test_no_way_down_by_leaving_the_version_open
    D-6                     test_another_source_at_the_same_version
    D-9                     test_two_megabytes_of_kinds (test_providers_hard.py)
    D-10                    test_a_broken_provider_blocks_nobody
    D-11                    test_success_after_failure
    D-15                    test_several_deployments_are_summed_up
    D-20                    test_a_namespace_that_is_terminating (test_providers_hard.py)

All others are tables in tests/unit: test_components_*.py and test_provider_*.py, by the same ids.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from shared.api.conditions import get_condition
from shared.api.provider import BOOTSTRAP, CORE, HASH_ANNOTATION, INFRASTRUCTURE
from shared.api.resources import CONFIG_MAP, DEPLOYMENT
from shared.components.repositories import Files
from shared.components.repositories.oci import ARTIFACT_TYPE, layers_of
from shared.event import change_event
from shared.kube import Key, Object, dig
from shared.releases.registry import Registry
from shared.releases.sources.access import Access
from tests.support.provider_releases import METADATA, config_map, deployment, publish, text, whole
from tests.support.provider_world import Providers
from tests.support.receiver import Receiver
from tests.support.site import Told
from tests.support.until import until

SPACE = "made-up-system"
CORE_KEY = (CORE, "cluster-api", SPACE)
MANAGER = Key(SPACE, "made-up-controller-manager")


@pytest.fixture(autouse=True)
def releases(providers: Providers, tmp_path: Path) -> Path:
    providers.releases.append(tmp_path)
    return tmp_path


def want(providers: Providers, version: str, **spec: Any) -> None:
    config = {"url": providers.url("core-components.yaml")}
    spec = {"fetchConfig": config, **spec} | ({"version": version} if version else {})
    providers.apply(*CORE_KEY, **spec)


def condition(providers: Providers, type_: str = "ProviderInstalled") -> tuple[str, str, str]:
    found = providers.condition(providers.get(*CORE_KEY), type_)
    return found["status"], found["reason"], found["message"]


def value(providers: Providers, name: str) -> str:
    return str(dig(providers.client.get(CONFIG_MAP, Key(SPACE, name)), "data.value"))


def installed(providers: Providers) -> str:
    return str(dig(providers.get(*CORE_KEY), "status.installedVersion"))


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


# -- sources -------------------------------------------------------------------------------------------------------


def test_another_source_at_the_same_version(providers: Providers, releases: Path, registry: str) -> None:
    """Also where the former download was kept."""
    annotations = {"capi-functions.dev/keep-download": "config-map"}
    for repository, content in (("org/one", "1"), ("org/two", "2")):
        publish(releases, "v1.1.0", [config_map("one", content)], repository=repository)
        config = {"url": providers.url(CORE.file, repository=repository)}
        providers.apply(*CORE_KEY, annotations, version="v1.1.0", fetchConfig=config)
        providers.until_ready(*CORE_KEY)
        assert value(providers, "one") == content
    push(registry, "v1.1.0", "3")
    providers.apply(*CORE_KEY, annotations, version="v1.1.0", fetchConfig={"oci": f"http://{registry}/org/core"})
    providers.until_ready(*CORE_KEY)
    assert value(providers, "one") == "3"
    kept = providers.client.get(CONFIG_MAP, Key(SPACE, "core-cluster-api-v1.1.0"))
    assert dig(kept, ("metadata", "annotations", "provider.cluster.x-k8s.io/source")) == f"http://{registry}/org/core"


def push(registry: str, tag: str, content: str) -> None:
    layers = layers_of("core", "cluster-api", tag, Files(METADATA, text([config_map("one", content)])))
    with Registry(registry, "org/core", Access(), plain=True) as opened:
        opened.push(tag, layers, artifact_type=ARTIFACT_TYPE)


def test_artifacts_of_a_registry(providers: Providers, releases: Path, registry: str) -> None:
    """Two versions of two providers in one artifact; the one is in the catalog, and comes from elsewhere here."""
    publish(releases, "v1.1.0", [config_map("one", "v1.1.0")])
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    layers = [
        layer
        for name in ("docker", "my-own")
        for version in ("v0.0.1", "v0.0.2")
        for layer in layers_of(
            "infrastructure",
            name,
            version,
            Files(METADATA.replace("major: 1", "major: 0", 1), text([config_map(name, version)])),
        )
    ]
    with Registry(registry, "org/both", Access(), plain=True) as opened:
        opened.push("any", layers, artifact_type=ARTIFACT_TYPE)
    for version in ("v0.0.1", "v0.0.2"):
        for name in ("docker", "my-own"):
            key = (INFRASTRUCTURE, name, SPACE)
            providers.apply(*key, version=version, fetchConfig={"oci": f"http://{registry}/org/both:any"})
            providers.until_ready(*key)
            assert value(providers, name) == version


def selected(version: str, content: str, labels: dict[str, str], *, packed: bool = False, name: str = "") -> Object:
    components = text([config_map("one", content), deployment("made-up", version)])
    metadata: Object = {"name": name or version, "namespace": SPACE, "labels": labels}
    if name:
        metadata["labels"] = {**labels, "provider.cluster.x-k8s.io/version": version}
    config: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"metadata": METADATA}}
    if packed:
        metadata["annotations"] = {"provider.cluster.x-k8s.io/compressed": "true"}
        config["binaryData"] = {"components": base64.b64encode(gzip.compress(components.encode())).decode()}
    else:
        config["data"]["components"] = components
    return config


def put(providers: Providers, *config_maps: Object) -> None:
    providers.namespace(SPACE)
    for each in config_maps:
        providers.client.apply(CONFIG_MAP, each, manager="user")


@pytest.mark.parametrize(("wanted", "upgraded"), [("v999.9.2", None), ("v999.9.3", "True"), ("v999.9.1", "True")])
def test_selectors_upgrade_and_downgrade(providers: Providers, wanted: str, upgraded: str | None) -> None:
    labels = {"provider-components": "core"}
    put(providers, *(selected(version, version, labels) for version in ("v999.9.1", "v999.9.2", "v999.9.3")))
    source = {"fetchConfig": {"selector": {"matchLabels": labels}}}
    want(providers, "v999.9.2", **source)
    providers.until_ready(*CORE_KEY)
    want(providers, wanted, deployment={"replicas": 2}, **source)
    core = providers.until_ready(*CORE_KEY)
    assert installed(providers) == value(providers, "one") == wanted
    assert dig(providers.client.get(DEPLOYMENT, MANAGER), "spec.replicas") == 2
    assert (get_condition(dig(core, "status.conditions"), "ProviderUpgraded") or {}).get("status") == upgraded


def test_what_selectors_find_counts(providers: Providers) -> None:
    labels = {"is": "mine"}
    put(providers, selected("v1.1.0", "first", labels), selected("v1.2.0", "other", {"is": "not"}))
    source = {"fetchConfig": {"selector": {"matchLabels": labels}}}
    want(providers, "", **source)
    providers.until_ready(*CORE_KEY)
    first = applied_hash(providers)
    put(providers, selected("v1.2.0", "other still", {"is": "not"}))
    providers.until_ready(*CORE_KEY)
    assert applied_hash(providers) == first
    put(providers, selected("v1.1.0", "edited", labels))
    providers.until_ready(*CORE_KEY)
    assert value(providers, "one") == "edited"
    second = applied_hash(providers)
    assert second != first
    # Several may match, unless they are of one version.
    put(providers, selected("v1.3.0", "newer", labels))
    providers.until_ready(*CORE_KEY)
    assert value(providers, "one") == "edited"
    put(providers, selected("v1.1.0", "again", labels, name="another"))
    providers.settle(*CORE_KEY)
    status, reason, message = condition(providers)
    assert (status, reason) == ("False", "ComponentsFetchError")
    assert "another" in message
    assert "v1.1.0" in message
    providers.client.delete(CONFIG_MAP, Key(SPACE, "another"))
    providers.until_ready(*CORE_KEY)


def test_without_a_way_out(providers: Providers) -> None:
    """Compressed ConfigMaps for all; version and selector change together, of the core provider first."""
    providers.releases.clear()
    custom = (BOOTSTRAP, "kubeadm-custom", SPACE)
    for word in ("core", "bootstrap"):
        for version in ("v1.1.0", "v1.2.0"):
            labels = {"for": word, "version": version}
            found = selected(version, version, labels, packed=True, name=f"{word}-{version}")
            components = text([config_map(word, version), deployment(word, version)])
            found["binaryData"]["components"] = base64.b64encode(gzip.compress(components.encode())).decode()
            put(providers, found)
    for version in ("v1.1.0", "v1.2.0"):
        for key, word in ((CORE_KEY, "core"), (custom, "bootstrap")):
            selector = {"matchLabels": {"for": word, "version": version}}
            providers.apply(*key, version=version, fetchConfig={"selector": selector})
            provider = providers.until_ready(*key)
            assert dig(provider, "status.installedVersion") == value(providers, word) == version
    for key in (CORE_KEY, custom):
        states = {entry["type"]: entry["status"] for entry in dig(providers.get(*key), "status.conditions")}
        assert [states[type_] for type_ in ("Ready", "ProviderInstalled", "ProviderUpgraded")] == ["True"] * 3


def test_what_was_kept_serves_another(providers: Providers, releases: Path) -> None:
    publish(releases, "v1.1.0", [config_map("one", "v1.1.0")])
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    large = text([config_map("docker", "v1.1.0")]) + "# " + "many words " * 120_000
    publish(releases, "v1.1.0", large, INFRASTRUCTURE)
    kept_by = (INFRASTRUCTURE, "docker", SPACE)
    providers.apply(
        *kept_by,
        {"capi-functions.dev/keep-download": "config-map"},
        version="v1.1.0",
        fetchConfig={"url": providers.url(INFRASTRUCTURE.file)},
    )
    providers.until_ready(*kept_by)
    name = Key(SPACE, "infrastructure-docker-v1.1.0")
    kept = providers.client.get(CONFIG_MAP, name)
    labels = {"provider.cluster.x-k8s.io/type": "infrastructure", "provider.cluster.x-k8s.io/name": "docker"}
    assert dig(kept, ("metadata", "annotations", "provider.cluster.x-k8s.io/compressed")) == "true"
    assert dig(kept, "binaryData.components")
    providers.releases.clear()
    mine = (INFRASTRUCTURE, "my-own", SPACE)
    providers.apply(*mine, fetchConfig={"selector": {"matchLabels": labels}})
    assert dig(providers.until_ready(*mine), "spec.version") == "v1.1.0"
    providers.client.delete(INFRASTRUCTURE.resource, Key(SPACE, "docker"))
    providers.settle(*kept_by)
    assert providers.client.find(CONFIG_MAP, name) is None


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
