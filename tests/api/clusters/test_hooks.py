"""Hooks as Cluster API calls them: over HTTPS, served by the generated command, with a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from functions.cluster_hooks.function import call
from infra.generate.__main__ import PROJECT
from shared import settings
from shared.api.hooks import BEFORE_CLUSTER_DELETE, CLEANED_UP, WAIT_ANNOTATION, HookWait
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON, EVENT, NAMESPACE
from shared.certificates import CertificateAuthority
from shared.clients import Clients
from shared.kube import Client, Key, Object, Resource, dig
from shared.kube.client import APPLY_PATCH
from shared.kube.resources import split_api_version
from shared.releases.stages import AFTER_CLUSTER_UPGRADE, AFTER_CONTROL_PLANE_INITIALIZED, BEFORE_CLUSTER_UPGRADE
from tests.support.accounts import as_account
from tests.support.hooks_server import PATHS, HooksServer
from tests.support.releases import write_release
from tests.support.until import HANGS
from tests.support.world import World


@pytest.fixture(scope="module")
def server(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HooksServer]:
    server = HooksServer(tmp_path_factory.mktemp("hooks"), kubeconfig)
    try:
        server.start()
        yield server
    finally:
        server.close()


def awaited(world: World) -> str | None:
    value: str | None = dig(world.addon(), ("metadata", "annotations", WAIT_ANNOTATION))
    return value


def asked_for(world: World, class_name: str, version: str = "v1.36.3") -> Object:
    """Sets class and version of the Cluster, and returns it as Cluster API sends it."""
    return world.cluster(topology={"classRef": {"name": class_name}, "version": version})


def deleted(world: World) -> Object:
    """Deletes the Cluster, and returns it as Cluster API sends it."""
    key = Key(world.namespace, "demo")
    world.client.patch(CLUSTER, key, {"metadata": {"finalizers": ["test.dev/hold"]}})
    world.client.delete(CLUSTER, key)
    return world.client.get(CLUSTER, key)


def applied(world: World, *versions: str) -> None:
    """Applies the addons of each version to the Cluster, one after the other."""
    world.secret()
    for version in versions:
        world.cluster(write_release(world.releases, version, [world.map("a", version)]))
        assert world.settle().status == 204


def backdate(world: World, **by: float) -> None:
    """Moves the start of the recorded wait into the past."""
    begun = HookWait.load(world.addon())
    assert begun is not None
    earlier = HookWait(begun.hook, begun.target, begun.since - timedelta(**by)).dump()
    patch = {"metadata": {"annotations": {WAIT_ANNOTATION: earlier}}}
    world.client.patch(CLUSTER_ADDON, world.addon_key, patch)


def warnings(world: World, reason: str) -> list[Object]:
    return [event for event in world.client.list(EVENT, world.namespace) if event["reason"] == reason]


# -- HTTPS -------------------------------------------------------------------------------------------------------


def test_discovery_lists_the_handlers(server: HooksServer) -> None:
    with server.client() as client:
        answer = client.request("POST", "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery", body=b"{}", timeout=HANGS)
    assert answer.status == 200
    assert [handler["requestHook"]["hook"] for handler in answer.json()["handlers"]] == list(PATHS)


def test_tls_is_trusted_only_by_the_ca_of_the_certificate(server: HooksServer) -> None:
    with server.client(CertificateAuthority.generate("another")) as client, pytest.raises(urllib3.exceptions.SSLError):
        client.request("GET", "/", timeout=HANGS)
    with (
        urllib3.HTTPConnectionPool("127.0.0.1", server.port, retries=False) as plain,
        pytest.raises(urllib3.exceptions.HTTPError),
    ):
        plain.request("GET", "/", timeout=HANGS)


def test_renewed_certificate_is_served_without_restart(server: HooksServer) -> None:
    newer = CertificateAuthority.generate("newer")
    server.renew(newer)
    try:
        with server.client(newer) as client:
            assert client.request("GET", "/", timeout=HANGS).status == 200
    finally:
        server.renew(server.ca)


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        pytest.param(PATHS[BEFORE_CLUSTER_UPGRADE], b"{", 400, "not valid JSON", id="not JSON"),
        pytest.param(PATHS[BEFORE_CLUSTER_UPGRADE], b"{}", 400, "cluster.metadata.name", id="no Cluster"),
        pytest.param("/hooks.runtime.cluster.x-k8s.io/v1alpha1/nope/nope", b"{}", 404, "no hook", id="unknown hook"),
    ],
)
def test_invalid_request_gets_a_failure_of_the_protocol(
    server: HooksServer, path: str, body: bytes, status: int, words: str
) -> None:
    with server.client() as client:
        answer = client.request("POST", path, body=body, timeout=HANGS)
        assert answer.status == status
        assert answer.json()["status"] == "Failure"
        assert words in answer.json()["message"]
        assert client.request("GET", "/", timeout=HANGS).status == 200
        assert client.request("PUT", path, timeout=HANGS).status == 405


def test_body_that_is_too_large_is_not_read(server: HooksServer) -> None:
    with server.client() as client, suppress(urllib3.exceptions.HTTPError):  # closed before the answer is read
        answer = client.request("POST", PATHS[BEFORE_CLUSTER_UPGRADE], body=b" " * (5 << 20), timeout=HANGS, retries=0)
        assert (answer.status, answer.json()["status"]) == (400, "Failure")
        assert "larger than" in answer.json()["message"]
    with server.client() as client:
        assert client.request("GET", "/", timeout=HANGS).status == 200


def test_calls_are_counted_by_hook(server: HooksServer) -> None:
    def count(client: urllib3.HTTPSConnectionPool) -> float:
        lines = client.request("GET", "/metrics", timeout=HANGS).data.decode().splitlines()
        wanted = 'capi_functions_hooks_total{hook="unknown",outcome="refused"} '
        return sum(float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted))

    with server.client() as client:
        before = count(client)
        client.request("POST", "/a/path/that/somebody/made/up", body=b"{}", timeout=HANGS)
        assert count(client) == before + 1.0


# -- upgrades ----------------------------------------------------------------------------------------------------


def test_first_hook_requests_the_addons_and_never_blocks(server: HooksServer, world: World) -> None:
    write_release(world.releases, "v1", [world.map("a")])
    world.cluster("test-stack-1-36-v1")
    world.settle()  # an addon, without a kubeconfig
    about = asked_for(world, "test-stack-1-36-v1")
    assert "retryAfterSeconds" not in server.call(AFTER_CONTROL_PLANE_INITIALIZED, about)
    assert world.addon()["spec"]["hook"] == AFTER_CONTROL_PLANE_INITIALIZED
    version = world.addon()["metadata"]["resourceVersion"]
    server.call(AFTER_CONTROL_PLANE_INITIALIZED, about)
    assert world.addon()["metadata"]["resourceVersion"] == version
    world.secret()
    assert world.settle().status == 204
    assert world.addon()["spec"]["hook"] == ""
    server.call(AFTER_CONTROL_PLANE_INITIALIZED, about)
    assert world.addon()["spec"]["hook"] == "", "what is applied is left alone"


def test_upgrade_is_blocked_until_its_addons_are_ready(server: HooksServer, world: World) -> None:
    applied(world, "v1")
    write_release(world.releases, "v2", [world.map("a", "v2")])
    about = asked_for(world, "test-stack-1-36-v2")
    response = server.call(BEFORE_CLUSTER_UPGRADE, about)
    assert response["retryAfterSeconds"] == 10
    assert "test-stack-1-36-v2" in response["message"]
    assert str(awaited(world)).endswith(" BeforeClusterUpgrade test-stack-1-36-v2/v1.36.3")
    assert world.settle().status == 204
    assert server.call(BEFORE_CLUSTER_UPGRADE, about)["retryAfterSeconds"] == 0
    assert awaited(world) is None
    version = world.addon()["metadata"]["resourceVersion"]
    assert server.call(BEFORE_CLUSTER_UPGRADE, about)["retryAfterSeconds"] == 0
    assert world.addon()["metadata"]["resourceVersion"] == version


def test_upgrade_is_blocked_for_clusters_of_both_contracts(server: HooksServer, world: World) -> None:
    applied(world, "v1")
    about = asked_for(world, "test-stack-1-36-v1")
    older = about | {
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "spec": {"topology": {"class": "test-stack-1-36-v1", "version": "v1.36.3"}},
    }
    assert [server.call(BEFORE_CLUSTER_UPGRADE, one)["retryAfterSeconds"] for one in (about, older)] == [0, 0]
    asked_for(world, "test-stack-1-36-v2")
    assert server.call(BEFORE_CLUSTER_UPGRADE, older)["retryAfterSeconds"] == 10, (
        "the Cluster of the API server counts, not that of the request"
    )


def test_wait_survives_a_killed_process(server: HooksServer, world: World) -> None:
    applied(world, "v1")
    about = asked_for(world, "test-stack-1-36-v2")
    assert server.call(BEFORE_CLUSTER_UPGRADE, about)["retryAfterSeconds"] == 10
    begun = awaited(world)
    server.kill()
    server.start()
    assert server.call(BEFORE_CLUSTER_UPGRADE, about)["retryAfterSeconds"] == 10
    assert awaited(world) == begun
    backdate(world, minutes=61)
    server.kill()
    server.start()
    assert server.call(BEFORE_CLUSTER_UPGRADE, about)["retryAfterSeconds"] == 0


def test_concurrent_calls_get_the_same_response(server: HooksServer, world: World) -> None:
    applied(world, "v1")
    about = asked_for(world, "test-stack-1-36-v2")
    with ThreadPoolExecutor(8) as pool:
        delays = list(pool.map(lambda _: server.call(BEFORE_CLUSTER_UPGRADE, about)["retryAfterSeconds"], range(16)))
    assert delays == [10] * 16
    version = world.addon()["metadata"]["resourceVersion"]
    assert server.call(BEFORE_CLUSTER_UPGRADE, about)["retryAfterSeconds"] == 10
    assert world.addon()["metadata"]["resourceVersion"] == version
    backdate(world, minutes=61)
    with ThreadPoolExecutor(8) as pool:
        delays = list(pool.map(lambda _: server.call(BEFORE_CLUSTER_UPGRADE, about)["retryAfterSeconds"], range(16)))
    assert delays == [0] * 16
    [warning] = warnings(world, "BeforeClusterUpgradeOverdue")
    assert warning["type"] == "Warning"
    assert "no longer blocked after 3600 s: the addons of test-stack-1-36-v2" in warning["message"]


def test_another_class_starts_a_new_wait(server: HooksServer, world: World) -> None:
    applied(world, "v1")
    write_release(world.releases, "v2", templates={"broken.yaml": '{{ fail "this stack is broken" }}'})
    faulty = asked_for(world, "test-stack-1-36-v2")
    server.call(BEFORE_CLUSTER_UPGRADE, faulty)
    world.settle()
    response = server.call(BEFORE_CLUSTER_UPGRADE, faulty)
    assert response["retryAfterSeconds"] == 10
    assert "this stack is broken" in response["message"]
    backdate(world, minutes=61)
    write_release(world.releases, "v3", [world.map("a", "v3")])
    fixed = asked_for(world, "test-stack-1-36-v3")
    assert server.call(BEFORE_CLUSTER_UPGRADE, fixed)["retryAfterSeconds"] == 10, (
        "the time of the faulty stack does not count"
    )
    assert world.settle().status == 204
    assert server.call(BEFORE_CLUSTER_UPGRADE, fixed)["retryAfterSeconds"] == 0


def test_addons_are_reconciled_again_after_an_upgrade(server: HooksServer, world: World) -> None:
    applied(world, "v1")
    about = asked_for(world, "test-stack-1-36-v1")
    assert server.call(AFTER_CLUSTER_UPGRADE, about)["retryAfterSeconds"] == 0
    assert world.addon()["spec"]["hook"] == AFTER_CLUSTER_UPGRADE
    assert world.settle().status == 204
    assert world.addon()["spec"]["hook"] == ""


@pytest.mark.parametrize("hook", list(PATHS))
def test_cluster_without_addon_is_not_blocked(server: HooksServer, namespace: str, hook: str) -> None:
    metadata = {"name": "bare", "namespace": namespace, "uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    about = {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "metadata": metadata, "spec": {}}
    assert server.call(hook, about).get("retryAfterSeconds", 0) == 0


def test_cluster_of_a_foreign_class_is_not_blocked(server: HooksServer, world: World) -> None:
    applied(world, "v1")
    about = asked_for(world, "quick-start")
    assert server.call(BEFORE_CLUSTER_UPGRADE, about)["retryAfterSeconds"] == 0
    server.call(AFTER_CLUSTER_UPGRADE, about)
    assert world.addon()["spec"]["hook"] == ""


# -- deletions ---------------------------------------------------------------------------------------------------


def test_deletion_is_blocked_until_the_cleanup_is_complete(server: HooksServer, world: World) -> None:
    applied(world, "v1")
    about = deleted(world)
    with ThreadPoolExecutor(4) as pool:
        delays = list(pool.map(lambda _: server.call(BEFORE_CLUSTER_DELETE, about)["retryAfterSeconds"], range(8)))
    assert delays == [10] * 8
    addon = world.addon()
    assert addon["spec"]["hook"] == BEFORE_CLUSTER_DELETE
    server.call(BEFORE_CLUSTER_DELETE, about)
    assert world.addon()["metadata"]["resourceVersion"] == addon["metadata"]["resourceVersion"]
    condition = {"type": CLEANED_UP, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    patch = {"status": {"conditions": [*addon["status"]["conditions"], condition]}}
    world.client.patch(CLUSTER_ADDON, addon_of(about), patch, subresource="status")
    assert server.call(BEFORE_CLUSTER_DELETE, about)["retryAfterSeconds"] == 0


def test_deletion_continues_after_the_deadline_with_one_event(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    applied(world, "v1")
    about = deleted(world)
    assert call(world.clients, *request(BEFORE_CLUSTER_DELETE, about)).outcome == "block"
    monkeypatch.setenv("HOOK_DELETE_SECONDS", "0")
    assert [call(world.clients, *request(BEFORE_CLUSTER_DELETE, about)).outcome for _ in range(2)] == [
        "overdue",
        "overdue",
    ]
    assert len(warnings(world, "BeforeClusterDeleteOverdue")) == 1


def test_forged_call_neither_starts_the_deadline_of_a_deletion_nor_ends_its_cleanup(world: World) -> None:
    applied(world, "v1")
    live = asked_for(world, "test-stack-1-36-v1")
    forged = live | {"metadata": {**live["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert call(world.clients, *request(BEFORE_CLUSTER_DELETE, forged)).outcome == "block"
    assert (world.addon()["spec"]["hook"], awaited(world)) == ("", None)
    about = deleted(world)
    assert call(world.clients, *request(BEFORE_CLUSTER_DELETE, about)).outcome == "block"
    begun = awaited(world)
    assert begun
    unwanted = {**about["metadata"], "annotations": {"capi-functions.dev/cleanup": "false"}}
    for hook, body in (
        (BEFORE_CLUSTER_DELETE, about | {"metadata": unwanted}),
        (AFTER_CONTROL_PLANE_INITIALIZED, about),
        (BEFORE_CLUSTER_UPGRADE, about),
        (AFTER_CLUSTER_UPGRADE, live),
        (AFTER_CLUSTER_UPGRADE, about),
    ):
        call(world.clients, *request(hook, body))
        assert (world.addon()["spec"]["hook"], awaited(world)) == (BEFORE_CLUSTER_DELETE, begun)


def test_forged_call_does_not_start_the_deadline_of_a_later_upgrade(world: World) -> None:
    applied(world, "v1")
    live = asked_for(world, "test-stack-1-36-v1")
    topology = {"classRef": {"name": "test-stack-1-36-v2"}, "version": "v1.37.0"}
    assert (
        call(world.clients, *request(BEFORE_CLUSTER_UPGRADE, live | {"spec": {"topology": topology}})).outcome
        == "continue"
    )
    assert awaited(world) is None


# -- budgets and rights --------------------------------------------------------------------------------------------


def request(hook: str, about: Object) -> tuple[str, bytes]:
    return PATHS[hook], json.dumps({"cluster": about}).encode()


@pytest.mark.parametrize("hook", list(PATHS))
def test_call_costs_few_requests(world: World, hook: str) -> None:
    applied(world, "v1")
    about = asked_for(world, "test-stack-1-36-v2")
    about = deleted(world) if hook == BEFORE_CLUSTER_DELETE else about
    costs = []
    for _ in range(2):
        before = world.client.requests
        assert call(world.clients, *request(hook, about)).code == 200
        costs.append(world.client.requests - before)
    # The first hook finds addons that are applied; the others ask for something, once. A deletion lists the releases.
    first, second = (2, 2) if hook == AFTER_CONTROL_PLANE_INITIALIZED else (3, 2)
    releases = 1 if hook == BEFORE_CLUSTER_DELETE else 0
    assert costs == [first + releases, second + releases]


def test_overdue_call_costs_two_reads_and_one_write(world: World) -> None:
    applied(world, "v1")
    about = asked_for(world, "test-stack-1-36-v2")
    call(world.clients, *request(BEFORE_CLUSTER_UPGRADE, about))
    backdate(world, minutes=61)
    before = world.client.requests
    assert call(world.clients, *request(BEFORE_CLUSTER_UPGRADE, about)).outcome == "overdue"
    assert world.client.requests - before == 3


def test_generated_role_grants_the_required_rights(world: World, management: Client, kubeconfig: Path) -> None:
    applied(world, "v1")
    about = asked_for(world, "test-stack-1-36-v2")
    limited = as_account(
        management, kubeconfig, "hooks/cluster-hooks.yaml", ("clusterstack.x-k8s.io", "clusteraddons", "patch")
    )
    assert call(limited, *request(BEFORE_CLUSTER_UPGRADE, about)).outcome == "block"
    backdate(world, minutes=61)
    assert call(limited, *request(BEFORE_CLUSTER_UPGRADE, about)).outcome == "overdue"
    assert len(warnings(world, "BeforeClusterUpgradeOverdue")) == 1
    assert call(limited, *request(AFTER_CLUSTER_UPGRADE, about)).outcome == "continue"
    assert call(limited, *request(BEFORE_CLUSTER_DELETE, deleted(world))).outcome == "block"


def test_unavailable_api_server_is_a_failure_that_names_it(tmp_path: Path, kubeconfig: Path) -> None:
    from shared.kube import connect

    lines = kubeconfig.read_text().splitlines()
    away = [f"{line.split('server:')[0]}server: https://127.0.0.1:1" if "server:" in line else line for line in lines]
    (tmp_path / "away").write_text("\n".join(away))
    client = connect.from_kubeconfig(str(tmp_path / "away"))
    metadata: dict[str, Any] = {"name": "demo", "namespace": "default"}
    called = call(Clients(client), *request(BEFORE_CLUSTER_UPGRADE, {"metadata": metadata}))
    assert (called.code, called.response["status"]) == (503, "Failure")
    assert "https://127.0.0.1:1" in called.answer.message


def test_invalid_limits_are_a_failure(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_UPGRADE_SECONDS", "an hour")
    about = asked_for(world, "test-stack-1-36-v1")
    called = call(world.clients, *request(BEFORE_CLUSTER_UPGRADE, about))
    assert (called.code, called.response["status"]) == (500, "Failure")


def test_deadline_is_read_from_settings(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    applied(world, "v1")
    monkeypatch.setenv("HOOK_UPGRADE_SECONDS", "60")
    about = asked_for(world, "test-stack-1-36-v2")
    assert call(world.clients, *request(BEFORE_CLUSTER_UPGRADE, about)).outcome == "block"
    backdate(world, seconds=61)
    assert call(world.clients, *request(BEFORE_CLUSTER_UPGRADE, about)).outcome == "overdue"
    since = HookWait.load(world.addon())
    assert since is not None
    assert since.since <= datetime.now(UTC)


def test_manifests_have_no_unknown_fields(management: Client) -> None:
    """Only for built-in kinds; those of cert-manager and Cluster API are not installed here."""
    plurals = {
        "ServiceAccount": "serviceaccounts",
        "ClusterRole": "clusterroles",
        "ClusterRoleBinding": "clusterrolebindings",
        "Deployment": "deployments",
        "Service": "services",
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": settings.NAMESPACE}}
    management.apply(NAMESPACE, namespace, manager="user")
    taken = []
    for obj in yaml.safe_load_all((PROJECT / "infra/manifests/hooks/cluster-hooks.yaml").read_text()):
        if obj["kind"] in plurals:
            group, version = split_api_version(obj["apiVersion"])
            resource = Resource(group, version, obj["kind"], plurals[obj["kind"]], "namespace" in obj["metadata"])
            path = resource.path(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            query = {"fieldManager": "test", "fieldValidation": "Strict", "dryRun": "All"}
            management.request("PATCH", path, body=obj, query=query, content_type=APPLY_PATCH)
            taken.append(obj["kind"])
    assert taken == list(plurals)
