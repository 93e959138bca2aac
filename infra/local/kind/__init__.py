"""The runtime `kind` of KINDClusters: nodes in containers, created by kind with docker, podman or nerdctl."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from functions.kind_cluster.runtime import Instance, InstanceSpec, RuntimeUnavailable, StillDeleting
from infra.local_control_plane import files

from .config import node_names
from .engine import Engine, owner
from .job import Job, Order, Result

__all__ = ["KindRuntime", "folder", "from_env"]

log = logging.getLogger("capi-functions.local")


class KindRuntime:
    """Creates and deletes the clusters of KINDClusters. Each cluster has a job, in the folder `<directory>/<uid>`.

    Clusters and jobs continue when the process of the functions ends.
    """

    def __init__(self, directory: Path, env: Mapping[str, str] = os.environ) -> None:
        self._directory = directory
        self._env = env
        self._silent: set[str] = set()
        """The engines that did not answer the latest call of `ended`, so that one warning is logged for each."""

    def inspect(self, spec: InstanceSpec) -> Instance:
        """Implements `Runtime.inspect`."""
        job = Job(spec.folder(self._directory))
        order = job.order
        if order is None:
            return Instance("absent")
        if job.is_running:
            return Instance("deleting") if order.action == "delete" else Instance("starting", step=job.step)
        result = job.result
        if result is None or order.action == "delete":
            return Instance("absent")  # interrupted, or its deletion failed: the next `create` or `delete` continues it
        if result.phase == "failed":
            if order.fields != spec.fields:
                return Instance("absent")  # the spec has changed since this attempt: the next one need not wait
            left = max(0.0, result.retry_at - time.time())
            return Instance("failed", result.error, reason=result.reason, retry_after=left)
        return self._inspect_nodes(job, order, result)

    def create(self, spec: InstanceSpec, ca: tuple[bytes, bytes] | None) -> None:
        """Implements `Runtime.create`."""
        job = Job(spec.folder(self._directory))
        engine = job.order.engine if job.order else Engine.choose(self._env).name
        try:
            if ca:
                job.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                for kind, content in (("crt", ca[0]), ("key", ca[1])):
                    files.write(job.own_ca(kind), content)  # type: ignore[arg-type]
            job.begin(Order("create", spec.uid, spec.name, engine, spec.fields))
        except OSError as error:
            raise RuntimeUnavailable(f"{job.folder} cannot be written: {error.strerror}") from error

    def delete(self, spec: InstanceSpec) -> None:
        """Implements `Runtime.delete`."""
        job = Job(spec.folder(self._directory))
        order = job.order
        if order is None:
            if not self._has_lost_nodes(spec):
                shutil.rmtree(job.folder, ignore_errors=True)
                return
            order = Order("delete", spec.uid, spec.name, Engine.choose(self._env).name)
        previous = job.result if order.action == "delete" else None
        if job.is_running and order.action == "create":
            job.interrupt()
        job.begin(Order("delete", spec.uid, order.name, order.engine, order.fields))
        raise StillDeleting(*((previous.error, previous.reason) if previous else ()))

    def ended(self) -> Collection[str]:
        """Implements `Runtime.ended`. The clusters of engines that do not answer are left out."""
        ready = [order for order in map(_ready_order, map(Job, self._directory.glob("*"))) if order]
        ended: list[str] = []
        for engine in {order.engine for order in ready}:
            try:
                running = Engine(engine).running()
                ended += [order.uid for order in ready if order.engine == engine and _has_ended(order, running)]
                self._silent.discard(engine)
            except RuntimeUnavailable as error:
                if engine not in self._silent:
                    log.warning("cannot find out whether clusters of %s have ended: %s", engine, error)
                self._silent.add(engine)
        return ended

    def _inspect_nodes(self, job: Job, order: Order, result: Result) -> Instance:
        """Returns the state of a created cluster, as its containers show it now."""
        nodes = Engine(order.engine).nodes(order.name)
        if owner(nodes, order.uid) != "us":
            return Instance("absent", "the containers of the cluster do not exist", reason="InstanceGone")
        if stopped := [node.name for node in nodes if not node.running]:
            return Instance("absent", f"containers are stopped: {', '.join(stopped)}", reason="NodesStopped")
        try:
            ca = job.ca("crt").read_bytes(), job.ca("key").read_bytes()
            kubeconfig = job.kubeconfig.read_bytes()
        except OSError as error:
            raise RuntimeUnavailable(f"{job.folder} cannot be read: {error.strerror}") from error
        return Instance(
            "ready", host=result.host, port=result.port, ca=ca, kubeconfig=kubeconfig, version=result.version
        )

    def _has_lost_nodes(self, spec: InstanceSpec) -> bool:
        """Returns whether containers of this instance are left although the folder of its job was deleted."""
        try:
            return owner(Engine.choose(self._env).nodes(spec.name), spec.uid) == "us"
        except RuntimeUnavailable:
            return False  # without an engine that answers, nothing more can be deleted


def _has_ended(order: Order, running: Collection[str]) -> bool:
    """Returns whether a node of the cluster is stopped, or all are gone. kind cannot recreate one of several nodes.

    Raises `RuntimeUnavailable`.
    """
    if all(name in running for name in node_names(order.name, order.fields)):
        return False
    nodes = Engine(order.engine).nodes(order.name)
    return not nodes or not all(node.running for node in nodes)


def _ready_order(job: Job) -> Order | None:
    """Returns the order of a created cluster that should run; None for any other cluster, and while the job runs."""
    order, result = job.order, job.result
    if not order or not result or order.action != "create" or result.phase != "ready" or job.is_running:
        return None
    return order


def from_env(env: Mapping[str, str]) -> KindRuntime:
    """Returns the runtime whose jobs are in `folder(env)`.

    It is the entry point `kind` of the group `capi_functions.kind_runtimes`.
    """
    return KindRuntime(folder(env), env)


def folder(env: Mapping[str, str] = os.environ) -> Path:
    """Returns the folder of the jobs: `$CAPI_FUNCTIONS_DATA/kind`, by default in the home folder, so that it stays."""
    return Path(env.get("CAPI_FUNCTIONS_DATA") or Path.home() / ".capi-functions", "kind")
