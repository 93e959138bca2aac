"""Instances of kube-apiserver and etcd: start, status, failures, and the end of all processes."""

import base64
import functools
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from infra.local_control_plane import (
    ControlPlaneError,
    Status,
    binaries,
    controllers,
    kubeconfig,
    load_ca,
    ports,
    remove,
    start,
    status,
    stop,
)
from infra.local_control_plane.credentials import admin_token
from infra.local_control_plane.layout import Layout
from infra.local_control_plane.processes import Process
from infra.local_control_plane.state import State
from shared.certificates import CertificateAuthority, KeyPair
from tests.support import processes
from tests.support.until import HANGS, until

NAMESPACES = "/api/v1/namespaces"


@pytest.fixture(scope="module")
def servers() -> dict[str, Path]:
    return binaries.locate(["etcd", "kube-apiserver", *controllers.NAMES], progress=print, archives=())


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A folder for instances; all their processes are killed after the test."""
    yield tmp_path
    # Supervisors first: they report the death of their servers.
    for pid, command in sorted(processes_of(tmp_path).items(), key=lambda item: "supervisor" not in item[1]):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        print("killed at the end of the test:", command)
    until(lambda: not processes_of(tmp_path))


@pytest.fixture
def run(servers: dict[str, Path]) -> Callable[..., Status]:
    def run(directory: Path, **options: Any) -> Status:
        return start(directory, **{"binaries": servers, "timeout": HANGS, **options})  # controllers only on request

    return run


def processes_of(directory: Path) -> dict[int, str]:
    """Returns the command lines of processes that name `directory`, by pid."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"{directory}/" in command and Process.of(int(entry.name)):
            found[int(entry.name)] = command
    return found


def state(directory: Path) -> State:
    found = State.read(Layout(directory).state)
    assert found
    return found


def member(state: State, name: str) -> Process:
    found = state.supervisor if name == "supervisor" else state.servers[name]
    assert found
    return found


