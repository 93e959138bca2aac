"""The catalog of providers by name: a built-in list, and a mounted configuration that extends and overrides it.

The configuration is clusterctl's: a YAML file with `providers: [{name, type, url}]` and `images`. Its path is in
$CLUSTERCTL_CONFIG, /config/clusterctl.yaml by default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from shared import bounded_yaml
from shared.api.provider import BY_KIND, CORE, ProviderKind
from shared.settings import SETTINGS

from .errors import ComponentsError, UnknownProvider

CONFIGURATION = "/config/clusterctl.yaml"
GITHUB = "https://github.com"
_DEVELOPMENT = {("InfrastructureProvider", "docker"): "infrastructure-components-development.yaml"}
"""Components files of built-in providers whose file does not have the usual name of its kind."""


def lookup(kind: ProviderKind, name: str) -> str:
    """Returns the URL of a provider's components in the form of `spec.fetchConfig.url`.

    A built-in provider has the URL of its latest release, a configured one the URL in the configuration.

    Raises:
        UnknownProvider: Neither the configuration nor the built-in list has the provider.
        ComponentsError: The configuration is invalid. The built-in list is not used then, because the configuration may
            override the provider's URL.
    """
    for entry in _configured_providers():
        if (entry["type"], entry["name"]) == (kind.kind, name):
            return os.path.expandvars(str(entry["url"]))
    repository = _built_in().get(kind.kind, {}).get(name)
    if repository is None:
        raise UnknownProvider(f"{kind.kind} {name} is not in the catalog: set spec.fetchConfig, or correct its name")
    file = _DEVELOPMENT.get((kind.kind, name), kind.file)
    return f"{github_url()}/{repository}/releases/latest/{file}"


def knows(kind: ProviderKind, name: str) -> bool:
    """Returns whether the catalog has the provider; true if the configuration is invalid, which `lookup` reports."""
    try:
        return bool(lookup(kind, name))
    except UnknownProvider:
        return False
    except ComponentsError:
        return True


def github_url() -> str:
    """Returns the base URL of the built-in providers' repositories: `GITHUB_URL`, by default https://github.com."""
    return SETTINGS.get("GITHUB_URL", GITHUB).rstrip("/")


def built_in_providers() -> list[tuple[ProviderKind, str]]:
    """Returns the kinds and names of all built-in providers."""
    return [(BY_KIND[kind], name) for kind, names in _built_in().items() for name in names]


def image_overrides() -> Mapping[str, Any]:
    """Returns the image overrides of the mounted configuration. Raises `ComponentsError` if it is invalid."""
    found = _configuration(configuration_text()).get("images")
    return found if isinstance(found, Mapping) else {}


def configuration_text() -> str:
    """Returns the text of the mounted configuration; empty without one."""
    try:
        return Path(_configuration_path()).read_text(errors="replace")
    except OSError:
        return ""


def _configuration_path() -> str:
    return os.environ.get("CLUSTERCTL_CONFIG", CONFIGURATION)


def _configured_providers() -> Sequence[Mapping[str, Any]]:
    """Returns the configuration's providers in reverse, because later entries override earlier ones."""
    found = _configuration(configuration_text()).get("providers") or []
    if not isinstance(found, list) or not all(_is_entry(entry) for entry in found):
        raise ComponentsError(
            f"{_configuration_path()}: providers must be a list of {{name, type, url}}, with a type such as {CORE.kind}"
        )
    return found[::-1]


def _is_entry(entry: Any) -> bool:
    fields = [entry.get(name) if isinstance(entry, Mapping) else None for name in ("name", "type", "url")]
    return all(isinstance(value, str) and value for value in fields) and fields[1] in BY_KIND


@lru_cache(maxsize=4)
def _configuration(text: str) -> Mapping[str, Any]:
    try:
        found = next(iter(bounded_yaml.load_all(text)), None)
    except (bounded_yaml.YAMLError, RecursionError) as error:
        raise ComponentsError(f"{_configuration_path()} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, Mapping | None):
        raise ComponentsError(f"{_configuration_path()} is not a mapping")
    return found or {}


@lru_cache(maxsize=1)
def _built_in() -> Mapping[str, Mapping[str, str]]:
    text = Path(__file__).with_name("catalog.yaml").read_text()
    found: Mapping[str, Mapping[str, str]] = next(iter(bounded_yaml.load_all(text)))
    return found
