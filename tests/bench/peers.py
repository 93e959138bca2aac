"""A chart of 400 objects, applied by `addon_apply`, `helm upgrade --install` and `kubectl apply --server-side`.

All use one API server in turns, each its own namespace. The figures of `addon_apply` include what the others do not
do: the Cluster, the addon's status and inventory, and the release from object storage.
"""

from __future__ import annotations

import base64
import io
import os
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import yaml

from functions import catalog
from infra.local import crds
from infra.local_control_plane.binaries import locate
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, NAMESPACE, SECRET
from shared.clients import Clients
from shared.event import Event, change_event
from shared.kube import Key, Object, connect, dig
from tests.support.releases import chart, write_release

from . import charts
from .auditing import Plane, by_verb, planes
from .parts import since, storage

ROUNDS = 3
HOME = Key("default", "bench")
ADDON = Key("default", "cluster-addon-bench")


@dataclass
class Ours:
    """The functions, called in this process one after the other."""

    server: Plane
    folder: Path
    namespace: str
    clients: Clients = field(init=False)

    def __post_init__(self) -> None:
        self.clients = Clients(connect.from_kubeconfig(str(self.server.kubeconfig)))
        value = base64.b64encode(self.server.kubeconfig.read_bytes()).decode()
        metadata = {"name": f"{HOME.name}-kubeconfig", "namespace": HOME.namespace}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"value": value}}
        self.server.client.apply(SECRET, secret, manager="bench")

    def prepare(self, version: str) -> None:
        """Sets the release of the Cluster, as a user does."""
        release = write_release(self.folder, version, charts.four_hundred(self.namespace, version))
        metadata = {
            "name": HOME.name,
            "namespace": HOME.namespace,
            "annotations": {"capi-functions.dev/wait": "false", "capi-functions.dev/drift": "repair"},
        }
        cluster = {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "metadata": metadata}
        spec = {"topology": {"classRef": {"name": release}}}
        self.server.client.apply(CLUSTER, cluster | {"spec": spec}, manager="bench")

    def apply(self, version: str) -> None:
        cluster = self.server.client.get(CLUSTER, HOME)
        event = change_event(cluster, "update", source="/bench")
        self._call("addon_create", event)
        self._settle(event)
        addon = self.server.client.get(CLUSTER_ADDON, ADDON)
        assert dig(addon, "status.ready") is True, dig(addon, "status.conditions")
        assert str(dig(addon, "spec.clusterStack")).endswith(version)

    def resync(self) -> None:
        addon = self.server.client.get(CLUSTER_ADDON, ADDON)
        self._settle(change_event(addon, "update", source="/bench", reference=True, resync=True))

    def _settle(self, event: Event) -> None:
        answer = self._call("addon_apply", event)
        while answer is not None:
            fetched = self._call("release_assets", answer)
            answer = self._call("addon_apply", fetched) if fetched else None

    def _call(self, function: str, event: Event) -> Event | None:
        answer = catalog.handler(function)(self.clients, event)
        assert answer.status in (200, 202, 204), answer
        return answer.reply


@dataclass
class Tool:
    """A command with a file that `write` makes of the objects; `{}` in the command is the path of the file."""

    server: Plane
    folder: Path
    namespace: str
    command: tuple[str, ...]
    write: Callable[[Path, list[Object]], None]

    def prepare(self, version: str) -> None:
        self.write(self.folder / version, charts.four_hundred(self.namespace, version))

    def apply(self, version: str) -> None:
        file = str(self.folder / version)
        environment = {"KUBECONFIG": str(self.server.kubeconfig), "HOME": str(self.folder), "PATH": os.environ["PATH"]}
        command = [part.replace("{}", file) for part in self.command]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr


def _write_manifests(file: Path, objects: list[Object]) -> None:
    file.write_text(yaml.safe_dump_all(objects))


def _write_chart(folder: Path, objects: list[Object]) -> None:
    with tarfile.open(fileobj=io.BytesIO(chart("addons", {"all.yaml": yaml.safe_dump_all(objects)}))) as archive:
        archive.extractall(folder, filter="data")


def run() -> None:
    programs = locate(["helm", "kubectl"], progress=lambda _line: None)
    with tempfile.TemporaryDirectory(prefix="bench-") as name, planes(Path(name), "management") as (server,):
        root = Path(name)
        crds.install(server.client, crds.load())
        for each in ("ours", "helm", "kubectl"):
            server.client.create(NAMESPACE, charts.namespace(each))
            (root / each).mkdir()
        install = (str(programs["helm"]), "upgrade", "--install", "bench", "{}/addons", "--namespace", "helm")
        apply = (str(programs["kubectl"]), "apply", "--server-side", "--force-conflicts", "-f", "{}")
        with storage(root / "ours"):
            peers: dict[str, Ours | Tool] = {
                "ours": Ours(server, root / "ours", "ours"),
                "helm": Tool(server, root / "helm", "helm", install, _write_chart),
                "kubectl": Tool(server, root / "kubectl", "kubectl", apply, _write_manifests),
            }
            _compare(server, peers)


def _compare(server: Plane, peers: dict[str, Ours | Tool]) -> None:
    print(f"{'400 objects':<34} {'s':>6} {'requests':>9}")
    for title, version in (
        ("first", "v1"),
        ("unchanged", "v1"),
        *((f"one changed ({n})", f"v{n + 1}") for n in range(1, ROUNDS + 1)),
    ):
        for name, peer in peers.items():
            peer.prepare(version)
            _measure(server, f"{title}: {name}", partial(peer.apply, version))
            found = server.client.get(CONFIG_MAP, Key(peer.namespace, charts.CHANGED))
            assert found["data"]["version"] == version, f"{name} did not update {charts.CHANGED}"
    ours = peers["ours"]
    assert isinstance(ours, Ours)
    server.client.patch(CONFIG_MAP, Key("ours", charts.CHANGED), {"data": {"version": "drifted"}})
    _measure(server, "resync, one drifted: ours", ours.resync)
    assert server.client.get(CONFIG_MAP, Key("ours", charts.CHANGED))["data"]["version"] == f"v{ROUNDS + 1}"
    _measure(server, "resync, nothing drifted: ours", ours.resync)


def _measure(server: Plane, title: str, act: Callable[[], None]) -> None:
    before = server.tally()
    started = time.perf_counter()
    act()
    seconds = since(started)
    spent = server.tally() - before
    print(f"{title:<34} {seconds:6.2f} {spent.total:9}   {by_verb(spent.requests)}", flush=True)
