"""The server of hooks as Cluster API calls it: over HTTPS, by the generated command."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import urllib3

from functions.cluster_hooks.protocol import HANDLERS
from infra.generate import hooks as manifests
from infra.generate.__main__ import PROJECT
from shared.certificates import CertificateAuthority
from shared.kube import Object
from tests.support import processes
from tests.support.until import HANGS

PATHS = {handler.hook: handler.path for handler in HANDLERS}
HOST = "cluster-hooks.capi-functions.svc"


class HooksServer:
    """The generated command on a socket that outlives the process, like a Service and its pods."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self.folder = folder
        self.ca = CertificateAuthority.generate("hooks")
        self.renew(self.ca)
        self._kubeconfig = kubeconfig
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def renew(self, ca: CertificateAuthority) -> None:
        pair = ca.issue(HOST, dns=[HOST], ips=["127.0.0.1"], server=True)
        (self.folder / "tls.crt").write_bytes(pair.cert_pem)
        (self.folder / "tls.key").write_bytes(pair.key_pem)

    def start(self) -> None:
        number = self._listener.fileno()
        program, *arguments = manifests.command(str(self.folder), bind=f"fd://{number}")
        with (self.folder / "log").open("ab") as log:
            self._process = processes.start(
                [str(Path(sys.executable).with_name(program)), *arguments],
                cwd=PROJECT,
                env={**os.environ, "KUBECONFIG": str(self._kubeconfig), "PYTHONPATH": str(PROJECT)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[number],
                process_group=0,
            )

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.kill()
        self._listener.close()

    def client(self, ca: CertificateAuthority | None = None) -> urllib3.HTTPSConnectionPool:
        """A new client that trusts this CA, as Cluster API trusts the CA of the ExtensionConfig."""
        context = ssl.create_default_context(cadata=(ca or self.ca).cert_pem.decode())
        return urllib3.HTTPSConnectionPool(
            "127.0.0.1", self.port, ssl_context=context, server_hostname=HOST, assert_hostname=HOST, retries=False
        )

    def call(self, hook: str, cluster: Object) -> Object:
        """One call on a new connection."""
        body = {"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": f"{hook}Request", "cluster": cluster}
        with self.client() as client:
            answer = client.request("POST", PATHS[hook] + "?timeout=10s", body=json.dumps(body), timeout=HANGS)
        assert answer.status == 200, answer.data
        response: Object = answer.json()
        assert response["status"] == "Success"
        assert response["kind"] == f"{hook}Response"
        return response
