"""A throwaway control plane in which the unmodified core manager reconciles copies of objects.

It has no controller-manager, so nothing collects garbage, and no kubeconfig of a workload cluster. Core reads Nodes of
MachinePools, so the throwaway control plane is itself the workload cluster of Clusters with MachinePools. Providers for
the control plane and bootstrap run as webhook servers only, because they watch a namespace that does not exist.
"""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

from infra import local_control_plane
from infra.local.managers.command import Addresses, ManagerError, command_of
from infra.local.managers.ports import free_ports
from infra.local.managers.process import ManagerProcess
from infra.local.managers.programs import GivenManager, of_same_version
from infra.local_control_plane import ControlPlane
from shared.api.provider import CORE_NAME
from shared.api.resources import CLUSTER, NAMESPACE, NODE, SECRET, WEBHOOK_CONFIGURATIONS
from shared.kube import ApiError, Client, Key, NotServed, Object, Resource, Unavailable, connect, dig, key_of
from shared.kube.crds import CRD, await_all_established

from ..failure import Failure
from . import loading
from .change import Change, is_cluster, merge_patch
from .progress import (
    State,
    fingerprint,
    identify,
    is_reconciled,
    outdated_machines,
    played_control_plane,
    pool_nodes,
    topology_message,
)
from .snapshot import AT_ONCE, OWN_CONTROLLERS, Snapshot, provider_of, refuse_external_patches

_FIELD_MANAGER = "preview"
_NOWHERE = "--namespace=preview-of-no-namespace"
_NO_MIGRATION = "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields"
"""The migrator would rewrite the managed fields of all objects."""
_POD = ("POD_NAME", "POD_NAMESPACE", "POD_UID")
"""Variables by which core takes itself for a pod of a workload cluster."""
_QUIET = 1.5
"""Seconds without a change after which no change is expected, because MachineSets follow their MachineDeployments."""
_WITHIN = 120.0
"""Seconds until the topology controller must have reconciled a change."""
_POLL = 0.2  # seconds
_STORAGE_WITHIN = 15.0
"""Seconds until the storage of a new kind must accept objects."""