class Client:
    """A client of the server in a kubeconfig, as its user, as `user`, or anonymous."""

    def __init__(self, path: Path, user: KeyPair | None = None, *, anonymous: bool = False) -> None:
        config = yaml.safe_load(path.read_text())
        cluster, credentials = config["clusters"][0]["cluster"], config["users"][0]["user"]
        context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        self._headers = {"Content-Type": "application/json"}
        if user is None and "token" in credentials and not anonymous:
            self._headers["Authorization"] = f"Bearer {credentials['token']}"
        elif not anonymous:
            pair = user or KeyPair(
                base64.b64decode(credentials["client-certificate-data"]),
                base64.b64decode(credentials["client-key-data"]),
            )
            file = path.with_name("client.pem")
            file.write_bytes(pair.cert_pem + pair.key_pem)
            context.load_cert_chain(file)
            file.unlink()
        self._server = cluster["server"]
        self._context = context

    def request(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        with urllib3.PoolManager(ssl_context=self._context, retries=False, timeout=HANGS) as pool:
            data = json.dumps(body) if body else None
            answer = pool.request(method, self._server + path, body=data, headers=self._headers)
            return answer.status, answer.json()

    def namespaces(self) -> set[str]:
        code, content = self.request("GET", NAMESPACES)
        assert code == 200, content
        return {item["metadata"]["name"] for item in content["items"]}

    def create_namespace(self, name: str) -> None:
        code, content = self.request("POST", NAMESPACES, {"metadata": {"name": name}})
        assert code == 201, content


def test_ready_instance_serves_its_admin_and_a_second_start_changes_nothing(
    directory: Path, run: Callable[..., Status]
) -> None:
    messages: list[str] = []
    instance = directory / "a"
    first = run(instance, progress=messages.append)
    config = kubeconfig(instance)
    client = Client(config)

    assert first == status(instance)
    assert (first.phase, first.host, first.error) == ("ready", "127.0.0.1", "")
    assert first.url == f"https://127.0.0.1:{first.port}"
    assert str(instance) in messages[-1]
    assert {"default", "kube-system"} <= client.namespaces()
    assert yaml.safe_load(config.read_text())["current-context"] == "a"

    admin = load_ca(instance).issue("someone", ["system:masters"])
    assert Client(config, admin).namespaces() == client.namespaces()
    assert Client(config, load_ca(instance).issue("someone")).request("GET", NAMESPACES)[0] == 403
    assert Client(config, CertificateAuthority.generate("other").issue("x")).request("GET", NAMESPACES)[0] == 401
    assert Client(config, anonymous=True).request("GET", NAMESPACES)[0] == 403

    account = f"{NAMESPACES}/default/serviceaccounts"
    assert client.request("POST", account, {"metadata": {"name": "robot"}})[0] == 201
    code, token = client.request("POST", f"{account}/robot/token", {"spec": {}})
    review = {"spec": {"token": token["status"]["token"]}}
    code, answer = client.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert (code, answer["status"].get("authenticated")) == (201, True), answer

    for path in instance.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert instance.stat().st_mode & 0o777 == 0o700
    assert config.stat().st_mode & 0o777 == 0o600

    before = processes_of(directory)
    assert len(before) == 3
    assert run(instance) == run(instance, wait=False) == first
    with socket.socket() as thief, pytest.raises(OSError, match="in use"):
        thief.bind((first.host, first.port))
    with ports.hold(first.port) as held:
        assert held.getsockname()[1] != first.port
    assert processes_of(directory) == before
    with pytest.raises(ControlPlaneError, match="another CA"):
        run(instance, ca=CertificateAuthority.generate("other"))

    remove(instance)
    assert not instance.exists()
    assert processes_of(directory) == {}
    assert status(instance).phase == "absent"


def test_instance_of_ipv6_is_served_on_its_loopback_address(directory: Path, run: Callable[..., Status]) -> None:
    if not ports.has_address("::1"):
        pytest.skip("this machine has no IPv6 loopback address")
    instance = directory / "a"
    started = run(instance, ip_family="ipv6")
    assert (started.url, started.host) == (f"https://[::1]:{started.port}", "::1")
    client = Client(kubeconfig(instance))
    assert {"default", "kube-system"} <= client.namespaces()
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    code, created = client.request("POST", f"{NAMESPACES}/default/services", service)
    assert (code, created["spec"]["ipFamilies"]) == (201, ["IPv6"]), created
    with ports.hold(started.port, "::1") as held:
        assert held.getsockname()[1] != started.port
    with pytest.raises(ControlPlaneError, match="is at ::1, and its Services"):
        run(instance, ip_family="ipv4")
    remove(instance)


def test_instances_are_independent_and_keep_their_data_over_a_restart(
    directory: Path, run: Callable[..., Status]
) -> None:
    ca = CertificateAuthority.generate("given")
    # Longer than the longest path of a unix socket.
    a, b = directory / "a", directory / ("b" * 120) / "b"
    assert run(a, ca=ca, wait=False).phase == "starting"
    other = run(b)
    first = run(a)
    assert first.port != other.port
    assert load_ca(a) == ca
    Client(kubeconfig(a)).create_namespace("only-in-a")
    assert "only-in-a" not in Client(kubeconfig(b)).namespaces()

    old = kubeconfig(a).read_bytes()
    stop(a)
    stop(a)
    assert status(a).phase == "stopped"
    assert not any(f"{a}/" in command for command in processes_of(directory).values())
    assert status(b) == other

    again = run(a, ca=ca)
    assert again.url == first.url
    assert kubeconfig(a).read_bytes() == old
    assert "only-in-a" in Client(kubeconfig(a)).namespaces()

    stop(a)
    with socket.create_server((first.host, first.port)):
        moved = run(a)
    assert moved.port != first.port
    assert moved.url in kubeconfig(a).read_text()
    assert "only-in-a" in Client(kubeconfig(a)).namespaces()
    # Credentials from before the restart are still accepted.
    before = directory / "before.kubeconfig"
    before.write_text(old.decode().replace(first.url, moved.url))
    assert Client(before).namespaces()


def test_instance_ends_with_its_owner(directory: Path, run: Callable[..., Status]) -> None:
    with processes.start(["sleep", "600"]) as owner:
        try:
            run(directory / "a", owner=owner.pid)
        finally:
            owner.kill()
        owner.wait()
        until(lambda: not processes_of(directory))
    assert status(directory / "a").phase == "stopped"
    with pytest.raises(ControlPlaneError, match="owner"):
        run(directory / "a", owner=owner.pid)


def test_instance_without_owner_survives_the_process_that_started_it(directory: Path, servers: dict[str, Path]) -> None:
    """And its process group."""
    code = (
        "import os, sys; from pathlib import Path; from infra.local_control_plane import start;"
        "start(Path(sys.argv[1]), binaries={'etcd': Path(sys.argv[2]), 'kube-apiserver': Path(sys.argv[3])});"
        "os.killpg(0, 9)"
    )
    command = [sys.executable, "-c", code, directory / "a", servers["etcd"], servers["kube-apiserver"]]
    starter = subprocess.run([str(part) for part in command], check=False, process_group=0)
    assert starter.returncode == -signal.SIGKILL
    assert Client(kubeconfig(directory / "a")).namespaces()
    stop(directory / "a")


def ended(processes: Iterable[Process]) -> bool:
    return not any(process.alive() for process in processes)


def test_kill_of_one_process_ends_all_and_the_instance_starts_again(
    directory: Path, run: Callable[..., Status]
) -> None:
    """Each kill happens to what was started after the kill before."""
    instance = directory / "a"
    first = run(instance)
    Client(kubeconfig(instance)).create_namespace("kept")
    for victim, phase in (("etcd", "failed"), ("kube-apiserver", "failed"), ("supervisor", "stopped")):
        running = state(instance)
        os.kill(member(running, victim).pid, signal.SIGKILL)
        until(functools.partial(ended, running.processes), victim)
        assert not processes_of(directory)
        after = status(instance)
        assert (after.phase, after.pid) == (phase, None)
        if victim != "supervisor":
            assert "SIGKILL" in after.error
            assert str(instance / "logs" / f"{victim}.log") in after.error
        assert run(instance).url == first.url
    # And without waiting for leftovers, which a supervisor would kill.
    os.kill(member(state(instance), "supervisor").pid, signal.SIGKILL)
    until(lambda: status(instance).phase == "stopped")
    assert run(instance).url == first.url
    assert "kept" in Client(kubeconfig(instance)).namespaces()


STEPS = (
    *("state.json", "pki/ca.key", "pki/ca.crt", "pki/apiserver.key", "pki/service-account.crt"),
    *("run/client:0", "logs/kube-apiserver.log", "admin.kubeconfig"),
)


def test_instance_starts_after_it_was_killed_at_every_step_of_its_start(
    directory: Path, run: Callable[..., Status]
) -> None:
    """Each kill happens on what the kills before have left."""
    instance = directory / "a"
    for step in STEPS:
        run(instance, wait=False)
        until((instance / step).exists, step)
        supervisor = state(instance).supervisor
        assert supervisor
        supervisor.signal(signal.SIGKILL)
        until(lambda: not processes_of(directory), "the end of all processes")
        until(lambda: status(instance).phase == "stopped", "stopped")
    assert run(instance).phase == "ready"
    assert "default" in Client(kubeconfig(instance)).namespaces()


def test_stop_ends_the_api_server_before_etcd(directory: Path, run: Callable[..., Status]) -> None:
    """An open watch does not delay it."""
    instance = directory / "a"
    port = run(instance).port
    running = state(instance)
    layout = Layout(instance)
    context = ssl.create_default_context(cafile=layout.certificate("ca"))
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as watch,
    ):
        headers = f"Host: localhost\r\nAuthorization: Bearer {admin_token(layout)}\r\n"
        watch.sendall(f"GET {NAMESPACES}?watch=1 HTTP/1.1\r\n{headers}\r\n".encode())
        assert watch.recv(100).startswith(b"HTTP/1.1 200")
        stopping = threading.Thread(target=stop, args=(instance,))
        stopping.start()
        etcd_ended = False
        while member(running, "kube-apiserver").alive():
            assert not etcd_ended, "the API server ran after the end of etcd"
            etcd_ended = not member(running, "etcd").alive()
        stopping.join(HANGS)
        assert not stopping.is_alive()
    assert not processes_of(directory)
    log = (instance / "logs" / "supervisor.log").read_text()
    assert "ignores SIGTERM" not in log, "the API server waited for the watch until it was killed"
    assert log.index("stopped by a signal") < log.index("kube-apiserver has ended") < log.index("etcd has ended")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_during_the_start_ends_all_processes(
    number: signal.Signals, directory: Path, run: Callable[..., Status]
) -> None:
    run(directory / "a", wait=False)
    supervisor = state(directory / "a").supervisor
    assert supervisor
    supervisor.signal(number)
    until(lambda: not processes_of(directory))
    assert status(directory / "a").phase == "stopped"


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


