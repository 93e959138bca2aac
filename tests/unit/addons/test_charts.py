"""Charts: unsafe archives, values templates, rendering, parsing, and the order of objects."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from infra.demo.build import VERSIONS, release
from shared import charts
from shared.addons.chart_objects import assets_from_files, umbrella_objects
from shared.charts import ArchiveError, Capabilities, HelmMissing, OutputError, RenderError, ValuesError
from shared.manifests import Manifest, Operation, identity, waves
from tests.support.releases import archive, chart

CHART = "apiVersion: v2\nname: c\nversion: 1.0.0\n"


def member(name: str, content: bytes = b"", **fields: Any) -> bytes:
    """A .tgz of one entry, as odd as wanted."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        for field, value in fields.items():
            setattr(info, field, value)
        tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


# -- archives --------------------------------------------------------------------------------------------------


def test_inspect_returns_files_of_the_archive_and_of_packed_subcharts() -> None:
    inner = archive({"sub/Chart.yaml": "name: sub"})
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in (("c/Chart.yaml", b"name: c"), ("c/charts/sub.tgz", inner)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    members = charts.inspect(buffer.getvalue(), "c.tgz")
    assert members["c/Chart.yaml"] == b"name: c"
    assert members["c/charts/sub.tgz/sub/Chart.yaml"] == b"name: sub"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"no archive", "not a gzip", id="garbage"),
        pytest.param(b"", "not a gzip", id="empty"),
        pytest.param(gzip.compress(b"x" * 2000), "not a gzip", id="gzip of no tar"),
        pytest.param(member("c/Chart.yaml", b"x" * 5000)[:-40], "not a gzip", id="cut off"),
        pytest.param(member("../evil"), "'..'", id="parent"),
        pytest.param(member("c/../../evil"), "'..'", id="parent inside"),
        pytest.param(member("c\\..\\..\\evil"), "'..'", id="parent with backslashes"),
        pytest.param(member("/etc/passwd"), "absolute", id="absolute"),
        pytest.param(member("c/l", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "plain file", id="symlink"),
        pytest.param(member("c/l", type=tarfile.LNKTYPE, linkname="c/Chart.yaml"), "plain file", id="hard link"),
        pytest.param(member("c/null", type=tarfile.CHRTYPE), "plain file", id="device"),
        pytest.param(member("c/fifo", type=tarfile.FIFOTYPE), "plain file", id="fifo"),
    ],
)
def test_unsafe_archive_is_refused_with_archive_and_member_named(data: bytes, words: str) -> None:
    with pytest.raises(ArchiveError, match=words) as caught:
        charts.inspect(data, "evil.tgz")
    assert "evil.tgz" in str(caught.value)


