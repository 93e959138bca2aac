"""Hostile code in a worker that renders charts or evaluates expressions: it gets nothing of the function.

Each attack runs in a worker of a process as on this machine, and of one like in a pod: user 65532, no capabilities.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shared import sandbox
from shared.charts import engine
from shared.manifests import Manifest
from shared.sandbox import confine

ROOT = Path(__file__).parents[2]
POD_USER = 65532

_IN_WORKER = """
import json, sys
from shared import private_memory, sandbox
private_memory.hide_in_pods()
limits = sandbox.Limits(cpu=60, wall=300.0, memory=256)
attempt = "tests.support.attacks:attempt"
print(json.dumps([sandbox.call(attempt, *attack, limits=limits) for attack in json.load(sys.stdin)]))
"""
_FILTERED = """
import json, sys
from shared import sandbox
from shared.sandbox import confine
from tests.support import attacks
attempts = json.load(sys.stdin)
confine._prctl(confine._PR_SET_NO_NEW_PRIVS, 1)
confine.filter_system_calls(confine.Access())
print(json.dumps([attacks.attempt(*attack) for attack in attempts]))
"""
_UNCONFINED = """
import json, sys
from tests.support import attacks
print(json.dumps([attacks.attempt(*attack) for attack in json.load(sys.stdin)]))
"""


class Attack(NamedTuple):
    """An attack of `tests.support.attacks`.

    The filter of system calls alone refuses it if it is `filtered`. It is `plain` if it succeeds wherever nothing
    refuses it.
    """

    name: str
    argument: str = ""
    filtered: bool = True
    plain: bool = True


class World(NamedTuple):
    folder: Path
    port: int


ATTACKS = (
    Attack("read", "{folder}/serviceaccount/token", filtered=False),
    Attack("read", "{folder}/settings/AWS_SECRET_ACCESS_KEY", filtered=False),
    Attack("through_root", "{folder}/serviceaccount/token", filtered=False),
    Attack("list", "{folder}/settings", filtered=False),
    Attack("read", "/etc/passwd", filtered=False),
    Attack("environment_of_parent", filtered=False),
    Attack("memory_of_parent", filtered=False),
    Attack("files_of_parent", filtered=False),
    Attack("vm_of_parent", plain=False),
    Attack("trace_parent", plain=False),
    Attack("connect", "{port}"),
    Attack("send_datagram", "{port}"),
    Attack("listen"),
    Attack("unix_socket"),
    Attack("kill_parent"),
    Attack("kill_all"),
    Attack("lower_limit_of_parent"),
    Attack("execute", "/bin/sh", plain=False),
    Attack("spawn", "/bin/sh"),
    Attack("fork"),
    Attack("write", "{folder}/settings/new"),
    Attack("write", "/tmp/capi-functions-attack"),
    Attack("move", "{folder}/settings/AWS_SECRET_ACCESS_KEY"),
    Attack("chmod", "{folder}/serviceaccount/token"),
    Attack("remove", "{folder}/serviceaccount/token"),
    Attack("new_namespace", plain=False),
    Attack("io_uring", plain=False),
    Attack("unknown_call", plain=False),
)
"""In this order: the last ones change what others read."""
IDS = [" ".join(filter(None, attack[:2])) for attack in ATTACKS]


@pytest.fixture
def world() -> Iterator[World]:
    """What a function has: a token, settings with a secret, and a server on loopback that answers anyone."""
    with tempfile.TemporaryDirectory() as name, _answering() as port:
        folder = Path(name)
        for path in ("serviceaccount/token", "settings/AWS_SECRET_ACCESS_KEY"):
            (folder / path).parent.mkdir()
            (folder / path).write_text("planted")
        if os.getuid() == 0:
            for place in (folder, *folder.rglob("*")):
                os.chown(place, POD_USER, POD_USER)
        yield World(folder, port)


def outcomes(
    script: str, world: World, attacks: list[Attack], *, in_pod: bool = True, python: str = sys.executable
) -> list[str]:
    """Returns what the attacks got. With `in_pod` they run as the user of pods, if this process may change the user."""
    arguments = [(name, argument.format(folder=world.folder, port=world.port)) for name, argument, *_ in attacks]
    options: dict[str, Any] = {}
    if in_pod and os.getuid() == 0:
        python, options = _python_of_all(), {"user": POD_USER, "group": POD_USER, "extra_groups": []}
    environment = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), *_packages(python)]),
        **({"KUBERNETES_SERVICE_HOST": "127.0.0.1"} if in_pod else {}),
    }
    done = subprocess.run(
        [python, "-B", "-c", script],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        cwd=world.folder,
        env=environment,
        timeout=300,
        **options,
    )
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("attack", ATTACKS, ids=IDS)
@pytest.mark.parametrize("in_pod", [True, False], ids=["in a pod", "on this machine"])
def test_hostile_code_in_a_worker_gets_nothing(world: World, attack: Attack, in_pod: bool) -> None:
    if confine.missing():
        pytest.skip(f"this kernel cannot confine a process fully: {confine.missing()}")
    [outcome] = outcomes(_IN_WORKER, world, [attack], in_pod=in_pod)
    assert outcome.startswith("refused: "), outcome


@pytest.mark.parametrize("attack", [attack for attack in ATTACKS if attack.filtered], ids=lambda attack: attack.name)
def test_the_filter_of_system_calls_holds_without_landlock(world: World, attack: Attack) -> None:
    [outcome] = outcomes(_FILTERED, world, [attack])
    assert outcome.startswith("refused: "), outcome


def test_the_attacks_succeed_where_nothing_refuses_them(world: World) -> None:
    attacks = [attack for attack in ATTACKS if attack.plain]
    refused = [
        (attack.name, outcome)
        for attack, outcome in zip(attacks, outcomes(_UNCONFINED, world, attacks, in_pod=False), strict=True)
        if not outcome.startswith("got ")
    ]
    assert not refused


def test_memory_of_a_function_in_a_pod_is_hidden_without_landlock(world: World) -> None:
    script = f"""
