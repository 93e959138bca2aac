"""Helm's `lookup`: live objects, with read rights only, also before the chart's own CRDs exist."""

from __future__ import annotations

import base64
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from shared import charts
from shared.api.resources import CLUSTER, SECRET
from shared.charts import LiveCluster, RenderError, lookup
from shared.kube import Client, Key, Unavailable, dig
from shared.kube.credentials import Credentials
from shared.kube.discovery import Discovery
from tests.support.accounts import with_rights
from tests.support.objects import secret as a_secret
from tests.support.releases import archive, write_release
from tests.support.world import World

PASSWORD = """
{{- $old := lookup "v1" "Secret" "%(namespace)s" "db" }}
apiVersion: v1
kind: Secret
metadata: {name: db, namespace: "%(namespace)s"}
data:
  password: {{ if $old }}{{ $old.data.password }}{{ else }}{{ randAlphaNum 20 | b64enc }}{{ end }}
"""


def live(client: Client) -> LiveCluster:
    version = client.request("GET", "/version")["gitVersion"]
    return LiveCluster(client, version, Discovery(client).served())


@pytest.fixture(autouse=True)
def helm_program(helm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM", str(helm))


def rendered(templates: dict[str, str], cluster: LiveCluster | None) -> list[dict[str, Any]]:
    files = {"c/Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\n"}
    data = archive(files | {f"c/{path}": text for path, text in templates.items()})
    return charts.render_addon(
        data, None, {}, chart_name="c.tgz", capabilities=charts.Capabilities("v1.36.3", live=cluster)
    )


def shown(expression: str, cluster: LiveCluster | None) -> Any:
    template = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{x: {{{{ {expression} | toJson }}}}}}\n"
    [obj] = rendered({"templates/a.yaml": template}, cluster)
    return obj["data"]["x"]


def test_lookup_returns_live_objects(management: Client, namespace: str) -> None:
    management.apply(SECRET, a_secret("s", namespace, value=b"x"), manager="user")
    cluster = live(management)
    found = shown(f'lookup "v1" "Secret" "{namespace}" "s"', cluster)
    assert found["metadata"]["name"] == "s"
    listed = shown(f'(lookup "v1" "Secret" "{namespace}" "").items', cluster)
    assert [one["metadata"]["name"] for one in listed] == ["s"]
    assert shown(f'lookup "v1" "Namespace" "" "{namespace}"', cluster)["metadata"]["name"] == namespace
    assert shown(f'"s" | lookup "v1" "Secret" "{namespace}"', cluster) == found
    assert shown(f'lookup "v1" "Secret" "{namespace}" "none"', cluster) == {}
    has = '.Capabilities.APIVersions.Has "{}"'
    facts = f'list (lookup "v1" "Secret" "x" "") .Capabilities.KubeVersion.Version ({has}) ({has})'
    _, *facts_in_output = shown(facts.format("apps/v1/Deployment", "toys.example.com/v1"), cluster)
    assert facts_in_output == [cluster.version, True, False]


@pytest.mark.parametrize("kind", ['"toys.example.com/v1" "Widget"', '"v1" "Nope"', '"v9" "Nope"'])
def test_lookup_of_a_kind_that_is_not_served_is_empty(kind: str, management: Client, namespace: str) -> None:
    cluster = live(management)
    assert shown(f'lookup {kind} "{namespace}" "x"', cluster) == {}
    assert shown(f'(lookup {kind} "{namespace}" "").items', cluster) == []


def test_lookup_without_a_cluster_is_empty() -> None:
    assert shown('lookup "v1" "Namespace" "" "default"', None) == {}


def test_lookup_of_a_kind_that_the_chart_defines_is_empty_at_first(management: Client) -> None:
    crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: ws.toys.example.com}\n"
    widget = (
        '{{ $old := lookup "toys.example.com/v1" "Widget" "" "w" }}apiVersion: toys.example.com/v1\nkind: Widget\n'
        "metadata: {name: w, annotations: {helm.sh/hook: pre-install}}\nspec: {known: {{ not (empty $old) }}}\n"
    )
    for place in ("crds", "templates"):
        objects = rendered({f"{place}/crd.yaml": crd, "templates/w.yaml": widget}, live(management))
        assert [obj["kind"] for obj in objects] == ["CustomResourceDefinition", "Widget"]
        assert objects[1]["spec"] == {"known": False}


def test_lookup_needs_read_rights_only_and_names_missing_ones(
    management: Client, kubeconfig: Path, namespace: str
) -> None:
    management.apply(SECRET, a_secret("s", namespace, value=b"x"), manager="user")
    reader = with_rights(management, kubeconfig, namespace, "", "secrets", "get")
    assert shown(f'lookup "v1" "Secret" "{namespace}" "s"', live(reader))["kind"] == "Secret"
    with pytest.raises(RenderError, match=r"c\.tgz.*configmaps.*forbidden"):
        shown(f'lookup "v1" "ConfigMap" "{namespace}" "s"', live(reader))


