"""Components in ConfigMaps. Numbers are those of the acceptance list."""

from __future__ import annotations

import base64
import gzip

import pytest

from shared.api.provider import INFRASTRUCTURE
from shared.components.errors import ComponentsError
from shared.components.repositories import Files
from shared.components.repositories.config_maps import ConfigMapRepository, compress, decompress, read, to_config_map
from shared.kube import Object
from tests.support.provider_objects import provider

LABEL = "provider.cluster.x-k8s.io/version"


def config_map(name: str, label: str = "", **data: str) -> Object:
    labels = {LABEL: label} if label else {}
    given = data or {"metadata": "m", "components": f"c of {name}"}
    return {"kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns", "labels": labels}, "data": given}


def of(*found: Object) -> ConfigMapRepository:
    return ConfigMapRepository(found, "a=b")


@pytest.mark.parametrize(
    ("found", "word"),
    [
        pytest.param([], "selector a=b", id="CR1"),
        pytest.param([config_map("v1.2.3", components="c")], "ConfigMap ns/v1.2.3 has no metadata", id="CR2"),
        pytest.param([config_map("v1.2.3", metadata="m")], "Data has no components", id="CR3"),
        pytest.param([config_map("mine")], "invalid version 'mine' (from the Name)", id="CR4"),
        pytest.param([config_map("v1.2.3", "new")], f"(from the Label {LABEL})", id="CR5"),
    ],
)
def test_unusable_config_maps_are_refused_with_their_name(found: list[Object], word: str) -> None:
    with pytest.raises(ComponentsError) as error:
        of(*found).fetch("v1.2.3")
    assert word in str(error.value)


def test_cr6_to_cr8_version_is_found_by_label_or_name() -> None:
    assert of(config_map("v1.2.3")).default_version() == "v1.2.3"
    assert of(config_map("any", "v1.2.3")).fetch("1.2.3") == Files("m", "c of any")
    several = of(config_map("v1.2.3"), config_map("v1.10.0"), config_map("v1.9.0"))
    assert several.default_version() == "v1.10.0"
    assert several.fetch("v1.9.0").components == "c of v1.9.0"
    with pytest.raises(ComponentsError, match=r"available: v1\.2\.3, v1\.10\.0, v1\.9\.0"):
        several.fetch("v1.8.0")


def test_d12_two_config_maps_of_one_version_are_ambiguous() -> None:
    several = of(config_map("v1.2.3"), config_map("again", "1.2.3"), config_map("v1.3.0"))
    assert several.fetch("v1.3.0").components == "c of v1.3.0"
    with pytest.raises(ComponentsError, match=r"ns/v1\.2\.3 and ns/again .* all have version v1\.2\.3"):
        several.fetch("v1.2.3")


def test_cz_compressed_components_are_unpacked_within_a_limit() -> None:
    assert decompress(compress("text"), "x") == b"text"
    assert decompress(compress(""), "x") == b""
    with pytest.raises(ComponentsError, match="cannot open gzip reader"):
        decompress(base64.b64encode(b"no gzip").decode(), "x")
    bomb = base64.b64encode(gzip.compress(b"\0" * 50_000_000)).decode()
    with pytest.raises(ComponentsError, match="larger than"):
        decompress(bomb, "x")
    cut = base64.b64encode(gzip.compress(b"some text" * 100)[:-12]).decode()
    with pytest.raises(ComponentsError, match="truncated"):
        decompress(cut, "x")


@pytest.mark.parametrize(("size", "compressed"), [(10, False), (2**20 + 1, True)])
def test_downloaded_version_becomes_a_config_map_of_cluster_api_operator(size: int, compressed: bool) -> None:
    owner = provider(INFRASTRUCTURE, "docker", "ns")
    files = Files("m", "c" * size)
    made = to_config_map(owner, "v1.12.0", files, oci="registry/x:v1")
    assert made["metadata"]["name"] == "infrastructure-docker-v1.12.0"
    assert made["metadata"]["labels"] == {
        "provider.cluster.x-k8s.io/type": "infrastructure",
        "provider.cluster.x-k8s.io/name": "docker",
        "provider.cluster.x-k8s.io/version": "v1.12.0",
        "provider.cluster.x-k8s.io/source": "oci",
        "managed-by.operator.cluster.x-k8s.io": "true",
    }
    annotations = made["metadata"]["annotations"]
    assert annotations["provider.cluster.x-k8s.io/source"] == "registry/x:v1"  # D-2: also when compressed
    assert ("provider.cluster.x-k8s.io/compressed" in annotations) is compressed
    assert ("binaryData" in made) is compressed
    assert made["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    assert read(made) == files
    assert of(made).default_version() == "v1.12.0"
