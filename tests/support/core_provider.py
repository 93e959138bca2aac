"""A core provider that is made up: what a test publishes of it in `releases`, wants of it, and is told by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.api.provider import CORE
from shared.api.resources import CONFIG_MAP
from shared.kube import Key, dig
from tests.support.provider_world import Providers

SPACE = "made-up-system"
CORE_KEY = (CORE, "cluster-api", SPACE)
MANAGER = Key(SPACE, "made-up-controller-manager")


@pytest.fixture
def releases(providers: Providers, tmp_path: Path) -> Path:
    """The folder that the site serves."""
    providers.releases.append(tmp_path)
    return tmp_path


def want(providers: Providers, version: str, **spec: Any) -> None:
    """Without a version it is left open."""
    config = {"url": providers.url("core-components.yaml")}
    spec = {"fetchConfig": config, **spec} | ({"version": version} if version else {})
    providers.apply(*CORE_KEY, **spec)


def condition(providers: Providers, type_: str = "ProviderInstalled") -> tuple[str, str, str]:
    """Status, reason and message."""
    found = providers.condition(providers.get(*CORE_KEY), type_)
    return found["status"], found["reason"], found["message"]


def value(providers: Providers, name: str) -> str:
    """Of a ConfigMap that it has brought."""
    return str(dig(providers.client.get(CONFIG_MAP, Key(SPACE, name)), "data.value"))


def installed(providers: Providers) -> str:
    return str(dig(providers.get(*CORE_KEY), "status.installedVersion"))
