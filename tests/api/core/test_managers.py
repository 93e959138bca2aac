"""Managers of providers as local processes: which Deployments run, and what is reported. The manager is a script."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from infra.local.local_run import PLANE
from infra.local.managers import Managers, parse_manager, place
from infra.local_control_plane.modules import module_of
from infra.operations.providers import local_managers
from infra.operations.providers.report import Report
from infra.operations.providers.requests import ProviderSettings, parse_request
from shared.api.conditions import get_condition
from shared.api.provider import CORE, PROVIDER_LABEL
from shared.api.resources import DEPLOYMENT, SECRET
from shared.kube import Client, Key, Object, connect, dig, key_of
from shared.providers.annotations import WEBHOOKS
from tests.support import objects
from tests.support.api_proxy import Proxy, answering, api_server
from tests.support.until import until

NAME = "capi-controller-manager"
VERSION = module_of("cluster-api-manager").version
SERVING = """#!/usr/bin/env python3
import http.server, os, pathlib, sys
flags = dict(argument.lstrip("-").split("=", 1) for argument in sys.argv[1:])
assert pathlib.Path(flags["webhook-cert-dir"], "tls.crt").read_text() == "certificate", flags
assert pathlib.Path(os.environ["KUBECONFIG"]).exists()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
host, port = flags["health-addr"].split(":")
http.server.HTTPServer((host, int(port)), Handler).serve_forever()
"""
FAILING = "#!/bin/sh\necho unknown flag >&2; exit 3\n"


def deployment(namespace: str, version: str) -> Object:
    mount = {"name": "cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs"}
    container = {"name": "manager", "image": f"example.com/controller:{version}", "volumeMounts": [mount]}
    volume = {"name": "cert", "secret": {"secretName": "certificate"}}
    labels = {PROVIDER_LABEL: "cluster-api"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": [volume]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return objects.manifest(DEPLOYMENT, NAME, namespace, metadata={"labels": labels}, spec=spec)


class Cluster:
    """A provider with its Secret and Deployment, and the managers that look for it."""

    def __init__(
        self, client: Client, namespace: str, managers: Managers, assets: Path, said: list[str], proxy: Proxy
    ) -> None:
        self.client, self.namespace, self.managers, self._assets, self.said = client, namespace, managers, assets, said
        self.proxy = proxy

    def install(self, program: str, version: str = VERSION) -> None:
        script = self._assets / "cluster-api-manager"
        script.write_text(program)
        script.chmod(0o755)
        self.client.create(SECRET, objects.secret("certificate", self.namespace, **{"tls.crt": "certificate"}))
        self.client.create(DEPLOYMENT, deployment(self.namespace, version))

    def available(self) -> object:
        """Returns the status of the Deployment's condition Available."""
        conditions = dig(self.client.get(DEPLOYMENT, Key(self.namespace, NAME)), "status.conditions")
        return (get_condition(conditions, "Available") or {}).get("status")


