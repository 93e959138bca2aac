"""The run in a folder: ended when its process is, and its log as it grows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.cli.runs import News, died, end, fresh_log, note_other_cluster, running
from infra.local_control_plane.processes import Process

# Asked to end, it takes its state away at once but has still something to do; the last byte tells that it listens.
SLOW_TO_END = """
import os, pathlib, signal, sys, time
def stop(*_):
    pathlib.Path(sys.argv[1]).unlink()
    time.sleep(0.5)
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
print("listening", flush=True)
time.sleep(60)
"""


def test_down_waits_for_the_process_not_for_its_file(tmp_path: Path) -> None:
    state = tmp_path / "up.json"
    process = subprocess.Popen([sys.executable, "-c", SLOW_TO_END, str(state)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        me = Process.of(process.pid)
        assert me is not None
        state.write_text(json.dumps({"pid": me.pid, "started": me.started}))
        assert running(tmp_path) is not None
        assert end(tmp_path)
        assert not me.alive()
        assert not end(tmp_path)
    finally:
        process.kill()
        process.communicate()


def test_what_another_run_wrote_is_no_state_of_ours(tmp_path: Path) -> None:
    (tmp_path / "up.json").write_text(json.dumps({"pid": os.getpid(), "started": 1}))
    assert running(tmp_path) is None
    (tmp_path / "up.json").write_text("[]")
    assert running(tmp_path) is None


def test_down_after_a_crash_takes_the_state_away(tmp_path: Path) -> None:
    (tmp_path / "up.json").write_text(json.dumps({"pid": os.getpid(), "started": 1}))
    assert died(tmp_path)
    assert not end(tmp_path)
    assert not died(tmp_path)


def test_only_complete_lines_are_news(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"")
    news = News(log)
    assert news.lines() == []
    for written, expected in [
        ("one\ntw", ["one"]),
        ("o\n", ["two"]),
        ("", []),
        ("thr\u00e9", []),
        ("\u00e9\nfour\n", ["thr\u00e9\u00e9", "four"]),
        ("the end", []),
    ]:
        with log.open("ab") as end_of_log:
            end_of_log.write(written.encode())
        assert news.lines() == expected
    assert news.rest() == ["the end"]
    assert news.rest() == []


def test_a_log_is_the_new_runs_alone(tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    with fresh_log(log) as before:
        before.write(b"of the run before\n")
        before.flush()
        with fresh_log(log) as now:
            now.write(b"of this run\n")
            now.flush()
            before.write(b"ending\n")
            before.flush()
            now.write(b"up\n")
    assert log.read_bytes() == b"of this run\nup\n"
    assert (tmp_path / "up.log.previous").read_bytes() == b"of the run before\nending\n"


def test_a_new_run_says_when_commands_will_ask_another_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "management.kubeconfig"
    for value in ("", str(kubeconfig)):
        monkeypatch.setenv("KUBECONFIG", value)
        note_other_cluster(kubeconfig)
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("KUBECONFIG", "/elsewhere")
    note_other_cluster(kubeconfig)
    assert f"$KUBECONFIG names, /elsewhere; `--dir {tmp_path}` has them ask this run" in capsys.readouterr().out
