"""Cluster API's real providers in a local run, where no pods run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.cli.demo import FOLDER
from shared.api.provider import PROVIDER_LABEL
from shared.kube import Object, dig
from tests.support import processes
from tests.support.command_line import await_end, run
from tests.support.real_providers import CURRENT, reduced, repository
from tests.support.until import until

CLUSTERS = "crd/clusters.cluster.x-k8s.io"


def test_clusters_can_be_written_after_installation_and_restart(
    tmp_path: Path, kubectl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    ask = [str(kubectl), "--kubeconfig", str(folder / "management.kubeconfig")]

    def kubectl_output(*arguments: str) -> str:
        done = processes.run([*ask, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def succeeds(*arguments: str | Path) -> str:
        done = run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def definition() -> tuple[str, Object]:
        """Returns the provider of the CRD of Cluster, and the CRD."""
        found = json.loads(kubectl_output("get", CLUSTERS, "-o", "json"))
        return dig(found, ("metadata", "labels", PROVIDER_LABEL), ""), found["spec"]

    (tmp_path / "repository").mkdir()
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(repository(tmp_path / "repository", CURRENT, release=reduced)))
    wanted = (f"--core=cluster-api:{CURRENT}", f"--infrastructure=docker:{CURRENT}")
    implied = (f"--bootstrap=kubeadm:{CURRENT}", f"--control-plane=kubeadm:{CURRENT}")
    succeeds("provider", "export", *wanted, *implied, "--to", tmp_path / "exported")
    monkeypatch.delenv("CLUSTERCTL_CONFIG")
    try:
        succeeds("up", "--dir", folder, "--detach")
        assert definition()[0] == "", "a run brings a definition of its own"
        kubectl_output("apply", "--server-side", "-f", str(tmp_path / "exported"))
        output = " ".join(succeeds("provider", "init", "--dir", folder, *wanted, "--timeout=150").split())
        assert "are installed without webhooks" in output
        assert "all are ready" in output
        brought = definition()
        assert brought[0] == "cluster-api"

        kubectl_output("apply", "-f", str(FOLDER / "cluster.yaml"))
        succeeds("down", "--dir", folder)
        succeeds("up", "--dir", folder, "--detach")
        assert definition() == brought
        assert "clusters.cluster.x-k8s.io is not replaced: provider cluster-api" in (folder / "logs/up.log").read_text()
        kubectl_output("annotate", "cluster", "demo", "example.com/written=again")
        kubectl_output("get", "clusters.v1beta1.cluster.x-k8s.io", "demo")
        kubectl_output("wait", "cluster", "demo", "--for=jsonpath={.status.phase}=Provisioned", "--timeout=120s")
        kubectl_output("delete", "cluster", "demo", "--timeout=120s")
        until(
            lambda: kubectl_output("get", "clusters,kindclusters,clusteraddons", "-o", "name") == "", "the Cluster gone"
        )
    finally:
        stopped = run("down", "--dir", folder)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    await_end(folder)
