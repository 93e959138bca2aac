"""An upgrade that drops a version of a CRD: users' objects survive, stored in a version that stays."""

from __future__ import annotations

from pathlib import Path

import yaml

from shared.api.provider import CORE
from shared.kube import Key, Object, Resource, dig
from shared.kube.crds import CRD
from tests.support.provider_world import Providers
from tests.support.providers import DOWNLOADS

GROUP, NAME = "made-up.example.com", "widgets.made-up.example.com"
CORE_KEY = (CORE, "cluster-api", "made-up-system")
WIDGET = Resource(GROUP, "v1beta1", "Widget", "widgets")


def crd(*versions: str) -> Object:
    """The last version is stored."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    listed = [
        {"name": version, "served": True, "storage": version == versions[-1], "schema": schema} for version in versions
    ]
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}
    return {
        "apiVersion": CRD.api_version,
        "kind": CRD.kind,
        "metadata": {"name": NAME},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": listed},
    }


def publish(folder: Path, version: str, *objects: Object) -> None:
    place = folder / DOWNLOADS / version
    place.mkdir(parents=True)
    series = [{"major": 1, "minor": minor, "contract": "v1beta2"} for minor in range(5)]
    metadata = {"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Metadata", "releaseSeries": series}
    (place / "metadata.yaml").write_text(yaml.safe_dump(metadata))
    (place / "core-components.yaml").write_text(yaml.safe_dump_all(objects))


def want(providers: Providers, version: str) -> None:
    config = {"url": providers.url("core-components.yaml")}
    providers.apply(*CORE_KEY, version=version, fetchConfig=config)


def test_a_dropped_version(providers: Providers, tmp_path: Path) -> None:
    providers.releases.append(tmp_path)
    publish(tmp_path, "v1.1.0", crd("v1beta1", "v1alpha1"))
    publish(tmp_path, "v1.2.0", crd("v1beta1"))
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    metadata = {"name": "mine", "namespace": "made-up-system"}
    providers.client.create(
        WIDGET, {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": metadata, "size": 7}
    )
    assert dig(providers.client.get(CRD, Key("", NAME)), "status.storedVersions") == ["v1alpha1"]
    want(providers, "v1.2.0")
    providers.until_ready(*CORE_KEY)
    live = providers.client.get(CRD, Key("", NAME))
    assert [version["name"] for version in dig(live, "spec.versions")] == ["v1beta1"]
    assert dig(live, "status.storedVersions") == ["v1beta1"]
    assert providers.client.get(WIDGET, Key("made-up-system", "mine"))["size"] == 7


def test_no_version_in_common(providers: Providers, tmp_path: Path) -> None:
    providers.releases.append(tmp_path)
    publish(tmp_path, "v1.1.0", crd("v1alpha1"))
    publish(tmp_path, "v1.2.0", crd("v2"))
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    want(providers, "v1.2.0")
    providers.settle(*CORE_KEY)
    core = providers.get(*CORE_KEY)
    condition = providers.condition(core, "ProviderUpgraded")
    assert (condition["status"], condition["reason"]) == ("False", "ComponentsUpgradeError")
    assert NAME in condition["message"]
    assert "from v1.1.0 to v1.2.0" in condition["message"]
    assert dig(core, "status.installedVersion") == "v1.1.0"
    assert [version["name"] for version in dig(providers.client.get(CRD, Key("", NAME)), "spec.versions")] == [
        "v1alpha1"
    ]
    # Back to what is there: nothing is wrong any more.
    want(providers, "v1.1.0")
    core = providers.until_ready(*CORE_KEY)
    assert "ProviderUpgraded" not in {entry["type"] for entry in dig(core, "status.conditions")}


def test_what_the_new_version_dropped_goes_and_kinds_with_objects_stay(providers: Providers, tmp_path: Path) -> None:
    providers.releases.append(tmp_path)
    extra: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra"}, "data": {"a": "b"}}
    publish(tmp_path, "v1.1.0", crd("v1beta1"), extra)
    publish(tmp_path, "v1.2.0", {**extra, "metadata": {"name": "other"}})
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    metadata = {"name": "mine", "namespace": "made-up-system"}
    providers.client.create(WIDGET, {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": metadata})
    want(providers, "v1.2.0")
    core = providers.until_ready(*CORE_KEY)
    states = {(entry["kind"], entry["name"]): entry["status"] for entry in dig(core, "status.resources")}
    assert ("ConfigMap", "extra") not in states
    assert states["ConfigMap", "other"] == "synced"
    assert states["CustomResourceDefinition", NAME] == "kept"
    assert providers.client.get(WIDGET, Key("made-up-system", "mine"))
