"""The providers of `up --providers`."""

from __future__ import annotations

import pytest

from infra.cli.failures import Failure
from infra.cli.provider.local_managers import parse

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
