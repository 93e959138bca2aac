"""State file, processes, ports and files: the parts of an instance that need no server."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from infra import local_control_plane
from infra.local_control_plane import ControlPlaneError, files, ports
from infra.local_control_plane.instance import address
from infra.local_control_plane.layout import LOCKED, Layout
from infra.local_control_plane.processes import Process, spawn
from infra.local_control_plane.state import Phase, State
from tests.support.until import HANGS

URL = "https://127.0.0.1:1234"


def me() -> Process:
    process = Process.of(os.getpid())
    assert process
    return process


def stranger() -> Process:
    """A former process with the pid of this one."""
    return Process(os.getpid(), me().started - 1)


@pytest.mark.parametrize(
    "state",
    [
        State("starting"),
        State("failed", URL, "broken"),
        State("ready", URL, "", Process(1, 2), {"etcd": Process(3, 4), "kube-apiserver": Process(5, 6)}),
    ],
)
def test_state_is_read_as_it_was_written(state: State, tmp_path: Path) -> None:
    state.write(tmp_path / "state.json")
    assert State.read(tmp_path / "state.json") == state
    assert (tmp_path / "state.json").stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "state.json"]


def test_processes_are_in_the_order_of_their_end() -> None:
    servers = {"etcd": Process(3, 4), "kube-apiserver": Process(5, 6), "kwok": Process(7, 8)}
    assert [process.pid for process in State("ready", supervisor=Process(1, 2), servers=servers).processes] == [
        1,
        7,
        5,
        3,
    ]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"supervisor": null, "servers": null}',
        '{"phase": "ready", "supervisor": 1}',
        '{"more": 1}',
    ],
)
def test_file_that_is_no_state_reads_as_failed(content: str, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(content)
    state = State.read(tmp_path / "state.json")
    assert state
    assert state.phase == "failed"
    assert "state.json" in state.error
    assert local_control_plane.status(tmp_path).phase == "failed"


@pytest.mark.parametrize(
    ("phase", "supervisor", "seen", "pid"),
    [
        ("ready", me(), "ready", os.getpid()),
        ("starting", me(), "starting", os.getpid()),
        ("stopped", me(), "stopped", os.getpid()),
        ("ready", stranger(), "stopped", None),
        ("starting", stranger(), "stopped", None),
        ("failed", stranger(), "failed", None),
        ("ready", None, "stopped", None),
    ],
    ids=[
        "ready",
        "starting",
        "stopping",
        "ready, not ours",
        "starting, not ours",
        "failed, not ours",
        "ready, unknown",
    ],
)
def test_status_follows_the_state_file_and_the_supervisor(
    phase: Phase, supervisor: Process | None, seen: str, pid: int | None, tmp_path: Path
) -> None:
    State(phase, URL, supervisor=supervisor).write(tmp_path / "state.json")
    status = local_control_plane.status(tmp_path)
    assert (status.phase, status.pid, status.host, status.port) == (seen, pid, "127.0.0.1", 1234)


def test_missing_directory_is_absent_and_stop_and_remove_do_nothing(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    assert local_control_plane.status(nothing).phase == "absent"
    local_control_plane.stop(nothing)
    local_control_plane.remove(nothing)
    with pytest.raises(local_control_plane.ControlPlaneError, match="nothing"):
        local_control_plane.load_ca(nothing)
    assert not nothing.exists()


def test_remove_refuses_a_folder_without_an_instance(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(local_control_plane.ControlPlaneError, match=str(tmp_path)):
        local_control_plane.remove(tmp_path)
    assert (tmp_path / "precious").exists()


def test_stop_does_not_signal_another_process_with_the_pid(tmp_path: Path) -> None:
    State("ready", supervisor=stranger(), servers={"etcd": stranger()}).write(tmp_path / "state.json")
    local_control_plane.stop(tmp_path)


def test_stop_kills_servers_of_a_dead_supervisor(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as left:
        process = Process.of(left.pid)
        assert process
        State("ready", supervisor=stranger(), servers={"etcd": process}).write(tmp_path / "state.json")
        local_control_plane.stop(tmp_path)
        assert left.wait(HANGS) == -signal.SIGTERM


def test_stop_kills_a_process_that_ignores_sigterm(tmp_path: Path) -> None:
    with subprocess.Popen(["sh", "-c", "trap '' TERM; echo; read _"], stdin=-1, stdout=-1) as stubborn:
        assert stubborn.stdout
        stubborn.stdout.readline()
        State("ready", supervisor=Process.of(stubborn.pid)).write(tmp_path / "state.json")
        local_control_plane.stop(tmp_path, timeout=0.2)
        assert stubborn.wait(HANGS) == -signal.SIGKILL


def test_zombie_is_not_alive() -> None:
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert Process.of(ended.pid) is None


def test_spawned_process_dies_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from infra.local_control_plane.processes import spawn;"
        "child = spawn(['sleep', '100'], directory=Path('/'), log=Path(sys.argv[1]), environment=os.environ);"
        "print(child.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    output = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "log"], stdout=subprocess.PIPE, check=False, timeout=60
    ).stdout
    for _ in range(200):
        if not Process.of(int(output)):
            return
        subprocess.run(["sleep", "0.01"], check=True)
    pytest.fail("it lives on")


def test_spawn_keeps_the_log_of_the_former_run(tmp_path: Path) -> None:
    for word in ("one", "two"):
        spawn(["echo", word], directory=tmp_path, log=tmp_path / "log", environment=os.environ).wait()
    assert files.tail(tmp_path / "log") == "two"
    assert files.tail(tmp_path / "log.previous") == "one"


def test_tail_returns_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert files.tail(log) == ""
    log.write_text("".join(f"{n}\n" for n in range(10_000)))
    assert files.tail(log, 3) == "9997\n9998\n9999"


TRACE = """\
goroutine 1 [running]:
go.uber.org/zap.(*Logger).Panic(0x1787688ac500?, {0x12e2108?, 0x2c?}, {0x178768c7a500, 0x1, 0x1})
\tgo.uber.org/zap@v1.27.0/logger.go:285 +0x4b
created by main.main in goroutine 1
\t/main.go:1

