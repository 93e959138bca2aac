"""Names and versions of releases."""

from __future__ import annotations

import pytest

from shared.releases.naming import IncomparableVersions, InvalidName, ReleaseName, StackVersion


@pytest.mark.parametrize(
    ("text", "version", "tag", "dotted"),
    [
        ("v3", StackVersion(3), "v3", "v3"),
        ("v0", StackVersion(0), "v0", "v0"),
        ("v0-sha.hipstsw", StackVersion(0, "sha", "hipstsw"), "v0-sha-hipstsw", "v0-sha.hipstsw"),
        ("v0-sha-hipstsw", StackVersion(0, "sha", "hipstsw"), "v0-sha-hipstsw", "v0-sha.hipstsw"),
        ("v12-beta.10", StackVersion(12, "beta", "10"), "v12-beta-10", "v12-beta.10"),
        ("v1-git.0123abc", StackVersion(1, "git", "0123abc"), "v1-git-0123abc", "v1-git.0123abc"),
    ],
)
def test_version_is_parsed_in_both_forms(text: str, version: StackVersion, tag: str, dotted: str) -> None:
    assert StackVersion.parse(text) == version
    assert (version.tag, version.dotted, str(version)) == (tag, dotted, dotted)
    assert StackVersion.parse(tag) == StackVersion.parse(dotted) == version


@pytest.mark.parametrize(
    "text",
    [
        *("", "v", "3", "V3", "v-1", "v01", "v1.0", "v1 ", "v1\n", "v\u0663", "v" + "9" * 10),
        *("v1-alpha", "v1-alpha.", "v1-alpha-", "v1-.1", "v1--1", "v1-a.1.0", "v1-a-1.0", "v1-a-1-0"),
        *("v1.0-alpha.1", "v1-Alpha.1", "v1-alpha.A", "v1-al_pha.1", "v1-stable.1", "v1-stable-1", "v1-a/b.1"),
    ],
)
def test_invalid_version_is_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        StackVersion.parse(text)


@pytest.mark.parametrize("parts", [(-1,), (1, "sha"), (1, "sha", ""), (1, "stable", "2"), (1, "a-b", "c")])
def test_version_of_invalid_parts_is_refused(parts: tuple[int]) -> None:
    with pytest.raises(InvalidName):
        StackVersion(*parts)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("v1", "v2"),
        ("v9", "v10"),
        ("v1-beta.9", "v1-beta.10"),
        ("v1-beta.10", "v2-beta.1"),
        ("v0-sha.aaa", "v0-sha.aab"),
        ("v0-sha.10", "v0-sha.1a"),
        ("v0-sha.2", "v0-sha.1a"),
    ],
)
def test_versions_of_a_channel_are_ordered(older: str, newer: str) -> None:
    old, new = StackVersion.parse(older), StackVersion.parse(newer)
    assert old < new
    assert new > old
    assert old <= new
    assert old != new


def test_order_is_total_within_a_channel() -> None:
    patches = ["10", "1a", "2", "b", "02", "9a", "a1"]
    ordered = ["02", "2", "10", "1a", "9a", "a1", "b"]
    for start in range(len(patches)):
        shuffled = patches[start:] + patches[:start]
        assert [version.patch for version in sorted(StackVersion(0, "sha", patch) for patch in shuffled)] == ordered


def test_versions_of_two_channels_are_not_comparable() -> None:
    with pytest.raises(IncomparableVersions):
        assert StackVersion(1) < StackVersion(2, "sha", "abc")
    assert StackVersion(1) != StackVersion(1, "sha", "abc")


@pytest.mark.parametrize(
    ("text", "name", "tag", "class_name"),
    [
        (
            "docker-ferrol-1-27-v1",
            ReleaseName("docker", "ferrol", "1.27", StackVersion(1)),
            "docker-ferrol-1-27-v1",
            "docker-ferrol-1-27-v1",
        ),
        *(
            (
                text,
                ReleaseName("docker", "ferrol", "1.27", StackVersion(0, "sha", "hipstsw")),
                "docker-ferrol-1-27-v0-sha-hipstsw",
                "docker-ferrol-1-27-v0-sha.hipstsw",
            )
            for text in ("docker-ferrol-1-27-v0-sha.hipstsw", "docker-ferrol-1-27-v0-sha-hipstsw")
        ),
        (
            "openstack-scs2-1-36-v10",
            ReleaseName("openstack", "scs2", "1.36", StackVersion(10)),
            "openstack-scs2-1-36-v10",
            "openstack-scs2-1-36-v10",
        ),
    ],
)
def test_release_name_is_parsed_in_both_forms(text: str, name: ReleaseName, tag: str, class_name: str) -> None:
    assert ReleaseName.parse(text) == ReleaseName.from_class_name(text) == name
    assert (name.tag, name.class_name, str(name)) == (tag, class_name, tag)


@pytest.mark.parametrize(
    "text",
    [
        *("", "quick-start", "docker-ferrol-1-27", "docker-ferrol-1-27-", "docker-ferrol-1-27-1"),
        *("docker-ferrol-1.27-v1", "docker-fer-rol-1-27-v1", "docker--1-27-v1", "-ferrol-1-27-v1"),
        *("docker-ferrol-1-27-v1-sha", "docker-ferrol-1-27-v1-sha-a-b", "docker-ferrol-1-27-v1-sha.a.b"),
        *("docker-ferrol-1-x-v1", "docker-ferrol-01-27-v1", "Docker-ferrol-1-27-v1", "docker-fer.rol-1-27-v1"),
        *("docker-ferrol-1-27-v1\n", " docker-ferrol-1-27-v1", "../ferrol-1-27-v1", "docker-ferrol-1-27-v1/.."),
    ],
)
def test_other_names_are_not_release_names(text: str) -> None:
    assert ReleaseName.from_class_name(text) is None
    with pytest.raises(InvalidName, match="invalid"):
        ReleaseName.parse(text)


@pytest.mark.parametrize(
    "parts", [("do-cker", "f", "1.27"), ("d", "", "1.27"), ("d", "f", "1-27"), ("d", "f", "v1.27")]
)
def test_release_name_of_invalid_parts_is_refused(parts: tuple[str, str, str]) -> None:
    with pytest.raises(InvalidName, match="invalid"):
        ReleaseName(*parts, StackVersion(1))


def test_charts_have_file_names_of_the_stack_and_version() -> None:
    name = ReleaseName.parse("docker-ferrol-1-27-v3-sha-abc")
    assert name.stack == "docker-ferrol-1-27"
    assert name.class_chart == "docker-ferrol-1-27-cluster-class-v3-sha.abc.tgz"
    assert name.addon_chart(StackVersion(2)) == "docker-ferrol-1-27-cluster-addon-v2.tgz"
    assert name.addon_chart(StackVersion(0, "sha", "x")) == "docker-ferrol-1-27-cluster-addon-v0-sha.x.tgz"
    assert name.addon_chart(StackVersion(2)).startswith(name.addon_chart_prefix)