class Simulation:
    """Copies of a snapshot with a core manager, in a `with` block.

    Args:
        snapshot: The objects to copy.
        progress: Called with each line of progress.
        managers: Managers to run, by the label of their provider; by default the management cluster's versions run.
    """

    def __init__(
        self, snapshot: Snapshot, progress: Callable[[str], None], managers: Mapping[str, GivenManager]
    ) -> None:
        self._snapshot = snapshot
        self._progress = progress
        self._managers = managers
        self._cleanup = ExitStack()
        self._uids: dict[str, str] = {}
        self._client: Client
        self._plane: ControlPlane
        self._ports: Iterator[int]
        self.notes: list[str] = []
        """Differences from the management cluster, for the user."""

    def __enter__(self) -> Simulation:
        """Starts the control plane and the managers. Raises `Failure`, `ControlPlaneError` or `BinaryNotFound`."""
        try:
            self._start()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all processes, and deletes all data."""
        self._cleanup.close()

    # -- start -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        core = self._core()  # first, because a core of another version may have no program
        plane = ControlPlane(progress=self._progress, use_existing=False, attach_output=False)
        self._plane = self._cleanup.enter_context(plane)
        self._ports = free_ports(str(plane.directory))
        self._client = self._cleanup.enter_context(closing(connect.from_kubeconfig(str(plane.kubeconfig))))
        self._progress("installing the kinds")
        with ThreadPoolExecutor(AT_ONCE) as threads:
            definitions = list(threads.map(self._define, self._snapshot.crds))
        problems = await_all_established(self._client, definitions)
        if problems:
            raise Failure("; ".join(problems.values()))
        servers = [server for one in self._snapshot.providers if (server := self._webhook_server(one))]
        self._progress("creating the objects")
        self._load()
        self.loaded = self.state()
        self._progress("starting the core manager")
        servers.append(self._manager(self._snapshot.core, core, [_NO_MIGRATION]))
        for server in servers:  # all end at once, because each takes more than a second
            self._cleanup.callback(server.process.terminate)
        for server in servers:
            server.await_ready()
        self._install_webhooks({server.label: server.url for server in servers})

    def _define(self, crd: Object) -> Object:
        return self._client.apply(CRD, loading.new_definition(crd), manager=_FIELD_MANAGER)

    def _core(self) -> Path:
        try:
            return self._program(self._snapshot.core)
        except ManagerError as error:
            raise Failure(
                f"a preview needs the core manager of the management cluster's version: {error}; "
                f"`--manager {CORE_NAME}=PATH` gives an executable"
            ) from error

    def _program(self, deployment: Object) -> Path:
        """Returns the program of a manager. Raises `ManagerError`."""
        if given := self._managers.get(provider_of(deployment)):
            folder = self._cleanup.enter_context(TemporaryDirectory())
            return given.program(Path(folder), self._progress)
        return of_same_version(deployment, self._progress)

    def _webhook_server(self, deployment: Object) -> _Manager | None:
        try:
            return self._manager(deployment, self._program(deployment), [_NOWHERE, _NO_MIGRATION])
        except ManagerError as error:
            self.notes.append(f"webhooks of {provider_of(deployment)} are not called: {error}")
            return None

    def _manager(self, deployment: Object, program: Path, flags: list[str]) -> _Manager:
        manager = _Manager(deployment, program, flags, self._plane, self._ports)
        self._cleanup.callback(manager.process.stop)
        manager.process.start()
        return manager

    def _load(self) -> None:
        """Creates the objects with their statuses and managed fields, while no manager and no webhook sees them."""
        for name in sorted({key_of(obj).namespace for obj in self._snapshot.objects} - {"default"}):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self._client.apply(NAMESPACE, body, manager=_FIELD_MANAGER)
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for generation in loading.generations(self._snapshot.objects):
                for uid, copied in threads.map(self._copy, generation):
                    self._uids[uid] = copied
        for cluster in set(filter(None, map(loading.cluster_of_pool, self._snapshot.objects))):
            secret = loading.kubeconfig_secret(cluster, self._plane.kubeconfig.read_bytes())
            self._client.create(SECRET, secret, manager=_FIELD_MANAGER)

    def _copy(self, obj: Object) -> tuple[str, str]:
        """Creates a copy, and returns the uids of the object and its copy."""
        resource, key = self._snapshot.resource(obj), key_of(obj)
        created = self._create(resource, loading.new_object(obj, self._uids))
        if status := loading.new_status(obj):
            try:
                self._client.patch(resource, key, {"status": status}, subresource="status", manager=_FIELD_MANAGER)
            except ApiError as error:
                if error.status != 404:  # the kind has no such subresource
                    raise
        # Last, because each write adds an entry.
        fields = loading.new_managed_fields(obj, self._uids)
        self._client.patch(resource, key, {"metadata": {"managedFields": fields}})
        if (node := loading.node_of(obj)) is not None:
            self._client.create(NODE, node, manager=_FIELD_MANAGER)
        return obj["metadata"]["uid"], created["metadata"]["uid"]

    def _create(self, resource: Resource, obj: Object) -> Object:
        """Creates an object; repeats the request while the storage of its kind is initialized, after the CRD."""
        until = time.monotonic() + _STORAGE_WITHIN
        while True:
            try:
                return self._client.create(resource, obj, manager=_FIELD_MANAGER)
            except (Unavailable, NotServed):
                if time.monotonic() > until:
                    raise
                time.sleep(_POLL)

    def _install_webhooks(self, urls: Mapping[str, str]) -> None:
        ca = base64.b64encode(local_control_plane.load_ca(self._plane.directory).cert_pem).decode()
        kinds = {resource.kind: resource for resource in WEBHOOK_CONFIGURATIONS}
        for configuration in self._snapshot.webhooks:
            if url := urls.get(provider_of(configuration)):
                obj = loading.new_webhooks(configuration, url, ca)
                self._client.apply(kinds[obj["kind"]], obj, manager=_FIELD_MANAGER)

    # -- objects -----------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Returns all objects in the namespaces of the snapshot."""
        namespaces = sorted({key_of(obj).namespace for obj in self._snapshot.objects})
        copied = [
            resource
            for resource in self._snapshot.resources.values()
            if resource.namespaced and resource.group.split(".")[0] not in OWN_CONTROLLERS
        ]
        return identify(obj for resource in copied for name in namespaces for obj in self._client.list(resource, name))

    def settle(self, clusters: Iterable[Key]) -> State:
        """Waits until core has reconciled the topologies of Clusters, and returns the objects then.

        Raises `Failure` if a Cluster is not reconciled in time.
        """
        wanted, began = list(clusters), time.monotonic()
        last, since = "", began
        while True:
            state = self.state()
            now, current = time.monotonic(), fingerprint(state)
            if current != last:
                last, since = current, now
            waiting = [str(key) for key in wanted if not is_reconciled(state, key)]
            if not waiting and now - since >= _QUIET:
                return state
            if now - began > _WITHIN:
                reasons = "; ".join(filter(None, (topology_message(state, key) for key in wanted)))
                raise Failure(
                    f"core did not reconcile {', '.join(waiting) or 'its objects'} within {_WITHIN:g} s"
                    + (f": {reasons}" if reasons else "")
                )
            time.sleep(_POLL)

    def change(self, key: Key, change: Change) -> ApiError | None:
        """Makes a change as a user does. Returns the error if the API server or a webhook refuses the change."""
        resource = self._snapshot.resource({"apiVersion": CLUSTER.api_version, "kind": CLUSTER.kind})
        try:
            for obj in change.manifests:
                if not is_cluster(obj):
                    self._put(obj, key.namespace)
            cluster = self._client.get(resource, key)
            patch = change.patch(cluster)
            if patch:
                cluster = self._client.patch(resource, key, patch, manager=_FIELD_MANAGER)
        except ApiError as error:
            return error
        # Its return shows a reconciliation, even for a changed class.
        status = loading.without_topology_condition(dig(cluster, "status", {}))
        self._client.patch(
            resource, key, {"status": merge_patch(dig(cluster, "status", {}), status)}, subresource="status"
        )
        return None

    def _put(self, obj: Object, namespace: str) -> None:
        """Creates an object of a manifest, or replaces the spec of the object that exists."""
        refuse_external_patches(obj)
        obj = {**obj, "metadata": {"namespace": namespace, **obj["metadata"]}}
        resource = self._snapshot.resource(obj)
        live = self._client.find(resource, key_of(obj))
        if live is None:
            self._client.create(resource, obj, manager=_FIELD_MANAGER)
        elif patch := merge_patch(dig(live, "spec", {}), dig(obj, "spec", {})):
            self._client.patch(resource, key_of(obj), {"spec": patch}, manager=_FIELD_MANAGER)

    def play_upgrade(self, state: State, clusters: Iterable[Key]) -> bool:
        """Simulates one step of upgrades: control plane, Machines and Nodes report the version of their spec.

        Returns whether there was something to simulate.
        """
        played = False
        for cluster in clusters:
            for obj, status in played_control_plane(state, cluster):
                self._client.patch(self._snapshot.resource(obj), key_of(obj), {"status": status}, subresource="status")
                played = True
            for machine, version in outdated_machines(state, cluster):
                resource, key = self._snapshot.resource(machine), key_of(machine)
                self._client.patch(resource, key, {"spec": {"version": version}})
                if dig(machine, "status.nodeInfo"):
                    status = {"nodeInfo": {"kubeletVersion": version}}
                    self._client.patch(resource, key, {"status": status}, subresource="status")
                played = True
            for node, version in pool_nodes(state, cluster):
                found = self._client.get(NODE, node)
                if dig(found, "status.nodeInfo.kubeletVersion") != version:
                    status = {"nodeInfo": {"kubeletVersion": version}}
                    self._client.patch(NODE, node, {"status": status}, subresource="status")
                    played = True
        return played


