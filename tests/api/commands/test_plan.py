"""`capi-functions plan` on a real API server: previews what the functions then do, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner, Result

from infra.cli.main import app
from infra.cli.terminal import topology_plan_text
from infra.operations.preview import Change, TopologyPlan, with_addons
from shared.api.resources import CLUSTER_ADDON, CLUSTER_STACK, CONFIG_MAP, NAMESPACE, SECRET
from shared.kube import ApiError, Key, Object, Resource, dig, key_of
from shared.kube.crds import CRD
from shared.kube.discovery import Discovery
from shared.storage import ObjectStore
from tests.support.api_proxy import Proxy, Request, cut_before
from tests.support.http_server import HttpServer, files
from tests.support.objects import metadata_of, widgets_crd
from tests.support.releases import STACK, config_map, write_release, write_stages
from tests.support.world import World

Plan = Callable[..., Object]


def versions(world: World) -> dict[str, str]:
    """Returns the resourceVersion of every object, except those that the API server itself writes."""
    found = {}
    for resource in {(one.group, one.kind): one for one in Discovery(world.client).served().values()}.values():
        with suppress(ApiError):  # kinds that can be created but not listed
            for obj in metadata_of(world.client, resource):
                if resource.kind not in ("Lease", "ComponentStatus"):
                    name = f"{resource.kind}.{resource.group} {key_of(obj)}"
                    found[name] = obj["metadata"]["resourceVersion"]
    assert f"Namespace. {world.namespace}" in found
    return found


def invoke(world: World, kubeconfig: Path, tmp_path: Path, *arguments: str) -> Result:
    options = ["--kubeconfig", str(kubeconfig), "--dir", str(tmp_path / "no-run")]
    return CliRunner().invoke(app, ["plan", "--cluster", "demo", "-n", world.namespace, *options, *arguments])


@pytest.fixture
def plan(world: World, kubeconfig: Path, tmp_path: Path, proxy: Proxy, object_store: ObjectStore) -> Plan:
    """Runs the command, checks that nothing changes, and returns its JSON with the changes by name."""

    def run(*arguments: str) -> Object:
        world.secret(proxy.kubeconfig)
        before, stored, seen = versions(world), object_store.list(), len(proxy.seen)
        result = invoke(world, kubeconfig, tmp_path, "--output", "json", *arguments)
        assert result.exit_code in (0, 4), result.output
        assert versions(world) == before
        assert object_store.list() == stored
        for request in proxy.seen[seen:]:
            assert not request.writes or parse_qs(urlsplit(request.target).query)["dryRun"] == ["All"], request.target
        found: Object = json.loads(result.stdout)
        assert result.exit_code == (4 if found["summary"]["refuse"] or found["summary"]["unknown"] else 0)
        found["changes"] = {one["name"]: one for stage in found["stages"] for one in stage["changes"]}
        return found

    return run


def actions(found: Object) -> dict[str, str]:
    return {name: change["action"] for name, change in found["changes"].items()}


def topology_plan(world: World, wanted: str) -> TopologyPlan:
    versions = ("v1.36.0", "v1.36.0", "v1.14.0")
    return TopologyPlan(world.cluster_key, "present", wanted, *versions, (), (), (), (), ())


# -- changes -----------------------------------------------------------------------------------------------------


def test_plan_matches_what_rollouts_of_two_releases_then_do(world: World, plan: Plan) -> None:
    first = write_release(world.releases, "v1", [world.map("same"), world.map("changes", "1"), world.map("goes")])
    second = write_release(world.releases, "v2", [world.map("same"), world.map("changes", "2"), world.map("comes")])
    world.cluster(first)
    found = plan()
    assert actions(found) == {"same": "create", "changes": "create", "goes": "create"}
    assert found["clusterStack"] == {"present": "", "wanted": first}
    world.secret()
    assert world.settle().retry_after is None
    found = plan("--release", second)
    assert actions(found) == {"same": "unchanged", "changes": "update", "comes": "create", "goes": "delete"}
    assert found["changes"]["changes"]["fields"] == [{"path": "data.k", "old": "1", "new": "2"}]
    assert found["summary"]["update"] == found["summary"]["delete"] == found["summary"]["create"] == 1
    # The rollout then does what was planned.
    world.cluster(second)
    world.secret()
    assert world.settle().retry_after is None
    assert world.names() == ["changes", "comes", "same"]
    assert set(actions(plan()).values()) == {"unchanged"}


def test_values_that_the_server_allocates_are_not_shown_as_changes(world: World, plan: Plan) -> None:
    def services(kind: str, headless: str) -> list[Object]:
        metadata = {"namespace": world.namespace, "creationTimestamp": None}
        ports, recreate = [{"port": 80}], {"capi-functions.dev/recreate": "true"}
        spec: Object = {"selector": {"a": "b"}, "ports": ports}
        return [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {**metadata, "name": "typed"},
                "spec": {**spec, "type": kind},
                "status": {"loadBalancer": {}},
            },
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {**metadata, "name": "anew", "annotations": recreate},
                "spec": {**spec, "clusterIP": headless},
            },
        ]

    world.cluster(write_release(world.releases, "v1", services("ClusterIP", "")))
    world.secret()
    assert world.settle().retry_after is None
    found = plan("--release", write_release(world.releases, "v2", services("NodePort", "None")))
    assert [field["path"] for field in found["changes"]["typed"]["fields"]] == ["spec.type"]
    assert found["changes"]["anew"]["action"] == "recreate"
    assert [field["path"] for field in found["changes"]["anew"]["fields"]] == ["spec.clusterIP"]


def test_plan_of_an_unpublished_release_folder(world: World, plan: Plan, tmp_path: Path) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a", "1")]))
    world.secret()
    world.settle()
    elsewhere = tmp_path / "drafts"
    tag = write_release(elsewhere, "v1", [world.map("a", "draft")])
    found = plan("--release", str(elsewhere / tag))
    assert found["changes"]["a"]["fields"] == [{"path": "data.k", "old": "1", "new": "draft"}]
    assert any("applied already, so these changes" in note for note in found["notes"])


def two_releases(world: World, field: str) -> tuple[str, str]:
    """Publishes two releases that write a field of the Cluster's topology, and applies the first; returns both."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: %s}\ndata: {k: '{{ .Values.k }}'}\n"
    first, second = (
        write_release(
            world.releases,
            version,
            templates={"all.yaml": text % world.namespace},
            values=f"values: |\n  k: {{{{ .Cluster.spec.topology.{field} }}}}",
        )
        for version in ("v1", "v2")
    )
    world.cluster(first)
    world.secret()
    world.settle()
    return first, second


