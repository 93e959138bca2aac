"""Components that are large, doubled, invalid, or need kinds that come later; annotations with unknown values."""

from __future__ import annotations

import base64
import gzip
import random

from shared.api.provider import CORE
from shared.api.resources import CONFIG_MAP
from shared.kube import Key, Object, dig
from shared.kube.crds import CRD
from tests.support.fake_provider import SPACE, FakeProvider
from tests.support.provider_releases import WEBHOOKS, config_map, crd, text, whole, widget
from tests.support.provider_world import Providers


def test_kind_that_is_installed_later_is_waited_for(core: FakeProvider, providers: Providers) -> None:
    custom = {"apiVersion": widget("later").api_version, "kind": "Widget", "metadata": {"name": "one"}}
    core.publish("v1.1.0", [custom])
    core.apply("v1.1.0")
    core.reconcile()
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "InstallFailed")
    assert "Widget (later.example.com/v1)" in message
    assert "management cluster" in message
    providers.client.create(CRD, crd("later"))
    try:
        core.until_ready()
        providers.client.get(widget("later"), Key(SPACE, "one"))
    finally:
        providers.client.delete(CRD, Key("", "widgets.later.example.com"))


def test_two_megabytes_of_crds_are_installed(core: FakeProvider, providers: Providers) -> None:
    objects = [_large(crd(f"large-{number}"), 70_000, "word ") for number in range(30)]
    core.publish("v1.1.0", objects)
    assert len(text(objects)) > 2_000_000
    annotations = {"capi-functions.dev/keep-download": "config-map"}
    core.install("v1.1.0", annotations)
    kept = providers.client.get(CONFIG_MAP, Key(SPACE, "core-cluster-api-v1.1.0"))
    assert dig(kept, ("metadata", "annotations", "provider.cluster.x-k8s.io/compressed")) == "true"
    packed = dig(kept, "binaryData.components")
    assert gzip.decompress(base64.b64decode(packed)).decode() == text(objects)
    providers.empty_storage()  # and nobody to ask: what was kept is enough
    providers.releases.clear()
    core.install("v1.1.0", annotations, deployment={"replicas": 2})


def test_download_too_large_for_a_config_map_is_reported(core: FakeProvider, providers: Providers) -> None:
    noise = random.Random(1)
    words = "".join(chr(noise.randint(97, 122)) for _ in range(2_500_000))
    core.publish("v1.1.0", f"# {words}\n" + text([config_map("one", "v1.1.0")]))
    annotations = {"capi-functions.dev/keep-download": "config-map"}
    core.apply("v1.1.0", annotations)
    core.reconcile()
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "ComponentsFetchError")
    assert "capi-functions.dev/keep-download" in message
    providers.client.patch(CORE.resource, core.at, {"metadata": {"annotations": dict.fromkeys(annotations)}})
    core.until_ready()


def _large(obj: Object, size: int, word: str) -> Object:
    obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = word * (size // len(word))
    return obj


def test_upgrade_of_webhooks_only_is_applied_at_once(core: FakeProvider, providers: Providers) -> None:
    """Their backends run already."""
    objects = whole("made-up", "v1.1.0")
    core.publish("v1.1.0", objects)
    objects[-1]["webhooks"][0]["timeoutSeconds"] = 2
    core.publish("v1.2.0", objects)
    core.install("v1.1.0")
    core.apply("v1.2.0")
    before = providers.requests
    assert core.reconcile().status == 204
    assert providers.requests - before < 80
    webhook = providers.client.get(WEBHOOKS, Key("", "made-up-validating"))
    assert dig(webhook, "webhooks")[0]["timeoutSeconds"] == 2
    assert core.condition_of()[0] == "True"


def test_last_of_doubled_objects_is_applied(core: FakeProvider, providers: Providers) -> None:
    """As in clusterctl."""
    core.publish("v1.1.0", [config_map("one", "first"), config_map("one", "last")])
    provider = core.install("v1.1.0")
    assert dig(providers.client.get(CONFIG_MAP, Key(SPACE, "one")), "data.value") == "last"
    assert [entry["name"] for entry in dig(provider, "status.resources") if entry["kind"] == "ConfigMap"] == ["one"]


def test_components_with_two_namespaces_are_rejected(core: FakeProvider) -> None:
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("a", "b")]
    core.publish("v1.1.0", [*spaces, config_map("one", "first")])
    core.apply("v1.1.0")
    core.reconcile()
    assert "no more than one resource with Kind Namespace" in core.condition_of()[2]


def test_long_rejection_is_reported(core: FakeProvider) -> None:
    broken = crd("broken")
    broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": {f"{'field' * 20}{number}": {"type": "wrong"} for number in range(2000)},
    }
    core.publish("v1.1.0", [broken])
    core.apply("v1.1.0")
    core.reconcile()
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "InstallFailed")
    assert "widgets.broken.example.com" in message
    assert len(message) < 10_000


def test_annotations_with_unknown_values_are_reported(core: FakeProvider) -> None:
    core.publish("v1.1.0")
    for name, value in {"conflicts": "perhaps", "wait-timeout": "soon", "keep-download": "yes"}.items():
        core.apply("v1.1.0", {f"capi-functions.dev/{name}": value, "x": "y"})
        core.reconcile()
        status, reason, message = core.condition_of()
        assert (status, reason) == ("False", "InvalidAnnotation"), name
        assert f"capi-functions.dev/{name}" in message
        assert value in message
    core.install("v1.1.0", {"capi-functions.dev/unheard-of": "1"})
