"""The metadata of a release, and the files that a release must have."""

from __future__ import annotations

import pytest

from shared.releases.metadata import MetadataError, ReleaseMetadata, parse
from shared.releases.naming import ReleaseName, StackVersion
from shared.releases.release import Blob, InvalidRelease, Release, assemble

GOOD = """\
apiVersion: metadata.clusterstack.x-k8s.io/v1alpha1
versions:
  clusterStack: v3-sha.abc
  kubernetes: v1.27.3
  components:
    clusterAddon: v2
    nodeImage: v1-sha-def
"""
NODE_IMAGE = "    nodeImage: v1-sha-def\n"


def test_all_fields_are_parsed() -> None:
    assert parse(GOOD.encode(), "r") == ReleaseMetadata(
        StackVersion(3, "sha", "abc"), "v1.27.3", StackVersion(2), StackVersion(1, "sha", "def")
    )


@pytest.mark.parametrize("line", ["", "    nodeImage:\n", "    nodeImage: ''\n", "    nodeImage: null\n"])
def test_node_image_is_optional(line: str) -> None:
    assert parse(GOOD.replace(NODE_IMAGE, line).encode(), "r").node_image is None


@pytest.mark.parametrize(
    ("written", "read"), [("1.30.0", "v1.30.0"), ("v1.36.0-rc.1", "v1.36.0-rc.1"), ("v1.30.2+k3s1", "v1.30.2+k3s1")]
)
def test_kubernetes_version_gets_its_v(written: str, read: str) -> None:
    assert parse(GOOD.replace("v1.27.3", written).encode(), "r").kubernetes == read


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("metadata.clusterstack.x-k8s.io/v1alpha1", "v1", "apiVersion"),
        ("apiVersion", "other", "apiVersion"),
        ("clusterStack: v3-sha.abc", "clusterStack: 3", "versions.clusterStack"),
        ("clusterStack: v3-sha.abc", "clusterStack: [v3]", "versions.clusterStack"),
        ("  clusterStack: v3-sha.abc\n", "", "versions.clusterStack"),
        ("v1.27.3", "1.27", "versions.kubernetes"),
        ("v1.27.3", "", "versions.kubernetes"),
        ("clusterAddon: v2", "clusterAddon: vee", "versions.components.clusterAddon"),
        ("    clusterAddon: v2\n", "", "versions.components.clusterAddon"),
        ("nodeImage: v1-sha-def", "nodeImage: v1-sha", "versions.components.nodeImage"),
        (GOOD[GOOD.index("versions") :], "versions: [a]\n", "versions"),
        (GOOD, "", "apiVersion"),
        (GOOD, "{}", "apiVersion"),
        (GOOD, "- a", "(file)"),
        (GOOD, "a: [", "(file)"),
        (GOOD, "[" * 65000, "(file)"),
        (GOOD, "\x00", "(file)"),
        (GOOD, "#" * 70000, "(file)"),
        (GOOD, "? [a]\n: b", "(file)"),
    ],
)
def test_error_names_release_and_field(old: str, new: str, field: str) -> None:
    assert old in GOOD
    with pytest.raises(MetadataError) as caught:
        parse(GOOD.replace(old, new).encode(), "docker-ferrol-1-27-v3")
    assert caught.value.field == field
    assert "docker-ferrol-1-27-v3" in str(caught.value)
    assert field in str(caught.value)


def test_bytes_that_are_not_utf8_are_an_error() -> None:
    with pytest.raises(MetadataError, match="not YAML"):
        parse(b"\xff\xfe\xfa", "r")


def test_merge_keys_are_limited() -> None:
    bomb = "a0: &a0 {x: y}\n" + "".join(
        f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 20)}]}}\n" for n in range(1, 12)
    )
    with pytest.raises(MetadataError):
        parse(bomb.encode(), "r")


NAME = ReleaseName.parse("docker-ferrol-1-27-v3-sha-abc")
CLASS = "docker-ferrol-1-27-cluster-class-v3-sha.abc.tgz"
ADDON = "docker-ferrol-1-27-cluster-addon-v2.tgz"
BLOB = Blob("0" * 64, 1)


def _assemble(*files: str) -> Release:
    return assemble(NAME, dict.fromkeys(files, BLOB), GOOD.encode())


def test_files_have_the_names_of_their_versions() -> None:
    release = _assemble("metadata.yaml", CLASS, ADDON)
    assert (release.class_chart, release.addon_chart) == (CLASS, ADDON)
    assert (release.values_template, release.stages, release.multi_stage) == (None, None, False)
    release = _assemble("metadata.yaml", CLASS, ADDON, "cluster-addon-values.yaml", "clusteraddon.yaml")
    assert release.values_template == "cluster-addon-values.yaml"
    assert (release.stages, release.multi_stage) == ("clusteraddon.yaml", True)


@pytest.mark.parametrize(
    ("files", "problems"),
    [
        ([CLASS, ADDON], {"metadata.yaml": "missing"}),
        (["metadata.yaml"], {CLASS: "missing", ADDON: "missing"}),
        (["metadata.yaml", ADDON, "x" + CLASS], {CLASS: "missing"}),
        (
            ["metadata.yaml", CLASS, "docker-ferrol-1-27-cluster-addon-v3.tgz"],
            {ADDON: "missing (the release has docker-ferrol-1-27-cluster-addon-v3.tgz)"},
        ),
    ],
)
def test_error_lists_missing_files(files: list[str], problems: dict[str, str]) -> None:
    with pytest.raises(InvalidRelease) as caught:
        _assemble(*files)
    assert caught.value.problems == problems
    assert NAME.tag in str(caught.value)
    assert all(file in str(caught.value) for file in problems)


def test_empty_chart_is_an_error() -> None:
    files = {"metadata.yaml": BLOB, CLASS: Blob("0" * 64, 0), ADDON: BLOB}
    with pytest.raises(InvalidRelease, match=f"{CLASS}: empty"):
        assemble(NAME, files, GOOD.encode())


def test_missing_or_invalid_metadata_is_an_error() -> None:
    with pytest.raises(InvalidRelease, match=r"metadata\.yaml: missing"):
        assemble(NAME, {CLASS: BLOB, ADDON: BLOB}, None)
    with pytest.raises(InvalidRelease, match=r"metadata\.yaml: apiVersion: missing"):
        assemble(NAME, {"metadata.yaml": BLOB}, b"{}")