def test_values_template_sees_the_cluster_with_the_planned_class(world: World, plan: Plan) -> None:
    first, second = two_releases(world, "classRef.name")
    [field] = plan("--release", second)["changes"]["a"]["fields"]
    assert field == {"path": "data.k", "old": first, "new": second}


@pytest.mark.usefixtures("helm")
def test_chart_that_asks_for_capabilities_is_planned_with_the_live_cluster(
    world: World, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The helm program is found without a setting."""
    monkeypatch.delenv("HELM", raising=False)
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'on-%s', namespace: %s}\n"
    asks = text % ("{{ .Capabilities.KubeVersion.Minor }}", world.namespace)
    world.cluster(write_release(world.releases, "v1", templates={"all.yaml": asks}))
    assert actions(plan()) == {"on-36": "create"}


def test_objects_in_new_namespaces_and_of_new_kinds_are_planned(world: World, plan: Plan) -> None:
    group, new, missing = f"{world.namespace}.example.com", f"{world.namespace}-new", f"{world.namespace}-missing"
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": new}},
        config_map("inside", namespace=new),
        config_map("granted", namespace=missing),
        widgets_crd(group),
        {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": new}},
        {"apiVersion": "nowhere.example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}},
    ]
    world.cluster(write_release(world.releases, "v1", objects))
    found = plan()
    created = {new, "inside", "granted", f"widgets.{group}", "w"}
    assert actions(found) == dict.fromkeys(created, "create") | {"g": "unknown"}
    assert world.client.find(NAMESPACE, Key("", new)) is None
    assert world.client.find(NAMESPACE, Key("", missing)) is None
    assert world.client.find(CRD, Key("", f"widgets.{group}")) is None


def test_secret_values_are_not_shown(world: World, plan: Plan, kubeconfig: Path, tmp_path: Path) -> None:
    def secret(value: str, name: str = "token") -> Object:
        metadata = {"name": name, "namespace": world.namespace, "annotations": {"last-applied": f"note-{value}"}}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": value}}

    first = write_release(world.releases, "v1", [secret("aaaa-one")])
    second = write_release(world.releases, "v2", [secret("bbbb-two"), secret("cccc-three", "fresh")])
    world.cluster(first)
    world.secret()
    world.settle()
    found = plan("--release", second)
    paths = {field["path"]: field["withheld"] for field in found["changes"]["token"]["fields"]}
    assert paths == {"data.password": True, "metadata.annotations.last-applied": True}
    text = invoke(world, kubeconfig, tmp_path, "--release", second).output
    assert "data.password: (a Secret's: not shown)" in text
    for shown in (json.dumps(found), text):
        for value in ("aaaa", "bbbb", "cccc", "YWFhYS1vbmU", "YmJiYi10d28"):
            assert value not in shown


def test_objects_that_would_be_kept_have_a_reason(world: World, plan: Plan) -> None:
    group = f"{world.namespace}.example.com"
    widget: Object = {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": world.namespace},
    }
    marked = world.map("marked")
    marked["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    maps = [world.map("theirs"), world.map("anew"), world.map("goes"), world.map("lost")]
    world.cluster(write_release(world.releases, "v1", [marked, *maps, widgets_crd(group), widget]))
    world.secret()
    assert world.settle().retry_after is None
    label: Object = {"metadata": {"labels": {"clusterstack.x-k8s.io/instance": None}}}
    world.client.patch(CONFIG_MAP, Key(world.namespace, "theirs"), label)
    for name in ("anew", "lost"):
        world.client.delete(CONFIG_MAP, Key(world.namespace, name))
    again = world.map("anew")
    again["metadata"]["labels"] = {"clusterstack.x-k8s.io/instance": "owned"}
    world.client.create(CONFIG_MAP, again)
    widgets = Resource(group, "v1", "Widget", "widgets")
    world.client.create(widgets, {**widget, "metadata": {"name": "others", "namespace": world.namespace}})
    found = plan("--release", write_release(world.releases, "v2", [world.map("only")]))
    crd_name = f"widgets.{group}"
    kept = dict.fromkeys(("marked", "theirs", "anew", crd_name), "keep")
    assert actions(found) == kept | {"only": "create", "goes": "delete", "w": "delete"}
    why = {name: change.get("reason", "") for name, change in found["changes"].items()}
    assert "helm.sh/resource-policy: keep" in why["marked"]
    assert "no longer has the label of its owner" in why["theirs"]
    assert "recreated by another owner" in why["anew"]
    assert f"Widget {world.namespace}/others" in why[crd_name]


@pytest.mark.parametrize(("policy", "action"), [("force", "update"), ("fail", "refuse"), ("yield", "unchanged")])
def test_conflicts_name_manager_and_field(world: World, plan: Plan, policy: str, action: str) -> None:
    theirs = world.map("a", "theirs")
    theirs["metadata"]["labels"] = {"clusterstack.x-k8s.io/instance": "owned"}
    world.client.apply(CONFIG_MAP, theirs, manager="somebody")
    world.cluster(write_release(world.releases, "v1", [world.map("a", "ours")]), policy={"conflicts": policy})
    change = plan()["changes"]["a"]
    assert change["action"] == action
    assert change["conflicts"] == [{"manager": "somebody", "field": ".data.k"}]
    if policy != "yield":
        assert change["fields"] == [{"path": "data.k", "old": "theirs", "new": "ours"}]


@pytest.mark.parametrize(("policy", "action"), [({}, "refuse"), ({"recreate": "true"}, "recreate")])
def test_change_of_an_immutable_field_is_refused_or_recreates(
    world: World, plan: Plan, policy: dict[str, str], action: str
) -> None:
    def frozen(value: str) -> Object:
        return {**world.map("frozen", value), "immutable": True}

    world.cluster(write_release(world.releases, "v1", [frozen("1")]), policy=policy)
    world.secret()
    world.settle()
    change = plan("--release", write_release(world.releases, "v2", [frozen("2")]))["changes"]["frozen"]
    assert change["action"] == action
    if action == "recreate":
        assert change["fields"] == [{"path": "data.k", "old": "1", "new": "2"}]
    else:
        assert "capi-functions.dev/recreate: true" in change["reason"]


def test_ignored_field_is_not_a_change(world: World, plan: Plan) -> None:
    name = write_release(world.releases, "v1", [world.map("a", "1"), world.map("b", "1")])
    world.cluster(name, policy={"drift-ignore": "ConfigMap/a:data.k"})
    world.secret()
    world.settle()
    for changed in ("a", "b"):
        world.client.patch(CONFIG_MAP, Key(world.namespace, changed), {"data": {"k": "2"}})
    assert actions(plan()) == {"a": "unchanged", "b": "update"}


def test_object_in_a_new_api_version_is_an_update(world: World, plan: Plan) -> None:
    """A dry run cannot show an object in a version that is not served yet."""
    group = f"{world.namespace}.example.com"

    def widget(version: str) -> Object:
        return {"apiVersion": f"{group}/{version}", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}}

    old, new = widgets_crd(group), widgets_crd(group)
    new["spec"]["versions"] = [
        {**new["spec"]["versions"][0], "storage": False},
        {**old["spec"]["versions"][0], "name": "v2"},
    ]
    world.cluster(write_release(world.releases, "v1", [old, widget("v1")]))
    world.secret()
    assert world.settle().retry_after is None
    found = plan("--release", write_release(world.releases, "v2", [new, widget("v2")]))
    assert actions(found) == {f"widgets.{group}": "update", "w": "update"}
    assert "not served yet" in found["changes"]["w"]["reason"]


def test_refused_object_of_a_changed_crd_has_a_hint(world: World, plan: Plan) -> None:
    group = f"{world.namespace}.example.com"
    widget: Object = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}}
    new = widgets_crd(group)
    new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = {"size": {"type": "integer"}}
    world.cluster(write_release(world.releases, "v1", [widgets_crd(group), widget]))
    world.secret()
    assert world.settle().retry_after is None
    found = plan("--release", write_release(world.releases, "v2", [new, {**widget, "size": 7}]))
    assert found["changes"]["w"]["action"] == "refuse"
    assert "this release changes its CRD" in found["changes"]["w"]["reason"]


def test_notes_name_pause_rollback_and_drift_policy(world: World, plan: Plan) -> None:
    name = write_release(world.releases, "v1", [world.map("a", "1")])
    world.cluster(name)
    world.secret()
    world.settle()
    assert plan()["notes"] == []
    world.client.patch(CONFIG_MAP, Key(world.namespace, "a"), {"data": {"k": "2"}})
    [note] = plan()["notes"]
    assert "drift: repair (now ignore)" in note
    world.cluster(name, policy={"drift": "repair"}, paused=True)
    annotation: Object = {"metadata": {"annotations": {"capi-functions.dev/rollback-from": name}}}
    world.client.patch(CLUSTER_ADDON, world.addon_key, annotation)
    paused, rolled_back = plan()["notes"]
    assert "is paused" in paused
    assert "rolled back from this class" in rolled_back


# -- stages ------------------------------------------------------------------------------------------------------

STAGES = """
  AfterControlPlaneInitialized: [{name: cni}, {name: csi}]
  BeforeClusterUpgrade:
    - {name: old, action: delete}
    - name: cni
      waitForPreCondition: {conditions: 1 == 1}
    - {name: csi}
"""


def test_generated_values_are_noted_and_not_a_change(world: World, plan: Plan) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: %s}\ndata: {k: {{ randAlpha 9 }}}\n"
    world.cluster(write_release(world.releases, "v1", templates={"all.yaml": text % world.namespace}))
    [note] = plan()["notes"]
    assert f"1 field differs each time that the release is rendered (ConfigMap {world.namespace}/a: data.k)" in note
    world.settle()
    found = plan()
    assert actions(found) == {"a": "unchanged"}
    assert "1 field differs" in found["notes"][0]


def test_changes_are_listed_by_stage(world: World, plan: Plan) -> None:
    charts = {"cni": [world.map("net")], "csi": [world.map("store")]}
    world.cluster(write_stages(world.releases, "v1", STAGES, charts))
    found = plan()
    assert [(part["name"], [one["name"] for one in part["changes"]]) for part in found["stages"]] == [
        ("cni", ["net"]),
        ("csi", ["store"]),
    ]
    world.secret()
    assert world.settle().retry_after is None
    charts = {"old": [world.map("net")], "cni": [world.map("mesh")], "csi": []}
    found = plan("--release", write_stages(world.releases, "v2", STAGES, charts))
    assert [
        (part["name"], part["action"], {one["name"]: one["action"] for one in part["changes"]})
        for part in found["stages"]
    ] == [
        ("old", "delete", {"net": "delete"}),
        ("cni", "apply", {"mesh": "create"}),
        ("csi", "apply", {}),
        ("", "apply", {"store": "delete"}),
    ]
    assert found["stages"][1]["waitsBefore"] == "1 == 1"


def test_differences_to_another_release_are_not_called_drift(world: World, plan: Plan) -> None:
    """Versions are compared within one stack only."""
    world.cluster(write_release(world.releases, "v1", [world.map("a", "1")]))
    world.secret()
    world.settle()
    other = write_release(world.releases, "v1", [world.map("a", "2")], stack="test-other-1-36")
    found = plan("--release", other)
    assert actions(found) == {"a": "update"}
    assert found["notes"] == []


# -- a ClusterStack with sources of its own ----------------------------------------------------------------------


@pytest.fixture
def site(world: World, tmp_path: Path) -> Iterator[HttpServer]:
    """The sources of the namespace's ClusterStack. Their v1 and v2 differ from the common source's, which has v3."""
    own = tmp_path / "own"
    for version in ("v1", "v2"):
        write_release(own, version, [world.map("a", "own")])
        write_release(world.releases, version, [world.map("a", "environment")])
    write_release(world.releases, "v3", [world.map("a", "environment")])
    with HttpServer(files({f"/{path.relative_to(own)}": path.read_bytes() for path in own.rglob("*.*")})) as site:
        spec = {"provider": "test", "name": "stack", "kubernetesVersion": "1.36", "noProvider": True}
        stack = {
            "apiVersion": CLUSTER_STACK.api_version,
            "kind": CLUSTER_STACK.kind,
            "metadata": {"name": "stack", "namespace": world.namespace},
            "spec": spec | {"sources": [{"url": site.url}]},
        }
        world.client.apply(CLUSTER_STACK, stack, manager="user")
        yield site


@pytest.mark.usefixtures("site")
def test_release_of_a_stack_with_own_sources_is_planned(world: World, plan: Plan) -> None:
    first = f"{STACK}-v1"
    world.cluster(first)
    assert plan()["changes"]["a"]["action"] == "create"
    world.secret()
    world.settle()
    assert world.read("a")["data"] == {"k": "own"}
    stored = plan()  # from object storage
    assert actions(stored) == {"a": "unchanged"}
    assert actions(plan("--release", f"{STACK}-v2")) == {"a": "unchanged"}


@pytest.mark.usefixtures("site")
def test_folder_takes_precedence_over_the_stacks_own_sources(world: World, plan: Plan, tmp_path: Path) -> None:
    world.cluster(f"{STACK}-v1")
    world.secret()
    world.settle()
    tag = write_release(tmp_path / "drafts", "v2", [world.map("a", "draft")])
    found = plan("--release", str(tmp_path / "drafts" / tag))
    assert found["changes"]["a"]["fields"] == [{"path": "data.k", "old": "own", "new": "draft"}]


@pytest.mark.usefixtures("site")
def test_release_missing_in_the_stacks_own_sources_is_an_error(world: World, kubeconfig: Path, tmp_path: Path) -> None:
    world.cluster(f"{STACK}-v1")
    world.secret()
    result = invoke(world, kubeconfig, tmp_path, "--release", f"{STACK}-v3")
    assert result.exit_code == 1
    assert "no release 'test-stack-1-36-v3'" in result.output


# -- exit codes and errors ---------------------------------------------------------------------------------------


def test_exit_code_tells_no_change_change_and_failure(world: World, kubeconfig: Path, tmp_path: Path) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret()
    assert (result := invoke(world, kubeconfig, tmp_path, "--json")).exit_code == 0
    assert json.loads(result.stdout)["cluster"] == "demo"
    assert invoke(world, kubeconfig, tmp_path, "--exit-code").exit_code == 3
    world.settle()
    assert invoke(world, kubeconfig, tmp_path, "--exit-code").exit_code == 0
    gadget: Object = {"apiVersion": "nowhere.example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    tag = write_release(world.releases, "v2", [gadget])
    result = invoke(world, kubeconfig, tmp_path, "--exit-code", "--release", tag)
    assert result.exit_code == invoke(world, kubeconfig, tmp_path, "--release", tag).exit_code == 4
    assert "? unknown" in result.output
    assert "nowhere.example.com/v1" in result.output


def test_server_that_stops_answering_is_an_error(world: World, kubeconfig: Path, tmp_path: Path, proxy: Proxy) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map(f"map-{number}") for number in range(40)]))
    world.secret(proxy.kubeconfig)
    writes: list[Request] = []

    def vanishing(request: Request) -> bool:
        if request.writes:
            writes.append(request)
        return len(writes) > 5

    proxy.fail(cut_before, vanishing)
    result = invoke(world, kubeconfig, tmp_path)
    assert result.exit_code == 1
    # The first reported object may be one whose request was not even sent.
    assert "does not answer" in result.output or "gets no requests now, because it or other" in result.output
    assert world.names() == []
    tried = {write.path for write in writes}
    assert len(tried) < 40, "the remaining objects are not tried after the server stopped answering"


def test_errors_name_the_solution(world: World, kubeconfig: Path, tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        result = invoke(world, kubeconfig, tmp_path, *arguments)
        assert result.exit_code == 1
        return str(result.output)

    assert "does not exist; choose the namespace" in refused()
    world.cluster("some-class")
    assert "does not belong to a cluster stack; give `--release`" in refused()
    name = write_release(world.releases, "v1", [world.map("a")])
    world.cluster(name)
    assert "Secret demo-kubeconfig with the kubeconfig does not exist yet" in refused()
    world.secret()
    assert "neither a folder nor a tag" in refused("--release", "nonsense")
    assert "no release 'test-stack-1-36-v9'" in refused("--release", "test-stack-1-36-v9")
    world.cluster(name, policy={"conflicts": "perhaps"})
    assert "force, fail, yield" in refused()
    assert dig(world.client.get(SECRET, Key(world.namespace, "demo-kubeconfig")), "data.value")


# -- the end of a preview of the topology ------------------------------------------------------------------------


@pytest.mark.usefixtures("object_store")
def test_preview_of_a_topology_ends_with_the_addons_of_the_changed_cluster(world: World) -> None:
    _, second = two_releases(world, "version")
    before = versions(world)
    wanted = Change(class_name=second, version="v1.99.0")
    found = with_addons(world.client, topology_plan(world, second), wanted)
    assert found.addons is not None
    [change] = found.addons.changes
    assert [field.new for field in change.fields] == ["v1.99.0"]
    assert (found.exit_code, found.dump()["addons"]["clusterStack"]["wanted"]) == (3, second)
    assert "ConfigMap" in "\n".join(topology_plan_text.lines(found)).partition("no object changed")[2]
    assert versions(world) == before


@pytest.mark.usefixtures("object_store")
def test_preview_of_a_topology_says_why_the_addons_are_not_known(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret()
    absent = topology_plan(world, f"{STACK}-v99")
    found = with_addons(world.client, absent, Change(class_name=absent.wanted_class))
    assert found.addons is None
    assert "the changes of the addons are not known: release " in found.own_notes[0]
    other = replace(absent, wanted_class="of-no-stack")
    assert with_addons(world.client, other, Change(class_name="of-no-stack")) == other
