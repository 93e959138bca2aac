"""Pages from data: the overview with search and pages, and the page of one Cluster."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest
from starlette.requests import Request

from infra.console.cluster_tree import tree
from infra.console.overview import Search, cluster_page
from infra.console.pages import Source, cluster_response
from infra.console.watches import KINDS
from infra.operations.describe.cluster_objects import ClusterObjects
from infra.operations.describe.document import document
from infra.operations.describe.parts import Parts
from shared.api.provider import CORE
from shared.api.resources import (
    CLUSTER,
    CLUSTER_ADDON,
    CLUSTER_RESOURCE_SET,
    CLUSTER_RESOURCE_SET_BINDING,
    CLUSTER_STACK,
    HELM_CHART_PROXY,
    HELM_RELEASE_PROXY,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
)
from shared.kube import Key, Object, Resource
from shared.references import LookupResult
from tests.support.console import get
from tests.support.objects import manifest

SINCE = "2026-01-01T00:00:00Z"
NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
HOSTILE = "</td></details><script>alert(1)</script><img src=x onerror=alert(1)>\"'{{7*7}} hx-get=\u202e\x1b[31m"


def condition(type_: str, status: str = "False", message: str = "", **more: str) -> Object:
    return {"type": type_, "status": status, "message": message, "lastTransitionTime": SINCE, **more}


def cluster(name: str = "demo", *conditions: Object, release: str = "stack-v2", **spec: Any) -> Object:
    topology = {"classRef": {"name": release}, "version": "v1.36.2"}
    status = {"phase": "Provisioned", "conditions": list(conditions) or [condition("Available", "True")]}
    return manifest(CLUSTER, name, "team", spec={"topology": topology, **spec}, status=status)


def addon(name: str = "demo", applied: str = "stack-v1", **status: Any) -> Object:
    return manifest(CLUSTER_ADDON, f"cluster-addon-{name}", "team", spec={"clusterStack": applied}, status=status)


def page_of(source: Source, objects: ClusterObjects) -> str:
    scope = {"type": "http", "headers": [], "root_path": "/t", "path_params": {"namespace": "team", "name": "demo"}}
    return bytes(cluster_response(Request(scope), source, objects, "1").body).decode()


class Elements(HTMLParser):
    """The tags and attributes of a page, and whether its tags are balanced."""

    VOID = ("meta", "link", "input", "br", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self._open: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def test_overview_shows_clusters_providers_and_stacks(source: Source, address: str) -> None:
    source.watches.set_all(CLUSTER, [cluster(), cluster("other", condition("Available", message="no quota"))])
    source.watches.set_all(CLUSTER_ADDON, [addon(conditions=[condition("Ready", "True")])])
    provider = manifest(CORE.resource, "cluster-api", "capi-system", status={"installedVersion": "v1.13.0"})
    source.watches.set_all(CORE.resource, [provider])
    stack = manifest(CLUSTER_STACK, "scs", "team", spec={"kubernetesVersion": "1.36"}, status={"latestRelease": "v7"})
    source.watches.set_all(CLUSTER_STACK, [stack])
    text = get(address).text
    for shown in (
        "team/demo",
        "stack-v2",
        "<strong>stack-v1</strong>",
        "v1.36.2",
        "no quota",
        f'<time datetime="{SINCE}">',
    ):
        assert shown in text
    for shown in ("CoreProvider", "v1.13.0", "team/scs", "v7", "2 shown", "1 waiting", "1 ready"):
        assert shown in text
    Elements(text)


def release(name: str, ready: str = "True", owner: str = "demo", **status: Any) -> Object:
    spec = {"clusterRef": {"name": owner}, "chartName": "cilium", "version": "1.17.1"}
    content = {"spec": spec, "status": {"conditions": [condition("Ready", ready, "no image")], **status}}
    return manifest(HELM_RELEASE_PROXY, name, "team", **content)


def binding(*sources: Object, owner: str = "demo") -> Object:
    bindings = [{"clusterResourceSetName": "base", "resources": list(sources)}]
    return manifest(CLUSTER_RESOURCE_SET_BINDING, owner, "team", spec={"bindings": bindings})


def test_overview_shows_charts_and_resource_sets(source: Source, address: str) -> None:
    source.watches.set_all(CLUSTER, [cluster(), cluster("other")])
    assert "Charts" not in get(address).text
    selected = {"matchingClusters": [{"name": "demo"}], "conditions": [condition("Ready", message="no repository")]}
    chart = manifest(HELM_CHART_PROXY, "cni", "team", spec={"chartName": "cilium"}, status=selected)
    source.watches.set_all(HELM_CHART_PROXY, [chart])
    source.watches.set_all(HELM_RELEASE_PROXY, [release("one"), release("two", "False")])
    sources = [{"kind": "ConfigMap", "name": "a"}, {"kind": "Secret", "name": "b"}]
    resource_set = manifest(CLUSTER_RESOURCE_SET, "base", "team", spec={"resources": sources})
    source.watches.set_all(CLUSTER_RESOURCE_SET, [resource_set])
    text = get(address).text
    for shown in ("team/cni", "cilium", "newest", "no repository", "1 of 2 ready", "team/base", "ApplyOnce"):
        assert shown in text
    assert get(address, "?q=demo+of").text.count("of 2 ready") == 1
    Elements(text)


def test_changes_of_charts_and_sets_belong_to_their_cluster(source: Source) -> None:
    demo, other = Key("team", "demo"), Key("team", "other")
    for changed in (release("one"), binding(), addon(), cluster()):
        before = source.watches.version(demo), source.watches.version(other)
        kind = next(kind for kind in KINDS if kind.kind == changed["kind"])
        source.watches.set(kind, Key("team", changed["metadata"]["name"]), changed)
        assert source.watches.version(demo) != before[0]
        assert source.watches.version(other) == before[1]


def test_tree_has_charts_and_sets_with_their_objects() -> None:
    applied = {"group": "", "version": "v1", "kind": "Service", "namespace": "x", "name": "y", "status": "synced"}
    parts = Parts(
        [release("one", "False", resources=[applied], revision=3, status="failed", chartVersion="1.17.2")],
        binding(
            {"kind": "ConfigMap", "name": "a", "applied": True, "lastAppliedTime": SINCE},
            {"kind": "Secret", "name": "b", "applied": False},
        ),
    )
    objects = ClusterObjects(cluster())
    chart, base = tree(replace(objects, parts=parts), document(objects, NOW), NOW)
    assert (chart.kind, chart.name, chart.state) == ("HelmReleaseProxy", "one", "bad")
    assert chart.detail == "chart cilium 1.17.2, failed, revision 3"
    assert [(row.kind, row.name, row.state) for row in chart.children] == [("Service", "x/y", "good")]
    assert (base.kind, base.name, base.state) == ("ClusterResourceSet", "base", "bad")
    assert [row.detail for row in base.children] == [f"applied at {SINCE}", "not applied"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["a", "b", "c"]),
        ("q=V9", ["b"]),
        ("q=team+v9", ["b"]),
        ("q=quota", ["c"]),
        ("q=absent", []),
        ("state=waiting", ["c"]),
        ("state=paused", ["b"]),
        ("state=wrong&page=x", ["a", "b", "c"]),
        ("page=99", ["a", "b", "c"]),
    ],
)
def test_server_searches_and_filters(source: Source, address: str, query: str, names: list[str]) -> None:
    waiting = cluster("c", condition("Available", message="no quota"))
    source.watches.set_all(CLUSTER, [waiting, cluster("a"), cluster("b", release="stack-v9", paused=True)])
    assert re.findall(r">team/(\w+)</a>", get(address, f"?{query}").text) == names


def test_overview_has_pages(source: Source, address: str) -> None:
    source.watches.set_all(CLUSTER, [cluster(f"c{number:03}") for number in range(250)])
    last = get(address, "?page=3&q=c").text
    assert "page 3 of 3" in last
    assert "team/c249" in last
    assert "team/c199" not in last
    assert "?q=c&amp;page=2" in last
    assert 'rel="next"' not in last


def test_page_beyond_the_end_is_the_last() -> None:
    found = cluster_page([cluster()], [], Search(page=7))
    assert (found.page, found.pages, len(found.rows)) == (1, 1, 1)


def test_cluster_page_shows_conditions_with_help_history_and_events(source: Source) -> None:
    applied = {"clusterStack": "stack-v1", "version": "v1", "at": SINCE, "digest": "d"}
    waiting = addon(ready=False, conditions=[condition("Ready", message="no node")], history=[applied])
    event = {
        "involvedObject": {"kind": "Cluster", "name": "demo"},
        "type": "Warning",
        "reason": "Failed",
        "message": "no image",
        "lastTimestamp": SINCE,
    }
    objects = ClusterObjects(
        cluster("demo", condition("ControlPlaneInitialized", "True")),
        addon=LookupResult("present", "ClusterAddon", waiting),
        events=[event],
    )
    text = page_of(source, objects)
    for shown in ("Cluster team/demo", "stack-v2", "The API server of the cluster has answered once", "no node"):
        assert shown in text
    for shown in (
        "no image",
        "addons v1",
        "clusters/team/demo/plan",
        "clusters/team/demo/yaml",
        "cluster-addon-demo",
    ):
        assert shown in text
    Elements(text)


def machine(kind: Resource, name: str, owner: Object | None = None, **content: Any) -> Object:
    owners = [{"kind": owner["kind"], "uid": owner["metadata"]["uid"]}] if owner else []
    metadata = {"uid": f"uid-{name}", "ownerReferences": owners}
    return manifest(kind, name, "team", metadata=metadata, **content)


def test_tree_leads_from_owners_down_to_machines_and_addon_objects() -> None:
    control_plane = manifest(Resource("c", "v1", "KubeadmControlPlane", "x"), "cp", "team", metadata={"uid": "uid-cp"})
    deployment = machine(MACHINE_DEPLOYMENT, "workers", spec={"replicas": 1})
    replicas = machine(MACHINE_SET, "workers-1", deployment)
    first = machine(MACHINE, "workers-1-a", replicas, status={"phase": "Running", "conditions": [condition("Ready")]})
    circle = machine(MACHINE, "circle")
    circle["metadata"]["ownerReferences"] = [{"uid": "uid-circle"}]
    resource = {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "x", "name": "y", "status": "synced"}
    objects = ClusterObjects(
        cluster(controlPlaneRef={"apiGroup": "c", "kind": "KubeadmControlPlane", "name": "cp"}),
        control_plane=LookupResult("present", "KubeadmControlPlane", control_plane),
        addon=LookupResult("present", "ClusterAddon", addon(resources=[resource])),
    )
    parts = Parts([first, machine(MACHINE, "cp-a", control_plane), deployment, replicas, circle])
    rows = tree(replace(objects, parts=parts), document(objects, NOW), NOW)
    assert [(row.kind, row.name) for row in rows] == [
        ("KubeadmControlPlane", "cp"),
        ("Machine", "circle"),
        ("MachineDeployment", "workers"),
        ("ClusterAddon", "cluster-addon-demo"),
    ]
    assert [row.name for row in rows[0].children] == ["cp-a"]
    (found,) = rows[2].children[0].children
    assert (found.name, found.state, found.detail) == ("workers-1-a", "bad", "Running")
    assert [(row.kind, row.name, row.state) for row in rows[3].children] == [("ConfigMap", "x/y", "good")]


def test_hostile_text_is_text_in_the_overview(source: Source, address: str) -> None:
    bad = cluster(HOSTILE, condition("Available", message=HOSTILE), release=HOSTILE)
    bad["status"]["phase"] = HOSTILE
    source.watches.set_all(CLUSTER, [bad])
    source.watches.set_all(CORE.resource, [manifest(CORE.resource, HOSTILE, HOSTILE, spec={"version": HOSTILE})])
    stack = manifest(CLUSTER_STACK, HOSTILE, HOSTILE, spec={"channel": HOSTILE}, status={"usableVersions": HOSTILE})
    source.watches.set_all(CLUSTER_STACK, [stack])
    source.watches.set_all(
        HELM_CHART_PROXY, [manifest(HELM_CHART_PROXY, HOSTILE, HOSTILE, spec={"chartName": HOSTILE})]
    )
    source.watches.set_all(HELM_RELEASE_PROXY, [release(HOSTILE, HOSTILE, HOSTILE)])
    for query in ("", "?q=alert&page=1"):
        harmless(get(address, query).text)
    harmless(get(address, "?q=%3Cscript%3Ealert(1)%3C/script%3E%22%20onfocus%3Dalert(1)").text)


def test_hostile_text_is_text_in_the_page_of_a_cluster(source: Source) -> None:
    bad_condition = condition(HOSTILE, HOSTILE, HOSTILE, reason=HOSTILE)
    resource = {"group": HOSTILE, "version": "v1", "kind": HOSTILE, "namespace": HOSTILE, "name": HOSTILE}
    stage = {"name": HOSTILE, "action": HOSTILE, "phase": HOSTILE}
    entry = {"clusterStack": HOSTILE, "version": HOSTILE, "at": HOSTILE}
    event = {
        "involvedObject": {"kind": HOSTILE, "name": HOSTILE},
        "type": HOSTILE,
        "message": HOSTILE,
        "count": HOSTILE,
    }
    bad = cluster(HOSTILE, bad_condition, release=HOSTILE)
    hostile_addon = addon(
        HOSTILE,
        applied=HOSTILE,
        conditions=[bad_condition, condition("Ready", message=HOSTILE)],
        resources=[{**resource, "error": HOSTILE}],
        stages=[stage],
        history=[entry],
    )
    objects = ClusterObjects(
        bad,
        infrastructure=LookupResult("failed", HOSTILE, error=HOSTILE),
        addon=LookupResult("present", HOSTILE, hostile_addon),
        events=[event],
    )
    parts = Parts(
        [machine(MACHINE, HOSTILE, status={"phase": HOSTILE, "conditions": [bad_condition]})],
        binding({"kind": HOSTILE, "name": HOSTILE, "applied": True, "lastAppliedTime": HOSTILE}),
        [HOSTILE],
    )
    harmless(page_of(source, replace(objects, parts=parts)))


@pytest.mark.parametrize("wrong", [None, 7, "text", [1, "a"], {"a": {"b": []}}, [{"type": ["Ready"], "status": {}}]])
def test_objects_of_any_shape_make_a_page(source: Source, wrong: Any) -> None:
    infrastructure = {"kind": "Any", "metadata": {"name": "x", "namespace": "team"}, "status": {"conditions": wrong}}
    odd = machine(MACHINE, "odd", status=wrong, spec=wrong)
    release = machine(HELM_RELEASE_PROXY, "odd", status=wrong, spec=wrong)
    objects = ClusterObjects(
        cluster(infrastructureRef={"kind": "Any", "name": "x"}),
        infrastructure=LookupResult("present", "Any", infrastructure),
    )
    binding = manifest(CLUSTER_RESOURCE_SET_BINDING, "demo", spec=wrong)
    Elements(page_of(source, replace(objects, parts=Parts([odd, release], binding))))


def harmless(text: str) -> None:
    """Fails if hostile text has become an element, an attribute or a control character."""
    found = Elements(text)
    assert not {"img"} & set(found.tags)
    assert found.tags.count("script") == 2
    assert not [name for name in found.attributes if name.startswith("on")]
    assert "{{7*7}}" in text
    assert "\u202e" not in text
    assert "\x1b" not in text
