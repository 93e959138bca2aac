"""Untrusted calls are ended at their limits, and the next call gets a worker again."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shared import cel, charts, sandbox
from shared.charts import RenderError, ValuesError, engine, sandboxed
from shared.sandbox import Busy, LimitExceeded, Limits, slots, workers
from shared.sandbox.limits import explain
from tests.support.releases import chart

PLENTY = Limits(cpu=60, wall=300.0, memory=256)
HERE = "tests.support.sandbox_calls"
LOOP = '{{ define "f" }}' + "{{ range until 1000 }}" * 3 + "{{ end }}" * 4
GROW = '{{ define "g" }}{{ $s := "x" }}{{ range until 60 }}{{ $s = printf "%s%s" $s $s }}{{ end }}{{ end }}'


def endless() -> bytes:
    loops = LOOP + '{{ range until 1000 }}{{ include "f" . }}{{ end }}'
    return chart("c", {"t.yaml": loops})


def test_call_returns_results_and_raises_known_errors() -> None:
    assert sandbox.call(f"{HERE}:echo", {"a": [1, 2**60, "ä", None]}, limits=PLENTY) == {"a": [1, 2**60, "ä", None]}
    with pytest.raises(ValueError, match=r"^on purpose$"):
        sandbox.call(f"{HERE}:refuse", "on purpose", limits=PLENTY, raises=(ValueError,))
    with pytest.raises(RuntimeError, match="ValueError: on purpose"):
        sandbox.call(f"{HERE}:refuse", "on purpose", limits=PLENTY)


@pytest.mark.parametrize(
    ("function", "limits", "words"),
    [
        ("spin", Limits(1, 300.0, 64), "used more than 1 s of CPU time"),
        ("doze", Limits(60, 0.3, 64), "took longer than 0.3 s"),
        ("grow", Limits(60, 300.0, 64), "needed more than 64 MiB of memory"),
        ("crash", Limits(60, 300.0, 64), "crashed its process"),
    ],
)
def test_exceeded_limit_replaces_the_worker(function: str, limits: Limits, words: str) -> None:
    before = sandbox.call(f"{HERE}:pid", limits=PLENTY)
    with pytest.raises(LimitExceeded, match=words):
        sandbox.call(f"{HERE}:{function}", limits=limits)
    assert sandbox.call(f"{HERE}:pid", limits=PLENTY) != before
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)


def test_cpu_limit_counts_for_each_call_alone() -> None:
    limits = Limits(cpu=1, wall=300.0, memory=64)
    pids = {sandbox.call(f"{HERE}:busy", 0.4, limits=limits) for _ in range(6)}
    assert len(pids) == 1


def test_worker_that_has_grown_too_much_is_replaced() -> None:
    limits = Limits(cpu=60, wall=300.0, memory=128)
    assert len({sandbox.call(f"{HERE}:leave", 100, limits=limits) for _ in range(4)}) == 4
    assert len({sandbox.call(f"{HERE}:leave", 20, limits=limits) for _ in range(10)}) < 10


def test_large_charts_render_after_other_large_charts() -> None:
    for size in (12, 16, 20, 12, 16, 20):
        large = chart("c", {"t.yaml": f'a: {{{{ repeat {size * 2**20} "x" }}}}'})
        assert len(charts.render(large, {}, name="c.tgz")[0].text) > size * 2**20
        assert cel.evaluate("size([1, 2]) == 2", {})


def test_workers_inherit_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted")
    with pytest.raises(LimitExceeded):  # so that the next worker starts now
        sandbox.call(f"{HERE}:crash", limits=PLENTY)
    seen = sandbox.call(f"{HERE}:environment", limits=PLENTY).keys() - {"LC_CTYPE"}  # which Python sets itself
    assert seen == {"PYTHONPATH", "PATH", "GOMAXPROCS", "GOGC"}


def test_failed_start_of_a_worker_leaks_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LimitExceeded):  # so that the next worker starts now
        sandbox.call(f"{HERE}:crash", limits=PLENTY)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        sandbox.call(f"{HERE}:pid", limits=PLENTY)
    assert os.listdir("/proc/self/fd") == before


def test_worker_ends_with_its_parent() -> None:
    script = (
        "import os\nfrom shared import sandbox\n"
        f"print(sandbox.call('{HERE}:pid', limits=sandbox.Limits(9, 9.0, 64)), flush=True)\nos._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    pid, deadline = int(done.stdout), time.monotonic() + 30
    while _runs(pid):
        assert time.monotonic() < deadline, "the worker outlived the process that started it"
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_other_threads_run_while_an_expression_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """The expression holds the interpreter lock of the worker, not of this process."""
    monkeypatch.setattr(cel, "LIMITS", Limits(cpu=1, wall=300.0, memory=256))
    expression = "[1,2,3,4,5,6,7,8,9,0]" + ".map(a, [1,2,3,4,5,6,7,8,9,0]" * 12 + ")" * 12 + ".size() > 0"
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(0.01):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    with pytest.raises(cel.ExpressionError, match=r"used more than 1 s of CPU time|memory"):
        cel.evaluate(expression, {})
    stop.set()
    thread.join()
    assert len(ticks) > 20, "no other thread ran while the expression was evaluated"


def test_endless_chart_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxed, "LIMITS", Limits(cpu=1, wall=300.0, memory=256))
    with pytest.raises(RenderError, match=r"c\.tgz: processing used more than 1 s of CPU time"):
        charts.render(endless(), {}, name="c.tgz")
    with pytest.raises(RenderError, match=r"v\.yaml: processing used more than 1 s"):
        charts.render_values(LOOP + '{{ range until 1000 }}{{ include "f" . }}{{ end }}', {}, name="v.yaml")
    assert charts.render(chart("c", {"t.yaml": "a: 1"}), {}, name="c.tgz")[0].text == "a: 1\n"


def test_chart_that_exceeds_memory_is_killed() -> None:
    data = chart("c", {"t.yaml": GROW + '{{ include "g" . }}'})
    with pytest.raises(RenderError, match=r"c\.tgz: processing needed more than 256 MiB of memory"):
        charts.render(data, {}, name="c.tgz")


def test_helm_program_that_exceeds_limits_is_killed(helm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LIMITS", Limits(cpu=1, wall=300.0, memory=512))
    monkeypatch.setenv("HELM", str(helm))
    loops = LOOP + '{{ .Capabilities.KubeVersion }}{{ range until 1000 }}{{ include "f" . }}{{ end }}'
    with pytest.raises(RenderError, match=r"c\.tgz: helm used more than 1 s of CPU time"):
        charts.render(chart("c", {"t.yaml": loops}), {}, name="c.tgz")
    monkeypatch.setattr(engine, "LIMITS", Limits(cpu=60, wall=300.0, memory=384))
    grows = GROW + '{{ .Capabilities.KubeVersion }}{{ include "g" . }}'
    with pytest.raises(RenderError, match=r"c\.tgz: helm needed more than 384 MiB of memory"):
        charts.render(chart("c", {"t.yaml": grows}), {}, name="c.tgz")


def test_call_without_free_slot_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "MAX_SLOT_WAIT", 0.01)
    with slots.slot(), slots.slot(), pytest.raises(Busy, match="other charts and expressions"):
        sandbox.call(f"{HERE}:pid", limits=PLENTY)
    assert sandbox.call(f"{HERE}:pid", limits=PLENTY)


def test_concurrent_calls_wait_for_one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MAX_WORKER_WAIT", 300.0)
    with ThreadPoolExecutor(4) as pool:
        pids = list(pool.map(lambda _: sandbox.call(f"{HERE}:pid", limits=PLENTY), range(8)))
    assert len(set(pids)) == 1


def test_call_gets_another_worker_while_a_long_one_runs_and_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MAX_WORKER_WAIT", 0.0)
    with ThreadPoolExecutor(4) as pool:
        pids = list(pool.map(lambda _: sandbox.call(f"{HERE}:busy", 0.2, limits=PLENTY), range(8)))
    assert len(pids) == 8
    alive = [pid for pid in set(pids) if _runs(pid)]
    assert len(alive) == 1, "one worker is kept"


def test_call_gets_a_worker_after_another_one_failed_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MAX_WORKER_WAIT", 300.0)
    with pytest.raises(LimitExceeded):  # so that the next worker starts now
        sandbox.call(f"{HERE}:crash", limits=PLENTY)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(FileNotFoundError):
            sandbox.call(f"{HERE}:pid", limits=PLENTY)
    started = time.monotonic()
    assert sandbox.call(f"{HERE}:pid", limits=PLENTY)
    assert time.monotonic() - started < 290, "the call waited for a worker that never started"


@pytest.mark.parametrize(
    ("code", "stderr", "words"),
    [
        (2, "fatal error: runtime: out of memory\n\ngoroutine 1", "needed more than 64 MiB of memory"),
        (2, "runtime/cgo: pthread_create failed: Resource temporarily unavailable", "needed more than 64 MiB"),
        (-6, "memory allocation of 8388608 bytes failed", "needed more than 64 MiB of memory"),
        (77, "", "needed more than 64 MiB of memory"),
        (-24, "", "used more than 3 s of CPU time$"),
        (-9, "", "used more than 3 s of CPU time, or was killed because the system had no memory"),
        (-11, "", r"crashed its process \(exit status -11\)"),
    ],
)
def test_exceeded_limit_is_explained_from_exit_status_and_stderr(code: int, stderr: str, words: str) -> None:
    assert re.search(words, explain(code, Limits(3, 1.0, 64), stderr))


def test_no_worker_starts_before_the_first_call() -> None:
    script = (
        "import resource\nimport functions.addon_apply.function, shared.charts, shared.cel\n"
        "from shared.sandbox import workers\nprint(len(workers._POOL._free))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["0"]


def test_failing_values_name_their_file() -> None:
    with pytest.raises(ValuesError, match=r"v\.yaml"):
        charts.render_values("{{ nope }}", {}, name="v.yaml")


def test_limits_of_the_calling_process_are_unchanged() -> None:
    before = resource.getrlimit(resource.RLIMIT_CPU), resource.getrlimit(resource.RLIMIT_DATA)
    sandbox.call(f"{HERE}:pid", limits=PLENTY)
    assert (resource.getrlimit(resource.RLIMIT_CPU), resource.getrlimit(resource.RLIMIT_DATA)) == before
