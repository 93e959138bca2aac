"""Control planes where a machine lacks something: a route, space on the disk, a home that can be written."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local_control_plane.cache import cache_directory
from tests.support import processes
from tests.support.command_line import CLI, await_end

LOOPBACK_UP = """python3 -c "
import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh14x', b'lo', 1))  # SIOCSIFFLAGS, IFF_UP
" """
UP = shlex.join([*CLI, "local", "up"])
DOWN = shlex.join([*CLI, "local", "down"])


@pytest.fixture
def planes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the named control planes, which does not exist yet."""
    monkeypatch.setenv("CAPI_FUNCTIONS_CACHE", str(cache_directory()))
    monkeypatch.setenv("CAPI_FUNCTIONS_PLANES", str(tmp_path / "planes"))
    yield tmp_path / "planes"
    await_end(tmp_path)


def isolated(script: str, *namespaces: str) -> subprocess.CompletedProcess[str]:
    """Runs a shell script as root of a user namespace, with its own mounts or network."""
    command = ["unshare", "--map-root-user", *namespaces]
    if processes.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let a user create namespaces")
    return processes.run([*command, "sh", "-c", script], capture_output=True, text=True, check=False)


def test_plane_starts_without_a_default_route_and_after_its_full_disk_got_space(planes: Path) -> None:
    planes.mkdir()
    done = isolated(
        f"{LOOPBACK_UP} && mount -t tmpfs -o size=200k tmpfs {planes} && cd {planes} && {UP}; echo status $?\n"
        f"mount -o remount,size=1g {planes} && {UP}; echo status $?; ls default; {DOWN}",
        "--mount",
        "--net",
    )
    assert "status 1\n" in done.stdout, done
    assert "no space left on device" in done.stderr.lower()
    assert f"{planes}/default" in done.stderr
    assert f"export KUBECONFIG={planes}/default/admin.kubeconfig\nstatus 0\n" in done.stdout, done
    assert "default is stopped" in done.stdout


def test_home_that_cannot_be_written_is_named_with_the_way_out(planes: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    done = isolated(
        f"mount --bind {home} {home} && mount -o remount,bind,ro {home} && unset CAPI_FUNCTIONS_PLANES XDG_STATE_HOME "
        f"&& HOME={home} {UP}",
        "--mount",
    )
    assert done.returncode == 1
    assert f"error: {home}" in done.stderr
    assert "Read-only file system; $CAPI_FUNCTIONS_PLANES names another folder" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