import subprocess, sys
from shared import private_memory
private_memory.hide_in_pods()
subprocess.run([sys.executable, "-B", "-c", {_FILTERED!r}], check=True)
"""
    names = ("environment_of_parent", "memory_of_parent", "files_of_parent")
    found = outcomes(script, world, [Attack(name) for name in names])
    assert all(outcome.startswith("refused: ") for outcome in found), found


@pytest.mark.skipif(os.getuid() != 0, reason="only root can change its user")
def test_worker_of_root_is_nobody_without_capabilities(world: World) -> None:
    [status] = outcomes(_IN_WORKER, world, [Attack("read", "/proc/self/status")], in_pod=False, python=_python_of_all())
    lines = dict(line.split(":\\t", 1) for line in status.split("\\n") if ":\\t" in line)
    assert lines["Uid"].split("\\t") == lines["Gid"].split("\\t") == [str(confine.NOBODY)] * 4
    assert int(lines["CapEff"], 16) == int(lines["CapPrm"], 16) == 0
    assert lines["NoNewPrivs"] == "1"


@pytest.mark.parametrize(
    ("script", "gets"),
    [
        ("echo x > inside && echo got >&2", True),
        ("echo x > {folder}/settings/new && echo got >&2", False),
        ("read x < {folder}/serviceaccount/token && echo got >&2", False),
        ("exec 3<> /dev/tcp/127.0.0.1/{port} && echo got >&2", True),
        ("exec 3<> /dev/tcp/127.0.0.1/{other} && echo got >&2", False),
        ("exec 3<> /dev/udp/127.0.0.1/{port} && echo got >&2", False),
        ("(echo got >&2)", False),
        ("exec /bin/ls", False),
        ("kill -0 $PPID && echo got >&2", False),
    ],
)
def test_program_for_lookups_reaches_one_port_and_its_own_folder(world: World, script: str, gets: bool) -> None:
    """The program is a shell in place of helm, with the right to connect to the server that answers lookups."""
    if confine.missing():
        pytest.skip(f"this kernel cannot confine a process fully: {confine.missing()}")
    limits = sandbox.Limits(cpu=60, wall=300.0, memory=256)
    with sandbox.scratch_folder() as folder, _answering() as other:
        text = script.format(folder=world.folder, port=world.port, other=other)
        command = [os.path.realpath("/bin/bash"), "-c", text]
        done = sandbox.run(command, input="", cwd=folder, env={}, limits=limits, port=world.port)
    assert (done.stderr == "got\n") is gets, done.stderr
    assert (done.returncode == 0) is gets


def test_links_that_helm_has_made_lead_to_no_file(tmp_path: Path) -> None:
    secret, output = tmp_path / "secret", tmp_path / "output"
    (secret / "folder").mkdir(parents=True)
    (secret / "folder" / "token").write_text("a: token")
    output.symlink_to(secret)
    assert [*engine._written(output, "chart")] == []
    output.unlink()
    output.mkdir()
    (output / "folder").symlink_to(secret / "folder")
    (output / "file.yaml").symlink_to(secret / "folder" / "token")
    (output / "own.yaml").write_text("a: own")
    assert [*engine._written(output, "chart")] == [Manifest("own.yaml", "a: own")]


def test_folders_of_a_killed_process_are_removed_by_the_next_one(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    script = """
import os, sys
from shared import sandbox
with sandbox.scratch_folder() as folder:
    (folder / "chart.tgz").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""
    start = [sys.executable, "-c", script]
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "text": True,
        "env": environment,
        "cwd": ROOT,
    }
    with subprocess.Popen(start, **pipes) as killed, subprocess.Popen(start, **pipes) as running:
        assert killed.stdout
        assert running.stdout
        left, used = Path(killed.stdout.readline().strip()), Path(running.stdout.readline().strip())
        killed.kill()
        killed.wait()
        assert (left / "chart.tgz").exists()
        call = (
            "from shared import sandbox\n"
            "sandbox.call('tests.support.sandbox_calls:pid', limits=sandbox.Limits(60, 300.0, 256))"
        )
        subprocess.run([sys.executable, "-c", call], env=environment, cwd=ROOT, check=True)
        assert not left.exists()
        assert (used / "chart.tgz").exists(), "the folder is in use"
        running.communicate()
    assert not [*tmp_path.iterdir()]


