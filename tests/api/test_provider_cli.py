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
from infra.cli import manifests
from infra.cli.main import app
from infra.cli.output import WaitTimeout
from infra.cli.provider import init
from infra.cli.provider.requests import parse
from infra.cli.provider.standing import providers as listed
from shared.api.provider import BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE
from shared.api.resources import CONFIG_MAP, DEPLOYMENT
from shared.charts import yamls
from shared.components.repositories import Files, config_maps
from shared.kube import Key, Object, dig, key_of
from shared.workload import inventory
from shared.workload.diff import compare
from tests.support.provider_installers import by_clusterctl, by_operator, installed, recorded
from tests.support.provider_world import NAMESPACE, Providers
from tests.support.providers import CURRENT, DOWNLOADS, PREVIOUS, components, repository

CORE_KEY = (CORE, "cluster-api", "capi-system")
MANAGER_KEY = Key("capi-system", "capi-controller-manager")

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
        init.wait(providers.client, [asked], within=0.2, tell=said.append, pause=0.05)
    [line] = said
    assert line.startswith("InfrastructureProvider capd-system/docker: WaitingForCoreProviderReady")


def test_no_providers(providers: Providers, command: Command) -> None:
    assert listed(providers.client) == []
    assert "there are no providers" in done(command("list"))
    assert done(command("list", "-o", "json")) == "[]\n"


# -- plan ----------------------------------------------------------------------------------------------------------


def outlooks(result: Result, code: int = 0) -> list[Object]:
    found: list[Object] = json.loads(done(result, code))
    return found


def places(changes: list[Object], *actions: str) -> set[tuple[str, str]]:
    return {(change["kind"], change["name"]) for change in changes if change["action"] in actions}


def contents(providers: Providers, provider: Object) -> dict[tuple[str, str], Object]:
    """What a provider consists of, as it is in the cluster."""
    found = {}
    for entry in inventory.load(dig(provider, "status.resources")):
        resource = providers.clients.discovery.resource(entry.api_version, entry.kind)
        assert resource is not None
        found[entry.kind, entry.name] = providers.client.get(resource, Key(entry.namespace, entry.name))
    return found


def test_a_plan_foretells_what_an_upgrade_does(providers: Providers, command: Command) -> None:
    present = contents(providers, core(providers, PREVIOUS))
    providers.releases.append(components(CURRENT))
    before = providers.versions()
    arguments = ("plan", "core", "cluster-api", "--version", CURRENT, "-o", "json")
    [foretold] = outlooks(command(*arguments, "--exit-code"), 3)
    assert providers.versions() == before
    assert foretold["version"] == {"installed": PREVIOUS, "wanted": CURRENT}
    assert (foretold["contract"], foretold["obstacle"]) == ("v1beta2", "")
    assert foretold["source"].startswith(providers.site.url)

    text = done(command("plan", "cacp", "cluster-api", "--version", CURRENT))
    assert f"CoreProvider capi-system/cluster-api  {PREVIOUS} -> {CURRENT}" in text
    assert f"cluster-api-controller:{PREVIOUS}" in text
    assert f"{foretold['summary']['update']} to update" in text

    after = contents(providers, core(providers, CURRENT))
    both = present.keys() & after.keys()
    assert places(foretold["changes"], "create") == after.keys() - present.keys()
    assert places(foretold["changes"], "delete") == present.keys() - after.keys()
    updated = {place for place in both if compare(present[place], after[place])}
    assert places(foretold["changes"], "update") == updated
    assert len(updated) > 5
    assert after["Deployment", "capi-controller-manager"]["metadata"]["uid"] in str(present)
    [settled] = outlooks(command(*arguments, "--exit-code"))
    assert not places(settled["changes"], "update", "create", "recreate", "delete")


