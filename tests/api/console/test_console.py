"""The console in front of a real API server."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from subprocess import PIPE

import pytest

from infra.console import watches as console_watches
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.kube import Client, Key, connect
from tests.support import accounts, processes
from tests.support.api_proxy import Proxy, answering
from tests.support.command_line import CLI
from tests.support.console import console, events, get
from tests.support.objects import manifest
from tests.support.until import until


def test_change_reaches_the_stream_and_the_page(management: Client, namespace: str) -> None:
    with console(management, namespace) as address, events(address) as stream:
        before = next(stream)
        assert f'data-version="{before}"' in get(address).text
        management.create(CLUSTER, manifest(CLUSTER, "live", namespace, spec={"paused": True}))
        after = next(stream)
        text = get(address).text
        assert f'data-version="{after}"' in text
        assert f"{namespace}/live" in text
        management.delete(CLUSTER, Key(namespace, "live"))
        next(stream)
        until(lambda: f"{namespace}/live" not in get(address).text)


def test_stream_of_a_cluster_has_the_changes_of_it_and_its_addons(management: Client, namespace: str) -> None:
    for name in ("one", "other"):
        management.create(CLUSTER, manifest(CLUSTER, name, namespace, spec={"paused": True}))
    with console(management, namespace) as address, events(address, f"events?cluster={namespace}/one") as stream:
        before = next(stream)
        management.patch(CLUSTER, Key(namespace, "other"), {"metadata": {"labels": {"a": "b"}}})
        with events(address) as all_changes:
            until(lambda: next(all_changes) != before)
        reference = {"kind": "Cluster", "name": "one"}
        addon = manifest(CLUSTER_ADDON, "cluster-addon-one", namespace, spec={"clusterRef": reference})
        created = management.create(CLUSTER_ADDON, addon)
        assert next(stream) != before
        assert f"{created['kind']} <strong>cluster-addon-one" in get(address, f"clusters/{namespace}/one").text


def test_page_of_a_cluster_is_read_from_the_server(management: Client, namespace: str) -> None:
    annotations = {"example.com/api-token": "t0ken-value"}
    management.create(
        CLUSTER, manifest(CLUSTER, "demo", namespace, metadata={"annotations": annotations}, spec={"paused": True})
    )
    with console(management, namespace) as address:
        text = get(address, f"clusters/{namespace}/demo").text
        assert f"Cluster {namespace}/demo" in text
        assert "Paused: functions change neither" in text
        yaml = get(address, f"clusters/{namespace}/demo/yaml").text
        assert "example.com/api-token: (hidden)" in yaml
        assert "t0ken-value" not in yaml + text
        assert get(address, f"clusters/{namespace}/nobody").status == 404
        assert get(address, f"clusters/{namespace}/..%2F..").status == 404


def test_missing_rights_are_named(management: Client, namespace: str, kubeconfig: Path) -> None:
    limited = accounts.with_rights(management, kubeconfig, namespace, CLUSTER_ADDON.group, CLUSTER_ADDON.plural, "*")
    with console(limited) as address:
        page = get(address)
        assert page.status == 200
        assert "A right is missing: <strong>list and watch clusters.cluster.x-k8s.io</strong>" in page.text
        assert "list and watch clusteraddons" not in page.text
        page = get(address, f"clusters/{namespace}/demo")
        assert page.status == 403
        assert "A right is missing" in page.text
        assert "clusters" in page.text
    limited.close()


def test_lost_api_server_is_reported_until_it_is_back(
    management: Client, namespace: str, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_watches, "_WATCH_SECONDS", 2)
    management.create(CLUSTER, manifest(CLUSTER, "kept", namespace, spec={"paused": True}))
    (file := tmp_path / "kubeconfig").write_bytes(proxy.kubeconfig)
    client = connect.from_kubeconfig(str(file))
    with console(client, namespace) as address, events(address) as stream:
        next(stream)
        proxy.fail(answering(503))
        next(stream)
        text = get(address).text
        assert "The API server has not answered since" in text
        assert f"{namespace}/kept" in text
        assert get(address, f"clusters/{namespace}/kept").status == 503
        management.create(CLUSTER, manifest(CLUSTER, "missed", namespace, spec={"paused": True}))
        proxy.heal()
        until(lambda: "has not answered" not in get(address).text and f"{namespace}/missed" in get(address).text)
        assert get(address, f"clusters/{namespace}/kept").status == 200
    client.close()


def test_browsers_share_one_watch_of_each_kind(namespace: str, proxy: Proxy, tmp_path: Path) -> None:
    (file := tmp_path / "kubeconfig").write_bytes(proxy.kubeconfig)
    client = connect.from_kubeconfig(str(file))
    with console(client, namespace) as address, events(address) as one, events(address) as two:
        next(one)
        next(two)
        for _ in range(5):
            assert get(address).status == 200
        watched = [request.path for request in proxy.seen if request.watches]
        assert len(set(watched)) == len(watched) == len(console_watches.KINDS)
        assert not proxy.writes()
    client.close()


def test_command_prints_the_address_and_ends_with_ctrl_c(kubeconfig: Path) -> None:
    command = [*CLI, "console", "--kubeconfig", str(kubeconfig)]
    with processes.start(command, stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", address)
        assert get(address).status == 200
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()
