"""A local run whose control plane ends while the run starts says why."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from infra.local.local_run import LocalRun, LocalRunError
from infra.local_control_plane.layout import Layout
from infra.local_control_plane.state import State
from shared.kube.crds import CRD


def test_end_of_the_api_server_is_the_reason_that_the_run_did_not_start(tmp_path: Path) -> None:
    run = LocalRun(tmp_path / "run", get_helm=False)

    def kill_and_ask() -> None:
        state = State.read(Layout(run.plane).state)
        assert state is not None
        os.kill(state.servers["kube-apiserver"].pid, signal.SIGKILL)
        assert run.client
        list(run.client.list(CRD))

    with pytest.raises(LocalRunError, match=r"the control plane in .* has ended: kube-apiserver exited with SIGKILL"):
        run.start(prepare=kill_and_ask)