def test_the_newest_that_is_published(providers: Providers, command: Command, tmp_path: Path) -> None:
    core(providers, PREVIOUS)
    listing = tmp_path / "repos/kubernetes-sigs/cluster-api/releases"
    listing.parent.mkdir(parents=True)
    listing.write_text(json.dumps([{"tag_name": tag, "assets": []} for tag in (PREVIOUS, CURRENT)]))
    providers.releases += [tmp_path, components(CURRENT)]
    [foretold] = outlooks(command("plan", "-o", "json", "--exit-code"), 3)
    assert foretold["version"]["wanted"] == CURRENT
    core(providers, CURRENT)
    [foretold] = outlooks(command("plan", "all", "-o", "json", "--exit-code"))
    assert foretold["notes"] == ["it is the newest"]


def brought(providers: Providers, version: str) -> Object:
    """A version of the core provider in a ConfigMap, as a site without a way out is given it."""
    release = components(version) / DOWNLOADS / version
    files = Files((release / "metadata.yaml").read_text(), (release / "core-components.yaml").read_text())
    provider: Object = {"kind": "CoreProvider", "metadata": {"name": "cluster-api", "namespace": "capi-system"}}
    made = config_maps.as_config_map(provider, version, files, owned=False)
    providers.namespace("capi-system")
    return providers.client.apply(CONFIG_MAP, made, manager="user")


def test_a_site_without_a_way_out(providers: Providers, command: Command) -> None:
    """Of the versions that were brought along the newest is planned for, by selector as without."""
    made = [brought(providers, version) for version in (PREVIOUS, CURRENT)]
    selector = {"matchLabels": {"provider.cluster.x-k8s.io/type": "core"}}
    for config in ({"selector": selector}, {"url": providers.url("core-components.yaml")}):
        providers.apply(*CORE_KEY, version=PREVIOUS, fetchConfig=config)
        providers.until_ready(*CORE_KEY)
        [foretold] = outlooks(command("plan", "core", "-o", "json", "--exit-code"), 3)
        assert foretold["version"] == {"installed": PREVIOUS, "wanted": CURRENT}
        assert bool(foretold["notes"]) is ("url" in config)
    for config_map in made:
        providers.client.delete(CONFIG_MAP, key_of(config_map))


def test_what_would_not_get_there(providers: Providers, command: Command) -> None:
    core(providers)
    for version, told in ((PREVIOUS, "Downgrade is not supported"), ("v1.14.99", "no version v1.14.99")):
        text = done(command("plan", "core", "cluster-api", "--version", version, "--exit-code"), 4)
        assert "it would not get there: " in text
        assert told in text
    providers.releases.clear()  # nor is there a list of versions; the others are planned for nevertheless
    providers.apply(INFRASTRUCTURE, "docker", "capd-system", version=CURRENT, configSecret={"name": "missing"})
    core_says, docker_says = outlooks(command("plan", "-o", "json", "--exit-code"), 4)
    assert "which version is the latest cannot be told" in core_says["obstacle"]
    assert "--version" in core_says["obstacle"]
    assert "Secret capd-system/missing (spec.configSecret) does not exist" in docker_says["obstacle"]
    providers.apply(*CORE_KEY, {"cluster.x-k8s.io/paused": ""}, version=CURRENT, manager={"verbosity": 5})
    [foretold] = outlooks(command("plan", "core", "cluster-api", "--version", CURRENT, "-o", "json"))
    assert foretold["notes"] == ["it is paused: nothing of this happens before it is not"]
    assert foretold["obstacle"] == ""
    assert places(foretold["changes"], "update") == {("Deployment", "capi-controller-manager")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nodes",), "'nodes' is no kind of provider"),
        (("infrastructure", "docker"), "there is no InfrastructureProvider docker"),
        (("--version", "v1.2.3"), "--version is of one provider"),
        (("core", "cluster-api", "--version", "newest"), "is no version such as v1.2.3"),
    ],
)
def test_what_cannot_be_planned(
    providers: Providers, command: Command, arguments: tuple[str, ...], message: str
) -> None:
    providers.apply(*CORE_KEY, version=CURRENT)
    result = command("plan", *arguments)
    assert result.exit_code == 1
    assert message in " ".join(result.stderr.split())


