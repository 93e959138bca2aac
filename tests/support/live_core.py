"""A management cluster with the unmodified managers of Cluster API, and our functions beside them, as processes."""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra import local_control_plane
from infra.local.local_run import LocalRun
from infra.local.managers import Managers
from infra.local_control_plane.binaries import locate
from infra.operations.providers import local_managers
from shared.api.conditions import is_true
from shared.api.provider import INFRASTRUCTURE
from shared.api.resources import NAMESPACE
from shared.kube import Client, Key, Object, Resource, connect, dig, key_of
from shared.kube.discovery import Discovery
from shared.providers.annotations import WEBHOOKS
from tests.support.hooks_server import HooksServer
from tests.support.http_server import HttpServer, Response
from tests.support.objects import manifest
from tests.support.ports import DOCKER_PORT, exclusive
from tests.support.real_providers import CURRENT, components
from tests.support.until import until

PROFILES = ("addons", "providers")
OURS, USER = "admin", "user"
"""The user names of our functions, and of the tests."""
_EXTENSION = Resource("runtime.cluster.x-k8s.io", "v1beta2", "ExtensionConfig", "extensionconfigs", namespaced=False)
DOCKER_MANAGER = f"port-{DOCKER_PORT}"
"""Only one manager of docker can run on a machine."""
_CALL = re.compile(r"cluster_hooks (\w+) (\S+) -> 20[24] .*outcome=(\w+)")
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
    ],
}


@dataclass(frozen=True)
class AuditLog:
    """The audit log of an API server."""

    file: Path

    def writes(self) -> list[tuple[str, str]]:
        """Returns all writes to the management cluster but Kubernetes events: the user, and plural/namespace/name."""
        found = []
        for line in self.file.read_text().splitlines():
            event = json.loads(line)
            of, code = event.get("objectRef", {}), event.get("responseStatus", {}).get("code", 0)
            if code < 300 and of.get("resource") != "events":
                name = f"{of.get('resource')}/{of.get('namespace', '')}/{of.get('name', '')}"
                found.append((event["user"]["username"], name))
        return found

    def written_in_turns(self) -> dict[str, list[str]]:
        """Returns the objects that we and managers wrote in turns, with their writers without repetitions."""
        writers: dict[str, list[str]] = defaultdict(list)
        for user, name in self.writes():
            if writers[name][-1:] != [user]:
                writers[name].append(user)
        found = {}
        for name, users in writers.items():
            ours = [user == OURS for user in users if user != USER]
            if sum(one != other for one, other in itertools.pairwise(ours)) > 1:
                found[name] = users
        return found


@dataclass
class LiveCore:
    """The management cluster: a local run with providers, whose functions have the releases in a folder.

    `kubeconfig` is that of the tests' user, for workload clusters.
    """

    run: LocalRun
    client: Client
    hooks: HooksServer
    releases: Path
    kubeconfig: bytes
    audit: AuditLog

    def __post_init__(self) -> None:
        self._discovery = Discovery(self.client)

    @property
    def managers(self) -> Managers:
        return self.run.run_managers()

    def apply(self, *objects: Object) -> None:
        """Applies objects as a user does, in their order."""
        for obj in objects:
            resource = self._discovery.resource(obj["apiVersion"], obj["kind"])
            assert resource is not None, obj["kind"]
            self.client.apply(resource, obj, manager="user")

    def enable_hooks(self) -> None:
        """Registers the hooks, and returns once core has discovered them."""
        certificate = base64.b64encode(self.hooks.ca.cert_pem).decode()
        client = {"url": f"https://127.0.0.1:{self.hooks.port}", "caBundle": certificate}
        self.apply(manifest(_EXTENSION, "capi-functions", spec={"clientConfig": client}))
        key = Key("", "capi-functions")
        until(lambda: is_true(dig(self.client.get(_EXTENSION, key), "status.conditions"), "Discovered"), "Discovered")

    def hooks_called(self, cluster: Key) -> dict[str, list[str]]:
        """Returns the outcomes of the hooks that core has called for a Cluster, by hook."""
        found: dict[str, list[str]] = defaultdict(list)
        for hook, name, outcome in _CALL.findall((self.hooks.folder / "log").read_text()):
            if name == str(cluster):
                found[hook].append(outcome)
        return found


