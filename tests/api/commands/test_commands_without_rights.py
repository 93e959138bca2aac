"""Commands with a kubeconfig that may hardly read anything: they say so, and end."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.cli.main import app
from shared.api.resources import CLUSTER
from shared.kube import Client, Key
from tests.support import accounts, processes
from tests.support.command_line import CLI
from tests.support.objects import manifest


@pytest.fixture
def limited(management: Client, namespace: str, kubeconfig: Path, tmp_path: Path) -> Path:
    """The kubeconfig of an account that may list Pods."""
    accounts.with_rights(management, kubeconfig, namespace, "", "pods", "list").close()
    file = tmp_path / "limited.yaml"
    accounts.account(management, kubeconfig, Key(namespace, f"{namespace}-one-right"), file).close()
    return file


def test_doctor_names_the_missing_right(limited: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--kubeconfig", str(limited)])
    assert "error" not in result.stderr
    line = next(line for line in result.stdout.splitlines() if "event sources" in line)
    assert line.startswith("•")
    assert "not checked: " in line
    assert "forbidden" in line


def test_capture_without_rights_ends_with_their_names(limited: Path, tmp_path: Path) -> None:
    command = [*CLI, "capture", str(tmp_path / "recording"), "--kubeconfig", str(limited), "--seconds", "1"]
    done = processes.run(command, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 1, done.stdout
    assert "no right to list and watch any kind that functions watch" in done.stderr
    assert len(done.stderr.splitlines()) < 5, done.stderr
    assert not (tmp_path / "recording").exists()


def test_capture_records_the_kinds_that_it_may_watch(
    management: Client, namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    accounts.with_rights(management, kubeconfig, namespace, CLUSTER.group, CLUSTER.plural, "*").close()
    accounts.account(management, kubeconfig, Key(namespace, f"{namespace}-one-right"), tmp_path / "account").close()
    management.apply(CLUSTER, manifest(CLUSTER, "seen", namespace, spec={"paused": True}), manager="user")
    folder = tmp_path / "recording"
    command = [*CLI, "capture", str(folder), "--kubeconfig", str(tmp_path / "account"), "--seconds", "1"]
    done = processes.run(command, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr
    assert "no right to list and watch " in done.stderr
    assert "clusteraddons.clusterstack.x-k8s.io" in done.stderr
    assert "clusters.cluster.x-k8s.io" not in done.stderr
    assert f"name: seen\n  namespace: {namespace}" in (folder / "inputs.yaml").read_text()