# -- adopt ---------------------------------------------------------------------------------------------------------


def test_adopted_from_clusterctl(providers: Providers, command: Command) -> None:
    providers.releases.append(components(CURRENT))
    installed(providers, CURRENT, by_clusterctl)
    recorded(providers.client, CURRENT)
    before = providers.client.get(DEPLOYMENT, MANAGER_KEY)

    result = command("adopt", "--all", "--dry-run")
    [manifest] = yamls.load_all(done(result))
    assert (manifest["kind"], manifest["spec"]) == ("CoreProvider", {"version": CURRENT})
    assert listed(providers.client) == []

    # First a look, then the take-over.
    said = done(command("adopt", "core", "cluster-api", "--paused"))
    assert f"CoreProvider capi-system/cluster-api created, of {CURRENT}" in said
    assert "not waited for: they are paused" in said
    [foretold] = outlooks(command("plan", "core", "cluster-api", "-o", "json"))
    assert foretold["version"] == {"installed": "", "wanted": CURRENT}
    assert foretold["obstacle"] == ""
    assert any("are taken over" in note for note in foretold["notes"])
    assert ("Deployment", "capi-controller-manager") not in places(foretold["changes"], "create", "recreate")
    unpaused = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}}
    providers.client.patch(CORE.resource, Key("capi-system", "cluster-api"), unpaused)
    with working(providers, CORE_KEY):
        said = done(command("adopt", "--all", "--timeout=60"))
    assert "CoreProvider capi-system/cluster-api is there already: left alone" in said
    assert "all are ready" in said
    after = providers.client.get(DEPLOYMENT, MANAGER_KEY)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "clusterctl" not in {entry["manager"] for entry in after["metadata"]["managedFields"]}


def test_not_beside_an_operator_at_work(providers: Providers, command: Command) -> None:
    installed(providers, CURRENT, by_operator)
    providers.namespace("operator-test")
    labels = {"clusterctl.cluster.x-k8s.io/core": "capi-operator"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "manager", "image": "x.test/y:v1.0.0"}]},
    }
    operator: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "capi-operator", "namespace": "operator-test", "labels": labels},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    providers.client.create(DEPLOYMENT, operator)
    result = command("adopt", "--all", "--dry-run")
    assert "kind: CoreProvider" in done(result)
    assert "note: Cluster API Operator is at work" in " ".join(result.stderr.split())
    result = command("adopt", "--all")
    assert result.exit_code == 1
    assert "kubectl -n operator-test scale deployment capi-operator --replicas 0" in " ".join(result.stderr.split())
    providers.client.patch(DEPLOYMENT, key_of(operator), {"spec": {"replicas": 0}})
    said = done(command("adopt", "--all", "--no-wait"))
    assert f"CoreProvider capi-system/cluster-api created, of {CURRENT}" in said  # as its image says
    providers.client.delete(DEPLOYMENT, key_of(operator))
    core(providers)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say which: KIND and NAME, or --all"),
        (("core",), "say which: KIND and NAME, or --all"),
        (("core", "cluster-api", "--all"), "say which: KIND and NAME, or --all"),
        (("--all",), "no other program has installed a provider"),
        (("core", "cluster-api"), "no other program has installed CoreProvider cluster-api; there is nothing"),
    ],
)
def test_what_cannot_be_adopted(
    providers: Providers, command: Command, arguments: tuple[str, ...], message: str
) -> None:
    assert listed(providers.client) == []
    result = command("adopt", *arguments)
    assert result.exit_code == 1
    assert message in " ".join(result.stderr.split())


# -- export --------------------------------------------------------------------------------------------------------