FAILURES = (
    ("kube-apiserver", 'exec {real} "$@" --no-such-flag', "unknown flag: --no-such-flag"),
    ("etcd", 'exec {real} "$@" --no-such-flag', "no-such-flag"),
    ("etcd", "exit 3", "exited with status 3"),
    ("etcd", "exec sleep 600", "was not ready within "),
    ("kube-apiserver", "exec sleep 600", "was not ready within "),
    ("kube-apiserver", "sleep 600", "was not ready within "),
)


def test_failed_start_quotes_the_log_and_leaves_no_process(
    directory: Path, servers: dict[str, Path], run: Callable[..., Status]
) -> None:
    """The error names the directory and the log. Each start finds what the failures before have left."""
    instance = directory / "a"
    for broken, text, reason in FAILURES:
        fake = script(directory / "fake", text.format(real=servers[broken]))
        with pytest.raises(ControlPlaneError, match=reason) as caught:
            run(instance, binaries={**servers, broken: fake}, timeout=1 if "sleep" in text else HANGS)
        assert str(instance) in str(caught.value)
        assert str(instance / "logs" / f"{broken}.log") in str(caught.value)
        assert status(instance).phase == "failed"
        until(lambda: not processes_of(directory))
    assert run(instance).phase == "ready"


def test_instance_starts_though_etcd_takes_longer_than_the_api_server_waits(
    directory: Path, servers: dict[str, Path], run: Callable[..., Status]
) -> None:
    slow = script(directory / "fake", f'touch client:0; sleep 21; rm client:0; exec {servers["etcd"]} "$@"')
    assert run(directory / "a", binaries={**servers, "etcd": slow}).phase == "ready"
    log = (directory / "a" / "logs" / "supervisor.log").read_text()
    assert log.count("kube-apiserver runs as") == 2


