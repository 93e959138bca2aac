"""Providers that are known by name, and what a mounted configuration adds to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.api.provider import BOOTSTRAP, CORE, INFRASTRUCTURE, KINDS, ProviderKind
from shared.components import catalog
from shared.components.errors import UnknownProvider


def test_everything_in_the_catalog_can_be_found() -> None:
    entries = catalog.entries()
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
def test_urls(kind: ProviderKind, name: str, path: str) -> None:
    assert catalog.lookup(kind, name) == f"https://github.com/{path}"


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownProvider, match="InfrastructureProvider my-own"):
        catalog.lookup(INFRASTRUCTURE, "my-own")
    assert not catalog.knows(BOOTSTRAP, "aws")


def test_a_mounted_configuration_adds_and_overrides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert catalog.images() == {"all": {"repository": "mirror.example.com"}}
    path.write_text("providers: [")
    assert not catalog.knows(INFRASTRUCTURE, "my-own")
