"""Distributes the tests over the worker processes of pytest-xdist: a file to one worker, the longest files first.

xdist's own `--dist loadfile` begins with the files that have the most tests. The few long tests come last then, and a
run ends with one worker busy and the others idle. The files in `SPLIT` are too long for one worker, so their tests are
distributed one by one. Without xdist the order stays as collected.
"""

from __future__ import annotations

from typing import Any

import pytest

SPLIT = frozenset(
    {
        "tests/e2e/test_chaos.py",
        "tests/e2e/test_command_line.py",
        "tests/e2e/test_kill_addons.py",
        "tests/e2e/test_kill_clusters.py",
        "tests/e2e/test_kill_providers.py",
    }
)
"""Files whose tests are distributed one by one: each is long, and they share little."""

TOGETHER = {
    "tests/api/kind/test_configuration.py": "tests/api/kind/test_program.py",
    "tests/knative/test_adapter.py": "tests/knative/test_broker.py",
    "tests/knative/test_broker_chaos.py": "tests/knative/test_broker.py",
    "tests/e2e/test_command_run.py": "tests/api/kind/test_program.py",
    "tests/e2e/test_providers_in_a_local_run.py": "tests/api/core/test_live_core.py",
    "tests/api/core/test_preview.py": "tests/api/core/test_live_core.py",
}
"""Files that go to the worker of another one: they would wait for each other, as both need the same ports or podman."""

SECONDS = {
    "tests/api/core/test_preview.py": 240,
    "tests/api/core/test_live_core.py": 240,
    "tests/e2e/test_providers_in_a_local_run.py": 240,
    "tests/knative/test_broker.py": 137,
    "tests/knative/test_broker_chaos.py": 137,
    "tests/knative/test_adapter.py": 137,
    "tests/api/control_plane/test_control_plane.py": 123,
    "tests/e2e/test_bench_command.py": 100,
    "tests/e2e/test_command_line.py": 83,
    "tests/api/addons/test_faulty_api_server.py": 82,
    "tests/e2e/test_kill_addons.py": 78,
    "tests/api/providers/test_lifecycle.py": 77,
    "tests/api/core/test_live_rollouts.py": 70,
    "tests/knative/test_pods.py": 71,
    "tests/e2e/test_tutorial.py": 70,
    "tests/e2e/test_kill_tasks.py": 70,
    "tests/e2e/test_kill_providers.py": 68,
    "tests/e2e/test_kill_repairs.py": 68,
    "tests/api/kind/test_program.py": 64,
    "tests/api/kind/test_configuration.py": 64,
    "tests/e2e/test_command_run.py": 64,
    "tests/api/control_plane/test_public_control_plane.py": 60,
    "tests/e2e/test_guides.py": 60,
    "tests/api/stacks/test_cluster_stacks_events.py": 53,
    "tests/e2e/test_chaos.py": 53,
    "tests/api/addons/test_policies.py": 50,
    "tests/api/providers/test_deletion.py": 50,
    "tests/e2e/test_kill_upkeep.py": 50,
    "tests/api/kind/test_cluster.py": 48,
    "tests/api/providers/test_stale_events.py": 45,
    "tests/e2e/test_kill_clusters.py": 45,
    "tests/e2e/test_killed_runs.py": 43,
    "tests/e2e/test_kill_stacks.py": 42,
    "tests/api/providers/test_cli.py": 38,
    "tests/e2e/test_kill_charts.py": 38,
    "tests/e2e/test_kill_rollouts.py": 38,
    "tests/e2e/test_console.py": 38,
    "tests/api/providers/test_namespaces.py": 37,
    "tests/api/stacks/test_cluster_stacks.py": 36,
    "tests/e2e/test_upgrade_in_place.py": 35,
    "tests/e2e/test_examples.py": 34,
    "tests/knative/test_manifests.py": 34,
    "tests/e2e/test_readme.py": 33,
    "tests/api/providers/test_transfer.py": 31,
    "tests/e2e/test_kill_resource_sets.py": 31,
}
"""About how long files take, as far as it matters for the order; `pytest --durations=0` shows it."""

_FOLDERS = ("tests/e2e", "tests/knative", "tests/api", "tests/unit")
"""The order of files that are not in `SECONDS`: the small ones last, to fill the workers evenly."""


def unit_of_work(nodeid: str) -> str:
    """What goes to one worker as a whole: the test's file, with others maybe, or the test itself."""
    file = nodeid.partition("::")[0]
    return nodeid if file in SPLIT else TOGETHER.get(file, file)


def order(nodeid: str) -> tuple[int, int, str]:
    """Sorts the longest files first."""
    file = nodeid.partition("::")[0]
    folder = next((n for n, folder in enumerate(_FOLDERS) if file.startswith(folder)), len(_FOLDERS))
    return -SECONDS.get(file, 0), folder, file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Returns the scheduler for `--dist loadfile`; xdist's own for any other."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class LongestFirst(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return unit_of_work(nodeid)

    config.option.loadscopereorder = False  # the workers have brought the tests into order
    return LongestFirst(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the longest files first in the workers of xdist."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: order(item.nodeid))
