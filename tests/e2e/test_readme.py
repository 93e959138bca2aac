"""The commands of README and first steps, as written and in their order."""

from __future__ import annotations

import os
import re
import signal

from tests.support.documents import ROOT, Shell, blocks
from tests.support.ports import free_port
from tests.support.until import until

README = ROOT / "README.md"
FIRST_STEPS = ROOT / "docs" / "first-steps.md"


def test_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= 120, "move what only some readers need to a page of docs"


def test_readme_commands_succeed_in_their_order(shell: Shell) -> None:
    up, upgrade = blocks(README, "Run it here")
    render, build, own_cluster, planes, providers, managers = blocks(FIRST_STEPS, "Run it here")
    assert own_cluster.startswith("capi-functions run ")  # e2e/test_command_run runs it
    assert managers.startswith("capi-functions up -d managers --providers ")  # api/test_live_core runs the same
    assert "created" in shell.run(up)
    assert "kind: CustomResourceDefinition" in shell.run(render)
    assert "no findings" in shell.run(build)
    until(lambda: shell.succeeds("kubectl get clusteraddon cluster-addon-demo"), "the addon")
    output = shell.run(upgrade)
    assert "rolling back to local-demo-1-36-v1" in output
    output = shell.run(planes)
    assert re.search(r"^default +ready +https://", output, re.M)
    assert "default is stopped" in output
    # The other commands need internet access.
    assert "the cluster has no providers" in shell.run(
        "\n".join(re.findall(r"^capi-functions provider list.*", providers, re.M))
    )

    port = str(free_port())
    serve, send = (block.replace("8080", port) for block in blocks(FIRST_STEPS, "Run one function"))
    serving = shell.start(serve.replace("KUBECONFIG=", "env KUBECONFIG="))
    try:
        until(lambda: shell.succeeds(f"curl -s localhost:{port}"), "the function")
        assert re.match(r"HTTP/1.1 20[024] ", shell.run(send))
    finally:
        os.killpg(serving.pid, signal.SIGTERM)
        serving.wait()

    [replay] = blocks(FIRST_STEPS, "Replay")
    here = next(line for line in replay.splitlines() if "events/captured/demo" in line)
    assert " calls: " in shell.run(here)