@contextmanager
def second_core(folder: Path, core: LiveCore) -> Iterator[tuple[Client, Path]]:
    """Runs another management cluster with the same providers in the block; yields its client and its kubeconfig.

    Of docker there is no second manager: see `DOCKER_MANAGER`.
    """
    run = LocalRun(folder / "run", releases=core.releases, progress=print, profiles=PROFILES, get_helm=False)
    spec = {"version": CURRENT, "deployment": {"replicas": 0}, "configSecret": local_managers.VARIABLES._asdict()}
    docker = manifest(INFRASTRUCTURE.resource, "docker", "capd-system", spec=spec)
    docker["metadata"]["annotations"] = {WEBHOOKS: "none"}

    def is_installed(client: Client) -> bool:
        found = client.get(INFRASTRUCTURE.resource, key_of(docker))
        return is_true(dig(found, "status.conditions"), "ProviderInstalled")

    with ExitStack() as cleanup:
        cleanup.callback(run.stop)
        run.start(lambda: local_managers.install(run, local_managers.parse("core,kubeadm"), print))
        client = cleanup.enter_context(closing(connect.from_kubeconfig(str(run.kubeconfig))))
        client.apply(NAMESPACE, manifest(NAMESPACE, "capd-system"), manager="user")
        client.create(INFRASTRUCTURE.resource, docker)
        until(lambda: is_installed(client), "docker is installed")
        yield client, run.kubeconfig


@contextmanager
def live_core(
    folder: Path, environment: pytest.MonkeyPatch, providers: str = "core,kubeadm,docker"
) -> Iterator[LiveCore]:
    """Runs the cluster, the managers of these providers, and our functions in the block."""
    releases = folder / "releases"
    releases.mkdir()
    published = components(CURRENT)
    with ExitStack() as cleanup:
        if "docker" in providers:
            cleanup.enter_context(exclusive(DOCKER_MANAGER))
        site = cleanup.enter_context(
            HttpServer(lambda request: Response(body=(published / request.path[1:]).read_bytes()))
        )
        for name, value in (("GITHUB_URL", site.url), ("GITHUB_API_URL", site.url), ("GOGC", "200")):
            environment.setenv(name, value)
        environment.setenv("KUBEBUILDER_ASSETS", str(audited(folder)))
        run = LocalRun(folder / "run", releases=releases, progress=print, profiles=PROFILES, get_helm=False)
        cleanup.callback(run.stop)
        run.start(lambda: local_managers.install(run, local_managers.parse(providers), print))
        plane = run.directory / "management"
        user = local_control_plane.add_user(plane, USER, ["system:masters"])
        client = cleanup.enter_context(closing(connect.from_kubeconfig(str(user))))
        (folder / "hooks").mkdir()
        hooks = HooksServer(folder / "hooks", run.kubeconfig)
        cleanup.callback(hooks.close)
        hooks.start()
        environment.delenv("KUBEBUILDER_ASSETS")  # other control planes have no place in this log
        yield LiveCore(run, client, hooks, releases, user.read_bytes(), AuditLog(folder / "audit.log"))


def audited(folder: Path) -> Path:
    """Returns a folder with etcd, and with a command that starts the API server with an audit log."""
    binaries = locate(["etcd", "kube-apiserver"], progress=print)
    (assets := folder / "assets").mkdir()
    (assets / "etcd").symlink_to(binaries["etcd"])
    policy, command = folder / "audit.json", assets / "kube-apiserver"
    policy.write_text(json.dumps(_POLICY))
    flags = f'--audit-policy-file="{policy}" --audit-log-path="{folder / "audit.log"}" --audit-log-maxsize=100000'
    command.write_text(f'#!/bin/sh\nexec "{binaries["kube-apiserver"]}" "$@" {flags}\n')
    command.chmod(0o755)
    return assets
