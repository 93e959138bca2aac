"""Components that are large, double, wrong, or before their kinds; and annotations that say nothing known."""

from __future__ import annotations

import base64
import gzip
import random
from pathlib import Path

from shared.api.provider import CORE
from shared.api.resources import CONFIG_MAP
from shared.kube import Key, Object, dig
from shared.kube.crds import CRD
from tests.support.core_provider import CORE_KEY, SPACE, condition, want
from tests.support.provider_releases import WEBHOOKS, config_map, crd, publish, text, whole, widget
from tests.support.provider_world import Providers


def test_a_kind_that_comes_later(providers: Providers, releases: Path) -> None:
    custom = {"apiVersion": widget("later").api_version, "kind": "Widget", "metadata": {"name": "one"}}
    publish(releases, "v1.1.0", [custom])
    want(providers, "v1.1.0")
    providers.settle(*CORE_KEY)
    status, reason, message = condition(providers)
    assert (status, reason) == ("False", "InstallFailed")
    assert "Widget (later.example.com/v1)" in message
    assert "management cluster" in message
    providers.client.create(CRD, crd("later"))
    try:
        providers.until_ready(*CORE_KEY)
        providers.client.get(widget("later"), Key(SPACE, "one"))
    finally:
        providers.client.delete(CRD, Key("", "widgets.later.example.com"))


def test_two_megabytes_of_kinds(providers: Providers, releases: Path) -> None:
    objects = [_large(crd(f"large-{number}"), 70_000, "word ") for number in range(30)]
    publish(releases, "v1.1.0", objects)
    assert len(text(objects)) > 2_000_000
    annotations = {"capi-functions.dev/keep-download": "config-map"}
    providers.apply(
        *CORE_KEY, annotations, version="v1.1.0", fetchConfig={"url": providers.url("core-components.yaml")}
    )
    providers.until_ready(*CORE_KEY)
    kept = providers.client.get(CONFIG_MAP, Key(SPACE, "core-cluster-api-v1.1.0"))
    assert dig(kept, ("metadata", "annotations", "provider.cluster.x-k8s.io/compressed")) == "true"
    packed = dig(kept, "binaryData.components")
    assert gzip.decompress(base64.b64decode(packed)).decode() == text(objects)
    providers.empty_storage()  # and nobody to ask: what was kept is enough
    providers.releases.clear()
    providers.apply(
        *CORE_KEY,
        annotations,
        version="v1.1.0",
        fetchConfig={"url": providers.url("core-components.yaml")},
        deployment={"replicas": 2},
    )
    providers.until_ready(*CORE_KEY)


def test_what_is_too_large_to_be_kept_is_told(providers: Providers, releases: Path) -> None:
    noise = random.Random(1)
    words = "".join(chr(noise.randint(97, 122)) for _ in range(2_500_000))
    publish(releases, "v1.1.0", f"# {words}\n" + text([config_map("one", "v1.1.0")]))
    annotations = {"capi-functions.dev/keep-download": "config-map"}
    config = {"url": providers.url("core-components.yaml")}
    providers.apply(*CORE_KEY, annotations, version="v1.1.0", fetchConfig=config)
    providers.settle(*CORE_KEY)
    status, reason, message = condition(providers)
    assert (status, reason) == ("False", "ComponentsFetchError")
    assert "capi-functions.dev/keep-download" in message
    providers.client.patch(
        CORE.resource, Key(SPACE, "cluster-api"), {"metadata": {"annotations": dict.fromkeys(annotations)}}
    )
    providers.until_ready(*CORE_KEY)


def _large(obj: Object, size: int, word: str) -> Object:
    obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = word * (size // len(word))
    return obj


def test_an_upgrade_of_webhooks_alone(providers: Providers, releases: Path) -> None:
    """What answers them runs already."""
    objects = whole("made-up", "v1.1.0")
    publish(releases, "v1.1.0", objects)
    objects[-1]["webhooks"][0]["timeoutSeconds"] = 2
    publish(releases, "v1.2.0", objects)
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    want(providers, "v1.2.0")
    before = providers.requests
    assert providers.settle(*CORE_KEY).status == 204
    assert providers.requests - before < 80
    webhook = providers.client.get(WEBHOOKS, Key("", "made-up-validating"))
    assert dig(webhook, "webhooks")[0]["timeoutSeconds"] == 2
    assert condition(providers)[0] == "True"


def test_objects_that_come_twice(providers: Providers, releases: Path) -> None:
    """As in clusterctl the last counts, and it is there once."""
    publish(releases, "v1.1.0", [config_map("one", "first"), config_map("one", "last")])
    want(providers, "v1.1.0")
    core = providers.until_ready(*CORE_KEY)
    assert dig(providers.client.get(CONFIG_MAP, Key(SPACE, "one")), "data.value") == "last"
    assert [entry["name"] for entry in dig(core, "status.resources") if entry["kind"] == "ConfigMap"] == ["one"]


def test_two_namespaces_are_refused(providers: Providers, releases: Path) -> None:
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("a", "b")]
    publish(releases, "v1.1.0", [*spaces, config_map("one", "first")])
    want(providers, "v1.1.0")
    providers.settle(*CORE_KEY)
    assert "no more than one resource with Kind Namespace" in condition(providers)[2]


def test_a_refusal_of_any_length_is_told(providers: Providers, releases: Path) -> None:
    broken = crd("broken")
    broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": {f"{'field' * 20}{number}": {"type": "wrong"} for number in range(2000)},
    }
    publish(releases, "v1.1.0", [broken])
    want(providers, "v1.1.0")
    providers.settle(*CORE_KEY)
    status, reason, message = condition(providers)
    assert (status, reason) == ("False", "InstallFailed")
    assert "widgets.broken.example.com" in message
    assert len(message) < 10_000


def test_annotations_that_say_nothing_known(providers: Providers, releases: Path) -> None:
    publish(releases, "v1.1.0", [config_map("one", "v1.1.0")])
    config = {"url": providers.url("core-components.yaml")}
    for name, value in {"conflicts": "perhaps", "wait-timeout": "soon", "keep-download": "yes"}.items():
        providers.apply(
            *CORE_KEY, {f"capi-functions.dev/{name}": value, "x": "y"}, version="v1.1.0", fetchConfig=config
        )
        providers.settle(*CORE_KEY)
        status, reason, message = condition(providers)
        assert (status, reason) == ("False", "InvalidAnnotation"), name
        assert f"capi-functions.dev/{name}" in message
        assert value in message
    providers.apply(*CORE_KEY, {"capi-functions.dev/unheard-of": "1"}, version="v1.1.0", fetchConfig=config)
    providers.until_ready(*CORE_KEY)
