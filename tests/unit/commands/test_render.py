"""`render`: the objects of a release, from files alone."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from infra.cli.demo import RELEASES
from infra.cli.main import app
from tests.support.releases import config_map, write_release, write_stages

CLUSTER = """\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: here, namespace: team}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster-k8s.io, kind: KINDCluster, name: here}
---
apiVersion: infrastructure.cluster-k8s.io/v1alpha1
kind: KINDCluster
metadata: {name: here, namespace: team}
spec: {clusterName: from-the-file}
"""
STAGES = """\
  AfterControlPlaneInitialized:
    - {name: network}
    - {name: storage}
  BeforeClusterUpgrade:
    - {name: storage}
    - {name: extra}
    - {name: network, action: delete}
"""
TEMPLATE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: reported}\ndata: {k: '{{ .Values.k }}'}\n"


def render(tmp_path: Path, tag: str, *arguments: str | Path, cluster: str = CLUSTER) -> Result:
    file = tmp_path / "cluster.yaml"
    file.write_text(cluster)
    given = ["render", "--release", tmp_path / tag, "--cluster", file, *arguments]
    return CliRunner().invoke(app, [str(argument) for argument in given])


def objects(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    return {document["metadata"]["name"]: document for document in yaml.safe_load_all(result.stdout)}


def staged(tmp_path: Path) -> str:
    charts = {name: [config_map(f"{name}-map")] for name in ("network", "storage", "extra", "unused")}
    overwrite = {"storage": "values: |\n  k: {{ .Cluster.metadata.name }}"}
    return write_stages(
        tmp_path, "v1", STAGES, charts, overwrite=overwrite, templates={"storage": {"reported.yaml": TEMPLATE}}
    )


def test_each_stage_has_its_own_values(tmp_path: Path) -> None:
    found = objects(render(tmp_path, staged(tmp_path)))
    assert list(found) == ["network-map", "storage-map", "reported"]
    assert found["reported"]["data"] == {"k": "here"}


def test_hook_selects_the_stages_of_an_upgrade(tmp_path: Path) -> None:
    found = objects(render(tmp_path, staged(tmp_path), "--hook", "BeforeClusterUpgrade"))
    assert list(found) == ["storage-map", "reported", "extra-map"]


def test_objects_beside_the_cluster_are_used_unless_an_option_names_others(tmp_path: Path) -> None:
    values = "values: |\n  k: {{ .InfraCluster.spec.clusterName }}"
    tag = write_release(tmp_path, "v1", templates={"all.yaml": TEMPLATE}, values=values)
    assert objects(render(tmp_path, tag))["reported"]["data"] == {"k": "from-the-file"}
    (other := tmp_path / "infra.yaml").write_text("kind: KINDCluster\nspec: {clusterName: other}\n")
    assert objects(render(tmp_path, tag, "--infra", other))["reported"]["data"] == {"k": "other"}


def test_lookups_that_find_nothing_are_noted(tmp_path: Path, helm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM", str(helm))
    text = TEMPLATE.replace("{{ .Values.k }}", '{{ lookup "v1" "Namespace" "" "default" | toJson }}')
    result = render(tmp_path, write_release(tmp_path, "v1", templates={"all.yaml": text}))
    assert objects(result)["reported"]["data"] == {"k": "{}"}
    assert "finds no objects without a cluster" in result.stderr
    assert render(tmp_path, write_release(tmp_path, "v2", [config_map("a")])).stderr == ""


def no_config(folder: Path) -> None:
    (folder / "clusteraddon.yaml").write_text("addonStages: {}\n")


def no_chart(folder: Path) -> None:
    config = folder / "clusteraddon.yaml"
    config.write_text(config.read_text().replace("name: network", "name: net"))


@pytest.mark.parametrize(
    ("damage", "words"),
    [(no_config, "clusteraddon.yaml: addonStages: has no stages"), (no_chart, "does not contain chart 'net'")],
)
def test_unusable_stages_are_refused(tmp_path: Path, damage: Any, words: str) -> None:
    tag = staged(tmp_path)
    damage(tmp_path / tag)
    result = render(tmp_path, tag)
    assert result.exit_code == 1
    assert words in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ("# Title\n\n`code` is no YAML\n", "cluster.yaml: not YAML: line 3: found character that"),
        ("kind: Other\n", "it has no Cluster"),
        ("", "it has no Cluster"),
        ("kind: Cluster\n", "cluster.yaml: its Cluster has no metadata.name"),
    ],
)
def test_error_about_the_cluster_file_is_one_short_line(tmp_path: Path, cluster: str, words: str) -> None:
    result = render(tmp_path, write_release(tmp_path, "v1", [config_map("a")]), cluster=cluster)
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert words in line
    assert len(line) < 100 + len(str(tmp_path))


BOMB = "a: &a [1]\n" + "".join(f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in pairwise("abcdefghij"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"# Title\n\nWords: of a text, which\n- has: a list\n", "not YAML"),
        (b"a: {", "not YAML"),
        (b"\xff\xfe", "not UTF-8"),
        (BOMB.encode(), "not YAML"),
        (b"kind: Other\n", "it has no Cluster"),
        (b"- Cluster\n", "it has no Cluster"),
    ],
)
def test_render_names_the_file_that_contains_no_cluster(tmp_path: Path, content: bytes, words: str) -> None:
    (file := tmp_path / "input").write_bytes(content)
    result = CliRunner().invoke(
        app, ["render", "--release", str(RELEASES / "local-demo-1-36-v1"), "--cluster", str(file)]
    )
    assert result.exit_code == 1
    assert f"{file}: {words}" in result.stderr
    assert result.stderr.count("\n") == 1
