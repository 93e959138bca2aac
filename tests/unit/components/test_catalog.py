"""The catalog of providers, and the mounted configuration that extends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.api.provider import BOOTSTRAP, CORE, INFRASTRUCTURE, KINDS, ProviderKind
from shared.components import catalog
from shared.components.errors import ComponentsError, UnknownProvider


def test_every_catalog_entry_has_a_url() -> None:
    entries = catalog.built_in_providers()
    assert len(entries) == 67
    assert {kind for kind, _ in entries} == set(KINDS)
    for kind, name in entries:
        url = catalog.lookup(kind, name)
        assert url.startswith("https://github.com/")
        assert "/releases/latest/" in url
        assert url.endswith(".yaml")


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        (CORE, "cluster-api", "kubernetes-sigs/cluster-api/releases/latest/core-components.yaml"),
        (
            INFRASTRUCTURE,
            "docker",
            "kubernetes-sigs/cluster-api/releases/latest/infrastructure-components-development.yaml",
        ),
        (
            INFRASTRUCTURE,
            "aws",
            "kubernetes-sigs/cluster-api-provider-aws/releases/latest/infrastructure-components.yaml",
        ),
    ],
)
def test_catalog_has_the_urls_of_clusterctl(kind: ProviderKind, name: str, path: str) -> None:
    assert catalog.lookup(kind, name) == f"https://github.com/{path}"


def test_provider_that_is_not_in_the_catalog_is_unknown() -> None:
    with pytest.raises(UnknownProvider, match="InfrastructureProvider my-own"):
        catalog.lookup(INFRASTRUCTURE, "my-own")
    assert not catalog.knows(BOOTSTRAP, "aws")


def test_mounted_configuration_adds_and_overrides_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "clusterctl.yaml"
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(path))
    monkeypatch.setenv("MIRROR", "https://mirror.example.com")
    assert not catalog.knows(INFRASTRUCTURE, "my-own")
    path.write_text(
        "providers:\n"
        "- {name: my-own, type: InfrastructureProvider, url: 'https://example.com/a/b/releases/v1/x.yaml'}\n"
        "- {name: aws, type: InfrastructureProvider, url: 'https://example.com/first'}\n"
        "- {name: aws, type: InfrastructureProvider, url: '${MIRROR}/a/b/releases/latest/x.yaml'}\n"
        "images: {all: {repository: mirror.example.com}}\n"
    )
    assert catalog.knows(INFRASTRUCTURE, "my-own")
    assert catalog.lookup(INFRASTRUCTURE, "aws") == "https://mirror.example.com/a/b/releases/latest/x.yaml"
    assert catalog.image_overrides() == {"all": {"repository": "mirror.example.com"}}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("providers: [", "not YAML"),
        ("[]", "is not a mapping"),
        ("providers: {name: aws}", "must be a list"),
        ("providers: [aws]", "must be a list"),
        ("providers: [{name: aws, type: infrastructure, url: 'https://x'}]", "must be a list"),
        ("providers: [{name: aws, type: InfrastructureProvider}]", "must be a list"),
    ],
)
def test_invalid_configuration_is_an_error_not_ignored(
    text: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clusterctl.yaml"
    path.write_text(text)
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(path))
    with pytest.raises(ComponentsError, match=word) as error:
        catalog.lookup(INFRASTRUCTURE, "aws")
    assert str(path) in str(error.value)
    assert catalog.knows(INFRASTRUCTURE, "my-own")


@pytest.mark.parametrize("text", ["", "# nothing", "providers:", "other: 1"])
def test_empty_configuration_changes_nothing(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "clusterctl.yaml"
    path.write_text(text)
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(path))
    assert catalog.lookup(CORE, "cluster-api").startswith("https://github.com/kubernetes-sigs/")


def test_github_url_replaces_the_host_of_built_in_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_URL", "https://mirror.internal/")
    assert catalog.lookup(CORE, "cluster-api").startswith("https://mirror.internal/kubernetes-sigs/cluster-api/rel")
