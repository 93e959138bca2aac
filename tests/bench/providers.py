"""Providers through the real forwarder and functions: the four of Cluster API, then fifty add-on providers.

Releases are served over HTTP; real controllers make Deployments Available. Only the requests of functions and
forwarder are counted.
"""

from __future__ import annotations

import base64
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import yaml

from infra.local import crds
from shared.api.conditions import is_true
from shared.api.provider import ADDON, BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE, ProviderKind
from shared.api.resources import CLUSTER, DEPLOYMENT, NAMESPACE, SECRET
from shared.event import PING, Event
from shared.kube import Client, Key, Object, dig
from tests.support import provider_releases as fake_provider
from tests.support.http_server import HttpServer, Request, Response
from tests.support.real_providers import CURRENT, DOWNLOADS, PREVIOUS, components

from .auditing import Plane, planes
from .measuring import Meter
from .parts import storage
from .processes import Processes
from .table import NOTHING, Row, Table

ADDONS = int(os.environ.get("BENCH_PROVIDERS", "50"))
FOUR = (
    (CORE, Key("capi-system", "cluster-api"), "core-components.yaml"),
    (BOOTSTRAP, Key("capi-kubeadm-bootstrap-system", "kubeadm"), "bootstrap-components.yaml"),
    (CONTROL_PLANE, Key("capi-kubeadm-control-plane-system", "kubeadm"), "control-plane-components.yaml"),
    (INFRASTRUCTURE, Key("capd-system", "docker"), "infrastructure-components-development.yaml"),
)
MADE_UP = "v1.1.0"
INSTALL = Row(requests=200, conflicts=0)
UPGRADE = Row(requests=180, conflicts=0)
_VARIABLES = Key("capi-system", "variables")

Which = tuple[ProviderKind, Key]


class World:
    """A management cluster for providers, its processes, and its releases."""

    def __init__(self, plane: Plane, processes: Processes, site: HttpServer, table: Table) -> None:
        self.plane, self.processes, self.site = plane, processes, site
        self.measure = Meter({"management": plane}, processes, table).measure

    @property
    def client(self) -> Client:
        return self.plane.client

    # -- what users do -----------------------------------------------------------------------------------------

    def namespace(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.client.apply(NAMESPACE, body, manager="user")

    def want(self, which: Which, file: str, version: str, **spec: object) -> None:
        kind, key = which
        url = f"{self.site.url}/kubernetes-sigs/cluster-api/releases/latest/{file}"
        body: Object = {
            "apiVersion": kind.resource.api_version,
            "kind": kind.kind,
            "metadata": {"name": key.name, "namespace": key.namespace},
            "spec": {"version": version, "fetchConfig": {"url": url}, **spec},
        }
        self.client.apply(kind.resource, body, manager="user")

    def four(self, version: str) -> None:
        for kind, key, file in FOUR:
            more = {"configSecret": {"name": _VARIABLES.name}} if kind.is_core else {}
            self.want((kind, key), file, version, **more)

    def variables(self, address: str) -> None:
        data = {"CAPI_DIAGNOSTICS_ADDRESS": base64.b64encode(address.encode()).decode()}
        metadata = {"name": _VARIABLES.name, "namespace": _VARIABLES.namespace}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        self.client.apply(SECRET, body, manager="user")

    def annotate(self, *which: Which) -> None:
        for kind, key in which:
            self.client.patch(kind.resource, key, {"metadata": {"annotations": {"example.com/note": "1"}}})

    def delete(self, *which: Which) -> None:
        """Deletes them one after the other."""
        for kind, key in which:
            self.client.delete(kind.resource, key)
            _until(f"{kind.kind} {key} is gone", partial(self._gone, kind, key))

    def _gone(self, kind: ProviderKind, key: Key) -> bool:
        return self.client.find(kind.resource, key) is None

    def sweep(self) -> None:
        self.processes.send(Event(type=PING, source="/bench", id="1", data={"everything": True}))

    # -- what becomes of it ------------------------------------------------------------------------------------

    def ready(self, version: str, *which: Which) -> None:
        def each() -> bool:
            kinds = {kind for kind, _ in which}
            there = {kind: {Key(**_place(obj)): obj for obj in self.client.list(kind.resource)} for kind in kinds}
            return all(_works(there[kind].get(key, {}), version) for kind, key in which)

        _until(f"{len(which)} providers are Ready with {version}", each)

    def rotated(self, address: str) -> None:
        """Waits until the manager of the provider runs with this version."""
        key = Key(_VARIABLES.namespace, "capi-controller-manager")
        _until(f"the manager has {address}", lambda: address in str(self.client.get(DEPLOYMENT, key)["spec"]))
        self.ready(CURRENT, *[(kind, key) for kind, key, _ in FOUR])


def _place(obj: Object) -> dict[str, str]:
    return {name: obj["metadata"][name] for name in ("namespace", "name")}


def _works(provider: Object, version: str) -> bool:
    observed = dig(provider, "status.observedGeneration") == dig(provider, "metadata.generation")
    installed = dig(provider, "status.installedVersion") == version
    return observed and installed and is_true(dig(provider, "status.conditions"), "Ready")


def _until(what: str, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within three minutes: {what}")
        time.sleep(0.05)


@contextmanager
def world(table: Table) -> Iterator[World]:
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        planes(Path(folder), "management", controllers=True) as (plane,),
    ):
        root = Path(folder)
        _publish(root / "made-up")
        releases = [components(PREVIOUS), components(CURRENT), root / "made-up"]

        def answer(request: Request) -> Response:
            path = request.path.partition("?")[0].lstrip("/")
            files = [release / path for release in releases if (release / path).is_file()]
            return Response(body=files[0].read_bytes()) if files else Response(404)

        # The core provider installs the CRDs of Cluster API itself.
        crds.install(plane.client, [crd for crd in crds.load() if dig(crd, "spec.group") != CLUSTER.group])
        with HttpServer(answer) as site, storage(root / "none"):
            os.environ |= {"KUBECONFIG": str(plane.kubeconfig), "GITHUB_URL": site.url, "GITHUB_API_URL": site.url}
            processes = Processes(root)
            try:
                processes.start()
                processes.wait_quiet()
                yield World(plane, processes, site, table)
            finally:
                processes.close()


def _publish(folder: Path) -> None:
    """Publishes a minimal core provider, and an add-on provider with ten objects for each namespace."""
    fake_provider.publish(folder, MADE_UP, [fake_provider.config_map("core", MADE_UP)])
    for number in range(ADDONS):
        name = f"addon-{number:02}"
        objects = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": f"{name}-manager"}},
            fake_provider.cluster_role(f"{name}-manager", MADE_UP),
            fake_provider.binding(name, f"{name}-manager"),
            fake_provider.service(name),
            fake_provider.deployment(name, MADE_UP),
            *(fake_provider.config_map(f"{name}-{letter}", MADE_UP) for letter in "abcde"),
        ]
        place = folder / DOWNLOADS / MADE_UP
        (place / f"{name}.yaml").write_text(yaml.safe_dump_all(objects))


