"""`python -m tests.support.published_charts FOLDER [NAME ...]`: the journey of each chart of a folder, as a table.

The folder has archives NAME-VERSION.tgz, two versions of each chart, and optionally NAME.yaml with values and
NAME.namespace and
NAME.release with the names of namespace and release. The charts
come from an https repository; the workload cluster is an API server with controllers and kwok nodes.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
import uuid
from pathlib import Path

from functions import catalog
from infra import local_control_plane
from infra.local.helm import helm as find_helm
from shared.api.resources import CLUSTER, HELM_RELEASE_PROXY, NAMESPACE
from shared.clients import Clients
from shared.helm_charts.request import request_chart
from shared.kube import Client, Key, connect
from shared.kube.crds import CRD
from shared.storage import ObjectStore
from tests.support import moto_server, objects
from tests.support.api_proxy import Proxy, api_server
from tests.support.chart_journey import Journey, Report, Version
from tests.support.chart_repository import ChartRepository
from tests.support.helm_releases import HelmWorld
from tests.support.object_store import KEYS
from tests.support.planes import running_plane
from tests.support.registry import certificate

_ARCHIVE = re.compile(r"([a-z0-9.-]+?)-v?(\d+\.\d+\.\d+.*)")
_REPOSITORY = "REPOSITORY_URL"
_NAMESPACE = "RELEASE_NAMESPACE"


class Published(HelmWorld):
    """The world of one chart, which `chart_assets` fetches from the repository."""

    @property
    def releases(self) -> str:
        return os.environ.get(_NAMESPACE) or super().releases

    def proxy(self, name: str = "web-demo", version: str = "1.0.0", **spec: object) -> dict[str, object]:
        body = super().proxy(name, version, repoURL=os.environ[_REPOSITORY], **spec)
        event = request_chart(self.read(name), source="/test")
        catalog.handler("chart_assets")(self.clients, event)
        return body


def main() -> int:
    """Prints a line for each chart. Returns 1 if one has a problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    charts = _charts(options.folder)
    os.environ |= {**KEYS, "CAPI_FUNCTIONS_BUCKET": "charts", "AWS_EC2_METADATA_DISABLED": "true"}
    os.environ["HELM"] = str(find_helm(print))
    failed = 0
    with tempfile.TemporaryDirectory(prefix="published-") as name:
        folder = Path(name)
        certificate(folder)
        os.environ["SSL_CERT_FILE"] = str(folder / "ca.crt")
        repository = ChartRepository()
        for chart, versions in charts.items():
            for version in versions:
                repository.add(chart, version.version, version.archive.read_bytes())
        server = moto_server.start()
        try:
            moto_server.wait_ready(server.url)
            moto_server.create_bucket(server.url, "charts")
            os.environ["S3_ENDPOINT_URL"] = server.url
            with repository.serve(folder) as site, running_plane(folder / "plane", controllers=True) as plane:
                os.environ[_REPOSITORY] = f"{site.url}/repo"
                for chart in options.names or charts:
                    os.environ[_NAMESPACE] = _text(options.folder / f"{chart}.namespace")
                    failed += bool(
                        _journey(
                            plane, folder, chart, *charts[chart], _text(options.folder / f"{chart}.release") or chart
                        ).problems
                    )
        finally:
            server.stop()
    return min(failed, 1)


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def _charts(folder: Path) -> dict[str, tuple[Version, Version]]:
    found: dict[str, list[Version]] = {}
    for path in sorted(folder.glob("*.tgz")):
        if matched := _ARCHIVE.fullmatch(path.name.removesuffix(".tgz")):
            values = folder / f"{matched[1]}.yaml"
            found.setdefault(matched[1], []).append(
                Version(matched[2], path, values.read_text() if values.exists() else "")
            )
    return {name: (versions[0], versions[-1]) for name, versions in found.items() if len(versions) > 1}


def _journey(plane: Path, folder: Path, chart: str, first: Version, second: Version, release: str) -> Report:
    path = local_control_plane.kubeconfig(plane)
    client = connect.from_kubeconfig(str(path))
    namespace = f"test-{uuid.uuid4().hex[:8]}"
    client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    with Proxy(api_server(path)) as proxy:
        work = folder / namespace
        work.mkdir()
        store = ObjectStore.from_env()
        world = Published(client, namespace, proxy.kubeconfig, Clients(client), store, find_helm(print), work)
        world.initialized()
        started = time.monotonic()
        report = Journey(world, chart, lambda: len(proxy.writes()), release).run(first, second)
        steps = " ".join(f"{seconds:6.1f}" for seconds in report.seconds)
        writes = "/".join(map(str, report.writes))
        print(
            f"{chart:<36} {first.version:>12} {second.version:>12} objects {report.objects:>3}+{report.hooks:<2} "
            f"second looks {writes:<6} seconds {steps} ({time.monotonic() - started:.0f})"
            f" {'FAIL' if report.problems else 'ok'}",
            flush=True,
        )
        for problem in report.problems[:12]:
            print(f"    {problem[:700]}", flush=True)
        objects.remove(client, HELM_RELEASE_PROXY, Key(namespace, "web-demo"))
        objects.remove(client, CLUSTER, world.cluster_key)
        _tidy(client, world)
    client.close()
    return report


def _tidy(client: Client, world: HelmWorld) -> None:
    for crd in list(client.list(CRD)):
        if "capi-functions" not in str(crd["metadata"].get("labels")) and not _ours(crd["metadata"]["name"]):
            client.delete(CRD, Key("", crd["metadata"]["name"]))
    client.delete(NAMESPACE, Key("", world.releases))
    client.delete(NAMESPACE, Key("", world.namespace))


def _ours(name: str) -> bool:
    from infra.local import crds

    return name in {crd["metadata"]["name"] for crd in crds.load()}


if __name__ == "__main__":
    sys.exit(main())
