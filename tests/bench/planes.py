"""Control planes, 1 and 10 at once: ours, those of envtest, and the bare executables, all with the same executables.

Ready means that the API server answers /readyz with 200; envtest asks /healthz, and has its users and namespaces then.
Bare is etcd and kube-apiserver with the flags of ours, without a supervisor: the time that nobody can save. Memory is
that of all processes that belong to the planes once they are ready (PSS), and the sum of their peaks until then.
`watched` are ours, with 20 watches of each open while they are stopped.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from infra import local_control_plane
from infra.local_control_plane import credentials, ports, servers
from infra.local_control_plane.binaries import EXECUTABLES, locate
from infra.local_control_plane.layout import Layout

from .parts import median, peak_mib, rss_mib, since

COUNTS = (1, 10)
ROUNDS = 3
"""Of each, in turns: other work on the machine meets all of them."""
_WATCHES = 20

Measured = tuple[float, float, float, float]
"""Seconds until all are ready, seconds until all are stopped, MiB of one, MiB of one at its peak."""


def _memory(pids: Sequence[int], count: int) -> tuple[float, float]:
    """Returns the MiB of one plane, and at its peak, from the processes of all and their children."""
    return sum(map(rss_mib, pids)) / count, sum(map(peak_mib, pids)) / count


def _ours(count: int, folder: Path, executables: Path, *, watches: int = 0) -> Measured:
    directories = [folder / str(number) for number in range(count)]
    found = {name: executables / name for name in EXECUTABLES}
    with ThreadPoolExecutor(count) as pool:
        started = time.perf_counter()
        ready = list(pool.map(lambda each: local_control_plane.start(each, binaries=found, timeout=120), directories))
        until_ready = since(started)
        memory = _memory([each.pid or 0 for each in ready], count)
        with ExitStack() as opened:
            for directory, each in zip(directories, ready, strict=True):
                for _ in range(watches):
                    opened.enter_context(_get(Layout(directory), each.port, "/api/v1/namespaces?watch=1"))
            started = time.perf_counter()
            list(pool.map(local_control_plane.stop, directories))
            return until_ready, since(started), *memory


def _envtest(count: int, folder: Path, executables: Path) -> Measured:
    program = locate(["envtest-planes"], progress=print)["envtest-planes"]
    environment = {**os.environ, "KUBEBUILDER_ASSETS": str(executables), "TMPDIR": str(folder)}
    with subprocess.Popen(
        [program, str(count)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        ready = json.loads(process.stdout.readline())["ready"]
        memory = _memory([process.pid], count)
        process.stdin.close()
        stopped = json.loads(process.stdout.readline())["stopped"]
    return ready, stopped, *memory


def _bare(count: int, folder: Path, executables: Path) -> Measured:
    with ThreadPoolExecutor(count) as pool:
        commands = list(pool.map(lambda number: _commands(folder / str(number), executables), range(count)))
        started = time.perf_counter()
        running = list(pool.map(lambda each: _run_bare(*each), commands))
        until_ready = since(started)
        memory = _memory([process.pid for pair in running for process in pair], count)
        started = time.perf_counter()
        list(pool.map(_stop_bare, running))
        return until_ready, since(started), *memory


def _commands(directory: Path, executables: Path) -> tuple[Layout, int, Sequence[Sequence[str]]]:
    """Returns a free port and the two command lines, once everything that they need is in place."""
    layout = Layout(directory)
    layout.create()
    credentials.prepare(layout, {})
    with ports.hold() as held:
        port = held.getsockname()[1]
    host = servers.HOSTS["ipv4"]
    apiserver = servers.apiserver(executables / "kube-apiserver", layout, host, port, controllers=False)
    return layout, port, [servers.etcd(executables / "etcd", layout), apiserver]


def _run_bare(layout: Layout, port: int, commands: Sequence[Sequence[str]]) -> list[subprocess.Popen[bytes]]:
    running = []
    for name, command in zip(EXECUTABLES, commands, strict=True):
        with layout.log(name).open("wb") as log:
            running.append(subprocess.Popen(command, cwd=layout.run, stdout=log, stderr=log))
    while True:
        try:
            with _get(layout, port, "/readyz"):
                return running
        except (urllib.error.URLError, OSError):
            assert all(process.poll() is None for process in running), layout.root
            time.sleep(0.03)


def _get(layout: Layout, port: int, path: str) -> http.client.HTTPResponse:
    """Returns the beginning of the answer to an administrator. Raises URLError or OSError."""
    context = ssl.create_default_context(cafile=layout.certificate("ca"))
    headers = {"Authorization": f"Bearer {credentials.admin_token(layout)}"}
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers)
    response: http.client.HTTPResponse = urllib.request.urlopen(request, context=context, timeout=5)
    return response


def _stop_bare(running: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in reversed(running):
        process.terminate()
        process.wait()


KINDS: dict[str, Callable[[int, Path, Path], Measured]] = {
    "ours": _ours,
    "watched": partial(_ours, watches=_WATCHES),
    "envtest": _envtest,
    "bare": _bare,
}


@contextmanager
def _executables() -> Iterator[Path]:
    """Yields a folder with etcd and kube-apiserver."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        for program, path in locate(EXECUTABLES, progress=print).items():
            (Path(name) / program).symlink_to(path)
        yield Path(name)


def run() -> None:
    locate(["envtest-planes"], progress=print)
    print(f"{'':<12} {'ready s':>8} {'stopped s':>10} {'MiB each':>9} {'peak':>5}   median of {ROUNDS}")
    with _executables() as executables:
        for count in COUNTS:
            found: dict[str, list[Measured]] = {kind: [] for kind in KINDS}
            for _ in range(ROUNDS):
                for kind, measure in KINDS.items():
                    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                        found[kind].append(measure(count, Path(folder), executables))
            for kind, rounds in found.items():
                ready, stopped, memory, peak = (median(values) for values in zip(*rounds, strict=True))
                print(f"{count:>2} {kind:<9} {ready:8.2f} {stopped:10.2f} {memory:9.0f} {peak:5.0f}", flush=True)
