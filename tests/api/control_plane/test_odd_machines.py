"""Control planes where a machine lacks something, a route, space, a home that can be written, or has other users."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
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
STATUS = shlex.join([*CLI, "local", "status"])
PROJECT = Path(__file__).parents[3]


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


@pytest.mark.parametrize(
    ("command", "way_out"),
    [
        (["local", "up"], "$CAPI_FUNCTIONS_PLANES names another folder"),
        (["up"], "--dir names another folder"),
        (["up", "--detach"], "--dir names another folder"),
    ],
)
def test_home_that_cannot_be_written_is_named_with_the_way_out(
    command: list[str], way_out: str, planes: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    done = isolated(
        f"mount --bind {home} {home} && mount -o remount,bind,ro {home} && unset CAPI_FUNCTIONS_PLANES XDG_STATE_HOME "
        f"&& cd {home} && HOME={home} PYTHONPATH={PROJECT} {shlex.join([*CLI, *command])}",
        "--mount",
    )
    assert done.returncode == 1
    message = " ".join(done.stderr.split())
    assert f"error: {home}" in message
    assert f"Read-only file system; {way_out}" in message
    assert "Traceback" not in message


def shown(*folders: Path) -> str:
    """Returns shell commands that let all users reach these folders, also those in a folder like /root.

    Such a folder is replaced by one with these alone, in a mount namespace of its own.
    """
    inside: dict[Path, list[Path]] = {}
    for folder in folders:
        closed = [parent for parent in reversed(folder.parents) if not parent.stat().st_mode & 0o001]
        if closed:
            inside.setdefault(closed[0], []).append(folder)
    commands = []
    for closed_folder, those in inside.items():
        commands += ["whole=$(mktemp -d)", f"mount --bind {closed_folder} $whole"]
        commands += [f"mount -t tmpfs -o mode=755 tmpfs {closed_folder}"]
        for folder in those:
            commands += [f"mkdir -p {folder}", f"mount --bind $whole/{folder.relative_to(closed_folder)} {folder}"]
    return " && ".join(["true", *commands])


def test_second_user_of_a_control_plane_is_refused(tmp_path: Path) -> None:
    """Both start it at once. It is that of one of them."""
    if os.geteuid() != 0:
        pytest.skip("only root can be two other users")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        users = {f"{number}": f"setpriv --reuid={number} --regid={number} --clear-groups" for number in (64001, 64002)}
        lines = [shown(Path(sys.base_prefix), Path(sys.prefix), PROJECT, cache_directory()), f"cd {PROJECT}"]
        for user, switch in users.items():
            start = shlex.join(["sh", "-c", f"{UP} shared > {user}.out 2> {user}.err; echo $? > {user}.code"])
            lines += [f"(cd {folder} && exec {switch} {start}) &"]
        lines += ["wait"]
        lines += [f"{switch} {STATUS} > {folder}/{user}.status" for user, switch in users.items()]
        lines += [f"{switch} {DOWN} shared > {folder}/{user}.down 2>&1" for user, switch in users.items()]
        environment = {
            **os.environ,
            "CAPI_FUNCTIONS_CACHE": str(cache_directory()),
            "CAPI_FUNCTIONS_PLANES": str(folder / "planes"),
            "PYTHONPATH": str(PROJECT),
            "HOME": name,
        }
        (folder / "planes").mkdir()
        (folder / "planes").chmod(0o1777)
        command = ["unshare", "--mount", "sh", "-c", "\n".join(lines)]
        done = processes.run(command, env=environment, capture_output=True, text=True, check=False)
        content = {file.name: " ".join(file.read_text().split()) for file in folder.iterdir() if file.is_file()}
        await_end(folder)
    codes = {user: content[f"{user}.code"] for user in users}
    assert sorted(codes.values()) == ["0", "1"], (content, done)
    owner, other = sorted(codes, key=lambda user: codes[user])
    assert content[f"{owner}.out"] == f"export KUBECONFIG={folder}/planes/shared/admin.kubeconfig"
    assert f"error: {folder}/planes/shared" in content[f"{other}.err"]
    why = r"(Permission denied|Operation not permitted); \$CAPI_FUNCTIONS_PLANES names another folder$"
    assert re.search(why, content[f"{other}.err"]), content
    assert content[f"{owner}.status"].startswith("shared ready https://127.0.0.1:")
    assert content[f"{other}.status"].startswith("no control plane in ")
    assert content[f"{owner}.down"] == "shared is stopped; `capi-functions local up shared` starts it again"
    assert content[f"{other}.down"] == (
        "error: there is no control plane shared; there are: none; `capi-functions local up shared` starts it"
    )
