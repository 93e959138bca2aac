"""`release lint`: findings about good and bad releases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from infra.cli.demo import RELEASES
from infra.cli.main import app
from infra.release_tools.lint import lint
from tests.support.releases import STACK, archive

CLASS = """\
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata:
  name: {{ .Release.Name }}-{{ .Chart.Version }}
"""
SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n"
STAGES = """\
addonStages:
  AfterControlPlaneInitialized:
    - name: cni
      waitForPostCondition:
        objects: [{key: daemon, apiVersion: apps/v1, kind: DaemonSet, name: cni, namespace: kube-system}]
        conditions: daemon.status.numberReady > 0
"""


def _chart(name: str, version: str, files: dict[str, str]) -> dict[str, str]:
    head = {f"{name}/Chart.yaml": f"apiVersion: v2\nname: {name}\nversion: {version}\n"}
    return head | {f"{name}/{path}": text for path, text in files.items()}


def _release(
    root: Path,
    *,
    addons: dict[str, str] | None = None,
    class_version: str = "v1",
    stack_version: str = "v1",
    kubernetes: str = "v1.36.3",
    **files: str,
) -> Path:
    """A good release but for what is given; `files` are named with `_` for `.` and `__` for `-`."""
    folder = root / f"{STACK}-v1"
    folder.mkdir()
    versions = {"clusterStack": stack_version, "kubernetes": kubernetes, "components": {"clusterAddon": "v1"}}
    metadata = {"apiVersion": "metadata.clusterstack.x-k8s.io/v1alpha1", "versions": versions}
    (folder / "metadata.yaml").write_text(yaml.safe_dump(metadata))
    packed = archive(_chart("class", class_version, {"templates/class.yaml": CLASS}))
    (folder / f"{STACK}-cluster-class-v1.tgz").write_bytes(packed)
    default = _chart("addon", "v1", {"templates/settings.yaml": SETTINGS})
    (folder / f"{STACK}-cluster-addon-v1.tgz").write_bytes(archive(default if addons is None else addons))
    for name, text in files.items():
        (folder / name.replace("__", "-").replace("_", ".")).write_text(text)
    return folder


def _lines(folder: Path) -> list[str]:
    return [str(finding) for finding in lint(folder)]


def test_good_release_has_no_findings(tmp_path: Path) -> None:
    assert _lines(_release(tmp_path)) == []


def test_fields_of_an_initialized_control_plane_are_known(tmp_path: Path) -> None:
    values = "host: {{ .Cluster.spec.controlPlaneEndpoint.host }}\nkind: {{ .InfraCluster.kind }}\n"
    assert _lines(_release(tmp_path, cluster__addon__values_yaml=values)) == []


def test_values_template_in_another_encoding_is_an_error(tmp_path: Path) -> None:
    folder = _release(tmp_path)
    (folder / "cluster-addon-values.yaml").write_bytes(b"name: \xfc\n")
    [line] = _lines(folder)
    assert line.startswith("error ")
    assert line.endswith("cluster-addon-values.yaml is not UTF-8")


def test_good_stages_have_no_findings(tmp_path: Path) -> None:
    addons = _chart(
        "cni", "1.0.0", {"templates/x.yaml": SETTINGS, "overwrite.yaml": "a: {{ .Cluster.metadata.name }}\n"}
    )
    assert _lines(_release(tmp_path, addons=addons, clusteraddon_yaml=STAGES)) == []


@pytest.mark.parametrize("folder", sorted(RELEASES.iterdir()), ids=lambda folder: folder.name)
def test_demo_has_no_errors(folder: Path) -> None:
    assert [str(finding) for finding in lint(folder) if finding.severity == "error"] == []


_ADDON, _CLASS_CHART = f"{STACK}-cluster-addon-v1.tgz", f"{STACK}-cluster-class-v1.tgz"
_OBJECT = "apiVersion: {}\nkind: {}\nmetadata:\n  {}: x\n"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"stack_version": "v2"}, "error metadata.yaml: versions.clusterStack is v2, the tag v1"),
        ({"kubernetes": "v1.35.0"}, "error metadata.yaml: versions.kubernetes is v1.35.0, the tag's 1.36"),
        ({"class_version": "v2"}, f"error {_CLASS_CHART}: Chart.yaml has version v2, must be v1"),
        ({"notes_txt": "x"}, "warning notes.txt: not part of a release"),
        (
            {"cluster__addon__values_yaml": "a: 1\n{{/* .Cluster.no\n */}}\nb: {{ .Cluster.spec.nope }}\n"},
            "warning cluster-addon-values.yaml:4: no cluster has .Cluster.spec.nope; it prints nothing",
        ),
        ({"cluster__addon__values_yaml": "a: {{ if }}\n"}, f"error {_ADDON}: for cluster 'sample'"),
        (
            {"addons": _chart("a", "v1", {"templates/x.yaml": _OBJECT.format("v1", "Secret", "labels")})},
            f"error {_ADDON}: for cluster 'sample': a/templates/x.yaml, document 1: Secret has no metadata.name",
        ),
        (
            {
                "addons": _chart(
                    "a", "v1", {"templates/x.yaml": SETTINGS, "templates/y.yaml": SETTINGS + "data: {a: b}\n"}
                )
            },
            "ConfigMap settings occurs twice",
        ),
        (
            {"addons": _chart("a", "v1", {"templates/x.yaml": _OBJECT.format("example.org/v1", "Thing", "name")})},
            f"warning {_ADDON}: Thing.example.org x: the release does not define example.org/v1",
        ),
        (
            {"addons": _chart("a", "v1", {"templates/x.yaml": "{{ .Capabilities.KubeVersion }}"})},
            f"info {_ADDON}: needs facts of the cluster",
        ),
        ({"clusteraddon_yaml": STAGES}, "does not contain chart 'cni'"),
        ({"clusteraddon_yaml": STAGES.replace("Initialized", "Init")}, "no such hook"),
        ({"clusteraddon_yaml": STAGES.replace("daemon.status", "demon.status")}, "uses demon, which is not a key"),
        ({"clusteraddon_yaml": STAGES.replace("> 0", ">")}, "stage cni: 'daemon.status.numberReady >': "),
        (
            {"clusteraddon_yaml": STAGES, "cluster__addon__values_yaml": ""},
            "warning cluster-addon-values.yaml: not used",
        ),
    ],
)
def test_problem_is_found(tmp_path: Path, changes: dict[str, str], expected: str) -> None:
    found = _lines(_release(tmp_path, **changes))
    assert any(expected in line for line in found), found


@pytest.mark.parametrize(
    ("template", "values", "paths"),
    [
        ("{{ .Values.there }}", "there: 1\n", []),
        ("{{ .Values.ours }}", "", []),
        ("{{ .Values.nope }}", "there: 1\n", [".Values.nope"]),
        ("{{ with .Values.there }}{{ .nope }}{{ end }}", "there: {a: 1}\n", [".nope"]),
        ("{{ .Values.nope | default 1 }}{{ if .Values.not }}{{ .Values.not }}{{ end }}", "", []),
        ("{{ .Values.sub.anything }}{{ .Values.sub.more }}", "", []),
    ],
)
def test_values_that_no_file_sets_are_found(tmp_path: Path, template: str, values: str, paths: list[str]) -> None:
    """Of its own ones, with those of the release over them; a subchart is another author's."""
    settings = f"{SETTINGS}data:\n  k: '{template}'\n"
    addons = _chart("a", "v1", {"templates/x.yaml": settings, "values.yaml": values})
    addons |= {
        "a/charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
        "a/charts/sub/templates/x.yaml": "{{ .Values.whatever }}",
        "a/charts/sub/values.yaml": "anything: 1\n",
    }
    found = _lines(_release(tmp_path, addons=addons, cluster__addon__values_yaml="ours: 1\n"))
    place = "warning a/templates/x.yaml:6"
    assert found == [f"{place}: no values of the chart have {path}; it prints nothing" for path in paths]