def test_a_site_lives_on_exported_config_maps(providers: Providers, command: Command, tmp_path: Path) -> None:
    core(providers)
    said = done(command("export", "--all", "--to", str(tmp_path / "out")))
    assert f"CoreProvider cluster-api {CURRENT}" in said
    [file] = (tmp_path / "out").iterdir()
    assert file.name == f"core-cluster-api-{CURRENT}.yaml"
    [config_map] = manifests.load(file)
    assert config_map["metadata"]["namespace"] == "capi-system"
    assert "ownerReferences" not in config_map["metadata"]

    providers.client.apply(CONFIG_MAP, config_map, manager="user")
    providers.releases.clear()
    selector = {"matchLabels": {"provider.cluster.x-k8s.io/type": "core"}}
    providers.apply(*CORE_KEY, version=CURRENT, fetchConfig={"selector": selector}, manager={"verbosity": 3})
    provider = providers.until_ready(*CORE_KEY)
    assert dig(provider, "status.target.source").startswith("ConfigMaps with ")
    providers.client.delete(CONFIG_MAP, key_of(config_map))


def test_a_site_lives_on_its_registry(
    providers: Providers, command: Command, registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(repository(tmp_path / "local", CURRENT)))
    two = ("--core=cluster-api", f"--bootstrap=kubeadm:{CURRENT}")
    said = done(command("export", *two, "--to", f"oci+http://{registry}/mirror/capi"))
    assert f"BootstrapProvider kubeadm {CURRENT}" in said
    assert f"spec.fetchConfig.oci http://{registry}/mirror/capi:{CURRENT}" in said
    # Again is the same; with less in it something would be lost.
    done(command("export", *two, "--to", f"oci+http://{registry}/mirror/capi"))
    result = command("export", two[0], "--to", f"oci+http://{registry}/mirror/capi")
    assert result.exit_code == 1
    assert f"bootstrap-kubeadm-{CURRENT}-components.yaml" in " ".join(result.stderr.split())
    done(command("export", two[0], "--to", f"oci+http://{registry}/mirror/core:stable"))

    providers.apply(*CORE_KEY, version=CURRENT, fetchConfig={"oci": f"http://{registry}/mirror/capi"})
    providers.until_ready(*CORE_KEY)
    key = (BOOTSTRAP, "kubeadm", "capi-kubeadm-bootstrap-system")
    providers.apply(*key, fetchConfig={"oci": f"http://{registry}/mirror/capi"}, version=CURRENT)
    provider = providers.until_ready(*key)
    assert dig(provider, "status.target.source") == f"http://{registry}/mirror/capi"
    # Its tags tell which version is the newest.
    result = command("plan", "bootstrap", "kubeadm", "-o", "json")
    assert [one["notes"] for one in outlooks(result)] == [["it is the newest"]]


def test_files_of_an_artifact(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(repository(tmp_path / "local", PREVIOUS, CURRENT)))
    arguments = (f"--infrastructure=docker:{PREVIOUS}", "--control-plane=kubeadm", "--for=oci", "--to")
    done(command("export", *arguments, str(tmp_path / "out")))
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        f"control-plane-kubeadm-{CURRENT}-components.yaml",
        f"control-plane-kubeadm-{CURRENT}-metadata.yaml",
        f"infrastructure-docker-{PREVIOUS}-components.yaml",
        f"infrastructure-docker-{PREVIOUS}-metadata.yaml",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "x"), "say which: --all for what the cluster has"),
        (("--to", "x", "--all", "--ipam=in-cluster"), "say which: --all for what the cluster has"),
        (("--to", "s3://x/y", "--ipam=in-cluster"), "want a folder, or oci://"),
        (("--to", "oci://x/y z", "--ipam=in-cluster:v1.0.0"), "want [http://]<host>"),
        (("--to", "x", "--ipam=mine"), "IPAMProvider mine is not in the catalog"),
        (("--to", "x", "--ipam=in-cluster:v1.0.0"), "no version v1.0.0"),
        (("--to", "x", "--all"), "the cluster has no providers"),
    ],
)
def test_what_cannot_be_exported(
    providers: Providers, command: Command, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert listed(providers.client) == []
    result = command("export", *arguments)
    assert result.exit_code == 1
    assert message in " ".join(result.stderr.split())