goroutine 7 [select]:
main.wait()
\t/main.go:7 +0x28
"""


@pytest.mark.parametrize(
    ("log", "reported"),
    [
        (f"1\npanic: no space left on device\n\n{TRACE}", "1\npanic: no space left on device\n"),
        (f"1\n{TRACE}2\n", f"1\n{TRACE}2"),
        (TRACE, ""),
        ("goroutine 1 [running]: is quoted\n", "goroutine 1 [running]: is quoted"),
    ],
)
def test_stack_traces_at_the_end_are_left_out(log: str, reported: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(log)
    assert files.tail(tmp_path / "log") == reported


def test_reserved_port_cannot_be_bound_by_others() -> None:
    with ports.hold() as held, socket.socket() as other:
        port = held.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with ports.hold(port) as second:
            assert second.getsockname()[1] != port
        anonymous = [ports.hold() for _ in range(500)]
        assert port not in {each.getsockname()[1] for each in anonymous}
        for each in anonymous:
            each.close()


def test_reserved_port_is_shared_with_a_server_and_reserved_again() -> None:
    with ports.hold() as held, socket.socket() as server:
        address = held.getsockname()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(address)
        server.listen()
        for _ in range(20):  # no connection goes to the socket that does not listen
            with socket.create_connection(address, timeout=60), server.accept()[0]:
                pass
        with ports.hold(address[1]) as second:
            assert second.getsockname() != address
    with ports.hold(address[1]) as again:  # despite connections in TIME_WAIT
        assert again.getsockname() == address


@pytest.mark.parametrize("preferred", [0, -1, 1 << 20])
def test_impossible_preferred_port_is_replaced_by_a_free_one(preferred: int) -> None:
    with ports.hold(preferred) as held:
        assert 0 < held.getsockname()[1] < 1 << 16


def test_second_supervisor_of_an_instance_exits(tmp_path: Path) -> None:
    Layout(tmp_path).create()
    command = [
        sys.executable,
        "-m",
        "infra.local_control_plane.supervisor",
        str(tmp_path),
        "--etcd=e",
        "--kube-apiserver=k",
    ]
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert refused.returncode == LOCKED
    assert str(tmp_path) in refused.stderr
    assert local_control_plane.status(tmp_path).phase == "absent"


def test_supervisor_and_status_import_no_slow_modules() -> None:
    code = (
        "import sys, infra.local_control_plane.supervisor; sys.exit(bool({'cryptography', 'yaml'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("former", "ip_family", "host"),
    [
        ("", "", "127.0.0.1"),
        ("", "ipv4", "127.0.0.1"),
        ("", "ipv6", "::1"),
        ("::1", "", "::1"),
        ("::1", "ipv6", "::1"),
        ("127.0.0.1", "", "127.0.0.1"),
    ],
)
def test_instance_keeps_its_address(former: str, ip_family: str, host: str) -> None:
    assert address(former, ip_family) == host


@pytest.mark.parametrize(("former", "ip_family"), [("127.0.0.1", "ipv6"), ("::1", "ipv4")])
def test_instance_cannot_change_its_family(former: str, ip_family: str) -> None:
    with pytest.raises(ControlPlaneError, match=f"is at {former}, and its Services have addresses of that family"):
        address(former, ip_family)


def test_absent_address_is_noticed() -> None:
    assert ports.has_address("127.0.0.1")
    assert not ports.has_address("100::1")
