"""The providers of `up --providers`."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.local.local_run import LocalRun
from infra.local_control_plane import binaries
from infra.local_control_plane.package import opened
from infra.operations.failure import Failure
from infra.operations.providers import components_folder
from infra.operations.providers.local_managers import creator, given_managers, parse, programs, rendered_components
from infra.operations.providers.report import Report
from infra.operations.providers.requests import ProviderSettings
from infra.packaging import build as packaging
from shared.api.provider import INFRASTRUCTURE
from shared.components import metadata
from shared.kube import Client
from shared.kube.credentials import Credentials
from tests.support.packages import package_of
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


@pytest.mark.parametrize(
    ("providers", "manager", "version"),
    [
        ("", "infrastructure-aws=example.com/aws@v2.13.0", "aws-infrastructure-system/aws v2.13.0"),
        ("aws:v3.0.0", "infrastructure-aws=/bin/true", "aws-infrastructure-system/aws v3.0.0"),
        ("docker", "infrastructure-docker=/bin/true", "docker-infrastructure-system/docker v1.14.0"),
        ("core", "ipam-here=/bin/true", "here-ipam-system/here v0.4.0"),
        ("core:v1.9.0", "cluster-api=/bin/true", "capi-system/cluster-api v1.9.0"),
    ],
)
def test_given_manager_has_its_own_version(providers: str, manager: str, version: str, tmp_path: Path) -> None:
    """It is that of the user, of the Go module, of the image in the components, or the pinned one."""
    (tmp_path / "here-ipam-components.yaml").write_text("kind: Deployment\nimage: example.com:5000/here:v0.4.0\n")
    found = parse(providers, given_managers([manager], tmp_path))
    assert version in [f"{request.key} {request.version}" for request in found]
    assert [request.name for request in found if request.in_config_map] == (["here"] if "here" in version else [])


@pytest.mark.parametrize(
    ("manager", "message"),
    [
        ("infrastructure-aws", "must be LABEL=PATH or LABEL=PACKAGE@VERSION"),
        ("infrastructure-aws=", "must be LABEL=PATH or LABEL=PACKAGE@VERSION"),
        ("aws=/bin/true", "'aws' is not the label of a provider"),
        ("infrastructure-=/bin/true", "'infrastructure-' is not the label of a provider"),
        ("infrastructure-aws=/bin/true", "the version of infrastructure-aws is not known.*--providers aws:v1.2.3"),
    ],
)
def test_given_manager_that_cannot_be_used_is_refused(manager: str, message: str) -> None:
    with pytest.raises(Failure, match=message):
        parse("", given_managers([manager], None))


@pytest.mark.parametrize(
    ("providers", "wanted"),
    [
        ("core", ["capi-system/cluster-api v1.14.0"]),
        ("aws", ["aws-infrastructure-system/aws v2.13.0"]),
        ("docker", ["docker-infrastructure-system/docker v1.15.0"]),
        ("here:v0.1.0", ["here-infrastructure-system/here v0.1.0"]),
    ],
)
def test_managers_of_a_package_are_those_of_named_providers(providers: str, wanted: list[str], tmp_path: Path) -> None:
    labels = ("cluster-api", "infrastructure-docker", "infrastructure-aws", "infrastructure-here")
    executables = {f"{label}-manager": Path("/bin/true") for label in labels}
    versions = {"infrastructure-docker-manager": "v1.15.0", "infrastructure-aws-manager": "v2.13.0"}
    file = package_of(tmp_path / "p.zip", {**executables, "etcd": Path("/bin/true")}, versions=versions)
    given = given_managers([], None).beside(opened(file, progress=print))
    found = parse(providers, given)
    kinds = {"core": "CoreProvider"}.get(providers, "InfrastructureProvider")
    assert [f"{one.key} {one.version}" for one in found if one.kind.kind == kinds] == wanted
    assert set(programs(found, given)).isdisjoint(f"{label}-manager" for label in labels[1:])


def test_package_gets_given_managers_and_their_components(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaging, "PLANE", ())
    folder, program = tmp_path / "components", tmp_path / "mine"
    folder.mkdir()
    (folder / "aws-infrastructure-components.yaml").write_text("  image: example.com/aws:v2.13.0\n")
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    said: list[str] = []
    added = given_managers([f"infrastructure-aws={program}"], folder).packaged(said.append)
    file = packaging.build(tmp_path / "p.zip", packaging.gather(said.append, managers=False, added=added), print).path
    package = opened(file, progress=print)
    assert f"{program} is not built by Go: its licences are not known" in said
    assert package.executables(["infrastructure-aws-manager"])
    (request,) = [one for one in parse("aws", given_managers([], None).beside(package)) if one.name == "aws"]
    assert (request.version, request.in_config_map) == ("v2.13.0", True)


CRDS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  labels:
    cluster.x-k8s.io/v1beta1: v1_v2
---
data: {a: ${VARIABLE}}
"""


@pytest.mark.parametrize(
    ("text", "contract"), [(CRDS, "v1beta1"), (CRDS.replace("v1beta1", "v1beta2"), "v1beta2"), ("kind: A", "v1beta2")]
)
def test_contract_of_components_without_metadata_is_in_the_labels_of_their_definitions(
    text: str, contract: str, tmp_path: Path
) -> None:
    (tmp_path / "aws-infrastructure-components.yaml").write_text(text)
    files = components_folder.files(tmp_path, INFRASTRUCTURE, "aws", "v2.13.1")
    assert metadata.parse(files.metadata.encode(), "").contract(2, 13) == contract
    assert files.components == text
    (tmp_path / "aws-infrastructure-metadata.yaml").write_text("mine")
    assert components_folder.files(tmp_path, INFRASTRUCTURE, "aws", "v2.13.1").metadata == "mine"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPI_FUNCTIONS_CACHE", str(tmp_path / "cache"))


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
        create(Client(Credentials("http://127.0.0.1:1")), parse("core"), ProviderSettings(), Report())
    assert not LocalRun.has_managers(tmp_path)
