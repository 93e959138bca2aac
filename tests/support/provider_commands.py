"""Runs `capi-functions provider ...` against the cluster of `providers`, with or without running functions."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from infra import local_control_plane
from infra.cli.main import app
from shared.api.provider import CORE
from shared.kube import Key, Object
from tests.support.provider_world import Providers
from tests.support.real_providers import CURRENT, reduced

CORE_KEY = (CORE, "cluster-api", "capi-system")

Command = Callable[..., Result]


@pytest.fixture
def command(provider_plane: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `provider <arguments>`; `where` are the options that name the cluster, by default `--kubeconfig`."""
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(tmp_path / "none"))

    def run(*arguments: str, where: Sequence[str] | None = None) -> Result:
        given = ["--kubeconfig", str(local_control_plane.kubeconfig(provider_plane)), "--dir", str(tmp_path / "no-run")]
        return CliRunner().invoke(app, ["provider", *arguments, *(given if where is None else where)])

    return run


def done(result: Result, code: int = 0) -> str:
    assert result.exit_code == code, f"{result.output} {result.exception!r}"
    return result.stdout


def core(
    providers: Providers, version: str = CURRENT, *, release: Callable[[str], Path] = reduced, **spec: Any
) -> Object:
    """Installs the core provider and returns it."""
    if release(version) not in providers.releases:
        providers.releases.append(release(version))
    config = {"fetchConfig": {"url": providers.url("core-components.yaml")}}
    providers.apply(*CORE_KEY, version=version, **{**config, **spec})
    return providers.until_ready(*CORE_KEY)


@contextmanager
def served(providers: Providers, *names: tuple[Any, str, str]) -> Iterator[None]:
    """Runs the functions for these providers until the block ends, ready or not, deleted or not."""

    def work(over: threading.Event) -> None:
        while not over.wait(0.1):
            for kind, name, namespace in names:
                providers.reconcile_with_workloads(kind, name, namespace)

    with _beside(work):
        yield


@contextmanager
def working(providers: Providers, *names: tuple[Any, str, str]) -> Iterator[None]:
    """Runs the functions for these providers, one after the other, once they exist."""

    def work(over: threading.Event) -> None:
        for kind, name, namespace in names:
            while providers.client.find(kind.resource, Key(namespace, name)) is None:
                if over.wait(0.05):
                    return
            providers.until_ready(kind, name, namespace)

    with _beside(work):
        yield


@contextmanager
def _beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Runs `work` in a thread beside the block; it gets the flag that is set when the block ends."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work(over)
        except BaseException as error:  # the test raises it, not this thread
            failed.append(error)

    over, thread = threading.Event(), threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not failed, failed


def outlooks(result: Result, code: int = 0) -> list[Object]:
    found: list[Object] = json.loads(done(result, code))
    return found


def places(changes: list[Object], *actions: str) -> set[tuple[str, str]]:
    return {(change["kind"], change["name"]) for change in changes if change["action"] in actions}
