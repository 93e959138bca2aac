"""The random choices of a run, and how much of what could be chosen is run.

Some tests choose at random: which writes to kill a function at, which events to lose. A run prints its seed, and
`--seed` repeats its choices. `--exhaustive` runs all there is to choose from (`make test-all`).
"""

from __future__ import annotations

import random
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("capi-functions")
    group.addoption("--seed", type=int, help="the seed of random choices in tests (default: another one each run)")
    group.addoption("--exhaustive", action="store_true", help="test every kill point, and a larger chaos campaign")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Chooses the seed of this run, or takes over the choice of the run whose worker this is."""
    if hasattr(config, "workerinput"):
        config.option.seed = config.workerinput["seed"]
    if config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(1_000_000)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hands the seed to a worker of xdist."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed of random choices: {config.option.seed} (--seed={config.option.seed} repeats them)"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Repeats the seed where tests failed: the header is far above by then, or was not shown at all."""
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"The random choices of this run are repeated with --seed={config.option.seed}")


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.option.seed)


@pytest.fixture(scope="session")
def exhaustive(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.option.exhaustive)
