"""Choice of the management cluster: options, environment, the run in the folder, the user's kubeconfig."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from infra.cli.main import app
from infra.local_control_plane.processes import Process
from infra.operations.failure import Failure
from infra.operations.management_cluster import files, open_management_cluster
from shared.kube.loading_rules import KubeconfigError

UNREACHABLE = "https://127.0.0.1:1"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder without a run, a home without a kubeconfig, and no $KUBECONFIG."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def kubeconfig(file: Path, *, server: str = UNREACHABLE, context: str = "there", namespace: str = "") -> Path:
    inside = {"cluster": context, "user": "u", **({"namespace": namespace} if namespace else {})}
    document = {
        "current-context": context,
        "contexts": [{"name": context, "context": inside}],
        "clusters": [{"name": context, "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(document))
    return file


def run(directory: Path, *, lives: bool = True, server: str = UNREACHABLE) -> Path:
    """Writes the state file of a run, and returns the run's kubeconfig."""
    me = Process.of(os.getpid())
    assert me is not None
    file = kubeconfig(directory / "management.kubeconfig", server=server, context="run")
    state = {"pid": me.pid, "started": me.started if lives else 1, "kubeconfig": str(file.absolute())}
    (directory / "up.json").write_text(json.dumps({**state, "api_server": server, "settings": {"OF_RUN": "yes"}}))
    return file


def test_options_outrank_environment_run_and_home(tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = kubeconfig(tmp_path / "home" / ".kube" / "config")
    named, listed = kubeconfig(tmp_path / "named"), kubeconfig(tmp_path / "listed")
    elsewhere = run(tmp_path / "elsewhere")
    assert files(None, None) == [own]
    of_run = run(place / ".capi-functions")
    assert files(None, None) == [of_run.relative_to(place)]
    assert files(None, None, "there") == [own]
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/absent{os.pathsep}{listed}")
    assert files(None, None) == [tmp_path / "absent", listed]
    assert files(tmp_path / "elsewhere", None) == [elsewhere]
    assert files(tmp_path / "elsewhere", named) == [named]
    assert files(None, named) == [named]


def test_crashed_run_is_an_error_until_down_removes_it(tmp_path: Path, place: Path) -> None:
    own = kubeconfig(tmp_path / "home" / ".kube" / "config")
    run(place / ".capi-functions", lives=False)
    with pytest.raises(Failure, match=r"run in \.capi-functions has crashed.*capi-functions down"):
        files(None, None)
    assert CliRunner().invoke(app, ["down"]).exit_code == 0
    assert files(None, None) == [own]
    with pytest.raises(Failure, match=r"no run in \.capi-functions: start it with"):
        files(Path(".capi-functions"), None)


def test_error_without_a_cluster_names_the_ways_to_choose_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        Failure, match=r"no run in \.capi-functions.*\.kube/config does not exist; start a run.*KUBECONFIG"
    ):
        files(None, None)
    with pytest.raises(Failure, match=r"^/.*\.kube/config does not exist; start a run"):
        files(None, None, "context")
    with pytest.raises(Failure, match="--kubeconfig: absent does not exist"):
        files(None, Path("absent"))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a:{tmp_path}/b")
    with pytest.raises(Failure, match=r"\$KUBECONFIG: /.*/a:/.*/b does not exist; start a run"):
        files(None, None)


def test_settings_of_a_run_apply_however_its_cluster_is_chosen(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = kubeconfig(tmp_path / "home" / ".kube" / "config", server="https://127.0.0.1:2")
    of_run = run(place / ".capi-functions")
    with open_management_cluster(None, None) as target:
        assert target.run == Path(".capi-functions")
        assert target.settings == {"OF_RUN": "yes"}
    with open_management_cluster(None, of_run) as target:
        assert target.settings == {"OF_RUN": "yes"}
    monkeypatch.setenv("KUBECONFIG", f"{own}:{of_run}")
    with open_management_cluster(None, None) as target:
        assert (target.client.host, target.run, target.settings) == ("https://127.0.0.1:2", None, {})
    with open_management_cluster(None, None, "run") as target:
        assert (target.client.host, target.settings) == (UNREACHABLE, {"OF_RUN": "yes"})
    run(place / ".capi-functions", lives=False)
    with open_management_cluster(None, of_run) as target:
        assert target.run is None


def test_variables_of_the_command_outrank_settings_of_a_run_unless_an_option_names_the_run(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_run = run(place / ".capi-functions")
    monkeypatch.setenv("OF_RUN", "exported")
    for kubeconfig_option in (None, of_run):
        with open_management_cluster(None, kubeconfig_option) as target:
            assert target.settings == {}
    with open_management_cluster(Path(".capi-functions"), None) as target:
        assert target.settings == {"OF_RUN": "yes"}


def test_default_namespace_is_that_of_the_context(tmp_path: Path) -> None:
    with open_management_cluster(None, kubeconfig(tmp_path / "k", namespace="team")) as target:
        assert target.namespace(None) == "team"
        assert target.namespace("given") == "given"
    with open_management_cluster(None, kubeconfig(tmp_path / "k")) as target:
        assert target.namespace(None) == "default"


def test_unknown_context_lists_the_known_ones(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "k")
    with (
        pytest.raises(KubeconfigError, match=f"{file}: there is no context 'away'; the contexts are there"),
        open_management_cluster(None, file, "away"),
    ):
        pass


COMMANDS = [
    ["plan", "demo"],
    ["describe", "cluster", "demo"],
    ["get", "clusters"],
    ["rollback", "demo"],
    ["provider", "list"],
    ["provider", "init", "-i", "docker"],
    ["provider", "plan"],
    ["provider", "adopt", "--all"],
    ["provider", "export", "--all", "--to", "out"],
    ["replay", "events", "--inputs"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_error_names_the_management_cluster(arguments: list[str], tmp_path: Path) -> None:
    Path("events").mkdir()
    Path("events", "inputs.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n")
    file = kubeconfig(tmp_path / "k")
    result = CliRunner().invoke(app, [*arguments, "--kubeconfig", str(file), "--context", "there"])
    assert result.exit_code == 1, result.output
    [error] = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert error.endswith(f"(management cluster: context there of {file} ({UNREACHABLE}))")


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("content", ["{", "a: b: c", "contexts: 5", "\x00", "[]"])
def test_broken_kubeconfig_is_reported_without_a_stack_trace(
    arguments: list[str], content: str, tmp_path: Path
) -> None:
    Path("events").mkdir()
    (file := tmp_path / "k").write_text(content)
    result = CliRunner().invoke(app, [*arguments, "--kubeconfig", str(file)])
    assert (result.exit_code, result.exception.__class__) == (1, SystemExit)


@pytest.mark.parametrize("arguments", [["plan"], ["plan", "a", "--cluster", "b"], ["rollback"]])
def test_exactly_one_cluster_must_be_named(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "name one Cluster" in result.output
