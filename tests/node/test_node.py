"""A node as such: it starts, runs pods, and leaves nothing on the machine, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from infra.node import addresses, cgroups
from shared.api.resources import POD
from shared.kube import Key, connect, dig
from tests.support import processes
from tests.support.node_installation import PROJECT
from tests.support.objects import manifest
from tests.support.until import until

pytestmark = [pytest.mark.timeout(1200), pytest.mark.usefixtures("able")]

PAUSED = {"name": "pause", "image": "localhost/pause:1", "imagePullPolicy": "Never"}


def links() -> str:
    return subprocess.run(["ip", "-o", "link", "show", addresses.LINK], capture_output=True, text=True).stdout


def left(folder: Path) -> list[str]:
    """Returns what is left of a node whose folder is below `folder`: processes, cgroups, its link, mounts."""
    cgroup = [str(hierarchy.cgroup) for hierarchy in cgroups.hierarchies() if hierarchy.cgroup.exists()]
    running = list(processes.with_environment(str(folder)).values())
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in line]
    return [*cgroup, *running, *mounts, *links().splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: str(number.name))
def test_nothing_is_left_of_a_node_with_pods(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "infra.node"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with processes.start(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        kubeconfig = next(line.split("=")[1].strip() for line in owner.stdout if line.startswith("export"))
        with closing(connect.from_kubeconfig(kubeconfig)) as client:
            client.create(POD, manifest(POD, "paused", "default", spec={"containers": [PAUSED]}))
            until(lambda: dig(client.get(POD, Key("default", "paused")), "status.phase") == "Running", "the pod runs")
        assert links()
        owner.send_signal(number)
    until(lambda: not left(tmp_path), "nothing is left", details=lambda: left(tmp_path))
