"""The console in a cluster: people log in with tokens of their own, and see what these may read."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
import yaml

from infra.console import sessions as console_sessions
from infra.console.server import serving_logins
from infra.console.sessions import Sessions
from infra.generate.__main__ import PROJECT
from infra.generate.workloads import PART_OF
from shared.api.resources import CLUSTER, CLUSTER_STACK, SECRET
from shared.kube import Client, Key, Resource, connect
from tests.support import accounts, hostile, processes
from tests.support.browser import barriers, opened
from tests.support.console import Page, get
from tests.support.http_server import HttpServer, Response
from tests.support.objects import manifest, secret
from tests.support.ports import free_port
from tests.support.until import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SERVICE_ACCOUNT = Resource("", "v1", "ServiceAccount", "serviceaccounts")
OWN = {"Sec_Fetch_Site": "same-origin"}


@pytest.fixture
def token(management: Client, kubeconfig: Path, namespace: str) -> str:
    """The token of an account that may list and watch Clusters, and nothing else."""
    client = accounts.with_rights(management, kubeconfig, namespace, CLUSTER.group, CLUSTER.plural, "*")
    client.close()
    return client._transport.credentials.bearer()


@pytest.fixture
def address(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    with serving_logins(Sessions(connect.token_clients(), "test"), "127.0.0.1", 0, ["console.example"]) as port:
        yield f"http://127.0.0.1:{port}/"


def test_pod_of_the_console_has_no_rights_and_serves_the_form(kubeconfig: Path) -> None:
    objects = {
        obj["kind"]: obj for obj in yaml.safe_load_all((PROJECT / "infra/manifests/console/console.yaml").read_text())
    }
    assert objects.keys() == {"ServiceAccount", "Deployment", "Service"}
    pod = objects["Deployment"]["spec"]["template"]
    assert objects["ServiceAccount"]["automountServiceAccountToken"] is False
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert PART_OF[0] not in pod["metadata"]["labels"]
    [container] = pod["spec"]["containers"]
    port = free_port()
    command = [sys.executable, *container["command"][1:], *container["args"][:-1], f"--port={port}"]
    with processes.start(command, env={**os.environ, "KUBECONFIG": str(kubeconfig)}, stderr=PIPE, text=True) as process:
        assert process.stderr is not None
        assert str(port) in process.stderr.readline()
        assert get(f"http://127.0.0.1:{port}/", "/login").status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def log_in(address: str, token: str, **headers: str) -> tuple[int, str, str]:
    """Posts the form. Returns status, cookie and text."""
    connection = HTTPConnection(address.split("/")[2], timeout=60)
    named = {name.replace("_", "-"): value for name, value in (OWN | headers).items()}
    connection.request("POST", "/login", urlencode({"token": token}), named)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, response.headers.get("Set-Cookie", ""), text


def page(address: str, path: str, token: str, method: str = "GET", **headers: str) -> Page:
    return get(address, path, method=method, Cookie=f"capi-functions-console={token}", **headers)


def test_without_a_token_there_is_only_the_form(address: str) -> None:
    for path in ("/", "/clusters/a/b", "/events", "/flow"):
        answer = get(address, path)
        assert (answer.status, answer.headers["location"], answer.text) == (303, "/login", "")
    assert "kubectl create token" in get(address, "/login").text
    assert get(address, "/static/console.css").status == 200
    assert get(address, "/healthz", host="10.0.0.1:8080").status == 200


def test_only_host_names_of_the_console_are_served(address: str) -> None:
    for host in ("console.example", "console.example:443", "localhost:1", "[::1]:8080"):
        assert get(address, "/login", host=host).status == 200
    for host in ("evil.example", "console.example.evil.example", "localhost.evil.example:80", ""):
        assert get(address, "/login", host=host or " ").status in (400, 421)


def test_cookie_keeps_the_token_from_scripts_and_other_sites(address: str, token: str) -> None:
    status, cookie, _text = log_in(address, token)
    assert status == 303
    assert {"HttpOnly", "Secure", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert "Max-Age" not in cookie


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_other_sites_cannot_log_anybody_in_or_out(address: str, token: str, site: str) -> None:
    assert log_in(address, token, Sec_Fetch_Site=site)[0] == 403
    assert page(address, "/logout", token, "POST", Sec_Fetch_Site=site).status == 403


@pytest.mark.parametrize("wrong", ["", "no-token", "a b", "x" * 4_000, "x" * 20_000, "ü"])
def test_wrong_tokens_are_refused(address: str, wrong: str) -> None:
    status, cookie, text = log_in(address, wrong)
    assert status in (403, 413)
    assert "console=x" not in cookie
    assert "xxxx" not in text


def test_pages_show_what_the_token_may_read(address: str, token: str, management: Client, namespace: str) -> None:
    management.create(CLUSTER, manifest(CLUSTER, "mine", namespace, spec={"paused": True}))
    text = page(address, f"/?q={namespace}", token).text  # other tests may fill the first page
    assert f"{namespace}/mine" in text
    assert "list and watch clusteraddons" in text
    assert "Log out" in text
    assert page(address, f"/clusters/{namespace}/mine/actions/rollback", token, "POST", **OWN).status == 405


def test_plan_names_the_commands_and_the_missing_rights(
    address: str, token: str, management: Client, namespace: str
) -> None:
    management.create(CLUSTER, manifest(CLUSTER, "mine", namespace, spec={"paused": True}))
    path = f"/clusters/{namespace}/mine"
    assert f'href="{path}/plan"' in page(address, path, token).text
    text = page(address, f"{path}/plan", token).text
    assert f"capi-functions plan addons mine --namespace {namespace}" in text
    assert f"capi-functions plan cluster mine --namespace {namespace}" in text
    for right in (
        f"get clusteraddons.clusterstack.x-k8s.io cluster-addon-mine in {namespace}",
        f"get secrets mine-kubeconfig in {namespace}",
        f"list clusterstacks.clusterstack.x-k8s.io in {namespace}",
    ):
        assert f"lacks a right: <strong>{right}</strong>" in text
    accounts.grant(management, namespace, "get", SECRET.group, SECRET.plural, "mine-kubeconfig")
    until(lambda: "secrets" not in page(address, f"{path}/plan", token).text, "the right", pause=0.2)
    assert "clusteraddons" in page(address, f"{path}/plan", token).text
    preview = page(address, f"{path}/preview", token)
    assert (preview.status, preview.headers["location"]) == (303, f"{path}/plan")
    assert page(address, f"/clusters/{namespace}/nobody/plan", token).status == 404


def test_plan_connects_to_no_server_that_a_tenant_names(
    address: str, management: Client, kubeconfig: Path, namespace: str
) -> None:
    viewer = accounts.with_rights(management, kubeconfig, namespace, "*", "*", "*")
    with HttpServer(lambda _: Response(404)) as server:
        stack = {"provider": "test", "name": "stack", "kubernetesVersion": "1.36", "noProvider": True}
        stack |= {"sources": [{"url": server.url}]}
        management.create(CLUSTER_STACK, manifest(CLUSTER_STACK, "stack", namespace, spec=stack))
        management.create(SECRET, secret("mine-kubeconfig", namespace, value=hostile.kubeconfig(server.url)))
        topology = {"classRef": {"name": "test-stack-1-36-v1"}}
        management.create(CLUSTER, manifest(CLUSTER, "mine", namespace, spec={"topology": topology}))
        text = page(address, f"/clusters/{namespace}/mine/plan", viewer._transport.credentials.bearer()).text
    viewer.close()
    assert server.requests == []
    assert "capi-functions plan addons mine" in text
    assert "lacks a right" not in text


def test_session_ends_with_the_token(
    address: str, token: str, management: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert page(address, "/", token).status == 200
    monkeypatch.setattr(console_sessions, "_CHECKED_FOR", -1.0)
    management.delete(SERVICE_ACCOUNT, Key(namespace, f"{namespace}-one-right"))
    until(lambda: page(address, "/", token).status == 403, "the API server to forget the token", pause=0.5)
    text = page(address, "/", token).text
    assert "does not accept this token" in text
    assert "Clusters" not in text


def test_number_of_sessions_is_bounded(address: str, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_sessions, "MOST", 0)
    status, _cookie, text = log_in(address, token)
    assert (status, "use this console already" in text) == (403, True)


def test_many_tokens_of_one_namespace_keep_nobody_out(
    kubeconfig: Path, management: Client, namespace: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.setattr(console_sessions, "MOST", 2)
    elsewhere = Key("default", f"{namespace}-other")
    management.create(SERVICE_ACCOUNT, manifest(SERVICE_ACCOUNT, elsewhere.name, elsewhere.namespace))

    def another(key: Key) -> str:
        client = accounts.account(management, kubeconfig, key)
        client.close()
        return client._transport.credentials.bearer()

    own = Key(namespace, f"{namespace}-one-right")
    second, third, other = another(own), another(own), another(elsewhere)
    people = Sessions(connect.token_clients(), "test")
    try:
        ended = people.source(token)
        present = people.source(second)
        of_other = people.source(other)
        assert people.source(second) is present
        assert people.source(third) is not present
        assert people.source(other) is of_other
        assert people.source(token) is not ended
    finally:
        people.end()
        management.delete(SERVICE_ACCOUNT, elsewhere)


def test_person_logs_in_and_out(
    chromium: Browser, address: str, token: str, management: Client, namespace: str
) -> None:
    management.create(CLUSTER, manifest(CLUSTER, "mine", namespace, spec={"paused": True}))
    with opened(chromium, address) as page:
        assert barriers(page) == []
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        page.get_by_label("Search").fill(namespace)
        page.get_by_role("link", name=f"{namespace}/mine").click()
        page.get_by_text("Paused: functions change neither").wait_for()
        assert barriers(page) == []
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("link", name="Plan", exact=True).click()
        page.get_by_text("capi-functions plan cluster mine").wait_for()
        assert barriers(page) == []
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Token").wait_for()
        page.goto(address)
        page.get_by_label("Token").wait_for()