@contextmanager
def _answering() -> Iterator[int]:
    """A server that sends a byte to whoever connects; provides its port."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.send(b"x")

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _packages(python: str) -> list[str]:
    """Returns the folders with packages; another Python has a standard library of its own."""
    own = python == sys.executable
    return [path for path in sys.path if path and (own or not path.startswith(sys.base_prefix))]


@cache
def _python_of_all() -> str:
    """Returns a Python of this version that every user can run."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        if Path(python).exists():
            command = [python, "-c", "import encodings"]
            user: dict[str, Any] = {"user": POD_USER, "group": POD_USER, "extra_groups": []}
            with suppress(OSError):
                if subprocess.run(command, capture_output=True, env={}, check=False, **user).returncode == 0:
                    return python
    pytest.skip(f"only root can run {sys.executable}")


_NOT_PERMITTED = """
import os
from shared.sandbox import confine
if os.geteuid() == 0:
    os.setresuid({user}, {user}, {user})
confine.{layer}(confine.Access())  # without PR_SET_NO_NEW_PRIVS the kernel refuses it to a process without privileges
"""


@pytest.mark.parametrize(
    ("layer", "name"), [("filter_system_calls", "filter of system calls"), ("restrict_files", "Landlock")]
)
def test_layer_that_cannot_be_installed_ends_the_worker(layer: str, name: str) -> None:
    if not confine.has_system_call_filter() or confine._landlock_abi() < 1:
        pytest.skip("the kernel lacks a layer")
    code = _NOT_PERMITTED.format(user=POD_USER, layer=layer)
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert f"{name} is refused: " in run.stderr