def test_executable_that_cannot_run_is_reported(
    directory: Path, servers: dict[str, Path], run: Callable[..., Status]
) -> None:
    missing = directory / "missing"
    with pytest.raises(ControlPlaneError, match=str(missing)):
        run(directory / "a", binaries={**servers, "kube-apiserver": missing})
    until(lambda: not processes_of(directory))


def test_start_with_a_ca_that_finds_no_executables_leaves_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(*_: object) -> dict[str, Path]:
        raise binaries.BinaryNotFound("no etcd")

    monkeypatch.setattr("infra.local_control_plane.instance._find", find)
    with pytest.raises(binaries.BinaryNotFound):
        start(directory / "a", ca=CertificateAuthority.generate("users"))
    assert not (directory / "a").exists()


def test_concurrent_starts_get_the_same_instance(directory: Path, run: Callable[..., Status]) -> None:
    """Also while it is being stopped."""
    results: list[Status] = []
    run(directory / "a", wait=False)
    stopping = threading.Thread(target=stop, args=(directory / "a",))
    stopping.start()
    stopping.join()
    threads = [threading.Thread(target=lambda: results.append(run(directory / "a"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert len(set(results)) == 1
    assert len(processes_of(directory)) == 3


def test_concurrent_removals_succeed_or_report_each_other(directory: Path, run: Callable[..., Status]) -> None:
    run(directory)
    with ThreadPoolExecutor(4) as pool:
        outcomes = [future.exception() for future in [pool.submit(remove, directory) for _ in range(4)]]
    assert all(outcome is None or isinstance(outcome, ControlPlaneError) for outcome in outcomes), outcomes
    assert None in outcomes
    assert not directory.exists()
    remove(directory)


def test_controllers_work_with_their_own_rights_and_end_with_the_instance(
    directory: Path, run: Callable[..., Status]
) -> None:
    """They do not listen on any port."""
    instance = directory / "a"
    first = run(instance, controllers=True)
    client = Client(kubeconfig(instance))
    assert list(state(instance).servers) == ["etcd", "kube-apiserver", *controllers.NAMES]
    assert client.request("GET", f"{NAMESPACES}/default/serviceaccounts/default")[0] == 200
    for name in controllers.USERS:
        theirs = Client(Layout(instance).kubeconfig_of(name))
        assert theirs.request("GET", "/api/v1/nodes")[0] == 200
        assert theirs.request("DELETE", f"{NAMESPACES}/default")[0] == 403
    listening = subprocess.run(["cat", "/proc/net/tcp", "/proc/net/tcp6"], capture_output=True, text=True, check=True)
    sockets = {line.split()[9] for line in listening.stdout.splitlines() if line.split()[3] == "0A"}
    for name in controllers.NAMES:
        files = Path(f"/proc/{member(state(instance), name).pid}/fd").iterdir()
        assert not {os.readlink(file).removeprefix("socket:[").removesuffix("]") for file in files} & sockets
    for path in instance.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path

    stop(instance)
    assert not processes_of(directory)
    log = (instance / "logs" / "supervisor.log").read_text()
    order = [*reversed(controllers.NAMES), "kube-apiserver", "etcd"]
    assert [log.index(f"{name} has ended") for name in order] == sorted(
        log.index(f"{name} has ended") for name in order
    )

    # The same instance without controllers, and with them again.
    assert run(instance).url == first.url
    assert list(state(instance).servers) == ["etcd", "kube-apiserver"]
    stop(instance)
    run(instance, controllers=True, nodes=3)
    code, nodes = client.request("GET", "/api/v1/nodes")
    assert (code, [node["metadata"]["name"] for node in nodes["items"]]) == (200, ["node-1", "node-2", "node-3"])


@pytest.mark.parametrize("victim", ["supervisor", "kube-controller-manager", "kwok"])
def test_end_of_one_controller_ends_the_instance(victim: str, directory: Path, run: Callable[..., Status]) -> None:
    instance = directory / "a"
    run(instance, controllers=True)
    os.kill(member(state(instance), victim).pid, signal.SIGKILL)
    until(lambda: not processes_of(directory))
    after = status(instance)
    assert after.phase == ("stopped" if victim == "supervisor" else "failed")
    assert victim == "supervisor" or str(instance / "logs" / f"{victim}.log") in after.error


@pytest.mark.parametrize(
    ("broken", "text", "reason"),
    [
        ("kwok", "exit 3", "kwok exited with status 3"),
        ("kube-controller-manager", "exec sleep 600", "kube-controller-manager was not ready within 30 s"),
    ],
)
def test_controller_that_does_not_start_fails_the_instance(
    broken: str, text: str, reason: str, directory: Path, servers: dict[str, Path], run: Callable[..., Status]
) -> None:
    fake = script(directory / "fake", text)
    with pytest.raises(ControlPlaneError, match=reason):
        run(directory / "a", binaries={**servers, broken: fake}, controllers=True, timeout=30)
    until(lambda: not processes_of(directory))
