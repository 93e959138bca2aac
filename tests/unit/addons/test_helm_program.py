"""Which helm program is used, and how a machine without one gets it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import infra
from infra.cli.main import app
from infra.local import helm
from infra.local.helm import HelmProgram
from infra.local.local_run import LocalRun, LocalRunError
from infra.local_control_plane import binaries, modules
from shared.charts import HelmMissing, find_helm, provide_helm

STACK = Path(infra.__file__).parent / "demo" / "stack" / "v1"
CLUSTER = Path(infra.__file__).parent / "demo" / "cluster.yaml"
ASKING = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: asking}\ndata: {v: '{{ .Capabilities.KubeVersion.Version }}'}\n"
)


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No helm named, and none in the PATH, which is one folder."""
    sleep = shutil.which("sleep")
    assert sleep
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sleep").symlink_to(sleep)
    monkeypatch.delenv("HELM", raising=False)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path / "path"


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CAPI_FUNCTIONS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(binaries, "ARCHIVES", ())
    return tmp_path / "cache"


def program(path: Path, text: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_helm_comes_from_the_variable_else_from_the_path(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HelmMissing, match=r"PATH has no helm.*use this project's image"):
        find_helm()
    in_path = program(path / "helm")
    assert find_helm() == in_path
    monkeypatch.setenv("HELM", str(named := program(tmp_path / "named")))
    assert find_helm() == named
    monkeypatch.setenv("HELM", "/nowhere/helm")
    with pytest.raises(HelmMissing, match=r"\$HELM is /nowhere/helm"):
        find_helm()


def test_provided_helm_precedes_the_path(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_path = program(path / "helm")
    provide_helm(lambda: tmp_path / "provided")
    try:
        assert find_helm() == tmp_path / "provided"
        monkeypatch.setenv("HELM", str(in_path))
        assert find_helm() == in_path
    finally:
        provide_helm(None)


@pytest.mark.parametrize(("version", "fits"), [("v4.0.1", True), ("v3.19.0", False), ("", False)])
def test_helm_in_the_path_needs_the_same_major_version(version: str, fits: bool, path: Path, empty_cache: Path) -> None:
    in_path = program(path / "helm", f"echo {version}")
    assert helm.present() == (in_path if fits else None)
    module = modules.module_of("helm")
    cached = program(module.cache / "helm")
    assert helm.present() == cached


def test_missing_helm_message_says_how_to_get_it(empty_cache: Path) -> None:
    with pytest.raises(HelmMissing, match=r"(?s)helm was not found.*install Go"):
        helm.helm(print)


def test_render_and_lint_provide_helm(helm: Path, tmp_path: Path) -> None:
    shutil.copytree(STACK, tmp_path / "stack")
    (tmp_path / "stack" / "cluster-addon" / "templates" / "asking.yaml").write_text(ASKING)
    assert run("release", "build", tmp_path / "stack", tmp_path / "out", "--version", "v9")
    folder = tmp_path / "out" / "local-demo-1-36-v9"
    assert "v: v1.36." in run("render", "--release", folder, "--cluster", CLUSTER)
    assert "rendered by the helm program" in run("release", "lint", folder)


@pytest.fixture
def slow_go(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No way out, and a go that builds until it is ended; returns the file with its process id."""
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    program(path / "go", f"echo $$ > {tmp_path}/pid\nexec sleep 60")
    return tmp_path / "pid"


def until(true: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_local_run_gets_helm_in_the_background(tmp_path: Path, helm: Path) -> None:
    lines: list[str] = []
    background = HelmProgram(tmp_path / "run" / "bin" / "helm", lines.append)
    background.start()
    try:
        until(background.path.exists)
        assert background.path.resolve() == helm
        until(lambda: f"helm is ready: {helm}" in lines)
    finally:
        background.stop()


def test_background_build_ends_with_its_run(tmp_path: Path, empty_cache: Path, slow_go: Path) -> None:
    background = HelmProgram(tmp_path / "helm", lambda _line: None)
    background.start()
    until(lambda: slow_go.exists() and slow_go.read_text().strip())
    go = int(slow_go.read_text())
    assert not ended(go)
    background.stop()
    until(lambda: ended(go))
    assert not background.path.exists()


def test_functions_of_a_local_run_get_the_path_of_helm(
    tmp_path: Path, helm: Path, slow_go: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LocalRun(tmp_path / "run").helm_program() == {"HELM": str(helm)}
    monkeypatch.setenv("CAPI_FUNCTIONS_CACHE", str(tmp_path / "empty"))
    assert LocalRun(tmp_path / "demo", get_helm=False).helm_program() == {}
    local_run = LocalRun(tmp_path / "run")
    try:
        assert local_run.helm_program() == {"HELM": str(tmp_path / "run" / "bin" / "helm")}
        until(lambda: slow_go.exists() and slow_go.read_text().strip())
    finally:
        local_run.stop()
    until(lambda: ended(int(slow_go.read_text())))
    monkeypatch.setenv("HELM", "/nowhere/helm")
    with pytest.raises(LocalRunError, match=r"\$HELM is /nowhere/helm"):
        LocalRun(tmp_path / "run").helm_program()


def test_background_build_ends_with_a_killed_run(tmp_path: Path, empty_cache: Path, slow_go: Path) -> None:
    code = (
        "import pathlib, sys, time\n"
        "from infra.local.helm import HelmProgram\n"
        "HelmProgram(pathlib.Path(sys.argv[1]), print).start()\n"
        "time.sleep(60)"
    )
    run = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "helm")])
    try:
        until(lambda: slow_go.exists() and slow_go.read_text().strip())
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    go = int(slow_go.read_text())
    until(lambda: ended(go))


def test_doctor_reports_the_program_or_how_to_get_it(
    helm: Path, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def doctor(code: int = 0) -> str:
        result = CliRunner().invoke(app, ["doctor"])
        assert result.exit_code == code, result.output
        return next(line for line in result.stdout.splitlines() if " helm " in line)

    assert "not installed; the first chart that reads from its cluster downloads it" in doctor()
    archive = replace(binaries.HELM, url="http://127.0.0.1:1/")
    monkeypatch.setattr(binaries, "ARCHIVES", [archive])
    unpacked = program(archive.cache / "helm")
    assert doctor().endswith(str(unpacked))
    monkeypatch.setenv("HELM", str(helm))
    assert doctor().endswith(str(helm))
    monkeypatch.setenv("HELM", "/nowhere/helm")
    assert doctor(1).endswith("$HELM is /nowhere/helm, which is not an executable file")
