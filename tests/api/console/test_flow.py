"""The flow in a cluster: logs of pods and dead letters, with the rights of the person and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.console import flow
from infra.console.server import serving_logins
from infra.console.sessions import Sessions
from shared.api.resources import CLUSTER, CONFIG_MAP, POD, SECRET
from shared.dead_letters import DeadLetters, dead_letter
from shared.event import DeliveryFailure, change_event
from shared.kube import Client, Key, connect
from shared.settings import STORAGE
from shared.storage import ObjectStore
from tests.support import accounts
from tests.support.browser import barriers, opened
from tests.support.console import get
from tests.support.kubelet import pod, serving_logs
from tests.support.object_store import KEYS
from tests.support.objects import manifest, secret
from tests.support.until import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOSTILE = "<script>alert(1)</script>"
LOGS = {
    "a": "2026-01-31T12:00:00.1Z 2026-01-31 12:00:00,100 INFO cluster Cluster team/demo update -> 204 1.0ms\n"
    f"2026-01-31T12:00:02.1Z 2026-01-31 12:00:02,100 INFO cluster Cluster team/b update -> 500 1.0ms {HOSTILE}\x1b[2J\n"
    "2026-01-31T12:00:02.2Z Traceback (most recent call last):\n",
    "b": "2026-01-31T12:00:01.1Z 2026-01-31 12:00:01,100 INFO addon_apply ClusterAddon team/x update -> 202 1ms\n",
}
KEYLESS = "has no keys of the object store"


@pytest.fixture
def token(management: Client, kubeconfig: Path, namespace: str) -> str:
    """The token of an account that may list and watch Clusters, and nothing else."""
    client = accounts.with_rights(management, kubeconfig, namespace, CLUSTER.group, CLUSTER.plural, "*")
    client.close()
    return client._transport.credentials.bearer()


@pytest.fixture
def address(kubeconfig: Path, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(flow, "_KEPT_FOR", 0.0)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    sessions = Sessions(connect.token_clients(), "test", functions=namespace)
    with serving_logins(sessions, "127.0.0.1", 0) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def shown(address: str, token: str) -> Callable[[], str]:
    def text(query: str = "") -> str:
        page = get(address, f"/flow{query}", Cookie=f"capi-functions-console={token}")
        assert page.status == 200
        return page.text

    return text


def test_logs_of_pods_need_the_rights_of_the_person(
    management: Client, namespace: str, tmp_path: Path, shown: Callable[..., str]
) -> None:
    for name in LOGS:
        management.create(POD, pod(namespace, name))
    with serving_logs(management, namespace, tmp_path, LOGS) as kubelet:
        assert f"A right is missing: list pods in {namespace}." in shown()
        accounts.grant(management, namespace, "list", "", "pods")
        until(lambda: f"A right is missing: get pods/log in {namespace}." in shown(), "the right to list", pause=0.2)
        assert kubelet.requests == []
        accounts.grant(management, namespace, "get", "", "pods/log")
        until(lambda: "A right is missing: get pods/log" not in shown(), "the right to logs", pause=0.2)
        text = shown()
        assert "3 in the newest part of the log" in text
        listed = text.partition("<h2>Deliveries</h2>")[2]
        assert listed.index("team/b") < listed.index("team/x") < listed.index("team/demo")
        assert "500 failed" in text
        assert HOSTILE not in text
        assert "&lt;script&gt;" in text
        assert "\x1b" not in text
        assert "1 in the newest" in shown("?q=team/x&outcome=waiting")
        assert {"limitBytes=262144", "sinceSeconds=3600", "tailLines=300"} <= set(
            kubelet.requests[0].path.partition("?")[2].split("&")
        )


def test_pod_without_a_log_is_named_beside_the_others(
    management: Client, kubeconfig: Path, namespace: str, tmp_path: Path
) -> None:
    with (
        serving_logs(management, namespace, tmp_path, LOGS),
        connected(kubeconfig) as client,
    ):
        log = flow.PodLog(client, namespace)
        [problem] = log.read().problems
        assert "there are no pods with the label app.kubernetes.io/part-of=capi-functions in the namespace" in problem
        for name, runs in (("a", True), ("b", False)):
            management.create(POD, pod(namespace, name, runs=runs))
        log = flow.PodLog(client, namespace)
        found = log.read()
        assert [one.status for one in found.deliveries] == [500, 204]
        [problem] = found.problems
        assert f"/namespaces/{namespace}/pods/b/log" in problem


@contextmanager
def connected(kubeconfig: Path) -> Iterator[Client]:
    client = connect.from_kubeconfig(str(kubeconfig))
    yield client
    client.close()


def test_dead_letters_need_the_rights_of_the_person_and_keys(
    management: Client, namespace: str, object_store: ObjectStore, shown: Callable[..., str]
) -> None:
    reference = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster"}
    event = change_event(
        {**reference, "metadata": {"name": "lost", "namespace": "team"}}, "update", source="/test", reference=True
    )
    failure = DeliveryFailure("http://addon-create.x.svc", 400, HOSTILE)
    DeadLetters(object_store).keep(dead_letter(replace(event, failure=failure), datetime.now(UTC)))
    names = {"S3_ENDPOINT_URL": object_store.endpoint, "CAPI_FUNCTIONS_BUCKET": object_store.bucket}
    management.create(CONFIG_MAP, manifest(CONFIG_MAP, STORAGE.name, namespace, data=names))
    right = f"A right is missing: get configmaps and secrets {STORAGE.name} in {namespace}"
    assert right in shown()
    accounts.grant(management, namespace, "get", "", "configmaps", STORAGE.name)
    assert right in shown()
    accounts.grant(management, namespace, "get", "", "secrets", STORAGE.name)
    # The environment of this process has keys, too: the console uses the keys that the person may read.
    until(lambda: KEYLESS in shown(), "the rights", pause=0.2)
    management.create(SECRET, secret(STORAGE.name, namespace, **KEYS))
    text = shown()
    assert "Cluster team/lost" in text
    assert "addon_create" in text
    assert HOSTILE not in text
    management.delete(SECRET, Key(namespace, STORAGE.name))
    assert KEYLESS in shown()


def test_person_follows_the_flow(
    chromium: Browser,
    address: str,
    token: str,
    management: Client,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flow, "_AGAIN", 1)
    logs = dict(LOGS)
    for name in logs:
        management.create(POD, pod(namespace, name))
    with serving_logs(management, namespace, tmp_path, logs), opened(chromium, address) as page:
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("link", name="Flow").click()
        page.get_by_text("A right is missing: list pods").wait_for()
        assert barriers(page) == []
        accounts.grant(management, namespace, "list", "", "pods")
        accounts.grant(management, namespace, "get", "", "pods/log")
        page.get_by_text("team/demo").first.wait_for()
        logs["a"] += "2026-01-31T12:00:03Z 2026-01-31 12:00:03,100 INFO cluster Cluster team/new add -> 204 1.0ms\n"
        page.get_by_text("team/new").first.wait_for()
        assert barriers(page) == []
