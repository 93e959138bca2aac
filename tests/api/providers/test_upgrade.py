"""Upgrades that remove a version of a CRD: users' objects are migrated to a version that stays."""

from __future__ import annotations

from shared.kube import Key, Object, dig
from shared.kube.crds import CRD
from tests.support.fake_provider import SPACE, WIDGET, WIDGETS, FakeProvider
from tests.support.provider_releases import crd
from tests.support.provider_world import Providers


def test_objects_of_a_removed_version_are_migrated(core: FakeProvider, providers: Providers) -> None:
    core.publish("v1.1.0", [crd("made-up", "v1beta1", "v1alpha1")])
    core.publish("v1.2.0", [crd("made-up", "v1beta1")])
    core.install("v1.1.0")
    metadata = {"name": "mine", "namespace": SPACE}
    providers.client.create(
        WIDGET, {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": metadata, "size": 7}
    )
    assert dig(providers.client.get(CRD, Key("", WIDGETS)), "status.storedVersions") == ["v1alpha1"]
    core.install("v1.2.0")
    live = providers.client.get(CRD, Key("", WIDGETS))
    assert [version["name"] for version in dig(live, "spec.versions")] == ["v1beta1"]
    assert dig(live, "status.storedVersions") == ["v1beta1"]
    assert providers.client.get(WIDGET, Key(SPACE, "mine"))["size"] == 7


def test_upgrade_without_common_version_is_rejected(core: FakeProvider, providers: Providers) -> None:
    core.publish("v1.1.0", [crd("made-up", "v1alpha1")])
    core.publish("v1.2.0", [crd("made-up", "v2")])
    core.install("v1.1.0")
    core.apply("v1.2.0")
    core.reconcile()
    status, reason, message = core.condition_of("ProviderUpgraded")
    assert (status, reason) == ("False", "ComponentsUpgradeError")
    assert WIDGETS in message
    assert "from v1.1.0 to v1.2.0" in message
    assert core.installed == "v1.1.0"
    assert [version["name"] for version in dig(providers.client.get(CRD, Key("", WIDGETS)), "spec.versions")] == [
        "v1alpha1"
    ]
    # With the installed version again, the errors are removed.
    provider = core.install("v1.1.0")
    assert "ProviderUpgraded" not in {entry["type"] for entry in dig(provider, "status.conditions")}


def test_dropped_objects_are_deleted_and_crds_with_objects_kept(core: FakeProvider, providers: Providers) -> None:
    extra: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra"}, "data": {"a": "b"}}
    core.publish("v1.1.0", [crd("made-up", "v1beta1"), extra])
    core.publish("v1.2.0", [{**extra, "metadata": {"name": "other"}}])
    core.install("v1.1.0")
    metadata = {"name": "mine", "namespace": SPACE}
    providers.client.create(WIDGET, {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": metadata})
    provider = core.install("v1.2.0")
    states = {(entry["kind"], entry["name"]): entry["status"] for entry in dig(provider, "status.resources")}
    assert ("ConfigMap", "extra") not in states
    assert states["ConfigMap", "other"] == "synced"
    assert states["CustomResourceDefinition", WIDGETS] == "kept"
    assert providers.client.get(WIDGET, Key(SPACE, "mine"))


def test_upgraded_provider_is_not_ready_before_its_new_components_were_checked(
    core: FakeProvider, providers: Providers
) -> None:
    core.publish("v1.1.0")
    core.publish("v1.2.0")
    began = core.install("v1.1.0")["metadata"]["resourceVersion"]
    upgraded = core.install("v1.2.0")
    generation, ended = (upgraded["metadata"][name] for name in ("generation", "resourceVersion"))
    ready = []
    for event in providers.client.watch(core.kind.resource, core.at.namespace, version=began):
        conditions = dig(event["object"], "status.conditions", [])
        about = {one["type"]: one.get("observedGeneration") for one in conditions if one["status"] == "True"}
        if about.get("Ready") == generation:
            ready.append((about["ProviderInstalled"], about["ComponentsAvailable"]))
        if event["object"]["metadata"]["resourceVersion"] == ended:
            break
    assert set(ready) == {(generation, generation)}
