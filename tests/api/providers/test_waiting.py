"""Whether `init` and `adopt` wait, which needs running functions; and the JSON output of commands."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from infra import local_control_plane
from infra.local_control_plane.processes import Process
from infra.operations.providers.status import list_providers
from shared.api.resources import DEPLOYMENT, NAMESPACE
from shared.kube import Key, Object, key_of
from shared.kube.loading_rules import load
from tests.support.provider_commands import Command, core, done
from tests.support.provider_installers import by_clusterctl, installed, recorded
from tests.support.provider_world import Providers
from tests.support.real_providers import CURRENT

KNATIVE = Path(__file__).parents[3] / "infra/manifests/base"
INIT = ("init", "--ipam=in-cluster:ipam-waiting", "--timeout=0.1")
NOBODY = "the cluster has no Deployments of functions"
WAITED = "timed out after 0.1 s waiting for all providers to be ready"


@pytest.fixture
def functions(providers: Providers) -> Iterator[list[Object]]:
    """Creates the Deployments of `infra/manifests/base` for providers."""
    documents = [one for file in KNATIVE.glob("function-provider-*") for one in yaml.safe_load_all(file.read_text())]
    providers.namespace("capi-functions")
    deployments = [providers.client.create(DEPLOYMENT, one) for one in documents if one["kind"] == DEPLOYMENT.kind]
    yield deployments
    for deployment in deployments:
        providers.client.delete(DEPLOYMENT, key_of(deployment))


@pytest.fixture
def of_environment(provider_plane: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Options for a cluster that only $KUBECONFIG names."""
    monkeypatch.setenv("KUBECONFIG", str(local_control_plane.kubeconfig(provider_plane)))
    return ()


@pytest.fixture
def local_run(provider_plane: Path, tmp_path: Path) -> Path:
    """Returns the folder of a local run that this process keeps alive."""
    me = Process.of(os.getpid())
    assert me is not None
    kubeconfig = tmp_path / "management.kubeconfig"
    shutil.copyfile(local_control_plane.kubeconfig(provider_plane), kubeconfig)
    server = load([kubeconfig]).server
    state = {"pid": me.pid, "started": me.started, "kubeconfig": str(kubeconfig), "api_server": server, "settings": {}}
    (tmp_path / "up.json").write_text(json.dumps(state))
    return tmp_path


def test_init_waits_for_a_local_run(providers: Providers, command: Command, local_run: Path) -> None:
    kubeconfig = local_run / "management.kubeconfig"
    for where in (["--dir", str(local_run)], ["--kubeconfig", str(kubeconfig), "--dir", str(local_run / "other")]):
        result = command(*INIT, where=where)
        assert result.exit_code == 1
        assert WAITED in " ".join(result.stderr.split())


def test_init_waits_for_functions_in_the_cluster(
    providers: Providers, command: Command, functions: list[Object], of_environment: tuple[str, ...]
) -> None:
    result = command(*INIT, where=of_environment)
    assert result.exit_code == 1
    assert WAITED in " ".join(result.stderr.split())
    for deployment in functions:
        providers.client.patch(DEPLOYMENT, key_of(deployment), {"spec": {"replicas": 0}})
    assert "requested, without waiting: functions are scaled to 0" in done(command(*INIT, where=of_environment))


def test_init_does_not_wait_without_functions_in_the_cluster(
    providers: Providers, command: Command, of_environment: tuple[str, ...]
) -> None:
    for where in (of_environment, None):
        assert f"requested, without waiting: {NOBODY}" in done(command(*INIT, where=where))
    result = command(*INIT, "--wait")
    assert result.exit_code == 1
    assert WAITED in " ".join(result.stderr.split())


# -- JSON output ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [["-o", "json"], ["--json"]])
def test_init_reports_created_objects_as_json(providers: Providers, command: Command, option: list[str]) -> None:
    made = {"kind": "IPAMProvider", "namespace": "json-test", "name": "in-cluster", "version": "v1.0.3"}
    core = {"kind": "CoreProvider", "namespace": "capi-system", "name": "cluster-api", "version": ""}
    init = ("init", "--ipam=in-cluster:json-test:v1.0.3", *option)

    dry = json.loads(done(command(*init, "--dry-run")))
    assert dry["kind"] == "List"
    assert [one["kind"] for one in dry["items"]] == ["Namespace", "Namespace", "CoreProvider", "IPAMProvider"]
    assert list_providers(providers.client) == []

    there = {one for one in ("capi-system", "json-test") if providers.client.find(NAMESPACE, Key("", one))}
    namespaces = [
        {"kind": "Namespace", "namespace": "", "name": one, "version": "", "action": "created"}
        for one in ("capi-system", "json-test")
        if one not in there
    ]
    first = json.loads(done(command(*init)))
    assert list(first) == ["written", "notes", "ready", "obstacle"]
    providers_made = [{**one, "action": "created"} for one in (core, made)]
    assert first["written"] == [*namespaces, *providers_made]
    assert (first["notes"], first["ready"]) == ([], False)
    assert first["obstacle"].startswith(NOBODY)

    again = command(*init, "--wait", "--timeout=0.1")
    printed = json.loads(done(again, 1))
    assert printed["written"] == [{**one, "action": "unchanged"} for one in (core, made)]
    assert printed["obstacle"].startswith(WAITED)
    assert "exists: left unchanged" in again.stderr


def test_adopt_reports_created_objects_as_json(providers: Providers, command: Command) -> None:
    installed(providers, CURRENT, by_clusterctl)
    recorded(providers.client, CURRENT)
    written = {"kind": "CoreProvider", "namespace": "capi-system", "name": "cluster-api", "version": CURRENT}
    dry = json.loads(done(command("adopt", "--all", "--dry-run", "--json")))
    assert [one["spec"] for one in dry["items"]] == [{"version": CURRENT}]
    printed = json.loads(done(command("adopt", "--all", "--json")))
    assert printed["written"] == [{**written, "action": "created"}]
    assert not printed["ready"]
    assert printed["obstacle"].startswith(NOBODY)
    core(providers)  # so that all of it goes with the provider


@pytest.mark.parametrize(("arguments", "code"), [("plan", 4), ("list", 0)])
def test_both_json_options_work_for_plan_and_list(
    providers: Providers, command: Command, arguments: str, code: int
) -> None:
    """The provider cannot be fetched, so the exit code of the plan is 4."""
    done(command("init", "--core=cluster-api", "--no-wait"))
    long, short = (command(arguments, *option) for option in (["-o", "json"], ["--json"]))
    assert done(long, code) == done(short, code)
    assert [one["kind"] for one in json.loads(long.stdout)] == ["CoreProvider"]
