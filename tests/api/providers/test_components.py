"""The components that provider tests use are those of real releases, and clusterctl accepts them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from shared import bounded_yaml
from tests.support.real_providers import (
    CURRENT,
    DOWNLOADS,
    PREVIOUS,
    PROVIDERS,
    Provider,
    clusterctl,
    components,
    repository,
)

OBJECTS = {"cluster-api": 26, "bootstrap-kubeadm": 14, "control-plane-kubeadm": 15, "infrastructure-docker": 24}
REGISTRIES = dict.fromkeys(OBJECTS, "registry.k8s.io/cluster-api") | {
    "infrastructure-docker": "gcr.io/k8s-staging-cluster-api"
}


@pytest.mark.parametrize("version", [CURRENT, PREVIOUS])
@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.label)
def test_components_have_the_objects_of_a_release(provider: Provider, version: str) -> None:
    release = components(version) / DOWNLOADS / version
    objects = list(bounded_yaml.load_all((release / provider.file).read_text()))
    assert len(objects) == OBJECTS[provider.label]
    (deployment,) = [found for found in objects if found["kind"] == "Deployment"]
    (manager,) = deployment["spec"]["template"]["spec"]["containers"]
    registry, _, image = manager["image"].rpartition("/")
    assert registry == REGISTRIES[provider.label]
    assert image.endswith(f":{version}")
    assert manager["imagePullPolicy"] == "IfNotPresent"
    assert "--diagnostics-address=${CAPI_DIAGNOSTICS_ADDRESS:=:8443}" in manager["args"]
    assert deployment["metadata"]["labels"]["cluster.x-k8s.io/provider"] == provider.label


@pytest.mark.parametrize("version", [CURRENT, PREVIOUS])
def test_metadata_has_the_contract_of_a_release(version: str) -> None:
    (metadata,) = bounded_yaml.load_all((components(version) / DOWNLOADS / version / "metadata.yaml").read_text())
    series = {(line["major"], line["minor"]): line["contract"] for line in metadata["releaseSeries"]}
    major, minor = map(int, version.removeprefix("v").split(".")[:2])
    assert max(series) == (major, minor)
    assert series[major, minor] == "v1beta2"


def test_unpinned_version_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"v0\.4\.0 are not pinned"):
        components("v0.4.0")


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.label)
def test_clusterctl_generates_the_components(provider: Provider, tmp_path: Path) -> None:
    configuration = repository(tmp_path, PREVIOUS, CURRENT)
    kind = {"cluster-api": "--core"}.get(provider.label, "--" + provider.label.removesuffix(f"-{provider.name}"))
    release = f"{provider.name}:{CURRENT}"
    command = [str(clusterctl()), "generate", "provider", kind, release, "--config", str(configuration)]
    environment = {**os.environ, "CLUSTERCTL_DISABLE_VERSIONCHECK": "true", "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    objects = list(bounded_yaml.load_all(done.stdout))
    assert len(objects) == OBJECTS[provider.label]
    assert "${" not in done.stdout
