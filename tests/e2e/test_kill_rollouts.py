"""`cluster_rollout` is killed at its writes: the end is always the same, and no more Clusters move than may.

The test plays core and the functions of addons, and reports one Cluster at a time, so that others are in progress.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.api.resources import CLUSTER, CLUSTER_ROLLOUT, NAMESPACE
from shared.clients import Clients
from shared.kube import Client, dig
from shared.storage import ObjectStore
from shared.wake import wake_event
from tests.support import objects
from tests.support.api_proxy import Request
from tests.support.cluster_rollouts import CANARY, NEW, NEWEST, Rollouts
from tests.support.kill_points import KillableFunctions, KillPoint, check_kills, in_parts, killable_functions
from tests.support.until import until

VARIANTS = ((True, ""), (False, ""), (True, "another class"), (False, "another class"), (False, "deletion"))
STRATEGY = {"maxUnavailable": 2, "partitions": [{**CANARY, "maxUnavailable": 1}]}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    in_parts(metafunc, 6)


class Journey:
    """The life of one ClusterRollout, which moves the Clusters of a namespace of its own twice."""

    def __init__(self, functions: KillableFunctions, client: Client) -> None:
        self.functions, self.to = functions, NEW
        self.rollouts = Rollouts(client, Clients(client), f"kill-{uuid.uuid4().hex[:8]}")

    def take(self, point: KillPoint | None) -> list[Request]:
        """Takes the journey, and returns its writes; the function is killed at `point`."""
        change = {"another class": self.move, "deletion": self.delete}
        self.functions.while_down = change.get(point.meanwhile if point else "", lambda: None)
        self.functions.kill_at(point)
        self.rollouts.client.create(NAMESPACE, objects.manifest(NAMESPACE, self.rollouts.namespace))
        try:
            self.rollouts.fleet(canary=2, main=4)
            self.rollouts.rollout(rolloutStrategy=STRATEGY)
            for step in (self.move, lambda: None):
                self.until(lambda: self.rollouts.is_done(self.to), "the rollout is done")
                step()
            assert self.rollouts.with_class(NEWEST) == self.rollouts.names()
        finally:
            self.rollouts.remove_all()
        return self.functions.end()

    def move(self) -> None:
        self.to = NEWEST
        self.rollouts.patch({"topology": {"classRef": {"name": NEWEST}}})

    def delete(self) -> None:
        self.rollouts.client.delete(CLUSTER, self.rollouts.key("main-0"))

    def until(self, reached: Callable[[], bool], what: str) -> None:
        until(reached, what, pause=0, between=self.turn, details=self.describe)

    def turn(self) -> None:
        rollout = self.rollouts.client.get(CLUSTER_ROLLOUT, self.rollouts.key("next"))
        answer = self.functions.deliver("cluster_rollout", wake_event(rollout, source="/test"))
        assert answer.status != 500, answer.message
        self.rollouts.check_limits(self.to, canary=1, main=2)
        self.rollouts.report_next()

    def describe(self) -> object:
        rollout = self.rollouts.client.get(CLUSTER_ROLLOUT, self.rollouts.key("next"))
        return dig(rollout, "status"), self.rollouts.with_class(self.to), self.functions.writes[-5:]


@pytest.mark.timeout(3600)
def test_rollout_ends_the_same_when_the_function_is_killed_at_a_write(
    management: Client,
    kubeconfig: Path,
    object_store: ObjectStore,
    object_store_url: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    part: tuple[int, int],
) -> None:
    with killable_functions(kubeconfig, object_store, object_store_url, tmp_path) as functions:

        def take(point: KillPoint | None) -> list[Request]:
            return Journey(functions, management).take(point)

        check_kills(take, VARIANTS, pytestconfig, part, most=6)
