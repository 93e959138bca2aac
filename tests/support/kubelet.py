"""The kubelet of a node that has only logs, which a real API server asks for the logs of pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from shared.api.resources import NODE, POD
from shared.certificates import CertificateAuthority
from shared.kube import Client, Key, Object
from tests.support.http_server import HttpServer, Request, Response
from tests.support.objects import manifest

LABELS = {"app.kubernetes.io/part-of": "capi-functions"}


@contextmanager
def serving_logs(management: Client, namespace: str, folder: Path, logs: Mapping[str, str]) -> Iterator[HttpServer]:
    """Serves logs by the names of pods, at a node named after the namespace. `folder` is for the certificate."""

    def answer(request: Request) -> Response:
        name = request.path.partition("?")[0].split("/")[3]
        return Response(body=logs[name].encode(), headers={"Content-Type": "text/plain"})

    pair = CertificateAuthority.generate("kubelet").issue("127.0.0.1", ips=["127.0.0.1"], server=True)
    (folder / "tls.crt").write_bytes(pair.cert_pem)
    (folder / "tls.key").write_bytes(pair.key_pem)
    node = Key("", f"node-{namespace}")
    with HttpServer(answer, folder) as server:
        management.create(NODE, manifest(NODE, node.name))
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": server.port}},
        }
        management.patch(NODE, node, {"status": status}, subresource="status")
        yield server
        management.delete(NODE, node)


def pod(namespace: str, name: str, *, runs: bool = True) -> Object:
    """Returns a pod of functions, at the node of `serving_logs` if it runs."""
    spec: Object = {"containers": [{"name": "functions", "image": "example.com/image:1"}]}
    spec |= {"nodeName": f"node-{namespace}"} if runs else {}
    return manifest(POD, name, namespace, metadata={"labels": LABELS}, spec=spec)
