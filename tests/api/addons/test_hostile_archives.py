"""Archives that leave their folder, or grow without limit."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared.kube import dig
from tests.support.releases import STACK, write_release
from tests.support.world import World


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as file:
        for info, data in members:
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def member(name: str, **fields: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


CHART = (member("addons/Chart.yaml"), b"apiVersion: v2\nname: addons\nversion: 1.0.0\n")


HOSTILE: dict[str, Callable[[], bytes]] = {
    "a way out": lambda: tar(CHART, (member("addons/../../../../tmp/owned-by-a-chart"), b"x")),
    "an absolute path": lambda: tar(CHART, (member("/tmp/owned-by-a-chart"), b"x")),
    "a link": lambda: tar(
        CHART, (member("addons/templates/x.yaml", type=tarfile.SYMTYPE, linkname="/etc/hostname"), b"")
    ),
    "a bomb": lambda: tar(CHART, (member("addons/templates/x.yaml"), bytes(300_000_000))),
    "very many files": lambda: tar(CHART, *((member(f"addons/files/{number}"), b"") for number in range(50_000))),
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_archive_is_rejected(world: World, hostile: str) -> None:
    """Archives were unpacked to any path and at any size."""
    world.secret()
    world.cluster(write_release(world.releases, "v1", addon_chart=HOSTILE[hostile]()))
    assert world.settle().retry_after is not None
    assert dig(world.addon(), "status.ready") is False
    assert f"{STACK}-cluster-addon-v1.tgz" in world.condition("Ready")["message"]
    assert world.names() == []
    assert not Path("/tmp/owned-by-a-chart").exists()