@pytest.mark.parametrize("action", ["apply", "delete"])
def test_charts_of_all_stages_are_rendered(tmp_path: Path, action: str) -> None:
    addons = _chart("cni", "1.0.0", {"templates/x.yaml": '{{ fail "broken" }}'})
    last = f"  BeforeClusterUpgrade:\n    - {{name: cni, action: {action}}}\n"
    [line] = _lines(_release(tmp_path, addons=addons, clusteraddon_yaml=STAGES + last))
    assert line.startswith(f"error {_ADDON}: for cluster 'sample': ")
    assert "broken" in line


def test_object_that_moves_to_another_stage_is_no_error(tmp_path: Path) -> None:
    """They are never both wanted."""
    addons = {
        path: text
        for name in ("cni", "csi")
        for path, text in _chart(name, "1.0.0", {"templates/x.yaml": SETTINGS}).items()
    }
    upgrade = "  BeforeClusterUpgrade:\n    - {name: cni, action: delete}\n    - {name: csi}\n"
    assert _lines(_release(tmp_path, addons=addons, clusteraddon_yaml=STAGES + upgrade)) == []


def test_object_in_two_stages_is_an_error(tmp_path: Path) -> None:
    addons = {
        path: text
        for name in ("cni", "csi")
        for path, text in _chart(name, "1.0.0", {"templates/x.yaml": SETTINGS}).items()
    }
    found = _lines(_release(tmp_path, addons=addons, clusteraddon_yaml=STAGES + "    - name: csi\n"))
    assert found == [f"error {_ADDON}: ConfigMap settings is in stage cni and in stage csi"]


