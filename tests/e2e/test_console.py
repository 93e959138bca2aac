"""The console beside a local run: a person plans an upgrade, watches it, and finds out why another one fails."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING

import pytest
import yaml

from infra.cli.demo import FOLDER, RELEASES
from shared.api.resources import CLUSTER, CLUSTER_STACK, KIND_CLUSTER
from shared.kube import Client, Key, connect
from tests.support import processes
from tests.support.browser import barriers, opened
from tests.support.command_line import CLI, await_end, run
from tests.support.releases import config_map, write_release

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

STACK = "local-demo-1-36"
DEMO = Key("default", "demo")
KINDS = {kind.kind: kind for kind in (CLUSTER, CLUSTER_STACK, KIND_CLUSTER)}


@pytest.fixture
def local_run(tmp_path: Path) -> Iterator[Path]:
    """The folder of a local run with the demo's Cluster. Its release v9 has an object that API servers reject."""
    folder, releases = tmp_path / "run", tmp_path / "releases"
    shutil.copytree(RELEASES, releases)
    write_release(releases, "v9", [config_map("no_valid_name")], stack=STACK)
    try:
        started = run("up", "--dir", folder, "--releases", releases, "--detach")
        assert started.returncode == 0, started.stdout + started.stderr
        yield folder
    finally:
        run("down", "--dir", folder)
        await_end(folder)


@pytest.fixture
def client(local_run: Path) -> Iterator[Client]:
    client = connect.from_kubeconfig(str(local_run / "management.kubeconfig"))
    for name in ("cluster-stack.yaml", "cluster.yaml"):
        for obj in yaml.safe_load_all((FOLDER / name).read_text()):
            client.apply(KINDS[obj["kind"]], obj, manager="user")
    yield client
    client.close()


@pytest.fixture
def address(local_run: Path) -> Iterator[str]:
    command = [*CLI, "console", "--allow-changes", "--kubeconfig", "run/management.kubeconfig"]
    with processes.start(command, stdout=PIPE, text=True, cwd=local_run.parent) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)


def give_class(client: Client, version: str) -> None:
    client.patch(CLUSTER, DEMO, {"spec": {"topology": {"classRef": {"name": f"{STACK}-{version}"}}}})


def test_upgrade_is_planned_watched_rolled_back_and_a_failing_one_understood(
    chromium: Browser, client: Client, address: str, screenshot: Callable[[Page, str], None]
) -> None:
    with opened(chromium, address) as page:
        page.get_by_role("link", name="default/demo").wait_for()
        page.locator("#clusters ~ table .mark.ready").wait_for()
        page.get_by_role("link", name="default/demo").click()

        page.get_by_role("link", name="Plan").click()
        page.get_by_label("Class").fill(f"{STACK}-v2")
        page.get_by_role("button", name="Plan addons").click()
        page.get_by_text("1 to update").wait_for()
        page.get_by_text("cluster-agent:1.1.0").wait_for()
        assert barriers(page) == []
        screenshot(page, "console-plan")
        page.get_by_role("button", name="Preview Machines").click()
        page.locator("#result .problem").wait_for()  # no Cluster API core runs here
        assert barriers(page) == []

        page.get_by_role("link", name="default/demo").click()
        shown = page.locator("dl.facts", has_text="Release applied").first
        give_class(client, "v2")
        shown.get_by_text(f"{STACK}-v2").nth(1).wait_for()
        page.locator("h1 + .counts .mark.ready").wait_for()

        page.get_by_role("button", name="Roll back").click()
        shown.get_by_text(f"{STACK}-v1").wait_for()
        page.get_by_text("Rolled back from").wait_for()
        assert barriers(page) == []
        page.get_by_role("button", name="End the rollback").click()
        shown.get_by_text(f"{STACK}-v2").nth(1).wait_for()
        page.get_by_role("button", name="Look again").click()
        page.locator("h1 + .counts .mark.ready").wait_for()

        give_class(client, "v9")
        page.get_by_text("no_valid_name").first.wait_for()
        page.locator("h1 + .counts .mark.waiting").wait_for()
        page.locator(".note", has_text="RFC 1123").wait_for()
        assert barriers(page) == []
        screenshot(page, "console-cluster")
        page.locator(".counts").get_by_role("link", name="Flow").click()
        page.get_by_text("addon_apply").first.wait_for()
        page.get_by_text("Functions have handled every event.").wait_for()
        assert barriers(page) == []
        screenshot(page, "console-flow")
        page.get_by_role("link", name="capi-functions").click()
        page.get_by_text("no_valid_name").wait_for()
        screenshot(page, "console-overview")
