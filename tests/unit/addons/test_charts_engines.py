"""Both engines render the same objects; integers print as integers; external schemas are never fetched."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from shared import charts
from shared.charts import HelmMissing, RenderError
from shared.manifests import hooks_of, identity

CHART = "apiVersion: v2\nname: {}\nversion: 1.0.0\n"
CRD = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {}}}\n"


def packed(files: dict[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path, text in files.items():
            content = text.encode() if isinstance(text, str) else text
            info = tarfile.TarInfo(path)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def umbrella(extra: str = "") -> bytes:
    """A chart with a packed subchart that can be switched off, CRDs in both, hooks, notes and large numbers."""
    subchart: dict[str, str | bytes] = {
        "sub/Chart.yaml": CHART.format("sub"),
        "sub/values.yaml": "bytes: 7654321\n",
        "sub/crds/crd.yaml": CRD.format("subs.x"),
        "sub/templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\n"
        'data: {b: "{{ .Values.bytes }}"}',
        "sub/templates/_helpers.tpl": extra,
    }
    return packed(
        {
            "c/Chart.yaml": CHART.format("c")
            + "dependencies:\n- {name: sub, version: 1.0.0, condition: sub.enabled}\n",
            "c/values.yaml": "bytes: 10485760\nsub: {enabled: true}\n",
            "c/crds/crd.yaml": CRD.format("tops.x"),
            "c/charts/sub-1.0.0.tgz": packed(subchart),
            "c/templates/NOTES.txt": "Thank you.",
            "c/templates/cm.yaml": (
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n"
                '  plain: "{{ .Values.bytes }}"\n  list: "{{ .Values.list }}"\n'
                '  encoded: "{{ .Values.bytes | toString | b64enc }}"\n'
                "---\napiVersion: v1\nkind: Pod\nmetadata: {name: t, annotations: {helm.sh/hook: test}}\n"
                "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {helm.sh/hook: pre-install}}\n"
            ),
        }
    )


@pytest.fixture(autouse=True)
def helm_program(helm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM", str(helm))


def addon(chart: bytes, values: dict[str, Any]) -> dict[str, Any]:
    cluster = charts.Capabilities("v1.36.3")
    objects = charts.render_addon(chart, json.dumps(values), {}, chart_name="c.tgz", capabilities=cluster)
    return {str(identity(obj)): obj for obj in objects}


TOP = {"ConfigMap c", "Job.batch j", "CustomResourceDefinition.apiextensions.k8s.io tops.x"}
SUB = {"ConfigMap s", "CustomResourceDefinition.apiextensions.k8s.io subs.x"}


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({}, TOP | SUB),
        ({"sub": {"enabled": False}}, TOP),
        ({"list": [12345678, [{"x": 1}]]}, TOP | SUB),
    ],
    ids=["defaults", "subchart off", "numbers"],
)
class TestUmbrella:
    def test_library_renders_the_objects(self, values: dict[str, Any], names: set[str]) -> None:
        assert addon(umbrella(), values).keys() == names

    def test_helm_program_renders_the_same_objects_as_the_library(
        self, values: dict[str, Any], names: set[str]
    ) -> None:
        asking = umbrella("{{/* .Capabilities */}}")
        assert charts.needs_cluster_facts(charts.inspect(asking, "c.tgz"))
        found = addon(asking, values)
        assert found == addon(umbrella(), values)
        assert found.keys() == names


@pytest.mark.parametrize(
    ("style", "end", "value"),
    [("|", "", "x\n"), ("|", "\n\n", "x\n"), ("|-", "", "x"), ("|+", "", "x\n"), ("|+", "\n", "x\n\n")],
)
def test_block_scalar_at_the_end_of_a_file_is_as_in_the_output_of_helm(style: str, end: str, value: str) -> None:
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  k: {style}\n    x{end}"
    files: dict[str, str | bytes] = {"c/Chart.yaml": CHART.format("c"), "c/templates/cm.yaml": text}
    for extra in ("", "{{/* .Capabilities */}}"):
        found = addon(packed(files | {"c/templates/_h.tpl": extra}), {})
        assert found["ConfigMap c"]["data"] == {"k": value}, extra or "the library"


def test_integers_of_defaults_lists_and_subcharts_print_as_integers() -> None:
    objects = addon(umbrella(), {"list": [12345678]})
    assert objects["ConfigMap c"]["data"] == {"plain": "10485760", "list": "[12345678]", "encoded": "MTA0ODU3NjA="}
    assert objects["ConfigMap s"]["data"] == {"b": "7654321"}


@pytest.mark.parametrize(
    ("template", "value", "text"),
    [
        ("{{ .Values.x }}", 999_999, "999999"),
        ("{{ .Values.x }}", 1_000_000, "1000000"),
        ("{{ .Values.x }}", -1_000_000, "-1000000"),
        ("{{ .Values.x }}", 2**53 - 1, str(2**53 - 1)),
        ("{{ .Values.x }}", 1e300, "1e+300"),
        ("{{ .Values.x }}", 1234567.5, "1.2345675e+06"),
        ("{{ gt .Values.x 5 }}", 10485760, "true"),
        ("{{ gt (int .Values.x) 5 }}", 10485760, "true"),
        ("{{ add .Values.x 1 }}", 10485760, "10485761"),
        ("{{ int64 .Values.x }}", 10485760, "10485760"),
        ("{{ toJson .Values.x }}", 10485760, "10485760"),
        ("{{ kindOf .Values.x }}", 5, "float64"),
    ],
)
def test_number_prints_as_in_helm_with_set(template: str, value: float, text: str) -> None:
    chart = packed({"c/Chart.yaml": CHART.format("c"), "c/templates/a/b/c/d.yaml": template})
    [manifest] = charts.render(chart, {"x": value}, name="c.tgz")
    assert manifest.text == f"{text}\n"


SCHEMA = '{"properties": {"x": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "number"}}, "$schema": "%s"}'


@pytest.mark.parametrize(
    ("schema", "offline"),
    [
        ('{"type": "object"}', True),
        (SCHEMA % "http://json-schema.org/draft-07/schema#", True),
        (SCHEMA % "http://127.0.0.1:9/schema", False),
        ('{"$ref": "http://127.0.0.1:9/x.json"}', False),
        ('{"$ref": "\\u0068ttp://127.0.0.1:9/x.json"}', False),
        ('{"allOf": [{"x": {"$ref": "file:///etc/hostname"}}]}', False),
        ('{"$id": "http://127.0.0.1:9/a.json", "$ref": "b.json"}', False),
        (b'{"x": "\xff", "$ref": "http://127.0.0.1:9/x.json"}', False),
        ('\ufeff{"$ref": "http://127.0.0.1:9/x.json"}', False),
        ('{"$ref": "http://127.0.0.1:9/x.json", "maximum": 1' + "0" * 4300 + "}", False),
    ],
)
def test_schemas_are_never_fetched(schema: str | bytes, offline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM", "/nowhere/helm")
    chart = packed(
        {"c/Chart.yaml": CHART.format("c"), "c/values.schema.json": schema, "c/templates/t.yaml": "{{ .Values.x }}"}
    )
    if offline:
        assert [manifest.text for manifest in charts.render(chart, {"x": 1}, name="c.tgz")] == ["1\n"]
    else:
        with pytest.raises(HelmMissing, match="an external schema"):
            charts.render(chart, {"x": 1}, name="c.tgz")


def test_external_schema_is_ignored() -> None:
    schema = '{"$ref": "http://127.0.0.1:9/x.json"}'
    chart = packed(
        {"c/Chart.yaml": CHART.format("c"), "c/values.schema.json": schema, "c/templates/t.yaml": "x: {{ .Values.x }}"}
    )
    [manifest] = charts.render(chart, {"x": 1}, name="c.tgz")
    assert manifest.text.strip() == "x: 1"


@pytest.mark.parametrize("asks", ["", "{{ .Capabilities.KubeVersion }}"])
@pytest.mark.parametrize("action", ['fail (b64dec "/w==")', 'fail (repeat 20000000 "x")', 'fail (repeat 40000000 "x")'])
def test_template_that_fails_with_any_bytes_is_a_render_error(asks: str, action: str) -> None:
    chart = packed({"c/Chart.yaml": CHART.format("c"), "c/templates/t.yaml": f"{asks}{{{{ {action} }}}}"})
    with pytest.raises(RenderError, match=r"^c\.tgz: .*(UTF-8|\ufffd|xxx|memory)") as refused:
        charts.render(chart, {}, name="c.tgz")
    assert len(str(refused.value)) < 40_000


def test_schema_inside_the_chart_is_enforced() -> None:
    schema = '{"properties": {"x": {"type": "string"}}}'
    chart = packed({"c/Chart.yaml": CHART.format("c"), "c/values.schema.json": schema})
    with pytest.raises(RenderError, match=r"c\.tgz.*got number, want string"):
        charts.render(chart, {"x": 1}, name="c.tgz")


def test_kubernetes_version_and_api_list_reach_the_helm_program() -> None:
    template = '{{ .Capabilities.KubeVersion.Minor }} {{ .Capabilities.APIVersions.Has "x.io/v1/Thing" }}'
    chart = packed({"c/Chart.yaml": CHART.format("c"), "c/templates/t.yaml": f"x: {template}"})
    [manifest] = charts.render(chart, {}, name="c.tgz", capabilities=charts.Capabilities("v1.31.7", ["x.io/v1/Thing"]))
    assert manifest.text.strip() == "x: 31 true"


def test_chart_for_another_kubernetes_version_is_refused() -> None:
    chart = packed({"c/Chart.yaml": CHART.format("c") + 'kubeVersion: ">=1.99"\n'})
    with pytest.raises(RenderError, match=r"c\.tgz.*>=1\.99"):
        charts.render(chart, {}, name="c.tgz", capabilities=charts.Capabilities("v1.36.3"))


def test_both_engines_render_any_release_with_hooks_and_notes() -> None:
    seen = "{{ .Release.Name }} {{ .Release.Namespace }} {{ .Release.Revision }} {{ .Release.IsUpgrade }} "
    seen += "{{ .Release.IsInstall }} {{ .Values.size }}"
    hook = '\n  annotations: {helm.sh/hook: "%s"}'
    templates = {"a": "", "b": hook % "post-upgrade", "c": hook % "pre-delete", "d": hook % "test"}
    files = {f"x/templates/{name}.yaml": config_map(name + rest, seen) for name, rest in templates.items()}
    files |= {"x/Chart.yaml": CHART.format("x"), "x/templates/NOTES.txt": f'Notes: "{seen}"'}
    release = charts.Release("a.b-c", "apps", revision=12, is_upgrade=True)
    rendered = []
    for more in ("", "{{/* .Capabilities */}}"):  # by the library, by the helm program
        chart = packed({**files, "x/templates/more.yaml": more})
        found = charts.render_release(
            chart, {"size": 10485760}, release, chart_name="x.tgz", capabilities=charts.Capabilities("v1.36.3")
        )
        rendered.append(found)
    assert rendered[0] == rendered[1]
    expected = "a.b-c apps 12 true false 1.048576e+07"
    assert [obj["data"]["seen"] for obj in rendered[0].objects] == [expected]
    assert [identity(obj).name for obj in rendered[0].hooks] == ["b", "c"]
    assert [identity(obj).name for obj in rendered[0].hooks if "pre-delete" in hooks_of(obj)] == ["c"]
    assert rendered[0].notes == f'Notes: "{expected}"'


def config_map(name: str, seen: str) -> str:
    return f'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata: {{seen: "{seen}"}}\n'


@pytest.mark.parametrize(
    ("name", "namespace", "words"),
    [
        ("a" * 53, "apps", ""),
        ("a" * 54, "apps", "release name"),
        ("--post-renderer=x", "apps", "release name"),
        ("A", "apps", "release name"),
        ("a..b", "apps", "release name"),
        ("", "apps", "release name"),
        ("a", "a.b", "release namespace"),
        ("a", "-a", "release namespace"),
    ],
)
def test_names_of_releases(name: str, namespace: str, words: str) -> None:
    problem = charts.Release(name, namespace).problem
    assert words in problem
    assert bool(words) is bool(problem)


def test_chart_must_not_have_the_file_that_writes_the_notes() -> None:
    files = {
        "c/Chart.yaml": CHART.format("c"),
        "c/templates/NOTES.txt": "Thank you.",
        "c/templates/more.yaml": "{{/* .Capabilities */}}",
        "c/templates/~notes.yaml": 'notes: {broken: ""}',
    }
    release = charts.Release("r", "ns")
    with pytest.raises(RenderError, match=r"templates/~notes\.yaml is a reserved name: rename the template"):
        charts.render_release(
            packed(dict(files)), {}, release, chart_name="c", capabilities=charts.Capabilities("v1.36.3")
        )
