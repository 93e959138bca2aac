"""Commands without a cluster: version, wrong input, doctor, interrupts, the status of a wait."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from infra.cli.main import app
from infra.local_control_plane import ControlPlaneError
from infra.local_control_plane.control_plane import ControlPlane
from infra.operations.waiting import failing_condition
from shared.kube import Object


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_version_is_that_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert run("--version").stdout == f"{project['version']}\n"


@pytest.mark.parametrize("package", ["shared", "functions", "infra", "events"])
def test_packages_tell_type_checkers_that_they_are_typed(package: str) -> None:
    assert (resources.files(package) / "py.typed").is_file()


def test_replay_without_events_is_refused(tmp_path: Path) -> None:
    (inputs := tmp_path / "inputs.yaml").write_text("a: 1\n")
    for source, options in ((tmp_path, ()), (inputs, ()), (inputs, ("--to", "http://127.0.0.1:9"))):
        result = run("replay", source, *options)
        assert result.exit_code == 1
        assert "no events" in result.stderr
        assert "events/captured/demo" in result.stderr
    (tmp_path / "inputs.yaml").unlink()
    assert "no events" in run("replay", tmp_path, "--inputs").stderr


def test_replay_needs_the_scheme_of_a_url() -> None:
    result = run("replay", "events/captured/demo", "--to", "127.0.0.1:9")
    assert result.exit_code == 2
    assert "must begin with http:// or https://" in result.stderr


def test_doctor_checks_the_machine_though_the_cluster_cannot_be_reached(tmp_path: Path) -> None:
    result = run("doctor", "--kubeconfig", tmp_path / "absent")
    assert result.exit_code == 1
    assert "loopback" in result.stdout
    assert "absent does not exist" in result.stderr.replace("\n", "")


def test_crds_that_are_no_yaml_are_named(tmp_path: Path) -> None:
    for name, content in (("text.yaml", b"a: b: c"), ("image.png", b"\x89PNG")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ControlPlaneError, match=f"{name} is not valid YAML"):
            ControlPlane(tmp_path / "plane").install_crds(tmp_path / name)


SOURCES = {
    "csctl.yaml": "config: {provider: {type: local}, clusterStackName: demo, kubernetesVersion: v1.36.3}\n",
    "cluster-class/Chart.yaml": "apiVersion: v2\nname: class\nversion: v1\n",
    "cluster-addon/Chart.yaml": "apiVersion: v2\nname: addon\nversion: v1\n",
    "cluster-addon-values.yaml": "values: |\n  a: 1\n",
}


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        (file := tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "src"


@pytest.mark.parametrize("options", [("--version", "v33"), ("--version", "v33", "--mode", "custom")])
def test_build_with_a_version_uses_it_without_a_mode(sources: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    result = run("release", "build", sources, tmp_path / "out", *options)
    assert result.exit_code == 0, result.output
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["local-demo-1-36-v33"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--mode", "hash", "--version", "v33"), "--version is for --mode custom"),
        (("--mode", "stable", "--since", ".", "--version", "v33"), "--version is for --mode custom"),
        (("--addon-version", "v3"), "--mode custom needs --version"),
        (("--mode", "hash", "--node-image-version", "v3"), "--node-image-version is for --mode custom"),
        (("--version", "v3", "--since", "."), "--version is for --mode custom, not for stable"),
        (("--mode", "custom"), "--mode custom needs --version"),
    ],
)
def test_build_refuses_options_of_another_mode(
    sources: Path, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    result = run("release", "build", sources, tmp_path / "out", *options)
    assert result.exit_code == 1
    assert words in result.stderr
    assert not (tmp_path / "out").exists()


def test_build_without_a_version_uses_the_hash_of_the_sources(sources: Path, tmp_path: Path) -> None:
    assert run("release", "build", sources, tmp_path / "out").exit_code == 0
    [made] = (tmp_path / "out").iterdir()
    assert made.name.startswith("local-demo-1-36-v0-sha-")


def test_doctor_reports_that_tests_are_skipped_without_a_registry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "docker-registry  not found; tests with a registry are skipped" in run("doctor").stdout
    (program := tmp_path / "docker-registry").touch(0o755)
    assert f"docker-registry  {program}" in run("doctor").stdout


def test_interrupt_while_commands_are_loaded_prints_no_stack_trace(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    done = subprocess.run(
        [sys.executable, "-m", "infra.cli", "doctor"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def addon(*conditions: Object) -> Object:
    return {"kind": "ClusterAddon", "metadata": {"name": "a"}, "status": {"conditions": list(conditions)}}


def test_first_failing_condition_with_a_message_is_reported() -> None:
    fine = {"type": "ClusterReady", "status": "True", "message": "reachable"}
    silent = {"type": "ObjectsReady", "status": "False", "message": ""}
    history = {"timestamp": "2026-01-01T00:00:00Z", "message": "cluster created"}
    applying = {"type": "Ready", "status": "False", "reason": "R", "message": "applying"}
    unknown = {"type": "Ready", "status": "Unknown", "message": "not asked yet"}
    assert (
        failing_condition()
        == failing_condition(None)
        == failing_condition({"kind": "Cluster"})
        == failing_condition(addon(fine, silent, history))
        == ""
    )
    assert failing_condition(None, addon(fine, silent, applying, unknown)) == "ClusterAddon: Ready=False: applying"
    assert failing_condition(addon(fine), addon(unknown)) == "ClusterAddon: Ready=Unknown: not asked yet"


@pytest.mark.parametrize("command", [(), ("get", "clusters"), ("provider", "init"), ("dead-letter", "list")])
def test_every_command_has_a_short_option_for_help(command: tuple[str, ...]) -> None:
    result = run(*command, "-h")
    assert result.exit_code == 0, result.output
    assert "Usage:" in result.stdout


def test_kubectl_finds_the_commands_as_a_plugin() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["kubectl-capi_functions"] == project["scripts"]["capi-functions"]


def test_reason_is_explained_without_a_cluster() -> None:
    result = run("explain", "objectsnotready")
    assert result.exit_code == 0
    assert "condition ObjectsReady of a ClusterAddon" in result.stdout
    assert "to do: " in result.stdout
    assert "ReleaseNotShared" in run("explain").stdout.splitlines()
    result = run("explain", "ObjectsNotRead")
    assert result.exit_code == 1
    assert "did you mean ObjectsNotReady" in result.stderr


def test_shell_completes_commands() -> None:
    words = {"COMP_WORDS": "capi-functions get cl", "COMP_CWORD": "2", "_CAPI_FUNCTIONS_COMPLETE": "complete_bash"}
    result = CliRunner().invoke(app, [], env=words, prog_name="capi-functions")
    assert result.stdout.split() == ["clusters"]
