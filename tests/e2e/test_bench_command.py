"""`capi-functions bench fleet` against a local run, as a user types it."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.operations.bench.load import MARK, SPACE_LABEL
from infra.operations.bench.removal import is_of_load
from shared.api.cluster import created_at
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_ROLE, CONFIG_MAP, NAMESPACE, SECRET
from shared.kube import Client, Key, connect
from tests.support import processes
from tests.support.command_line import CLI, run
from tests.support.until import until

SPACE = "capi-functions-bench"
UNKNOWN = "local-nowhere-1-36-v1"


@dataclass(frozen=True)
class Run:
    """A local run: its folder, its kubeconfig, and a client of its management cluster."""

    folder: Path
    kubeconfig: Path
    client: Client

    def bench(self, *options: str | Path) -> subprocess.CompletedProcess[str]:
        return run("bench", "fleet", "--dir", self.folder, "--clusters", "3", *options)

    def start(self, *options: str | Path) -> subprocess.Popen[str]:
        """Starts a load of Clusters that never become Ready; returns once they exist."""
        never = ["--release", UNKNOWN, "--workload-kubeconfig", self.kubeconfig, "--yes", *options]
        command = [*CLI, "bench", "fleet", "--dir", str(self.folder), "--clusters", "3", *map(str, never)]
        process = processes.start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        until(lambda: len(list(self.client.list(CLUSTER_ADDON, SPACE))) == 3, "the ClusterAddons")
        return process

    def left(self) -> list[str]:
        """Returns what is left of loads."""
        found = [space for label in (MARK, SPACE_LABEL) for space in self.client.list(NAMESPACE, selector=label)]
        found += [obj for kind in (CLUSTER, CLUSTER_ADDON, SECRET) for obj in self.client.list(kind, SPACE)]
        return [f"{obj['kind']} {obj['metadata']['name']}" for obj in found]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("bench") / "run"
    started = run("up", "--dir", folder, "--detach")
    try:
        assert started.returncode == 0, started.stdout + started.stderr
        kubeconfig = folder / "management.kubeconfig"
        client = connect.from_kubeconfig(str(kubeconfig))
        yield Run(folder, kubeconfig, client)
        client.close()
    finally:
        run("down", "--dir", folder)


def test_load_reports_its_time_and_leaves_nothing(local: Run) -> None:
    result = local.bench("--yes", "--output", "json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["clusters"] == 3
    assert 0 < found["p50"] <= found["p99"] <= found["slowest"] <= found["seconds"]
    assert f"management cluster: context management of {local.kubeconfig}" in result.stderr
    assert local.left() == []


def test_kept_load_is_replaced_by_the_next(local: Run) -> None:
    kept = local.bench("--yes", "--keep")
    assert kept.returncode == 0, kept.stderr
    assert "3 Clusters Ready in" in kept.stdout
    assert len(list(local.client.list(CLUSTER, SPACE))) == 3
    spaces = [space["metadata"]["name"] for space in local.client.list(NAMESPACE, selector=SPACE_LABEL)]
    assert spaces == [f"{SPACE}-c0000{number}" for number in (1, 2, 3)]
    created = [found for space in spaces for found in local.client.list(CONFIG_MAP, space)]
    assert len(created) == 21
    begun = created_at(local.client.get(NAMESPACE, Key("", SPACE)))
    assert begun is not None
    assert all(is_of_load(obj, begun) for obj in created)
    again = local.bench("--yes")
    assert again.returncode == 0, again.stderr
    assert local.left() == []


def test_leftovers_of_a_killed_load_are_deleted_by_clean_up(local: Run) -> None:
    process = local.start()
    process.kill()
    process.communicate()
    assert local.left()
    result = local.bench("--clean-up", "--yes")
    assert result.returncode == 0, result.stderr
    assert local.left() == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_load_deletes_what_it_made(local: Run, number: int, code: int) -> None:
    process = local.start()
    process.send_signal(number)
    output, _ = process.communicate()
    assert process.returncode == code, output
    assert local.left() == []


def test_load_that_does_not_become_ready_says_why_and_leaves_nothing(local: Run) -> None:
    result = local.bench("--yes", "--release", UNKNOWN, "--workload-kubeconfig", local.kubeconfig, "--timeout", "20")
    assert result.returncode == 1
    assert "0 of 3 Clusters were Ready" in result.stderr
    assert UNKNOWN in result.stderr
    assert local.left() == []


def test_only_objects_that_the_load_created_are_deleted_from_the_workload_cluster(local: Run) -> None:
    older = {"apiVersion": CLUSTER_ROLE.api_version, "kind": "ClusterRole", "metadata": {"name": "cluster-agent"}}
    local.client.create(CLUSTER_ROLE, older)
    workload = ["--release", "local-demo-1-36-v1", "--workload-kubeconfig", local.kubeconfig]
    # No controllers run: the Deployments of this release never become Ready.
    result = local.bench("--yes", *workload, "--timeout", "20")
    assert result.returncode == 1
    assert "Deployment" in result.stderr
    settings = Key("kube-system", "cluster-settings")
    assert local.client.find(CONFIG_MAP, settings) is None
    assert local.client.get(CLUSTER_ROLE, Key("", "cluster-agent"))["metadata"]["labels"], "the release has it, too"
    assert local.left() == []


def test_namespace_of_others_is_refused(local: Run) -> None:
    result = local.bench("--yes", "--namespace", "default")
    assert result.returncode == 1
    assert "Namespace default" in result.stderr
    assert "--namespace" in result.stderr


def test_nothing_is_written_without_consent(local: Run) -> None:
    result = local.bench()
    assert result.returncode == 1
    assert "--yes" in result.stderr
    assert local.left() == []
