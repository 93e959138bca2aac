"""Attacks by sources: which sources objects of users may name, and what an installation takes from them unsigned."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.provider import CORE
from shared.components.errors import ComponentsError
from shared.components.repositories import open_repository
from shared.download.allow_list import is_allowed
from tests.support.provider_objects import provider

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
