"""Pytest fixtures with real API servers, for other projects: installed with this package, and used by name.

def test_namespace_is_created(kubeconfig):
    subprocess.run(["kubectl", "--kubeconfig", kubeconfig, "create", "namespace", "a"], check=True)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from infra.local_control_plane import ControlPlane


def _plane(directory: Path) -> Iterator[ControlPlane]:
    from infra.local_control_plane import ControlPlane

    with ControlPlane(directory, progress=print) as plane:
        yield plane


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A kube-apiserver with etcd for the session, which always ends with the session."""
    yield from _plane(tmp_path_factory.mktemp("control-plane") / "management")


@pytest.fixture(scope="session")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """The kubeconfig of an administrator of `control_plane`."""
    return control_plane.kubeconfig


@pytest.fixture(scope="session")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A second control plane, to stand in for a workload cluster."""
    yield from _plane(tmp_path_factory.mktemp("workload") / "workload")
