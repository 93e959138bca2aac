"""The console in a browser: live, by keyboard, in both colour schemes, without barriers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.console import watches as console_watches
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.kube import Client, Key, Object, connect
from tests.support import accounts
from tests.support.api_proxy import Proxy, answering
from tests.support.browser import barriers, opened
from tests.support.console import console
from tests.support.objects import manifest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLEET = 300


def cluster(client: Client, namespace: str, name: str, release: str = "", reason: str = "") -> Object:
    """Creates a Cluster that is Available, or that waits for a reason."""
    topology = {"topology": {"classRef": {"name": release}, "version": "v1.36.3"}} if release else {"paused": True}
    body = manifest(CLUSTER, name, namespace, spec=topology)
    created = client.create(CLUSTER, body)
    available = condition("Available", not reason, "NotAvailable" if reason else "Available", reason)
    probe = condition("InfrastructureReady", not reason, "NoQuota" if reason else "Provisioned", reason)
    status = {"phase": "Provisioning" if reason else "Provisioned", "conditions": [available, probe]}
    return client.patch(CLUSTER, Key(namespace, name), {"status": status}, subresource="status") or created


def condition(type_: str, good: bool, reason: str, message: str = "") -> Object:
    since = "2026-01-01T00:00:00Z"
    status = "True" if good else "False"
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def expect_text(page: Page, text: str) -> None:
    page.get_by_text(text).first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_no_barriers(chromium: Browser, management: Client, namespace: str, scheme: str) -> None:
    cluster(management, namespace, "ready", "scs-1-36-v1")
    cluster(management, namespace, "waiting", "scs-1-36-v2", "the project has no quota for a load balancer")
    addon = manifest(CLUSTER_ADDON, "cluster-addon-ready", namespace, spec={"clusterRef": {"name": "ready"}})
    management.create(CLUSTER_ADDON, addon)
    with (
        console(management, namespace) as address,
        opened(chromium, address, scheme=scheme, expected="404 (Not Found)") as page,
    ):
        assert barriers(page) == []
        page.emulate_media(media="print")
        assert not page.get_by_role("search").is_visible()
        assert barriers(page) == []
        page.emulate_media(media="screen")
        for name in ("ready", "waiting"):
            page.goto(f"{address}clusters/{namespace}/{name}")
            for row in page.locator("details").all():
                row.evaluate("row => row.open = true")
            assert barriers(page) == []
        expect_text(page, "the project has no quota for a load balancer")
        page.get_by_role("link", name="YAML").click()
        expect_text(page, "Fields that can contain secrets are hidden")
        assert barriers(page) == []
        page.goto(f"{address}clusters/{namespace}/absent")
        assert barriers(page) == []


def test_changes_appear_while_focus_and_open_rows_stay(chromium: Browser, management: Client, namespace: str) -> None:
    cluster(management, namespace, "one", "scs-1-36-v1")
    with console(management, namespace) as address, opened(chromium, address) as page:
        page.get_by_role("link", name=f"{namespace}/one").focus()
        cluster(management, namespace, "two", "scs-1-36-v1")
        expect_text(page, f"{namespace}/two")
        assert page.evaluate("document.activeElement.textContent") == f"{namespace}/one"
        page.keyboard.press("Enter")
        page.wait_for_url("**/clusters/**")
        summary = page.locator("#usual > summary")
        summary.focus()
        page.keyboard.press("Enter")
        management.patch(CLUSTER, Key(namespace, "one"), {"spec": {"paused": True}})
        expect_text(page, "Paused: functions change neither")
        assert page.locator("#usual").get_attribute("open") is not None
        assert summary.evaluate("row => row === document.activeElement")


def test_keyboard_reaches_a_cluster_and_its_rows(chromium: Browser, management: Client, namespace: str) -> None:
    cluster(management, namespace, "one", "scs-1-36-v1")
    with console(management, namespace) as address, opened(chromium, address) as page:

        def tab_to(text: str) -> None:
            for _ in range(20):
                page.keyboard.press("Tab")
                if any(text in found for found in page.locator("a:focus, summary:focus").all_text_contents()):
                    return
            raise AssertionError(f"no way to {text} by keyboard")

        tab_to(f"{namespace}/one")
        page.keyboard.press("Enter")
        page.wait_for_url("**/clusters/**")
        tab_to("conditions are as wanted")
        page.keyboard.press("Space")
        expect_text(page, "The infrastructure provider has created network")
        tab_to("capi-functions")
        page.keyboard.press("Enter")
        page.wait_for_url(address)


def test_fleet_is_searched_and_paged(chromium: Browser, management: Client, namespace: str) -> None:
    for number in range(FLEET):
        reason = "the project has no quota for a load balancer" if number % 50 == 7 else ""
        cluster(management, namespace, f"n{number:03}", f"scs-1-36-v{1 + number % 3}", reason)
    with console(management, namespace) as address, opened(chromium, address) as page:
        expect_text(page, f"{FLEET} shown")
        page.get_by_role("link", name="next").click()
        expect_text(page, f"{namespace}/n100")
        page.get_by_label("Search").fill("quota n2")
        expect_text(page, "2 shown")
        assert page.locator("tbody th").all_text_contents() == [f"{namespace}/n207", f"{namespace}/n257"]
        assert "q=quota" in page.url
        page.reload()
        assert page.get_by_label("Search").input_value() == "quota n2"
        page.get_by_label("State").select_option("ready")
        expect_text(page, "0 shown")


def test_missing_rights_are_named(chromium: Browser, management: Client, namespace: str, kubeconfig: Path) -> None:
    limited = accounts.with_rights(management, kubeconfig, namespace, CLUSTER_ADDON.group, CLUSTER_ADDON.plural, "*")
    with console(limited) as address, opened(chromium, address) as page:
        expect_text(page, "list and watch clusters.cluster.x-k8s.io")
        assert barriers(page) == []
    limited.close()


def test_lost_api_server_is_reported_until_it_is_back(
    chromium: Browser,
    management: Client,
    namespace: str,
    proxy: Proxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(console_watches, "_WATCH_SECONDS", 2)
    cluster(management, namespace, "kept", "scs-1-36-v1")
    (file := tmp_path / "kubeconfig").write_bytes(proxy.kubeconfig)
    client = connect.from_kubeconfig(str(file))
    lost = "has not answered since"
    with console(client, namespace) as address, opened(chromium, address) as page:
        proxy.fail(answering(503))
        expect_text(page, lost)
        expect_text(page, f"{namespace}/kept")
        proxy.heal()
        page.get_by_text(lost).first.wait_for(state="detached")
    client.close()


def test_end_of_the_console_is_reported(chromium: Browser, management: Client, namespace: str) -> None:
    cluster(management, namespace, "kept", "scs-1-36-v1")
    with console(management, namespace) as address:
        context = opened(chromium, address, expected="ERR_")
        page = context.__enter__()
        expect_text(page, f"{namespace}/kept")
    try:
        expect_text(page, "The console has ended or cannot be reached")
        assert page.get_by_text(f"{namespace}/kept").is_visible()
    finally:
        context.__exit__(None, None, None)
