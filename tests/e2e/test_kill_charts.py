"""The functions are killed at writes of the life of a HelmChartProxy: the end is always the same, nothing is left over.

A chart is fetched, installed in a cluster, upgraded and repaired. Its Cluster is deselected and selected again, and the
HelmChartProxy is deleted.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.api.conditions import is_true
from shared.api.resources import CLUSTER, CONFIG_MAP, HELM_CHART_PROXY, HELM_RELEASE_PROXY, NAMESPACE, SECRET
from shared.event import change_event
from shared.kube import Client, Key, Object, dig
from shared.storage import ObjectStore
from tests.support import objects
from tests.support.api_proxy import Request
from tests.support.broker import deliver_with_replies
from tests.support.chart_repository import ChartRepository, chart
from tests.support.kill_points import KillableFunctions, KillPoint, check_kills, in_parts, killable_functions
from tests.support.registry import certificate
from tests.support.until import until

VARIANTS = ((True, ""), (False, ""), (True, "another version"), (False, "deselection"), (False, "deletion"))
FUNCTIONS = {HELM_CHART_PROXY: "helm_chart_proxy", HELM_RELEASE_PROXY: "helm_release_proxy"}
MAP = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  annotations: {{{hook}}}
data: {{k: "{value}"}}
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    in_parts(metafunc, 10)


def packed(version: str) -> bytes:
    """Returns a chart with objects that stay, change, come and go, and with hooks."""
    maps = [
        MAP.format(name="kept", value="{{ .Release.Name }}", hook=""),
        MAP.format(name="changed", value=version, hook=""),
        MAP.format(name=f"of-{version}", value=version, hook=""),
        MAP.format(name="before", value=version, hook="helm.sh/hook: 'pre-install,pre-upgrade'"),
        MAP.format(name="bye", value=version, hook="helm.sh/hook: pre-delete"),
    ]
    return chart("web", version, {"templates/map.yaml": "---".join(maps)})


class Journey:
    """The life of one HelmChartProxy and its Cluster in a namespace of its own, and of the release in another one."""

    def __init__(self, functions: KillableFunctions, client: Client, repository: ChartRepository, url: str) -> None:
        self.functions, self.client, self.repository, self.url = functions, client, repository, url
        self.namespace = f"kill-{uuid.uuid4().hex[:8]}"
        self.apps = f"{self.namespace}-apps"
        self.key, self.cluster_key = Key(self.namespace, "web"), Key(self.namespace, "demo")
        self.number = 0
        self.resync = False

    def take(self, point: KillPoint | None) -> list[Request]:
        """Takes the journey, and returns its writes; the functions are killed at `point`."""
        change = {"another version": self.upgrade, "deselection": self.deselect, "deletion": self.delete}
        self.functions.while_down = change.get(point.meanwhile if point else "", lambda: None)
        self.functions.kill_at(point)
        self.client.create(NAMESPACE, objects.manifest(NAMESPACE, self.namespace))
        self.create_cluster()
        self.install()
        for step in (self.upgrade, self.drift, self.deselect, self.select, self.delete):
            self.until(self.settled, f"the state before the step {step.__name__}")
            self.check()
            if not self.deleted():
                step()
        self.until(self.settled, "the end")
        self.check()
        assert not [obj for kind in FUNCTIONS for obj in self.client.list(kind, self.namespace)]
        self.client.delete(NAMESPACE, Key("", self.apps))
        return self.functions.end()

    # -- what users do ---------------------------------------------------------------------------------------------

    def create_cluster(self) -> None:
        self.client.create(CLUSTER, objects.manifest(CLUSTER, "demo", self.namespace, spec={}))
        status = {"status": {"initialization": {"controlPlaneInitialized": True}}}
        self.client.patch(CLUSTER, self.cluster_key, status, subresource="status")
        kubeconfig = objects.secret("demo-kubeconfig", self.namespace, value=self.functions.kubeconfig)
        self.client.create(SECRET, kubeconfig)
        self.select()

    def install(self) -> None:
        spec = {
            "clusterSelector": {"matchLabels": {"web": "yes"}},
            "chartName": "web",
            "repoURL": self.url,
            "releaseName": "web",
            "namespace": self.apps,
            "version": self.publish(),
        }
        self.client.create(HELM_CHART_PROXY, objects.manifest(HELM_CHART_PROXY, "web", self.namespace, spec=spec))

    def publish(self) -> str:
        """Publishes another version of the chart; each journey has other charts."""
        self.number += 1
        version = f"{self.number}.0.0-{self.namespace}"
        self.repository.add("web", version, packed(version))
        return version

    def upgrade(self) -> None:
        self.client.patch(HELM_CHART_PROXY, self.key, {"spec": {"version": self.publish()}})

    def drift(self) -> None:
        """Deletes an object and changes another one; a resync repairs them."""
        self.resync = True
        for name in ("kept", "changed"):
            if self.client.find(CONFIG_MAP, Key(self.apps, name)) is not None:
                self.client.patch(CONFIG_MAP, Key(self.apps, name), {"data": {"k": "drifted"}}, manager="user")
        self.client.delete(CONFIG_MAP, Key(self.apps, "kept"))

    def select(self) -> None:
        self.client.patch(CLUSTER, self.cluster_key, {"metadata": {"labels": {"web": "yes"}}})

    def deselect(self) -> None:
        """Takes the label of the Cluster away; a resync stands for the event of the Cluster."""
        self.resync = True
        self.client.patch(CLUSTER, self.cluster_key, {"metadata": {"labels": {"web": None}}})

    def delete(self) -> None:
        self.client.delete(HELM_CHART_PROXY, self.key)

    # -- what events do --------------------------------------------------------------------------------------------

    def until(self, reached: Callable[[], bool], what: str) -> None:
        until(reached, what, pause=0, between=self.turn, details=self.describe)

    def turn(self) -> None:
        for resource, function in FUNCTIONS.items():
            for obj in list(self.client.list(resource, self.namespace)):
                event = change_event(obj, "update", source="/test", resync=self.resync)
                list(deliver_with_replies(event, [function], self.functions.deliver))

    # -- what is there then ----------------------------------------------------------------------------------------

    def deleted(self) -> bool:
        proxy = self.client.find(HELM_CHART_PROXY, self.key)
        return proxy is None or dig(proxy, "metadata.deletionTimestamp") is not None

    def version(self) -> str:
        """Returns the version that the cluster is to have; empty for none."""
        proxy, cluster = self.client.find(HELM_CHART_PROXY, self.key), self.client.get(CLUSTER, self.cluster_key)
        selected = not self.deleted() and dig(cluster, "metadata.labels.web") == "yes"
        return str(dig(proxy, "spec.version")) if selected else ""

    def release(self) -> Object | None:
        found = list(self.client.list(HELM_RELEASE_PROXY, self.namespace))
        assert len(found) <= 1, [one["metadata"]["name"] for one in found]
        return found[0] if found else None

    def values(self) -> dict[str, str]:
        return {obj["metadata"]["name"]: obj["data"]["k"] for obj in self.client.list(CONFIG_MAP, self.apps)}

    def wanted(self) -> dict[str, str]:
        version = self.version()
        return {"kept": "web", "changed": version, f"of-{version}": version, "before": version} if version else {}

    def settled(self) -> bool:
        """Returns whether all statuses show the present state, and drift is repaired."""
        proxy, release = self.client.find(HELM_CHART_PROXY, self.key), self.release()
        if not self.version():
            return release is None and (proxy is None) == self.deleted()
        ready = [
            is_true(dig(obj, "status.conditions"), "Ready")
            and dig(obj, "status.observedGeneration") == dig(obj, "metadata.generation")
            for obj in (proxy, release)
        ]
        current = dig(release, "spec.version") == self.version() and self.values() == self.wanted()
        return all(ready) and current and self.is_recorded(release)

    def is_recorded(self, release: Object | None) -> bool:
        """Returns whether the inventory lists the objects. A resync corrects a uid after a kill."""
        recorded = {one["name"]: one.get("uid") for one in dig(release, "status.resources", [])}
        live = {one["metadata"]["name"]: one["metadata"]["uid"] for one in self.client.list(CONFIG_MAP, self.apps)}
        # A hook that ran just before the kill is not run again to learn its uid; it is still deleted in the end.
        return recorded in (live, live | {"before": None})

    def check(self) -> None:
        """Asserts that objects and Helm's records are those of the version, and no others."""
        assert self.values() == self.wanted()
        records = [dig(one, "metadata.labels.status") for one in self.client.list(SECRET, self.apps)]
        assert sorted(records) == sorted(["superseded"] * (len(records) - 1) + ["deployed"] * bool(self.version()))

    def describe(self) -> object:
        found = [obj for kind in FUNCTIONS for obj in self.client.list(kind, self.namespace)]
        states = [(one["kind"], dig(one, "spec.version"), one.get("status")) for one in found]
        return self.values(), self.wanted(), states, self.functions.writes[-5:]


@pytest.mark.timeout(3600)
def test_chart_ends_the_same_when_functions_are_killed_at_a_write(
    management: Client,
    kubeconfig: Path,
    object_store: ObjectStore,
    object_store_url: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
    part: tuple[int, int],
) -> None:
    certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))
    repository = ChartRepository()
    with (
        repository.serve(tmp_path) as site,
        killable_functions(kubeconfig, object_store, object_store_url, tmp_path / "functions") as functions,
    ):

        def take(point: KillPoint | None) -> list[Request]:
            return Journey(functions, management, repository, f"{site.url}/repo").take(point)

        check_kills(take, VARIANTS, pytestconfig, part, most=6)