def test_archive_that_unpacks_beyond_the_limit_is_refused_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten million bytes that would unpack to ten thousand million; the work stops at the limit."""

    class Zeros(io.RawIOBase):
        left = 10 * 2**30

        def read(self, size: int = -1) -> bytes:
            size = min(size, self.left)
            self.left -= size
            return bytes(size)

    header = tarfile.TarInfo("c/zeros")
    header.size = Zeros.left
    packed = gzip.compress(header.tobuf()) + gzip.compress(bytes(2**20)) * 1024
    unpacked: list[int] = []
    read = gzip.GzipFile.read

    def counted(stream: gzip.GzipFile, size: int | None = -1) -> bytes:
        unpacked.append(len(chunk := read(stream, size)))
        return chunk

    monkeypatch.setattr(gzip.GzipFile, "read", counted)
    with pytest.raises(ArchiveError, match=r"zeros.*10737418240 bytes"):
        charts.inspect(packed, "bomb.tgz")
    # A header that lies about the size does not help.
    header.size = 100 * 2**20
    many = b"".join(gzip.compress(member_header(number) + bytes(2**20)) for number in range(80))
    with pytest.raises(ArchiveError, match="67108864"):
        charts.inspect(many, "bomb.tgz")
    assert sum(unpacked) < 66 * 2**20


def member_header(number: int) -> bytes:
    info = tarfile.TarInfo(f"c/{number}")
    info.size = 2**20
    return info.tobuf()


def test_archive_with_too_many_entries_is_refused() -> None:
    data = archive({f"c/{number}": "" for number in range(50)})
    with pytest.raises(ArchiveError, match="more than 20 entries"):
        charts.inspect(data, "c.tgz", max_entries=20)


# -- values ----------------------------------------------------------------------------------------------------

CONTEXT = {
    "Cluster": {
        "metadata": {"name": "demo", "generation": 12345678},
        "spec": {"topology": {"variables": [{"name": "a", "value": 1}, {"name": "b", "value": True}]}},
        "big": 2**60,
    }
}


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("", {}),
        ("# only a comment", {}),
        ("name: {{ .Cluster.metadata.name }}", {"name": "demo"}),
        ("x: {{ .Cluster.metadata.generation }}", {"x": 12345678}),
        ("x: {{ .Cluster.big }}", {"x": 2**60}),
        ("x: {{ .Cluster.metadata.nope }}", {"x": None}),
        ("x: {{ if .InfraCluster }}1{{ else }}2{{ end }}", {"x": 2}),
        ('{{ define "n" }}{{ .Cluster.metadata.name }}{{ end }}x: {{ template "n" . }}', {"x": "demo"}),
        (
            "{{ range .Cluster.spec.topology.variables }}{{ .name }}: {{ .value }}\n{{ end }}",
            {"a": 1, "b": True},
        ),
        ("values: |\n  inner: {{ .Cluster.metadata.name }}", {"inner": "demo"}),
        ("values:\n  inner: 1", {"values": {"inner": 1}}),
        ("x: {{ upper .Cluster.metadata.name | quote }}", {"x": "DEMO"}),
    ],
)
def test_values_template_renders_over_objects_of_the_cluster(template: str, values: dict[str, Any]) -> None:
    assert charts.render_values(template, CONTEXT, name="v.yaml") == values


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ nope }}", "nope"),
        ("{{ .Cluster.metadata.name.deeper }}", "v.yaml:1"),
        ("{{ if }}", "v.yaml:1"),
        ('{{ fail "on purpose" }}', "on purpose"),
        ('{{ env "HOME" }}', "env"),
        ('{{ expandenv "$HOME" }}', "expandenv"),
        ("- a list", "not a mapping"),
        ("a: [", "not YAML"),
        ("values: '- a list'", "not a mapping"),
    ],
)
def test_failing_values_template_names_file_and_line(template: str, words: str) -> None:
    with pytest.raises(ValuesError, match=words) as caught:
        charts.render_values(template, CONTEXT, name="v.yaml")
    assert "v.yaml" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_values_template_cannot_resolve_host_names() -> None:
    assert charts.render_values('x: {{ getHostByName "localhost" | quote }}', CONTEXT, name="v") == {"x": ""}


# -- rendering -------------------------------------------------------------------------------------------------


def rendered(templates: dict[str, str], values: dict[str, Any] | None = None, **more: Any) -> str:
    manifests = charts.render(chart("c", templates), values or {}, name="c.tgz", **more)
    return "\n".join(manifest.text for manifest in manifests)


@pytest.mark.parametrize(
    ("template", "values", "text"),
    [
        ("x: {{ .Values.n }}", {"n": 10485760}, "x: 10485760"),
        ("x: {{ .Values.n }}", {"n": -12345678}, "x: -12345678"),
        ("{{ toYaml .Values }}", {"n": {"m": [10485760, 1.5, 5]}}, "- 10485760"),
        ("x: {{ gt (int .Values.n) 5 }}", {"n": 10485760}, "x: true"),
        ("x: {{ int64 .Values.n }}", {"n": 10485760}, "x: 10485760"),
        ("x: {{ .Values.f }}", {"f": 0.5}, "x: 0.5"),
        ("x: {{ .Release.Name }}/{{ .Release.Namespace }}", {}, "x: release-name/default"),
    ],
)
def test_large_integers_in_values_print_as_integers(template: str, values: dict[str, Any], text: str) -> None:
    assert text in rendered({"t.yaml": template}, values)


def test_notes_and_empty_files_are_left_out() -> None:
    assert rendered({"NOTES.txt": "hello", "e.yaml": "{{ if false }}x{{ end }}", "t.yaml": "a: 1"}) == "a: 1\n"


def test_crds_precede_other_manifests() -> None:
    data = archive({"c/Chart.yaml": CHART, "c/crds/x.yaml": "crd: 1", "c/templates/a.yaml": "a: 1"})
    assert [m.text.strip() for m in charts.render(data, {}, name="c.tgz")] == ["crd: 1", "a: 1"]


@pytest.mark.parametrize("template", ["{{ nope }}", "{{ .Values.a.b.c }}", '{{ include "nope" . }}', '{{ fail "no" }}'])
def test_template_errors_name_the_file(template: str) -> None:
    with pytest.raises(RenderError, match=r"c\.tgz.*t\.yaml"):
        rendered({"t.yaml": template})


@pytest.mark.parametrize(
    "data", [archive({"c/readme": "no chart"}), archive({"c/Chart.yaml": "a: ["}), archive({"c/Chart.yaml": "name: c"})]
)
def test_broken_chart_is_a_render_error(data: bytes) -> None:
    with pytest.raises(RenderError, match=r"c\.tgz"):
        charts.render(data, {}, name="c.tgz")


@pytest.mark.parametrize(
    ("files", "needs"),
    [
        ({"c/Chart.yaml": CHART, "c/templates/t.yaml": "a: {{ .Values.b }}"}, False),
        ({"c/Chart.yaml": CHART, "c/templates/t.yaml": "{{ .Capabilities.KubeVersion }}"}, True),
        ({"c/Chart.yaml": CHART, "c/templates/t.yaml": '{{ lookup "v1" "Secret" "" "" }}'}, True),
        ({"c/Chart.yaml": CHART + "kubeVersion: '>=1.30'\n"}, True),
        ({"c/Chart.yaml": CHART, "c/README.md": ".Capabilities"}, False),
        ({"c/templates/crds/t.yaml": ".Capabilities"}, True),
        ({"c/charts/crds/templates/t.yaml": ".Capabilities"}, True),
        ({"c/charts/crds-1.0.0.tgz/crds/templates/t.yaml": ".Capabilities"}, True),
        ({"crds/templates/t.yaml": ".Capabilities"}, True),
        ({"c/templates/t.md": ".Capabilities"}, True),
        ({"c/templates/LICENSE.yaml": ".Capabilities"}, True),
        ({"c/templates/NOTES.txt": ".Capabilities"}, True),
        ({"c/templates/charts/s/crds/t.yaml": ".Capabilities"}, True),
        ({"c/LICENSE": ".Capabilities"}, False),
        ({"c/crds/t.yaml": ".Capabilities"}, False),
        ({"c/charts/s/crds/t.yaml": ".Capabilities"}, False),
        ({"c/charts/s-1.0.0.tgz": ".Capabilities"}, False),
        ({"c/charts/s-1.0.0.tgz/s/crds/t.yaml": ".Capabilities"}, False),
        ({"c/charts/s/charts/r/crds/t.yaml": ".Capabilities"}, False),
    ],
)
def test_chart_that_mentions_capabilities_or_lookup_needs_cluster_facts(files: dict[str, str], needs: bool) -> None:
    assert charts.needs_cluster_facts({path: text.encode() for path, text in files.items()}) is needs


CAPABILITIES = {"t.yaml": "v: {{ .Capabilities.KubeVersion.Version }}\nn: {{ .Values.n }}"}


def test_chart_that_needs_cluster_facts_fails_without_the_helm_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM", "/nowhere/helm")
    with pytest.raises(HelmMissing, match=r"c\.tgz.*install the helm program"):
        rendered(CAPABILITIES, {"n": 1})


def test_helm_program_renders_with_given_version_and_api_list(helm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM", str(helm))
    text = rendered(CAPABILITIES, {"n": 10485760}, capabilities=Capabilities("v1.31.7"))
    assert "v: v1.31.7" in text
    assert "n: 10485760" in text
    with pytest.raises(RenderError, match=r"c\.tgz"):
        rendered({"t.yaml": "{{ .Capabilities.nope.nope }}"})


# -- parsing and order -----------------------------------------------------------------------------------------


def parsed(text: str) -> list[dict[str, Any]]:
    return charts.parse([Manifest("c/t.yaml", text)], default_namespace="d")


def test_parse_expands_lists_and_skips_empty_documents_and_test_hooks() -> None:
    text = (
        "null\n---\napiVersion: v1\nkind: A\nmetadata: {name: a}\n---\n# nothing\n---\n"
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: B, metadata: {name: b, namespace: ns}}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: t, annotations: {helm.sh/hook: test}}\n---\n"
        "apiVersion: v1\nkind: Job\nmetadata: {name: j, annotations: {helm.sh/hook: post-install}}\n"
    )
    assert [str(identity(obj)) for obj in parsed(text)] == ["A a", "B ns/b", "Job j"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a", "not a list"),
        ("apiVersion: v1\nkind: A", "metadata.name"),
        ("apiVersion: v1\nmetadata: {name: a}", "no kind"),
        ("kind: A\nmetadata: {name: a}", "no apiVersion"),
        ("a: [", "not YAML"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: 1}", "metadata.name"),
        ("apiVersion: v1\nkind: XList\nitems: 1", "not a list"),
    ],
)
def test_document_that_is_no_object_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(OutputError, match=words) as caught:
        parsed(text)
    assert "c/t.yaml, document 1" in str(caught.value)


def test_object_that_occurs_twice_is_refused_unless_both_are_equal() -> None:
    one = "apiVersion: v1\nkind: A\nmetadata: {name: a, namespace: d}"
    other = one.replace(", namespace: d", "")
    assert parsed(f"{one}\n---\n{other}\n---\n{one}") == parsed(one)
    with pytest.raises(OutputError, match=r"occurs twice with different content, first in c/t\.yaml, document 1"):
        parsed(f"{one}\n---\n{other}\nx: 1")


@pytest.mark.parametrize(
    ("text", "value"),
    [("yes", True), ("'yes'", "yes"), ("0o14", "0o14"), ("1e3", 1000.0), ("2001-01-01", "2001-01-01")],
)
def test_scalars_of_manifests_are_parsed_as_kubernetes_does(text: str, value: object) -> None:
    [obj] = parsed(f"apiVersion: v1\nkind: A\nmetadata: {{name: a}}\nx: {text}")
    assert obj["x"] == value or text == "0o14"


def test_waves_put_namespaces_then_crds_before_the_rest() -> None:
    def obj(kind: str, api_version: str = "v1") -> dict[str, Any]:
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}

    crd = obj("CustomResourceDefinition", "apiextensions.k8s.io/v1")
    objects = [obj("Widget", "x/v1"), obj("Deployment", "apps/v1"), crd, obj("ConfigMap"), obj("Namespace")]
    kinds = [[o["kind"] for o in wave.objects] for wave in waves(objects)]
    assert kinds == [["Namespace"], ["CustomResourceDefinition"], ["ConfigMap", "Deployment", "Widget"]]
    assert waves([]) == []


@pytest.mark.parametrize("weight", ["many", "--5", "9" * 5000])
def test_waves_put_helm_hooks_before_and_after_by_weight(weight: str) -> None:
    def hook(name: str, hooks: str, at: str = "0", kind: str = "Job") -> dict[str, Any]:
        annotations = {"helm.sh/hook": hooks, "helm.sh/hook-weight": at} if hooks else {}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": name, "annotations": annotations}}

    objects = [
        hook("after", "post-install,post-upgrade"),
        hook("second", "pre-upgrade", "5"),
        hook("plain", ""),
        hook("first", "pre-install", "-5"),
        hook("odd", "pre-install", weight),
    ]
    found = [([o["metadata"]["name"] for o in wave.objects], wave.gate) for wave in waves(objects)]
    assert found == [(["first"], True), (["odd"], True), (["second"], True), (["plain"], False), (["after"], True)]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("install", [["plain"], ["account"], ["a-job"], ["b-job"]]),
        ("upgrade", [["account"], ["a-job"], ["b-job"], ["plain"]]),
    ],
)
def test_waves_follow_the_operation_and_run_jobs_of_one_weight_by_name(
    operation: Operation, expected: list[list[str]]
) -> None:
    """The shape of kong: a Job that migrates after the installation, and before an upgrade."""
    metadata = {"annotations": {"helm.sh/hook": "post-install,pre-upgrade"}}
    objects: list[dict[str, Any]] = [
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "b-job", **metadata}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a-job", **metadata}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "account", **metadata}},
    ]
    found = waves(objects, {identity(obj): operation for obj in objects})
    assert [[obj["metadata"]["name"] for obj in wave.objects] for wave in found] == expected


@pytest.mark.parametrize(
    ("hooks", "applied"),
    [
        ("test", False),
        ("test-success", False),
        ("pre-delete", False),
        ("post-delete,pre-rollback", False),
        ("pre-install", True),
        ("pre-delete, post-upgrade", True),
        ("crd-install", True),
    ],
)
def test_helm_hooks_about_deletion_and_tests_are_not_applied(hooks: str, applied: bool) -> None:
    text = f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations: {{helm.sh/hook: '{hooks}'}}\n"
    assert bool(charts.parse([Manifest("f.yaml", text)], default_namespace="d")) is applied


# -- the demo's releases ---------------------------------------------------------------------------------------


def demo(version: str) -> dict[str, dict[str, Any]]:
    cluster = {
        "metadata": {"name": "demo"},
        "spec": {
            "controlPlaneEndpoint": {"host": "h", "port": 6443},
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/8"]}},
            "topology": {"variables": [{"name": "replicas", "value": 3}]},
        },
    }
    context = {"Cluster": cluster, "InfraCluster": {"kind": "KINDCluster"}}
    objects = umbrella_objects(assets_from_files(*release(version)), context, Capabilities("v1.36.3"))
    return {str(identity(obj)): obj for obj in objects}


def test_each_demo_version_adds_changes_and_removes_objects() -> None:
    stack = [demo(version) for version in VERSIONS]
    assert [len(objects) for objects in stack] == [14, 14, 14]
    for before, after in itertools.pairwise(stack):
        assert len(after.keys() - before.keys()) == 1
        assert len(before.keys() - after.keys()) == 1
        assert any(before[name] != after[name] for name in before.keys() & after.keys())
    settings = stack[0]["ConfigMap cluster-settings"]["data"]
    assert settings == {"cluster": "demo", "endpoint": "h:6443", "logLevel": "info", "podCIDRs": "10.0.0.0/8"}


def test_rendering_leaves_no_files_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    rendered({"t.yaml": "a: 1"})
    assert os.listdir(tmp_path) == []
