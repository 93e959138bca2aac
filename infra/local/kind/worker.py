"""The worker of a job: creates or deletes one cluster with the kind program, and saves the result in the job's folder.

It may be killed at any point. The next worker examines the containers, and continues or rolls back.

`python -m infra.local.kind.worker FOLDER LOCK`, where LOCK is the inherited descriptor of the folder's lock. Its
programs do not inherit the lock, because containers would keep it; they end with the worker.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from functions.kind_cluster.runtime import RuntimeUnavailable
from infra.local_control_plane import files, processes
from infra.local_control_plane.binaries import BinaryNotFound, locate
from shared.kube import ApiError, connect

from .config import CONTROL_PLANE, kind_config, problem
from .engine import VARIABLE, Engine, NodeContainer, owner
from .errors import NETWORK_CREATED, Failure, classify
from .job import Job, Order, Result

_READY_TIMEOUT = 120.0
"""Seconds until the API server of nodes that were created or started must answer."""
_COMPLETE = 'Set kubectl context to "kind-'
"""kind's last message, after which a cluster is complete."""


class JobFailed(Exception):
    """The job failed; `failure` says why, and what to do."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Worker:
    """Executes the order of a job."""

    def __init__(self, job: Job, order: Order) -> None:
        self.job, self.order = job, order
        self._engine = Engine(order.engine)
        self._program: Path | None = None

    def run(self) -> None:
        """Creates or deletes the cluster, and saves the result. A successful deletion deletes the folder."""
        action = self.order.action
        try:
            if action == "delete":
                self.delete()
                shutil.rmtree(self.job.folder)
            else:
                self.create()
        except (JobFailed, RuntimeUnavailable) as error:
            failure = error.failure if isinstance(error, JobFailed) else Failure(error.reason, str(error), 10.0)
            at = time.time() + failure.retry_after
            self.job.report(Result(action, "failed", reason=failure.reason, error=failure.message, retry_at=at))
        except Exception as error:  # a bug here must be seen in the status, too
            traceback.print_exc()
            message = f"{type(error).__name__}: {error}; see {self.job.folder / 'worker.log'}"
            self.job.report(
                Result(action, "failed", reason="InternalError", error=message, retry_at=time.time() + 60.0)
            )

    def create(self) -> None:
        """Creates the cluster, unless it exists. Raises `JobFailed` or `RuntimeUnavailable`."""
        if wrong := problem(self.order.fields):
            raise JobFailed(Failure("InvalidConfiguration", wrong, 60.0))
        if nodes := self._own_nodes():
            if self.job.was_ready or self._is_complete():
                self._engine.start(nodes)
                self._publish()
                return
            self._log("rolling back what an interrupted job has created")
            self._kind("delete", "cluster")
        config = self._config()
        files.write(self.job.log, "")
        self.job.kubeconfig.unlink(missing_ok=True)  # it belonged to a cluster that is gone
        try:
            self._create_cluster(config)
        except JobFailed as error:
            # The ownership of the containers is checked again, because another program may have taken the name first.
            if error.failure.reason != "NameTaken" and owner(self._nodes(), self.order.uid) == "us":
                kept = self.job.log.with_suffix(".failed.log")
                shutil.copyfile(self.job.log, kept)
                self._kind("delete", "cluster")
            raise
        self._publish()

    def _create_cluster(self, config: str) -> None:
        """Runs `kind create cluster`, and once more if another job has just created the network that all share."""
        command = ("create", "cluster", "--retain", "--wait=0s", "--config=-")
        try:
            self._kind(*command, config=config)
        except JobFailed as error:
            if error.failure.reason != NETWORK_CREATED:
                raise
            self._log(error.failure.message)
            self._kind(*command, config=config)

    def delete(self) -> None:
        """Deletes the cluster if it is ours. Raises `JobFailed` or `RuntimeUnavailable`."""
        if owner(self._nodes(), self.order.uid) == "us":
            self._kind("delete", "cluster")
            if owner(self._nodes(), self.order.uid) == "us":
                raise JobFailed(Failure("DeletionFailed", f"nodes of {self.order.name} are left; see the log", 10.0))

    def _nodes(self) -> list[NodeContainer]:
        return self._engine.nodes(self.order.name)

    def _own_nodes(self) -> list[NodeContainer]:
        nodes = self._nodes()
        if owner(nodes, self.order.uid) == "another":
            names = ", ".join(node.name for node in nodes)
            raise JobFailed(classify(f"node(s) already exist for a cluster with the name: {names}"))
        return nodes

    def _is_complete(self) -> bool:
        return f'{_COMPLETE}{self.order.name}"' in files.tail(self.job.log, lines=100)

    def _config(self) -> str:
        own = [self.job.own_ca(kind) for kind in ("crt", "key")]
        ca = (str(own[0]), str(own[1])) if own[1].exists() else None
        config = kind_config(self.order.fields, self.order.uid, str(self.job.owner), ca)
        return str(yaml.safe_dump(config, sort_keys=False))

    def _publish(self) -> None:
        """Saves kubeconfig, CA and address, and waits until the API server answers."""
        outside = self._kind("get", "kubeconfig").encode()
        published = outside
        if self.order.fields.get("endpointAccess") == "Network":
            published = self._kind("get", "kubeconfig", "--internal").encode()
        host, port = endpoint(published)
        first = next(node.name for node in self._nodes() if node.role == CONTROL_PLANE)
        files.write(self.job.ca("crt"), self._engine.read(first, "/etc/kubernetes/pki/ca.crt"))
        files.write(self.job.ca("key"), self._engine.read(first, "/etc/kubernetes/pki/ca.key"))
        self._log("waiting for the API server")
        self._wait_ready(outside)
        files.write(self.job.kubeconfig, published)
        version = self._engine.read(first, "/kind/version").decode().strip()
        self.job.report(Result("create", "ready", host, port, version=version))

    def _wait_ready(self, kubeconfig: bytes) -> None:
        client = connect.workload(kubeconfig)
        deadline = time.monotonic() + _READY_TIMEOUT
        try:
            while True:
                try:
                    client.text("/readyz", timeout=5.0)
                    return
                except (ApiError, OSError) as error:
                    if time.monotonic() > deadline:
                        message = (
                            f"the API server does not answer: {error}; see the logs of the nodes with kind export logs"
                        )
                        raise JobFailed(Failure("ControlPlaneFailed", message, 60.0)) from error
                time.sleep(0.2)
        finally:
            client.close()

    def _kind(self, *arguments: str, config: str = "") -> str:
        """Runs the kind program, whose messages go to the log. Returns its output. Raises `JobFailed`."""
        environment = {name: value for name, value in os.environ.items() if name != "KIND_CLUSTER_NAME"}
        private = self.job.folder / "kind.kubeconfig"  # kind merges into the user's own otherwise
        options = [f"--name={self.order.name}"]
        if arguments[0] in ("create", "delete"):
            options.append(f"--kubeconfig={private}")
        before = self.job.log.stat().st_size if self.job.log.exists() else 0
        with open(self.job.log, "ab") as log:
            done = subprocess.run(
                [str(self._find()), *arguments, *options],
                env={**environment, VARIABLE: self._engine.name},
                input=config.encode(),
                stdout=subprocess.PIPE,
                stderr=log,
                preexec_fn=processes.die_with_parent(),
                check=False,
            )
        if done.returncode:
            raise JobFailed(classify(self.job.log.read_bytes()[before:].decode(errors="replace")))
        return done.stdout.decode(errors="replace")

    def _find(self) -> Path:
        if self._program is None:
            if found := shutil.which("kind"):
                self._program = Path(found)
                return self._program
            try:
                self._program = locate(["kind"], progress=self._log)["kind"]
            except BinaryNotFound as error:
                raise JobFailed(Failure("KindNotFound", str(error), 60.0)) from error
        return self._program

    def _log(self, line: str) -> None:
        """Adds a step to the log, in the form of kind's own."""
        with open(self.job.log, "a") as log:
            log.write(f" • {line}\n")


def endpoint(kubeconfig: bytes) -> tuple[str, int]:
    """Returns host (an IPv6 address without brackets) and port of the only cluster of a kubeconfig."""
    address = urlsplit(yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]["server"])
    return address.hostname or "", address.port or 443


def main(arguments: Sequence[str]) -> int:
    """Executes the order in a folder, in a process group of its own."""
    job, lock = Job(Path(arguments[0])), int(arguments[1])
    os.set_inheritable(lock, False)
    order = job.order
    if order is None:
        return 1
    os.setsid()
    job.note_worker()
    Worker(job, order).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