@pytest.fixture
def cluster(
    management: Client, namespace: str, plane: Path, kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    (tmp_path / "logs").mkdir()
    (tmp_path / "assets").mkdir()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    said: list[str] = []
    proxy = Proxy(api_server(kubeconfig))
    managers = Managers(plane, tmp_path, connect.workload(proxy.kubeconfig), said.append)
    # A provider of another version, of whichever test, would be refused.
    for provider in management.list(CORE.resource):
        objects.remove(management, CORE.resource, key_of(provider))
    # As `provider init --managers` does.
    (tmp_path / PLANE).symlink_to(plane)
    settings = ProviderSettings(Key(namespace, "variables"), {"mine": "kept"})
    requests = local_managers.versioned([parse_request(CORE, f"cluster-api:{namespace}")])
    local_managers.creator(tmp_path, {}, said.append)(management, requests, settings, Report())
    with proxy:
        managers.start()
        yield Cluster(management, namespace, managers, tmp_path / "assets", said, proxy)
        managers.stop()
    objects.remove(management, CORE.resource, Key(namespace, "cluster-api"))
    management.delete(DEPLOYMENT, Key(namespace, NAME))


def test_manager_runs_with_its_certificate_until_its_deployment_is_gone(cluster: Cluster) -> None:
    provider = cluster.client.get(CORE.resource, Key(cluster.namespace, "cluster-api"))
    assert provider["spec"]["version"] == VERSION
    assert provider["metadata"]["annotations"]["mine"] == "kept"
    cluster.install(SERVING)
    until(lambda: cluster.available() == "True", "Available", details=lambda: cluster.said)
    assert cluster.managers.pids[NAME] > 0
    cluster.client.delete(DEPLOYMENT, Key(cluster.namespace, NAME))
    until(lambda: cluster.managers.pids == {}, "ended")


def test_health_that_could_not_be_written_is_written_later(cluster: Cluster) -> None:
    cluster.proxy.fail(answering(503), lambda request: request.path.endswith("/status"))
    cluster.install(SERVING)
    until(
        lambda: [line for line in cluster.said if "cannot be written" in line], "reported", details=lambda: cluster.said
    )
    assert cluster.available() is None
    cluster.proxy.heal()
    until(lambda: cluster.available() == "True", "Available", details=lambda: cluster.said)


def test_manager_that_exits_is_reported_once_and_is_not_available(cluster: Cluster) -> None:
    cluster.install(FAILING)
    until(lambda: cluster.available() == "False", "reported", details=lambda: cluster.said)
    started, failed = cluster.said
    assert started.startswith(f"starting manager {NAME}, log ")
    assert failed.startswith(f"manager {NAME} exited with status 3 before it was healthy")
    assert failed.endswith("unknown flag")


def test_webhooks_leave_a_port_that_is_taken(cluster: Cluster) -> None:
    """The program fails once, as one whose port is taken; later it has the new port."""
    key = Key(cluster.namespace, "cluster-api")

    def url() -> str:
        return cluster.client.get(CORE.resource, key)["metadata"]["annotations"][WEBHOOKS]

    first = url()
    with socket.create_server(("127.0.0.1", urlsplit(first).port or 0)):
        cluster.install(
            SERVING.replace("assert", f"assert {urlsplit(first).port} != int(flags['webhook-port'])\nassert", 1)
        )
        until(lambda: cluster.available() == "True", "Available", details=lambda: cluster.said)
    assert url() != first
    assert f"the webhooks of {NAME} move to {url()}: port {urlsplit(first).port} is taken" in cluster.said


@pytest.mark.parametrize("url", ["https://", "https://localhost:99999", "https://[:]:1"])
def test_annotation_of_webhooks_that_is_wrong_is_reported(cluster: Cluster, url: str) -> None:
    wrong = {"metadata": {"annotations": {WEBHOOKS: url}}}
    cluster.client.patch(CORE.resource, Key(cluster.namespace, "cluster-api"), wrong)
    cluster.install(SERVING)
    until(lambda: f"annotation {WEBHOOKS} is '{url}'" in "".join(cluster.said), "reported")


def test_program_of_a_user_runs_whatever_the_version_in_the_deployment(cluster: Cluster, tmp_path: Path) -> None:
    program = tmp_path / "mine"
    program.write_text(SERVING.replace("flags = ", "if '--help' in sys.argv: sys.exit('no flags')\nflags = ", 1))
    program.chmod(0o755)
    place(tmp_path, parse_manager(f"cluster-api={program}"), cluster.said.append)
    cluster.install(FAILING, version="dev")
    until(lambda: cluster.available() == "True", "Available", details=lambda: cluster.said)


def test_program_of_a_user_that_is_gone_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    program = tmp_path / "mine"
    program.write_text(SERVING)
    program.chmod(0o755)
    place(tmp_path, parse_manager(f"cluster-api={program}"), cluster.said.append)
    program.unlink()
    cluster.install(SERVING)
    until(lambda: cluster.said, "reported")
    assert cluster.said == [
        f"{program}, the manager of cluster-api, does not exist; `up --manager cluster-api=...` names another"
    ]


def test_program_of_another_version_is_not_run(cluster: Cluster) -> None:
    cluster.install(SERVING, version="v0.0.1")
    until(lambda: cluster.said, "reported")
    image = "example.com/controller:v0.0.1"
    assert cluster.said == [f"cluster-api-manager can be run in version {VERSION}, but the Deployment has {image}"]
    assert cluster.managers.pids == {}