def run() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # ends all processes
    table = Table()
    _life(table)
    _many(table)
    table.print()


def _life(table: Table) -> None:
    all_ = [(kind, key) for kind, key, _ in FOUR]
    with world(table) as it:
        for _, key in all_:
            it.namespace(key.namespace)
        it.variables(":1111")
        it.processes.wait_quiet()
        it.measure(
            "install of the four", partial(it.four, PREVIOUS), INSTALL, reached=partial(it.ready, PREVIOUS, *all_)
        )
        it.measure("no-op event for each", partial(it.annotate, *all_), NOTHING)
        it.measure("sweep of everything", it.sweep)
        it.measure("upgrade of the four", partial(it.four, CURRENT), UPGRADE, reached=partial(it.ready, CURRENT, *all_))
        rotated = partial(it.rotated, ":2222")
        it.measure("rotation of the core's Secret", partial(it.variables, ":2222"), reached=rotated)
        it.measure("delete of the four, one by one", partial(it.delete, *reversed(all_)), reached=lambda: None)


def _many(table: Table) -> None:
    core = (CORE, Key("core", "cluster-api"))
    addons = [(ADDON, Key(f"space-{number:02}", f"addon-{number:02}")) for number in range(ADDONS)]

    def install() -> None:
        for which in addons:
            it.want(which, f"{which[1].name}.yaml", MADE_UP)

    with world(table) as it:
        for _, key in (core, *addons):
            it.namespace(key.namespace)
        it.want(core, CORE.file, MADE_UP)
        it.ready(MADE_UP, core)
        it.processes.wait_quiet()
        it.measure(f"install of {ADDONS} x 10 objects", install, reached=partial(it.ready, MADE_UP, *addons))
        it.measure("no-op event for each", partial(it.annotate, *addons), NOTHING)
        it.measure("sweep of everything", it.sweep)
        it.measure("restart with all settled (kill -9)", it.processes.restart)
