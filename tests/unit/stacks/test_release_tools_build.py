"""`release build`: versions, archives, and errors in sources."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.cli.main import app
from infra.release_tools.build import (
    BuildError,
    Versions,
    build,
    custom_versions,
    hash_versions,
    load_stack,
    next_versions,
)
from infra.release_tools.lint import lint
from infra.release_tools.push import publish
from shared import charts
from shared.releases.naming import StackVersion
from shared.releases.sources.folder import FolderSource

CLASS = """\
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata:
  name: {{ .Release.Name }}-{{ .Chart.Version }}
"""
SOURCES = {
    "csctl.yaml": """\
config: {kubernetesVersion: v1.36.3, clusterStackName: test, provider: {type: docker}}
""",
    "cluster-class/Chart.yaml": "apiVersion: v2\nname: x\nversion: v1\n",
    "cluster-class/templates/class.yaml": CLASS,
    "cluster-addon/Chart.yaml": "apiVersion: v2\nname: y\nversion: << .ClusterAddonVersion >>\n",
    "cluster-addon/templates/x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
    "cluster-addon-values.yaml": "image: << .NodeImageVersion >>\n",
    "README.md": "not in the release",
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    for path, text in SOURCES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def _numbers(stack: int, addon: int, node_image: int) -> Versions:
    return Versions(StackVersion(stack), StackVersion(addon), StackVersion(node_image))


def test_custom_versions_default_to_that_of_the_stack(source: Path) -> None:
    release, files = build(load_stack(source), custom_versions("v3", "v2", "v0-rc.1"))
    assert (release.name.tag, release.metadata.kubernetes) == ("docker-test-1-36-v3", "v1.36.3")
    assert sorted(files) == [
        "cluster-addon-values.yaml",
        "docker-test-1-36-cluster-addon-v2.tgz",
        "docker-test-1-36-cluster-class-v3.tgz",
        "hashes.json",
        "metadata.yaml",
    ]
    assert files["cluster-addon-values.yaml"] == b"image: v0-rc.1\n"
    members = charts.inspect(files[release.class_chart], "class")
    assert members["docker-test-1-36-cluster-class/Chart.yaml"].endswith(b"version: v3\n")


def test_same_sources_give_same_bytes_wherever_they_are(source: Path, tmp_path: Path) -> None:
    first = load_stack(source)
    copy = load_stack(Path(shutil.copytree(source, tmp_path / "copy")))
    assert build(first, hash_versions(first)) == build(copy, hash_versions(copy))
    (source / "README.md").write_text("changed")
    assert hash_versions(load_stack(source)) != hash_versions(first)


def test_next_versions_count_changed_parts_only(source: Path, tmp_path: Path) -> None:
    place = FolderSource(tmp_path / "published")
    place.root.mkdir()

    def build_next() -> Versions:
        stack = load_stack(source)
        versions = next_versions(stack, place)
        publish(*build(stack, versions), str(place.root))
        return versions

    assert build_next() == _numbers(1, 1, 1)
    with pytest.raises(BuildError, match="nothing has changed since docker-test-1-36-v1"):
        build_next()
    (source / "cluster-class/values.yaml").write_text("a: 1\n")
    assert build_next() == _numbers(2, 1, 1)
    (source / "cluster-addon-values.yaml").write_text("b: 1\n")
    assert build_next() == _numbers(3, 2, 1)
    (source / "node-image").mkdir()
    (source / "node-image/Dockerfile").write_text("FROM scratch\n")
    assert build_next() == _numbers(4, 2, 2)


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("csctl.yaml", None, "csctl.yaml: missing"),
        ("csctl.yaml", "a: [", "csctl.yaml: not YAML"),
        ("csctl.yaml", "config: {provider: {type: a}}", "csctl.yaml: config.clusterStackName: missing"),
        ("csctl.yaml", SOURCES["csctl.yaml"].replace("v1.36.3", "v1.36"), "config.kubernetesVersion: must be a full"),
        ("csctl.yaml", SOURCES["csctl.yaml"].replace("docker", "do-cker"), "csctl.yaml: invalid provider 'do-cker'"),
        ("cluster-class/Chart.yaml", None, "cluster-class/Chart.yaml: missing"),
        ("cluster-addon/Chart.yaml", "name: y\n", "cluster-addon/Chart.yaml: must have one line with its version"),
        (
            "cluster-addon-values.yaml",
            "a: 1\nb: << .Nope >>\n",
            "cluster-addon-values.yaml:2: << .Nope >>: unknown placeholder, must be one of",
        ),
    ],
)
def test_unusable_sources_are_refused_with_the_file(source: Path, path: str, text: str | None, words: str) -> None:
    if text is None:
        (source / path).unlink()
    else:
        (source / path).write_text(text)
    with pytest.raises(BuildError, match=words):
        build(load_stack(source), custom_versions("v1"))


def test_links_in_sources_are_refused(source: Path) -> None:
    (source / "cluster-addon/secret").symlink_to("/etc/passwd")
    with pytest.raises(BuildError, match="links are not supported in archives"):
        load_stack(source)


def test_charts_in_folders_make_a_release_with_stages(source: Path) -> None:
    stages = "addonStages:\n  AfterControlPlaneInitialized: [{name: cni}]\n"
    (source / "clusteraddon.yaml").write_text(stages)
    (source / "cluster-addon-values.yaml").unlink()
    addon = source / "cluster-addon"
    shutil.move(addon, source / "cni")
    addon.mkdir()
    shutil.move(source / "cni", addon / "cni")
    release, files = build(load_stack(source), custom_versions("v1"))
    assert set(charts.inspect(files[release.addon_chart], "addon")) == {"cni/Chart.yaml", "cni/templates/x.yaml"}
    assert release.multi_stage


def test_command_builds_a_release(source: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    command = ["release", "build", str(source)]
    done = CliRunner().invoke(app, [*command, str(made), "--mode", "stable", "--since", str(made)])
    assert done.exit_code == 1  # there is no such folder, which may be a slip of the pen
    done = CliRunner().invoke(app, [*command, str(made)])
    assert done.exit_code == 0, done.output
    [folder] = made.iterdir()
    assert folder.name.startswith("docker-test-1-36-v0-sha-")
    assert lint(folder) == []
    done = CliRunner().invoke(app, [*command, str(made), "--mode", "stable", "--since", str(made)])
    assert done.exit_code == 0, done.output
    assert (made / "docker-test-1-36-v1").is_dir()
    inside = CliRunner().invoke(app, [*command, str(source / "made")])
    assert (inside.exit_code, (source / "made").exists()) == (1, False)