class _Manager:
    """A manager's process, and the address of its webhooks."""

    def __init__(
        self, deployment: Object, program: Path, flags: list[str], plane: ControlPlane, ports: Iterator[int]
    ) -> None:
        self.label = provider_of(deployment)
        self._ready = threading.Event()
        host = plane.status.host
        addresses = Addresses(
            host,
            next(ports),
            next(ports),
            next(ports),
            plane.webhook_certificates(),
            plane.kubeconfig,
        )
        self.url = f"https://localhost:{addresses.webhooks}"
        command = command_of(deployment, addresses)
        # The manager gets nothing of the user's environment, because it needs no other cluster and no credentials.
        environment = {name: value for name, value in command.environment.items() if name not in _POD}
        self.process = ManagerProcess(
            self.label,
            program,
            [command.name, *command.arguments, *flags],
            {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(plane.directory), **environment},
            plane.directory.parent / f"{self.label}.log",
            health=(addresses.host, addresses.health),
            changed=lambda healthy: self._ready.set() if healthy else None,
        )

    def await_ready(self) -> None:
        """Waits until the manager is healthy. Raises `Failure` if it ends before."""
        while not self._ready.wait(_POLL):
            if self.process.error is not None:
                raise Failure(f"the preview needs a manager that does not start: {self.process.error}")
