"""Flags and environment variables of control planes, as people know them from envtest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.local_control_plane import ControlPlane, ControlPlaneError, variables
from infra.local_control_plane.attached_output import AttachedOutput
from infra.local_control_plane.servers import with_flags


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], ["etcd", "--a=1", "--a=2", "--ab=3"]),
        (["a=4"], ["etcd", "--ab=3", "--a=4"]),
        (["--a=4", "a=5", "c"], ["etcd", "--ab=3", "--a=4", "--a=5", "--c"]),
    ],
)
def test_flag_takes_the_place_of_all_with_its_name(flags: list[str], expected: list[str]) -> None:
    assert with_flags(["etcd", "--a=1", "--a=2", "--ab=3"], flags) == expected


@pytest.mark.parametrize(("text", "seconds"), [("", 60), ("90s", 90), ("1m30s", 90), ("1.5h", 5400), ("250ms", 0.25)])
def test_time_out_is_a_duration_of_go(text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variables.START, text)
    assert variables.start_timeout(60) == seconds


@pytest.mark.parametrize("text", ["90", "s", "1m 30s", "-1s", "1d"])
def test_time_out_that_is_no_duration_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variables.START, text)
    with pytest.raises(
        ValueError, match=rf"\$KUBEBUILDER_CONTROLPLANE_START_TIMEOUT is '{text}', which is not a duration"
    ):
        ControlPlane(tmp_path / "plane").start()
    assert not (tmp_path / "plane").exists()


def kubeconfig(path: Path) -> Path:
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1234", "insecure-skip-tls-verify": True}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {"token": "t"}}]
    path.write_text(json.dumps({"clusters": [cluster], "contexts": [context], "users": users, "current-context": "c"}))
    return path


def test_existing_cluster_takes_the_place_of_a_control_plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = kubeconfig(tmp_path / "config")
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setenv(variables.EXISTING, "TRUE")
    with ControlPlane(tmp_path / "plane") as plane:
        assert (plane.kubeconfig, plane.url, plane.status.phase) == (file, "https://127.0.0.1:1234", "ready")
        with pytest.raises(ControlPlaneError, match="issues no certificates"):
            plane.add_user("alice")
        assert not (tmp_path / "plane").exists()
        assert (plane.webhook_certificates() / "tls.crt").exists()
    monkeypatch.setenv(variables.EXISTING, "no")
    assert ControlPlane(tmp_path / "plane").status.phase == "absent"


def test_existing_cluster_that_is_missing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(ControlPlaneError, match=r"USE_EXISTING_CLUSTER is true, but .*/missing does not exist"):
        ControlPlane(tmp_path / "plane", use_existing=True).start()
    (tmp_path / "missing").write_text("[]")
    with pytest.raises(ControlPlaneError, match=r"USE_EXISTING_CLUSTER is true, but .*/missing cannot be used"):
        ControlPlane(tmp_path / "plane", use_existing=True).start()


def test_attached_output_is_what_was_logged_since_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "logs" / "etcd.log"
    log.parent.mkdir()
    log.write_text("former\n")
    output = AttachedOutput(tmp_path)
    output.start()
    log.rename(log.with_suffix(".previous"))  # so does each start of a server
    log.write_text("of this start\n")
    output.stop()
    output.stop()
    assert capsys.readouterr().err == "of this start\n"
