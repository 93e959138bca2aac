"""Where providers come from that are known by name: the built-in list, and what a mounted configuration adds to it.

The configuration is clusterctl's: a YAML file with `providers: [{name, type, url}]` and `images`, whose place
$CLUSTERCTL_CONFIG tells (/config/clusterctl.yaml by default).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from shared.api.provider import BY_KIND, ProviderKind
from shared.charts import yamls

from .errors import UnknownProvider

CONFIGURATION = "/config/clusterctl.yaml"
_GITHUB = "https://github.com"
_DEVELOPMENT = {("InfrastructureProvider", "docker"): "infrastructure-components-development.yaml"}


def lookup(kind: ProviderKind, name: str) -> str:
    """The URL of a provider's newest release, as in `spec.fetchConfig.url`. Raises `UnknownProvider`."""
    for entry in _listed():
        if (entry.get("type"), entry.get("name")) == (kind.kind, name) and entry.get("url"):
            return os.path.expandvars(str(entry["url"]))
    repository = _built_in().get(kind.kind, {}).get(name)
    if repository is None:
        raise UnknownProvider(f"{kind.kind} {name} is not in the catalog: set spec.fetchConfig, or correct its name")
    file = _DEVELOPMENT.get((kind.kind, name), kind.file)
    return f"{os.environ.get('GITHUB_URL', _GITHUB).rstrip('/')}/{repository}/releases/latest/{file}"


def knows(kind: ProviderKind, name: str) -> bool:
    try:
        return bool(lookup(kind, name))
    except UnknownProvider:
        return False


def entries() -> list[tuple[ProviderKind, str]]:
    """All that are built in."""
    return [(BY_KIND[kind], name) for kind, names in _built_in().items() for name in names]


def images() -> Mapping[str, Any]:
    """The image overrides of the mounted configuration."""
    found = _configuration(overrides_text()).get("images")
    return found if isinstance(found, Mapping) else {}


def overrides_text() -> str:
    """The mounted configuration as it is; empty where there is none."""
    try:
        return Path(os.environ.get("CLUSTERCTL_CONFIG", CONFIGURATION)).read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _listed() -> list[Mapping[str, Any]]:
    """The configuration's own providers, the last of a name first: later ones win."""
    found = _configuration(overrides_text()).get("providers")
    return [entry for entry in reversed(found) if isinstance(entry, Mapping)] if isinstance(found, list) else []


@lru_cache(maxsize=4)
def _configuration(text: str) -> Mapping[str, Any]:
    try:
        found = next(iter(yamls.load_all(text)), None)
    except (yamls.YAMLError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}


@lru_cache(maxsize=1)
def _built_in() -> Mapping[str, Mapping[str, str]]:
    text = Path(__file__).with_name("catalog.yaml").read_text()
    found: Mapping[str, Mapping[str, str]] = next(iter(yamls.load_all(text)))
    return found