@pytest.mark.parametrize("form", ["", "| b64dec", "| b64dec | toJson", "| b64dec | quote"])
def test_looked_up_secret_values_are_redacted_from_messages(form: str, management: Client, namespace: str) -> None:
    management.apply(SECRET, a_secret("s", namespace, value=b'plan"ted\nvalue'), manager="user")
    for found in (
        f'(lookup "v1" "Secret" "{namespace}" "s")',
        f'(index (lookup "v1" "Secret" "{namespace}" "").items 0)',
    ):
        template = f'{{{{ fail (printf "it is <%s>" ({found}.data.value {form})) }}}}'
        with pytest.raises(RenderError, match=r'it is <"?…"?>'):
            rendered({"templates/a.yaml": template}, live(management))


def test_invalid_objects_are_reported_without_secret_values(management: Client, namespace: str) -> None:
    management.apply(SECRET, a_secret("s", namespace, value=b"planted"), manager="user")
    found = f'(lookup "v1" "Secret" "{namespace}" "s").data.value'
    for template in (f"kind: {{{{ {found} }}}}", f"a: [{{{{ {found} | b64dec }}}}", f"{{{{ {found} | b64dec }}}}"):
        with pytest.raises(charts.ChartError) as refused:
            rendered({"templates/a.yaml": template}, live(management))
        assert "planted" not in str(refused.value)
        assert base64.b64encode(b"planted").decode() not in str(refused.value)


@pytest.mark.parametrize("kind", ["SealedSecret", "Secret"])
def test_values_of_kinds_with_secret_in_their_name_are_not_redacted(kind: str) -> None:
    odd = {"apiVersion": "toys.example.com/v1", "kind": kind, "data": {"a": ["x"], "b": "no base64!"}}
    assert list(lookup.secret_values(odd)) == []


def test_malformed_secret_data_does_not_prevent_redaction_of_other_values() -> None:
    data = {"a": ["x"], "b": "no base64!", "c": "cGxhbnRlZA=="}
    assert set(lookup.secret_values({"apiVersion": "v1", "kind": "Secret", "data": data})) == {
        "no base64!",
        "planted",
        "cGxhbnRlZA==",
    }
    items = [{"data": data}, {"data": None}, None]
    assert "planted" in set(lookup.secret_values({"apiVersion": "v1", "kind": "SecretList", "items": items}))


def test_cluster_that_stops_answering_during_a_lookup_is_not_a_chart_error(management: Client) -> None:
    cluster = live(management)
    nobody = Client(Credentials("http://127.0.0.1:9"), attempts=1)
    with pytest.raises(Unavailable, match="does not answer"):
        shown('lookup "v1" "Secret" "x" "y"', LiveCluster(nobody, cluster.version, cluster.served))


def test_lookup_in_a_slow_cluster_times_out(management: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MAX_SECONDS", 0.0)
    with pytest.raises(Unavailable, match="used up the time limit"):
        shown('lookup "v1" "Secret" "x" "y"', live(management))


def test_number_of_lookups_is_limited(management: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MAX_LOOKUPS", 20)
    many = '{{ range until 21 }}{{ $_ := lookup "v1" "Secret" "x" (toString .) }}{{ end }}'
    with pytest.raises(RenderError, match="looks up more than 20 objects"):
        rendered({"templates/a.yaml": many}, live(management))


def test_no_kubeconfig_file_is_left_after_rendering(
    management: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    shown('lookup "v1" "Secret" "x" "y"', live(management))
    assert os.listdir(tmp_path) == []
    assert not [one for one in threading.enumerate() if one.name == "chart-lookups"]


def test_looked_up_password_is_kept_over_upgrades(world: World) -> None:
    names = {"namespace": world.namespace}
    world.cluster(write_release(world.releases, "v1", templates={"db.yaml": PASSWORD % names}))
    world.secret()
    assert world.settle().retry_after is None
    first = world.client.get(SECRET, Key(world.namespace, "db"))["data"]["password"]
    assert len(base64.b64decode(first)) == 20
    more = yaml.safe_dump(world.map("a"))
    tag = write_release(world.releases, "v2", templates={"db.yaml": PASSWORD % names, "a.yaml": more})
    world.client.patch(CLUSTER, Key(world.namespace, "demo"), {"spec": {"topology": {"classRef": {"name": tag}}}})
    assert world.settle().retry_after is None
    assert world.names() == ["a"]
    assert dig(world.client.get(SECRET, Key(world.namespace, "db")), "data.password") == first


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/version", 200),
        ("GET", "/api/v1/namespaces/default", 200),
        ("GET", "/api/v1/namespaces/default/pods/p/log", 404),
        ("GET", "/api/v1/nodes/n/proxy/metrics", 404),
        ("GET", "/api/v1/namespaces/default/pods/..%2f..%2fsecrets", 404),
        ("GET", "/healthz", 404),
        ("POST", "/api/v1/namespaces", 501),
        ("PATCH", "/api/v1/namespaces/default", 501),
        ("DELETE", "/api/v1/namespaces/default", 501),
    ],
)
def test_proxy_for_lookups_allows_reads_of_objects_only(
    method: str, path: str, status: int, management: Client, tmp_path: Path
) -> None:
    with lookup.LookupServer(live(management)) as server:
        config = server.write_kubeconfig(tmp_path)
        assert stat.S_IMODE(config.stat().st_mode) == 0o600
        url = yaml.safe_load(config.read_text())["clusters"][0]["cluster"]["server"]
        assert urllib3.request(method, url + path, retries=False).status == status
        others = url.rpartition("/")[0]
        assert urllib3.request(method, f"{others}/guessed{path}", retries=False).status in (403, 501)
