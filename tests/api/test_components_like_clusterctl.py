"""What is rendered of the real components is what clusterctl generates, object by object."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.api.provider import BY_KIND
from shared.components.render import generated
from shared.kube import Object
from tests.support.providers import (
    CURRENT,
    DOWNLOADS,
    PREVIOUS,
    PROVIDERS,
    Provider,
    clusterctl,
    components,
    repository,
)

VARIABLES = {
    "EXP_MACHINE_POOL": "false",
    "CAPI_DIAGNOSTICS_ADDRESS": "localhost:8080",
    "CAPI_INSECURE_DIAGNOSTICS": "true",
    "EXP_RUNTIME_SDK": "true",
}
FLAGS = {
    "CoreProvider": "--core",
    "BootstrapProvider": "--bootstrap",
    "ControlPlaneProvider": "--control-plane",
    "InfrastructureProvider": "--infrastructure",
}


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("repository"), PREVIOUS, CURRENT)


def told(configuration: Path, provider: Provider, version: str, namespace: str) -> list[Object]:
    command = [str(clusterctl()), "generate", "provider", FLAGS[provider.type], f"{provider.name}:{version}"]
    command += ["--target-namespace", namespace, "--config", str(configuration)]
    home = str(configuration.parent)
    environment = {"PATH": os.environ["PATH"], "HOME": home, "XDG_CONFIG_HOME": home, **VARIABLES}
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=60)
    return [document for document in yaml.safe_load_all(result.stdout) if document]


def plain(obj: Object) -> Object:
    """Without the empty values that Go's types write of themselves: `status`, `resources: {}`, `value: ""`."""

    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {name: cleaned(item) for name, item in value.items()}
            empty = {name for name, item in kept.items() if item == {} or (name == "value" and item == "")}
            return {name: item for name, item in kept.items() if name not in empty}
        return [cleaned(item) for item in value] if isinstance(value, list) else value

    return {name: cleaned(value) for name, value in obj.items() if name != "status"}


@pytest.mark.parametrize("version", [PREVIOUS, CURRENT])
@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.label)
def test_the_same_objects(configuration: Path, provider: Provider, version: str) -> None:
    text = (components(version) / DOWNLOADS / version / provider.file).read_text()
    label = BY_KIND[provider.type].label(provider.name)
    ours = generated(text, VARIABLES, namespace="elsewhere", label=label)
    theirs = told(configuration, provider, version, "elsewhere")
    assert [obj["metadata"]["name"] for obj in ours] == [obj["metadata"]["name"] for obj in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert plain(mine) == plain(other), f"{mine['kind']} {mine['metadata']['name']}"
