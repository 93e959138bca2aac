"""The README's commands, as written and in its order."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.until import until

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(section: str) -> list[str]:
    """The commands of a section, a script for each block."""
    text = README.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    assert text, f"the README has no section {section}"
    return [
        re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
    ]


class Shell:
    """Runs blocks one after the other, where a clone would be; exported variables stay."""

    def __init__(self, folder: Path, path: str) -> None:
        self._folder = folder
        self._environment = {**os.environ, "PATH": path, "HOME": str(folder), "CAPI_FUNCTIONS_CACHE": _cache()}
        self._environment.pop("KUBECONFIG", None)

    def run(self, block: str) -> str:
        kept = self._folder / "environment"
        script = f"set -e\n{block}\nenv -0 >{kept}\n"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        self._environment = dict(line.split("=", 1) for line in kept.read_text().split("\0") if line)
        return done.stdout

    def start(self, command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=self._folder, env=self._environment, process_group=0
        )

    def succeeds(self, command: str) -> bool:
        done = subprocess.run(["bash", "-c", command], cwd=self._folder, env=self._environment, capture_output=True)
        return done.returncode == 0


def _cache() -> str:
    from infra.control_plane.once import cache_directory

    return str(cache_directory())


@pytest.fixture
def shell(tmp_path: Path, kubectl: Path) -> Iterator[Shell]:
    for name in ("infra", "functions", "events", "shared"):
        (tmp_path / name).symlink_to(ROOT / name)
    shell = Shell(
        tmp_path, f"{Path(sys.executable).parent}{os.pathsep}{kubectl.parent}{os.pathsep}{os.environ['PATH']}"
    )
    yield shell
    shell.run("capi-functions down")


def test_the_commands_work_in_their_order(shell: Shell) -> None:
    up, render, build, upgrade, providers = blocks("Run it here")
    assert "created" in shell.run(up)
    assert "kind: CustomResourceDefinition" in shell.run(render)
    assert "no findings" in shell.run(build)
    until(lambda: shell.succeeds("kubectl get clusteraddon cluster-addon-demo"), "the addon")
    said = shell.run(upgrade)
    assert "going back to local-demo-1-36-v1" in said
    # Whatever asks a provider's source needs a way out.
    assert "there are no providers" in shell.run(
        "\n".join(re.findall(r"^capi-functions provider list.*", providers, re.M))
    )

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    serve, send = (block.replace("8080", port) for block in blocks("Run one function"))
    serving = shell.start(serve.replace("KUBECONFIG=", "env KUBECONFIG="))
    try:
        until(lambda: shell.succeeds(f"curl -s localhost:{port}"), "the function")
        assert re.match(r"HTTP/1.1 20[024] ", shell.run(send))
    finally:
        os.killpg(serving.pid, signal.SIGTERM)
        serving.wait()

    [replay] = blocks("Replay")
    here = next(line for line in replay.splitlines() if "events/captured/demo" in line)
    assert " calls: " in shell.run(here)
