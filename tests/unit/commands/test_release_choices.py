"""Which releases a Cluster could move to."""

from __future__ import annotations

import pytest

from infra.operations.release_choices import choices
from shared.kube import Object

CURRENT = "docker-demo-1-36-v2"
NAMES = (
    "docker-demo-1-36-v10",
    CURRENT,
    "docker-demo-1-36-v0-sha-abc",
    "docker-demo-1-35-v9",
    "docker-demo-1-37-v1",
    "docker-demo-1-38-v1",
    "docker-other-1-36-v1",
    "no-release",
)


def release(name: str, *, ready: bool = True) -> Object:
    condition = {"type": "Ready", "status": "False", "reason": "Fetching", "message": "of a\x1b file"}
    status = {"ready": ready, "kubernetesVersion": "v1.36.2", "conditions": [] if ready else [condition]}
    return {"metadata": {"name": name, "namespace": "team"}, "status": status}


def cluster(class_name: str) -> Object:
    return {"metadata": {"name": "demo", "namespace": "team"}, "spec": {"topology": {"classRef": {"name": class_name}}}}


@pytest.mark.parametrize(
    ("present", "names"),
    [
        pytest.param(CURRENT, [NAMES[2].replace("sha-", "sha."), CURRENT, NAMES[0], NAMES[4]], id="its stack"),
        pytest.param("docker-demo-1-38-v1", [NAMES[5]], id="newest"),
        pytest.param("quick-start", 7, id="class of no stack"),
        pytest.param(None, 7, id="no Cluster"),
    ],
)
def test_releases_of_the_stack_with_this_or_the_next_minor_version(present: str | None, names: list[str] | int) -> None:
    found = choices(map(release, NAMES), cluster(present) if present else None)
    if isinstance(names, int):
        assert len(found) == names
    else:
        assert [each.name for each in found] == names
        assert [each.name for each in found if each.is_current] == [present]


def test_reason_is_shown_without_control_characters() -> None:
    [found] = choices([release(CURRENT, ready=False)])
    assert (found.ready, found.reason) == (False, "Fetching: of a\\x1b file")
