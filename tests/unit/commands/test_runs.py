"""The run in a folder: its state file, its end, and its log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.cli.main import app
from infra.local.local_run import LocalRunError, data_of, reset
from infra.local_control_plane.processes import Process
from infra.operations import local_runs as runs
from infra.operations.failure import Failure
from infra.operations.last_options import FILE, recall, remember
from infra.operations.local_runs import DEFAULT_DIR, LogTail, crashed, end, fresh_log, other_cluster_note, running
from infra.operations.run_profiles import nobody_reconciles, profiles_or_default
from shared.kube.loading_rules import Kubeconfig

# On SIGTERM it deletes its state file at once, and exits later. It prints a line once it handles the signal.
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


def test_ctrl_c_ends_the_run_that_is_being_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, log = tmp_path / "program", tmp_path / "logs" / "up.log"
    program.write_text("#!/bin/sh\necho $$\nexec sleep 60\n")
    program.chmod(0o700)

    def interrupted(_directory: Path) -> None:
        if log.read_text().endswith("\n"):
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(runs, "running", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runs.detach(tmp_path, ["--profile", "all"], print)
    assert Process.of(int(log.read_text())) is None


@pytest.mark.parametrize(
    ("given", "beside_core", "kind", "expected"),
    [
        ("", False, False, "all"),
        ("", False, True, "all"),
        ("", True, False, "addons,providers,kubeconfig"),
        ("", True, True, "addons,providers,kubeconfig,kind"),
        ("addons", False, True, "addons,kind"),
        ("standalone", True, True, "standalone"),
        ("kind", True, True, "kind"),
    ],
)
def test_option_kind_adds_the_function_that_serves_kind_clusters(
    given: str, beside_core: bool, kind: bool, expected: str
) -> None:
    assert profiles_or_default(given, beside_core=beside_core, kind=kind) == expected


@pytest.mark.parametrize(
    ("profiles", "beside_core", "warned"),
    [("all", False, False), ("standalone", False, False), ("addons,providers", False, True), ("addons", True, False)],
)
def test_profiles_that_reconcile_no_clusters_are_named(profiles: str, beside_core: bool, warned: bool) -> None:
    assert ("reconciles Clusters" in nobody_reconciles(profiles, beside_core=beside_core)) is warned


def test_down_waits_for_the_end_of_the_process_not_of_its_state_file(tmp_path: Path) -> None:
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


def test_state_file_of_a_dead_process_or_with_other_content_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "up.json").write_text(json.dumps({"pid": os.getpid(), "started": 1}))
    assert running(tmp_path) is None
    (tmp_path / "up.json").write_text("[]")
    assert running(tmp_path) is None


def test_down_after_a_crash_deletes_the_state_file(tmp_path: Path) -> None:
    (tmp_path / "up.json").write_text(json.dumps({"pid": os.getpid(), "started": 1}))
    assert crashed(tmp_path)
    assert not end(tmp_path)
    assert not crashed(tmp_path)


def test_log_tail_returns_complete_lines_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"")
    news = LogTail(log)
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


def test_former_run_writes_to_its_own_log(tmp_path: Path) -> None:
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


def test_new_run_warns_if_kubeconfig_names_another_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig = tmp_path / "management.kubeconfig"
    for value in ("", str(kubeconfig)):
        monkeypatch.setenv("KUBECONFIG", value)
        assert other_cluster_note(kubeconfig) == ""
    monkeypatch.setenv("KUBECONFIG", "/elsewhere")
    note = f"commands use $KUBECONFIG (/elsewhere); with `--dir {tmp_path}` they use this run"
    assert other_cluster_note(kubeconfig) == note


@pytest.mark.parametrize(
    ("last", "given", "options", "recalled"),
    [
        pytest.param({}, {"releases": "", "profile": ""}, {"releases": "", "profile": ""}, [], id="first start"),
        pytest.param({"profile": "addons"}, {"profile": ""}, {"profile": "addons"}, ["profile"], id="not given"),
        pytest.param({"profile": "addons"}, {"profile": "all"}, {"profile": "all"}, [], id="given"),
        pytest.param({"profile": ""}, {"profile": ""}, {"profile": ""}, [], id="never given"),
        pytest.param({"gone": "x"}, {"profile": ""}, {"profile": ""}, [], id="of another version"),
    ],
)
def test_options_that_are_not_given_are_those_of_the_last_start(
    last: dict[str, str], given: dict[str, str], options: dict[str, str], recalled: list[str], tmp_path: Path
) -> None:
    if last:
        remember(tmp_path / "run", last)
    assert recall(tmp_path / "run", given) == (options, recalled)


def test_damaged_options_of_the_last_start_are_an_error(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    with pytest.raises(Failure, match=r"options\.json.*delete the file"):
        recall(tmp_path, {"profile": ""})


def test_log_belongs_to_one_process(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "run.log"
    with runs.own_log(log):
        log.write_text("first")
        with pytest.raises(Failure, match=r"another .* writes to .*run.log: .* --logs"), runs.own_log(log):
            pass
    with runs.own_log(log):
        assert log.read_text() == "first"


@pytest.mark.parametrize(("server", "found"), [("https://127.0.0.1:6443", True), ("https://127.0.0.1:6444", False)])
def test_copy_of_the_kubeconfig_belongs_to_the_run_in_the_default_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, found: bool
) -> None:
    """`run` would start the same functions again for the cluster of `up`."""
    monkeypatch.chdir(tmp_path)
    me = Process.of(os.getpid())
    assert me is not None
    folder = tmp_path / DEFAULT_DIR
    folder.mkdir()
    state = {"pid": me.pid, "started": me.started, "api_server": "https://127.0.0.1:6443", "kubeconfig": "/elsewhere"}
    (folder / "up.json").write_text(json.dumps(state))
    copy = Kubeconfig((tmp_path / "copy.yaml",), {}, "copy", "", server)
    assert runs.run_of(copy) == (folder if found else None)


def test_reset_deletes_the_data_of_a_run_and_nothing_else(tmp_path: Path) -> None:
    for name in ("store", "logs", "clusters/a"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "own.txt").touch()
    (tmp_path / "up.json").write_text("{}")
    assert [path.name for path in data_of(tmp_path)] == ["clusters", "store", "logs"]
    reset(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "own.txt"]


def test_reset_follows_no_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    run = tmp_path / "run"
    run.mkdir()
    (run / "store").symlink_to(elsewhere)
    with pytest.raises(LocalRunError, match="cannot be deleted"):
        reset(run)
    assert (elsewhere / "file").exists()


def test_reset_asks_and_is_refused_while_a_run_is_up(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    arguments = ["up", "--reset", "--dir", str(tmp_path)]
    asked = CliRunner().invoke(app, arguments)
    assert asked.exit_code == 1
    assert f"Delete the data of earlier runs in {tmp_path}" in asked.stderr
    assert "confirm with --yes" in asked.stderr
    me = Process.of(os.getpid())
    assert me
    (tmp_path / "up.json").write_text(json.dumps({"pid": me.pid, "started": me.started}))
    refused = CliRunner().invoke(app, [*arguments, "--yes"])
    assert refused.exit_code == 1
    assert "has a run already" in refused.stderr
    assert (tmp_path / "store").is_dir()
