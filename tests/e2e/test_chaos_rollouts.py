"""Events of a ClusterRollout and its Clusters are lost, doubled and late: the end is the same, in the limits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import local_control_plane
from shared.api.resources import CLUSTER
from shared.clients import Clients
from shared.kube import Client
from tests.support.cluster_rollouts import CANARY, NEW, NEWEST, Rollouts
from tests.support.lossy_delivery import lossy_functions, sweep, with_seeds
from tests.support.planes import running_plane
from tests.support.until import logged, until

FUNCTIONS = ("cluster_rollout", "rollout_wake")
"""The test plays the others, and core."""
STRATEGY = {"maxUnavailable": 2, "partitions": [{**CANARY, "maxUnavailable": 1}]}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    with_seeds(metafunc)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Starts a control plane for this module: the forwarder and the sweep would reconcile objects of other tests."""
    with running_plane(tmp_path_factory.mktemp("chaos") / "management") as folder:
        yield local_control_plane.kubeconfig(folder)


@pytest.mark.usefixtures("object_store")
def test_rollout_ends_the_same_when_two_of_five_events_are_lost(
    management: Client,
    clients: Clients,
    namespace: str,
    kubeconfig: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chaos_seed: int,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    rollouts, log = Rollouts(management, clients, namespace), tmp_path / "functions.log"
    rollouts.fleet(canary=2, main=5)
    with lossy_functions(management, log, monkeypatch, chaos_seed, *FUNCTIONS) as (lossy, reliable):
        numbers = itertools.count(1)

        def move_to(name: str) -> None:
            def between() -> None:
                rollouts.check_limits(name, canary=1, main=2)
                rollouts.report_next()
                sweep(reliable, next(numbers))

            until(lambda: rollouts.is_done(name), name, pause=0.3, between=between, details=logged(log))

        rollouts.rollout(rolloutStrategy=STRATEGY)
        move_to(NEW)
        rollouts.patch({"topology": {"classRef": {"name": NEWEST}}})
        until(lambda: rollouts.with_class(NEWEST), "the first move", between=lambda: sweep(reliable, next(numbers)))
        management.delete(CLUSTER, rollouts.key("main-0"))
        move_to(NEWEST)
        assert lossy.lost > 0