def test_incomplete_release_is_an_error(tmp_path: Path) -> None:
    folder = _release(tmp_path)
    (folder / _ADDON).unlink()
    assert _lines(folder) == [f"error {_ADDON}: missing"]


def test_command_prints_findings_and_exits_with_their_severity(tmp_path: Path) -> None:
    folder = _release(tmp_path, cluster__addon__values_yaml="a: {{ .Cluster.spec.mine }}\n")
    own = tmp_path / "own.yaml"
    own.write_text("kind: Cluster\nmetadata: {name: own}\nspec: {mine: 1}\n")
    warned = CliRunner().invoke(app, ["release", "lint", str(folder)])
    assert (warned.exit_code, warned.output.count("\n")) == (0, 1)
    fine = ["release", "lint", str(folder), "--cluster", str(own)]
    assert CliRunner().invoke(app, fine).output == "no findings\n"
    assert json.loads(CliRunner().invoke(app, [*fine, "--json"]).output) == []

    (folder / _ADDON).write_bytes(b"x")
    for option in (["--json"], ["-o", "json"]):
        failed = CliRunner().invoke(app, ["release", "lint", str(folder), *option])
        assert failed.exit_code == 1
        assert [finding["file"] for finding in json.loads(failed.output)] == [_ADDON]


def test_generated_fields_are_warnings(tmp_path: Path) -> None:
    text = SETTINGS + "data:\n  password: {{ randAlphaNum 9 }}\n  at: {{ now | date `2006` | quote }}\n  a: b\n"
    folder = _release(tmp_path, addons=_chart("addon", "v1", {"templates/a.yaml": text}))
    archive_name = f"{STACK}-cluster-addon-v1.tgz"
    assert [str(finding) for finding in lint(folder)] == [
        f"warning {archive_name}: ConfigMap settings: data.{key} varies between renderings; "
        "it is kept until the version of the addons changes"
        for key in ("password", "at")
    ]


def test_class_chart_with_varying_output_is_a_warning(tmp_path: Path) -> None:
    folder = _release(tmp_path)
    text = CLASS + "  labels: {a: {{ randAlpha 9 }}}\n"
    packed = archive(_chart("class", "v1", {"templates/class.yaml": text}))
    (folder / f"{STACK}-cluster-class-v1.tgz").write_bytes(packed)
    [finding] = lint(folder)
    assert (finding.severity, finding.file) == ("warning", f"{STACK}-cluster-class-v1.tgz")
    assert "its output varies" in finding.text


