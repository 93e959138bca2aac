"""`capi-functions provider ...` on a real API server with real providers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from infra import control_plane
from infra.cli import provider_init
from infra.cli.main import app
from infra.cli.output import WaitTimeout
from infra.cli.provider_requests import parse
from infra.cli.provider_standing import providers as listed
from shared.api.provider import BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE
from shared.kube import Key, Object, key_of
from tests.support.provider_world import NAMESPACE, Providers
from tests.support.providers import CURRENT, components

CORE_KEY = (CORE, "cluster-api", "capi-system")

Command = Callable[..., Result]


@pytest.fixture
def command(provider_plane: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `provider <arguments>` against the cluster of `providers`."""
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(tmp_path / "none"))

    def run(*arguments: str) -> Result:
        options = ["--kubeconfig", str(control_plane.kubeconfig(provider_plane)), "--dir", str(tmp_path / "no-run")]
        return CliRunner().invoke(app, ["provider", *arguments, *options])

    return run


def done(result: Result, code: int = 0) -> str:
    assert result.exit_code == code, f"{result.output} {result.exception!r}"
    return result.stdout


def core(providers: Providers, version: str = CURRENT, **spec: Any) -> Object:
    """The core provider, installed."""
    if components(version) not in providers.releases:
        providers.releases.append(components(version))
    config = {"fetchConfig": {"url": providers.url("core-components.yaml")}}
    providers.apply(*CORE_KEY, version=version, **{**config, **spec})
    return providers.until_ready(*CORE_KEY)


@contextmanager
def working(providers: Providers, *names: tuple[Any, str, str]) -> Iterator[None]:
    """The functions at work on these providers, one after the other, once they are there."""
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for kind, name, namespace in names:
                while providers.client.find(kind.resource, Key(namespace, name)) is None:
                    if over.wait(0.05):
                        return
                providers.until_ready(kind, name, namespace)
        except BaseException as error:  # told by the test, not by a thread
            failed.append(error)

    over, thread = threading.Event(), threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not failed, failed


# -- init and list -------------------------------------------------------------------------------------------------


def test_init(providers: Providers, command: Command) -> None:
    providers.releases.append(components(CURRENT))
    four = [f"--{word}={name}::{CURRENT}" for word, name in (("core", "cluster-api"), ("infrastructure", "docker"))]
    four += [f"--bootstrap=kubeadm:{CURRENT}", f"--control-plane=kubeadm:{CURRENT}"]
    names = (
        CORE_KEY,
        (BOOTSTRAP, "kubeadm", "capi-kubeadm-bootstrap-system"),
        (CONTROL_PLANE, "kubeadm", "capi-kubeadm-control-plane-system"),
        (INFRASTRUCTURE, "docker", "docker-infrastructure-system"),
    )
    with working(providers, *names):
        said = done(command("init", *four, "--timeout=120"))
    assert "InfrastructureProvider docker-infrastructure-system/docker: NotLookedAt" in said
    assert f"CoreProvider capi-system/cluster-api: {CURRENT} is ready" in said
    assert "all are ready" in said
    for one in json.loads(done(command("list", "-o", "json"))):
        assert (one["installed"], one["wanted"], one["contract"], one["ready"]) == (CURRENT, CURRENT, "v1beta2", "True")

    # Again: nothing is touched, and all are named.
    before = [(key_of(each), each["metadata"]["resourceVersion"]) for each in listed(providers.client)]
    said = done(command("init", "-i", "docker:elsewhere:v1.0.0"))
    assert "InfrastructureProvider docker-infrastructure-system/docker is there already: left alone" in said
    assert "CoreProvider capi-system/cluster-api is there already: left alone" in said
    assert before == [(key_of(each), each["metadata"]["resourceVersion"]) for each in listed(providers.client)]
    assert providers.client.find(NAMESPACE, Key("", "elsewhere")) is None


def test_init_does_not_wait_where_nobody_works(providers: Providers, command: Command) -> None:
    said = done(command("init", "--ipam=in-cluster:ipam-test", "--config-secret=variables:vault", "--no-wait"))
    assert "Namespace ipam-test created" in said
    assert "IPAMProvider ipam-test/in-cluster created, of the newest version" in said
    made = {one["kind"]: one for one in listed(providers.client)}
    assert set(made) == {"CoreProvider", "IPAMProvider"}
    assert made["IPAMProvider"]["spec"] == {"configSecret": {"name": "variables", "namespace": "vault"}}
    rows = done(command("list")).splitlines()
    assert rows[0].split() == ["KIND", "NAME", "NAMESPACE", "INSTALLED", "WANTED", "CONTRACT", "READY", "REASON"]
    assert rows[2].split() == ["IPAMProvider", "in-cluster", "ipam-test", "-", "newest", "-", "Unknown", "NotLookedAt"]


def test_waiting_ends_with_the_reason(providers: Providers) -> None:
    providers.apply(INFRASTRUCTURE, "docker", "capd-system", version=CURRENT)
    providers.settle(INFRASTRUCTURE, "docker", "capd-system")
    asked, said = parse(INFRASTRUCTURE, "docker:capd-system"), list[str]()
    with pytest.raises(WaitTimeout, match="docker: WaitingForCoreProviderReady: Waiting for the CoreProvider"):
        provider_init.wait(providers.client, [asked], within=0.2, tell=said.append, pause=0.05)
    [line] = said
    assert line.startswith("InfrastructureProvider capd-system/docker: WaitingForCoreProviderReady")


def test_no_providers(providers: Providers, command: Command) -> None:
    assert listed(providers.client) == []
    assert "there are no providers" in done(command("list"))
    assert done(command("list", "-o", "json")) == "[]\n"
