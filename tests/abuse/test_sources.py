"""Attacks by sources: which sources objects of users may name, and what an installation takes from them unsigned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from shared.api.provider import CORE, INFRASTRUCTURE
from shared.components.errors import ComponentsError
from shared.components.repositories import open_repository
from shared.components.repositories.config_maps import ConfigMapRepository
from shared.components.repositories.oci import ARTIFACT_TYPE, layers_of
from shared.components.repositories.port import Files
from shared.download import SourceError
from shared.download.access import Access, is_allowed
from shared.download.registry import Layer, Registry
from shared.releases.sources.urls import from_url
from shared.releases.store import ReleaseStore
from shared.storage import ObjectStore
from tests.support.cosign import Signer, sums
from tests.support.http_server import HttpServer, files
from tests.support.provider_objects import provider
from tests.support.releases import STACK, write_release

ALLOWED = "oci://registry.example.com/team https://releases.example.com/stacks/ s3://bucket github://github.com/our-org"


@pytest.mark.parametrize(
    "url",
    [
        *(
            "oci://registry.example.com/team",
            "oci://registry.example.com:443/team/stacks",
            "OCI://Registry.example.com/team",
        ),
        *("https://releases.example.com/stacks", "https://releases.example.com/stacks/v1/", "s3://bucket/any/prefix"),
        "github://github.com/our-org/stacks",
    ],
)
def test_listed_source_is_allowed(url: str) -> None:
    assert is_allowed(url, ALLOWED)
    assert is_allowed(url, "")


@pytest.mark.parametrize(
    "url",
    [
        *("oci://registry.example.com/team-b", "oci://registry.example.com", "oci://registry.example.com.evil/team"),
        *("oci+http://registry.example.com/team", "https://registry.example.com/team", "s3://bucket2", "/srv", ""),
        *("https://releases.example.com/stacks/../other", "https://releases.example.com/stacks/%2e%2E/other"),
        *("https://releases.example.com/stacks/./x", "https://releases.example.com/stacks\\..\\other", "https://["),
        *("https://releases.example.com@evil.example/stacks", "https://evil.example#@releases.example.com/stacks"),
        *(
            "https://releases.example.com:8443/stacks",
            "github://github.com/our-organization/x",
            "//registry.example.com/team",
        ),
    ],
)
def test_other_source_is_refused(url: str) -> None:
    assert not is_allowed(url, ALLOWED)
    assert is_allowed(url, "")


@pytest.mark.parametrize(
    ("config", "allowed"),
    [
        ({"oci": "registry.example.com/providers/core:v1.0.0"}, True),
        ({"oci": "registry.example.com/providers-of-others:v1.0.0"}, False),
        ({"oci": "http://registry.example.com/providers/core:v1.0.0"}, False),
        ({"oci": "evil"}, False),
        ({"url": "https://github.com/our-org/core/releases/v1.0.0/core-components.yaml"}, True),
        ({"url": "https://github.com/their-org/core/releases/v1.0.0/core-components.yaml"}, False),
        ({"selector": {"matchLabels": {"a": "b"}}}, False),
        ({}, True),  # the catalog is the installation's
    ],
)
def test_provider_names_an_allowed_source(
    config: dict[str, Any], allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = provider(CORE, fetchConfig=config)
    open_repository(core, {}, [], "a=b")
    listed = "oci://registry.example.com/providers https://github.com/our-org"
    monkeypatch.setenv("PROVIDER_ALLOWED_SOURCES", listed)
    if allowed:
        open_repository(core, {}, [], "a=b")
    else:
        with pytest.raises(ComponentsError, match="refused because PROVIDER_ALLOWED_SOURCES does not list it"):
            open_repository(core, {}, [], "a=b")
    monkeypatch.setenv("PROVIDER_ALLOWED_SOURCES", f"{listed} configmaps:")
    if "selector" in config:
        open_repository(core, {}, [], "a=b")


# -- signatures ----------------------------------------------------------------------------------------------------

OURS, THEIRS = Signer(), Signer()
TAG = f"{STACK}-v1"


@pytest.fixture
def release(tmp_path: Path) -> dict[str, bytes]:
    """The files of a release."""
    write_release(tmp_path, "v1")
    return {path.name: path.read_bytes() for path in (tmp_path / TAG).iterdir()}


@pytest.fixture
def key_of_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEASE_PUBLIC_KEY", OURS.public_key)


@pytest.fixture
def key_of_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER_PUBLIC_KEY", OURS.public_key)


Published = dict[str, bytes]
Sign = Callable[[Registry, str], None]


def unsigned(release: Published) -> Published:
    return release


def each_file_signed(release: Published, signer: Signer = OURS) -> Published:
    return release | {f"{name}.sig": signer.sign(data) for name, data in release.items()}


def list_signed(release: Published, signer: Signer = OURS) -> Published:
    listed = sums(release)
    return release | {"SHA256SUMS": listed, "SHA256SUMS.sig": signer.sign(listed)}


def signed_by_others(release: Published) -> Published:
    return each_file_signed(release, THEIRS)


def list_signed_by_others(release: Published) -> Published:
    return list_signed(release, THEIRS)


def one_file_unsigned(release: Published) -> Published:
    published = each_file_signed(release)
    return {name: data for name, data in published.items() if name != "metadata.yaml.sig"}


def changed_after_signing(release: Published) -> Published:
    return each_file_signed(release) | {"metadata.yaml": release["metadata.yaml"] + b"\n"}


def list_changed_after_signing(release: Published) -> Published:
    changed = release | {"metadata.yaml": release["metadata.yaml"] + b"\n"}
    return list_signed(release) | changed | {"SHA256SUMS": sums(changed)}


@pytest.mark.usefixtures("key_of_releases")
@pytest.mark.parametrize("publish", [each_file_signed, list_signed])
def test_signed_release_of_a_web_server_is_stored(
    release: Published, publish: Callable[[Published], Published], object_store: ObjectStore
) -> None:
    published = {f"/{TAG}/{name}": data for name, data in publish(release).items()}
    with HttpServer(files(published)) as site:
        assert ReleaseStore(object_store).save(TAG, from_url(site.url)).name.tag == TAG


@pytest.mark.usefixtures("key_of_releases")
@pytest.mark.parametrize(
    "publish",
    [
        unsigned,
        signed_by_others,
        list_signed_by_others,
        one_file_unsigned,
        changed_after_signing,
        list_changed_after_signing,
    ],
)
def test_release_without_our_signature_is_refused(
    release: Published, publish: Callable[[Published], Published], object_store: ObjectStore, tmp_path: Path
) -> None:
    store, published = ReleaseStore(object_store), publish(release)
    (folder := tmp_path / "folder" / TAG).mkdir(parents=True)
    for name, data in published.items():
        (folder / name).write_bytes(data)
    with HttpServer(files({f"/{TAG}/{name}": data for name, data in published.items()})) as site:
        for place in (site.url, str(folder.parent)):
            with pytest.raises(SourceError, match="no valid signature by the key in RELEASE_PUBLIC_KEY") as caught:
                store.save(TAG, from_url(place))
            assert "metadata.yaml" in str(caught.value)
            assert not caught.value.transient
    assert store.load(TAG) is None


def _push(host: str, layers: Sequence[Layer], tag: str, artifact_type: str, sign: Sign) -> None:
    with Registry(host, "org/signed", Access(), plain=True) as registry:
        sign(registry, registry.push(tag, layers, artifact_type=artifact_type))


def of_another_artifact(registry: Registry, digest: str) -> None:
    OURS.sign_artifact(registry, digest, about=f"sha256:{'0' * 64}")


def not_at_all(_registry: Registry, _digest: str) -> None:
    pass


SIGNED = [(OURS.sign_artifact, True), (THEIRS.sign_artifact, False), (of_another_artifact, False), (not_at_all, False)]


@pytest.mark.usefixtures("key_of_releases")
@pytest.mark.parametrize(("sign", "accepted"), SIGNED)
def test_release_in_a_registry_needs_our_signature(
    registry: str, release: Published, object_store: ObjectStore, sign: Sign, accepted: bool
) -> None:
    _push(registry, [Layer(name, data, "x/y") for name, data in release.items()], TAG, "x/stacks", sign)
    store, source = ReleaseStore(object_store), from_url(f"oci+http://{registry}/org/signed")
    if accepted:
        assert store.save(TAG, source).files.keys() == release.keys()
    else:
        with pytest.raises(SourceError, match="no valid signature by the key in RELEASE_PUBLIC_KEY"):
            store.save(TAG, source)
        assert store.load(TAG) is None


COMPONENTS = Files("metadata", "components")


@pytest.mark.usefixtures("key_of_providers")
@pytest.mark.parametrize(("sign", "accepted"), SIGNED)
def test_provider_in_a_registry_needs_our_signature(registry: str, sign: Sign, accepted: bool) -> None:
    _push(registry, layers_of("infrastructure", "docker", "v1.0.0", COMPONENTS), "v1.0.0", ARTIFACT_TYPE, sign)
    config = {"oci": f"http://{registry}/org/signed:v1.0.0"}
    repository = open_repository(provider(INFRASTRUCTURE, "docker", "ns", fetchConfig=config), {}, [], "")
    if accepted:
        assert repository.fetch("v1.0.0") == COMPONENTS
    else:
        refused = r"OCI artifact .*org/signed@sha256:.*no valid signature by the key in PROVIDER_PUBLIC_KEY"
        with pytest.raises(SourceError, match=refused):
            repository.fetch("v1.0.0")


PLACES = (
    "/o/r/releases/{version}/core-components.yaml",
    "/api/v4/projects/1/packages/generic/package/{version}/core-components.yaml",
)


@pytest.mark.usefixtures("key_of_providers")
@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize(
    ("metadata", "components", "accepted"),
    [
        (OURS.sign(b"metadata"), OURS.sign(b"components"), True),
        (OURS.sign(b"metadata"), THEIRS.sign(b"components"), False),
        (OURS.sign(b"metadata"), OURS.sign(b"metadata"), False),
        (OURS.sign(b"metadata"), None, False),
        (None, OURS.sign(b"components"), False),
    ],
    ids=["signed", "signed by others", "signature of another file", "components unsigned", "metadata unsigned"],
)
def test_provider_of_a_code_host_needs_our_signatures(
    path: str, metadata: bytes | None, components: bytes | None, accepted: bool
) -> None:
    folder = path.format(version="v1.0.0").rpartition("/")[0].replace("/releases/", "/releases/download/")
    content = {"metadata.yaml": b"metadata", "core-components.yaml": b"components"}
    signatures = {"metadata.yaml.sig": metadata, "core-components.yaml.sig": components}
    published = content | {name: data for name, data in signatures.items() if data}
    with HttpServer(files({f"{folder}/{name}": data for name, data in published.items()})) as site:
        config = {"url": site.url + path.format(version="v1.0.0")}
        repository = open_repository(provider(CORE, fetchConfig=config), {}, [], "")
        if accepted:
            assert repository.fetch("v1.0.0") == COMPONENTS
        else:
            with pytest.raises(SourceError, match=r"\.yaml: no valid signature by the key in PROVIDER_PUBLIC_KEY"):
                repository.fetch("v1.0.0")


@pytest.mark.usefixtures("key_of_providers")
def test_config_maps_cannot_replace_what_must_be_signed() -> None:
    with pytest.raises(SourceError, match="ConfigMaps with a=b: no valid signature by the key in PROVIDER_PUBLIC_KEY"):
        ConfigMapRepository([], "a=b").fetch("v1.0.0")
