"""The decisions of `team_label`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from functions.team_label.function import Observed, decide
from functions.team_label.triggers import LABEL

from shared.api.resources import CLUSTER
from shared.effects import Patch

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def cluster(*, paused: bool = False, **labels: str) -> dict[str, Any]:
    """Returns a Cluster."""
    return {"metadata": {"name": "demo", "namespace": "default", "labels": labels}, "spec": {"paused": paused}}


def test_cluster_gets_the_team_of_its_namespace() -> None:
    """The only effect is the patch of the Cluster."""
    decision = decide(Observed(cluster(), "payments"), NOW)
    assert decision.effects == (Patch(CLUSTER, cluster(), {"metadata": {"labels": {LABEL: "payments"}}}),)


@pytest.mark.parametrize(
    ("observed", "requeue_after"),
    [
        pytest.param(Observed(None), None, id="deleted"),
        pytest.param(Observed(cluster(**{LABEL: "mine"}), "payments"), None, id="labelled by hand"),
        pytest.param(Observed(cluster(paused=True), "payments"), None, id="paused"),
        pytest.param(Observed(cluster()), 60.0, id="Namespace without a team"),
    ],
)
def test_nothing_is_changed(observed: Observed, requeue_after: float | None) -> None:
    """Only a missing team is worth another look."""
    decision = decide(observed, NOW)
    assert (decision.effects, decision.requeue_after) == ((), requeue_after)
