"""A chart of a user with its own release name and namespace is applied, upgraded and removed by charts and applier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from shared import charts
from shared.api.resources import CONFIG_MAP
from shared.applier.connection import ClusterConnection
from shared.applier.inventory import InventoryEntry
from shared.applier.outcome import SyncIncomplete, SyncOutcome
from shared.applier.owner import Mark, Owner
from shared.applier.policy import Policy
from shared.applier.sync import plan_sync
from shared.charts import Release, RenderedChart
from shared.clients import Clients, ClusterClients
from shared.kube import Client, Key
from shared.manifests import Operation, hooks_of
from tests.support.releases import archive

LONG_NAME = "a" * 51 + "-b"
CHART = "apiVersion: v2\nname: web\nversion: 1.0.0\n"
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}\n"
TEMPLATES = {
    "web.yaml": MAP.format("web")
    + 'data:\n  release: "{{ .Release.Name }} {{ .Release.Revision }} {{ .Release.IsUpgrade }}"\n'
    + '  size: "{{ .Values.size }}"\n',
    "old.yaml": "{{- if .Release.IsInstall }}\n" + MAP.format("old") + "{{- end }}\n",
    "pre.yaml": MAP.format("pre") + '  annotations: {helm.sh/hook: "pre-install,pre-upgrade"}\n',
    "bye.yaml": MAP.format("bye") + "  annotations: {helm.sh/hook: pre-delete}\n",
    "NOTES.txt": "Sized {{ .Values.size }}\n",
}


def rendered(release: Release, **values: Any) -> RenderedChart:
    chart = archive({"web/Chart.yaml": CHART, **{f"web/templates/{name}": text for name, text in TEMPLATES.items()}})
    return charts.render_release(chart, values, release, chart_name="web.tgz")


def owner(release: Release) -> Owner:
    mark = {"meta.helm.sh/release-namespace": release.namespace, "meta.helm.sh/release-name": release.name}
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    return Owner("HelmReleaseProxy", labels, Mark(mark, "annotations"), f"test-{release.name}"[:128], exclusive=True)


def applied(
    client: Client,
    release: Release,
    chart: Sequence[Any],
    entries: Sequence[InventoryEntry] = (),
    operation: Operation = "install",
) -> SyncOutcome:
    cluster = ClusterClients(client)
    connection = ClusterConnection(cluster, cluster.discovery.served())
    policy = Policy(owner(release))
    sync = plan_sync(connection, chart, entries, policy, default_namespace=release.namespace, operation=operation)
    return sync.execute(Clients())


def test_chart_is_installed_upgraded_and_removed(management: Client, namespace: str) -> None:
    first = Release(LONG_NAME, namespace)
    chart = rendered(first, size=10485760)
    assert chart.notes.strip() == "Sized 1.048576e+07"
    done = applied(management, first, [*chart.objects, *chart.hooks])
    assert {entry.name for entry in done.written} == {"web", "old", "pre"}
    live = management.get(CONFIG_MAP, Key(namespace, "web"))
    assert live["data"] == {"release": f"{LONG_NAME} 1 false", "size": "1.048576e+07"}
    assert live["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "Helm"}
    assert live["metadata"]["annotations"] == {
        "meta.helm.sh/release-name": LONG_NAME,
        "meta.helm.sh/release-namespace": namespace,
    }
    assert [entry["manager"] for entry in live["metadata"]["managedFields"]] == [f"test-{LONG_NAME}"]

    second = Release(LONG_NAME, namespace, revision=2, is_upgrade=True)
    chart = rendered(second, size=1)
    done = applied(management, second, [*chart.objects, *chart.hooks], done.entries, "upgrade")
    assert [entry.name for entry in done.pruned] == ["old"]
    assert management.get(CONFIG_MAP, Key(namespace, "web"))["data"]["release"] == f"{LONG_NAME} 2 true"

    hooks = [hook for hook in chart.hooks if "pre-delete" in hooks_of(hook)]
    done = applied(management, second, hooks, done.entries, "delete")
    assert [entry.name for entry in done.written] == ["bye"]
    assert {entry.name for entry in done.pruned} == {"web", "pre"}
    done = applied(management, second, [], done.entries, "delete")
    assert [entry.name for entry in done.pruned] == ["bye"]
    assert done.entries == ()


def test_charts_do_not_touch_objects_of_each_other(management: Client, namespace: str) -> None:
    mine, other = Release("mine", namespace), Release("other", namespace)
    done = applied(management, mine, rendered(mine, size=1).objects)
    before = management.get(CONFIG_MAP, Key(namespace, "web"))
    with pytest.raises(SyncIncomplete, match=f"name '{namespace}/mine'") as refused:
        applied(management, other, rendered(other, size=2).objects)
    left = refused.value.outcome.entries
    assert applied(management, other, [], left, "delete").pruned == ()
    assert management.get(CONFIG_MAP, Key(namespace, "web")) == before
    assert len(applied(management, mine, [], done.entries, "delete").pruned) == 2
