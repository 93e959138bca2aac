"""The providers of `up --providers`."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cli.failures import Failure
from infra.cli.provider.local_managers import creator, parse, rendered_components
from infra.cli.provider.report import Report
from infra.cli.provider.requests import ProviderSettings
from infra.local.local_run import LocalRun
from infra.local_control_plane import binaries
from shared.kube import Client
from shared.kube.credentials import Credentials
from tests.support.real_providers import components

CORE = "CoreProvider capi-system/cluster-api"
BOOTSTRAP = "BootstrapProvider capi-kubeadm-bootstrap-system/kubeadm"
CONTROL_PLANE = "ControlPlaneProvider capi-kubeadm-control-plane-system/kubeadm"
DOCKER = "InfrastructureProvider docker-infrastructure-system/docker"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        ("core", [CORE]),
        ("core,kubeadm", [CORE, BOOTSTRAP, CONTROL_PLANE]),
        ("docker", [CORE, BOOTSTRAP, CONTROL_PLANE, DOCKER]),
        ("docker, kubeadm, core", [CORE, BOOTSTRAP, CONTROL_PLANE, DOCKER]),
        ("docker:v1.14.0", [CORE, BOOTSTRAP, CONTROL_PLANE, DOCKER]),
    ],
)
def test_needed_providers_are_added_in_the_version_of_the_programs(text: str, wanted: list[str]) -> None:
    found = parse(text)
    assert [str(request) for request in found] == wanted
    assert {request.version for request in found} <= {"v1.14.0"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aws", "no program for infrastructure-aws; there are: core, kubeadm, docker"),
        ("docker:v1.13.4", "infrastructure-docker runs in version v1.14.0 only, not in v1.13.4"),
        ("docker:", "must be name"),
    ],
)
def test_provider_without_a_program_is_refused(text: str, message: str) -> None:
    with pytest.raises(Failure, match=message):
        parse(text)


def test_components_that_this_machine_has_rendered_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPI_FUNCTIONS_CACHE", str(tmp_path))
    assert rendered_components(parse("docker")) is None
    assert rendered_components([]) is None
    monkeypatch.undo()
    folder = components("v1.14.0")
    assert rendered_components(parse("docker")) == folder


def test_run_without_the_programs_of_managers_does_not_count_as_one_with_managers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next start would choose the profile beside core."""
    monkeypatch.setattr(binaries, "ARCHIVES", ())
    monkeypatch.setenv("CAPI_FUNCTIONS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr("shutil.which", {}.get)
    create = creator(tmp_path, {}, lambda _line: None)
    with pytest.raises(binaries.BinaryNotFound):
        create(Client(Credentials("http://127.0.0.1:1")), parse("core"), ProviderSettings(), Report(as_json=True))
    assert not LocalRun.has_managers(tmp_path)