def test_lookups_without_a_cluster_are_reported(tmp_path: Path, helm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM", str(helm))
    text = '{{ $_ := lookup "v1" "Secret" "" "" }}'
    addons = _chart("addon", "v1", {"templates/settings.yaml": text + SETTINGS})
    folder = _release(tmp_path, addons=addons)
    packed = archive(_chart("class", "v1", {"templates/class.yaml": text + CLASS}))
    (folder / f"{STACK}-cluster-class-v1.tgz").write_bytes(packed)
    found = {
        (one.severity, one.file.removeprefix(f"{STACK}-cluster-")): one.text
        for one in lint(folder)
        if "`lookup`" in one.text
    }
    assert "without a cluster, lookups find nothing" in found["info", "addon-v1.tgz"]
    assert "lookups always find nothing" in found["warning", "class-v1.tgz"]


def test_field_that_only_some_clusters_have_is_an_info(tmp_path: Path) -> None:
    template = "a: {{ .Cluster.spec.mine }}\nb: {{ .Cluster.spec.nope }}\nc: {{ .Cluster.spec.mine | default 1 }}\n"
    folder = _release(tmp_path, cluster__addon__values_yaml=template)
    samples = [
        {"Cluster": {"metadata": {"name": name}, "spec": spec}} for name, spec in (("x", {"mine": 1}), ("y", {}))
    ]
    assert [str(finding) for finding in lint(folder, samples)] == [
        "warning cluster-addon-values.yaml:2: no cluster has .Cluster.spec.nope; it prints nothing",
        "info cluster-addon-values.yaml:1: cluster 'y' has no .Cluster.spec.mine; it prints nothing there",
    ]


def test_folder_that_is_no_release_is_an_error(tmp_path: Path) -> None:
    release = _release(tmp_path)
    sources = tmp_path / "src"
    sources.mkdir()
    (sources / "csctl.yaml").touch()
    for command in ("lint", "push"):
        where = [str(tmp_path / "published")] if command == "push" else []
        unbuilt = CliRunner().invoke(app, ["release", command, str(sources), *where])
        assert unbuilt.exit_code == 1
        assert f"`capi-functions release build {sources} <folder>`" in unbuilt.output
        above = CliRunner().invoke(app, ["release", command, str(tmp_path), *where])
        assert above.exit_code == 1
        assert f"name a folder below it, such as {release}\n" in above.output
        assert not (tmp_path / "published").exists()


@pytest.mark.parametrize(
    "template",
    [
        "{{ range .Values.hosts }}x{{ end }}",
        "{{ if .Values.tls.enabled }}{{ .Values.tls.secretName }}{{ end }}",
        "{{ if and .Values.used .Values.tls.enabled }}{{ .Values.tls.secretName }}{{ end }}",
    ],
)
def test_values_of_blocks_that_are_not_entered_are_not_missing(tmp_path: Path, template: str) -> None:
    files = {"values.yaml": "used: true\ntls: {enabled: false}\n", "templates/a.yaml": SETTINGS + f"# {template}\n"}
    assert lint(_release(tmp_path, addons=_chart("addon", "v1", files))) == []


def test_missing_value_is_found_in_an_entered_block_and_named_once(tmp_path: Path) -> None:
    text = (
        SETTINGS + "# {{ if .Values.used }}{{ .Values.name }}{{ else }}{{ .Values.name }}{{ end }}{{ .Values.name }}\n"
    )
    files = {"values.yaml": "used: true\n", "templates/a.yaml": text}
    [found] = lint(_release(tmp_path, addons=_chart("addon", "v1", files)))
    assert found.text == "no values of the chart have .Values.name; it prints nothing, nor in 2 other places"


@pytest.mark.parametrize("damaged", [True, False])
def test_error_in_the_class_chart_does_not_hide_those_of_addons(tmp_path: Path, damaged: bool) -> None:
    addons = _chart("addon", "v1", {"templates/a.yaml": "{{ fail `no way` }}"})
    folder = _release(tmp_path, addons=addons, class_version="v2")
    if damaged:
        (folder / f"{STACK}-cluster-class-v1.tgz").write_bytes(b"nothing")
    found = [str(finding) for finding in lint(folder)]
    assert any("cluster-class" in finding for finding in found)
    assert any("cluster-addon" in finding and "no way" in finding for finding in found)
