"""`provider adopt` and `export` on a real API server with the real providers."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.operations import manifests
from infra.operations.providers.status import list_providers
from shared import bounded_yaml
from shared.api.provider import BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE
from shared.api.resources import CONFIG_MAP, DEPLOYMENT, NAMESPACE
from shared.kube import Key, Object, dig, key_of
from tests.support.provider_commands import CORE_KEY, Command, core, done, outlooks, places, working
from tests.support.provider_installers import by_clusterctl, by_operator, installed, recorded, write
from tests.support.provider_world import Providers
from tests.support.real_providers import CURRENT, PREVIOUS, reduced, repository

MANAGER_KEY = Key("capi-system", "capi-controller-manager")
UNPAUSED = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}}

# -- adopt ---------------------------------------------------------------------------------------------------------


def test_adopt_continues_providers_of_clusterctl(providers: Providers, command: Command) -> None:
    providers.releases.append(reduced(CURRENT))
    installed(providers, CURRENT, by_clusterctl)
    recorded(providers.client, CURRENT)
    before = providers.client.get(DEPLOYMENT, MANAGER_KEY)

    result = command("adopt", "--all", "--dry-run")
    [manifest] = bounded_yaml.load_all(done(result))
    assert (manifest["kind"], manifest["spec"]) == ("CoreProvider", {"version": CURRENT})
    assert list_providers(providers.client) == []

    # First the plan, then the adoption.
    output = done(command("adopt", "core", "cluster-api", "--paused"))
    assert f"CoreProvider capi-system/cluster-api created with {CURRENT}" in output
    assert "without waiting: they are paused" in output
    [planned] = outlooks(command("plan", "core", "cluster-api", "-o", "json"))
    assert planned["version"] == {"installed": "", "wanted": CURRENT}
    assert planned["obstacle"] == ""
    assert any("are adopted" in note for note in planned["notes"])
    assert ("Deployment", "capi-controller-manager") not in places(planned["changes"], "create", "recreate")
    providers.client.patch(CORE.resource, Key("capi-system", "cluster-api"), UNPAUSED)
    with working(providers, CORE_KEY):
        output = done(command("adopt", "--all", "--wait", "--timeout=60"))
    assert "CoreProvider capi-system/cluster-api exists: left unchanged" in output
    assert "all are ready" in output
    after = providers.client.get(DEPLOYMENT, MANAGER_KEY)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "clusterctl" not in {entry["manager"] for entry in after["metadata"]["managedFields"]}


def test_adoption_of_unchanged_objects_only_marks_them(providers: Providers, command: Command) -> None:
    providers.releases.append(reduced(CURRENT))
    installed(providers, CURRENT, lambda client, resource, obj: write(client, "POST", resource, obj, "clusterctl"))
    done(command("adopt", "--all", "--paused", "--no-wait"))
    [planned] = outlooks(command("plan", "-o", "json"))
    others = [change for change in planned["changes"] if change["action"] == "update" and not change.get("marked")]
    assert others == []
    assert planned["summary"]["marked"] == planned["summary"]["update"] > 10
    output = done(command("plan"))
    assert f"{planned['summary']['marked']} objects: only labels, owner references" in output
    assert "clusterstack.x-k8s.io/instance" not in output
    providers.client.patch(CORE.resource, Key("capi-system", "cluster-api"), UNPAUSED)
    providers.until_ready(*CORE_KEY)


def test_adopt_refuses_to_run_beside_an_operator(providers: Providers, command: Command) -> None:
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
    assert "note: Cluster API Operator reconciles the same objects" in " ".join(result.stderr.split())
    result = command("adopt", "--all")
    assert result.exit_code == 1
    assert "kubectl -n operator-test scale deployment capi-operator --replicas 0" in " ".join(result.stderr.split())
    providers.client.patch(DEPLOYMENT, key_of(operator), {"spec": {"replicas": 0}})
    output = done(command("adopt", "--all", "--no-wait"))
    assert f"CoreProvider capi-system/cluster-api created with {CURRENT}" in output  # as its image says
    providers.client.delete(DEPLOYMENT, key_of(operator))
    core(providers)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either KIND and NAME, or --all"),
        (("core",), "give either KIND and NAME, or --all"),
        (("core", "cluster-api", "--all"), "give either KIND and NAME, or --all"),
        (("--all",), "no other program has installed a provider"),
        (("core", "cluster-api"), "no other program has installed CoreProvider cluster-api; found: none"),
    ],
)
def test_adopt_rejects_invalid_arguments(
    providers: Providers, command: Command, arguments: tuple[str, ...], message: str
) -> None:
    assert list_providers(providers.client) == []
    result = command("adopt", *arguments)
    assert result.exit_code == 1
    assert message in " ".join(result.stderr.split())


# -- export --------------------------------------------------------------------------------------------------------


def test_exported_config_maps_install_providers_without_a_source(
    providers: Providers, command: Command, tmp_path: Path
) -> None:
    core(providers)
    output = done(command("export", "--all", "--to", str(tmp_path / "out")))
    assert f"CoreProvider cluster-api {CURRENT}" in output
    [file] = (tmp_path / "out").iterdir()
    assert file.name == f"core-cluster-api-{CURRENT}.yaml"
    assert f"needs image registry.k8s.io/cluster-api/cluster-api-controller:{CURRENT}" in output
    namespace, config_map = manifests.load(file)
    assert (namespace["kind"], namespace["metadata"]["name"]) == ("Namespace", "capi-system")
    assert config_map["metadata"]["namespace"] == "capi-system"
    assert "ownerReferences" not in config_map["metadata"]

    providers.client.apply(CONFIG_MAP, config_map, manager="user")
    providers.releases.clear()
    selector = {"matchLabels": {"provider.cluster.x-k8s.io/type": "core"}}
    providers.apply(*CORE_KEY, version=CURRENT, fetchConfig={"selector": selector}, manager={"verbosity": 3})
    provider = providers.until_ready(*CORE_KEY)
    assert dig(provider, "status.target.source").startswith("ConfigMaps with ")
    providers.client.delete(CONFIG_MAP, key_of(config_map))


def test_documented_export_works_as_written(
    providers: Providers, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in docs/providers.md."""
    named = ("--core=cluster-api", "--bootstrap=kubeadm", "--control-plane=kubeadm", "--infrastructure=docker")
    with monkeypatch.context() as outside:
        outside.setenv("CLUSTERCTL_CONFIG", str(repository(tmp_path / "local", CURRENT, release=reduced)))
        done(command("export", *(f"{one}:{CURRENT}" for one in named), "--to", str(tmp_path / "out")))
    brought = [obj for file in sorted((tmp_path / "out").iterdir()) for obj in manifests.load(file)]
    for obj in brought:
        providers.client.apply({"Namespace": NAMESPACE, "ConfigMap": CONFIG_MAP}[obj["kind"]], obj, manager="kubectl")
    keys = (
        CORE_KEY,
        (BOOTSTRAP, "kubeadm", "capi-kubeadm-bootstrap-system"),
        (CONTROL_PLANE, "kubeadm", "capi-kubeadm-control-plane-system"),
        (INFRASTRUCTURE, "docker", "docker-infrastructure-system"),
    )
    two = (f"{named[0]}:{CURRENT}", f"{named[3]}:{CURRENT}", "--annotate=capi-functions.dev/wait=false")
    with working(providers, *keys):
        output = done(command("init", *two, "--wait", "--timeout=120"))
    assert "all are ready" in output
    assert {one["status"]["installedVersion"] for one in list_providers(providers.client)} == {CURRENT}
    for obj in brought:
        if obj["kind"] == CONFIG_MAP.kind:
            providers.client.delete(CONFIG_MAP, key_of(obj))


def test_export_includes_providers_that_are_not_reconciled(
    providers: Providers, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider that was created paused, from its source and from a folder."""
    providers.releases.append(reduced(CURRENT))
    url = providers.url("core-components.yaml")
    providers.apply(*CORE_KEY, {"cluster.x-k8s.io/paused": ""}, version=CURRENT, fetchConfig={"url": url})
    done(command("export", "--all", "--to", str(tmp_path / "out")))
    providers.apply(*CORE_KEY, {"cluster.x-k8s.io/paused": ""}, version=CURRENT)
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(repository(tmp_path / "local", CURRENT, release=reduced)))
    output = done(command("export", "--all", "--to", str(tmp_path / "again")))
    assert f"of file://{tmp_path}/local/cluster-api/core-components.yaml" in output
    [one], [other] = ((tmp_path / name).iterdir() for name in ("out", "again"))
    assert one.read_text() == other.read_text()


def test_registry_without_tls_is_named(
    command: Command, registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(repository(tmp_path / "local", CURRENT, release=reduced)))
    result = command("export", "--core=cluster-api", "--to", f"oci://{registry}/mirror/capi")
    assert result.exit_code == 1
    assert f"the registry has no TLS: use --to oci+http://{registry}/mirror/capi" in " ".join(result.stderr.split())


def test_exported_artifact_installs_providers_without_another_source(
    providers: Providers, command: Command, registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(repository(tmp_path / "local", CURRENT, release=reduced)))
    two = ("--core=cluster-api", f"--bootstrap=kubeadm:{CURRENT}")
    output = done(command("export", *two, "--to", f"oci+http://{registry}/mirror/capi"))
    assert f"BootstrapProvider kubeadm {CURRENT}" in output
    assert f"spec.fetchConfig.oci http://{registry}/mirror/capi:{CURRENT}" in output
    # The same export changes nothing; one with fewer files would lose some.
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
    # The newest version is found by the tags.
    result = command("plan", "bootstrap", "kubeadm", "-o", "json")
    assert [one["notes"] for one in outlooks(result)] == [["it is the newest"]]


def test_export_writes_the_files_of_an_artifact(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        (("--to", "x"), "give either --all for the cluster"),
        (("--to", "x", "--all", "--ipam=in-cluster"), "give either --all for the cluster"),
        (("--to", "s3://x/y", "--ipam=in-cluster"), "must be a folder, or oci://"),
        (("--to", "oci://x/y z", "--ipam=in-cluster:v1.0.0"), "must be [http://]<host>"),
        (
            ("--to", "127.0.0.1:5000/x/y", "--ipam=in-cluster"),
            "write oci://127.0.0.1:5000/x/y for a registry, oci+http://",
        ),
        (("--to", "registry.example.com/x", "--ipam=in-cluster"), "./registry.example.com/x for a folder"),
        (("--to", "x", "--ipam=mine"), "IPAMProvider mine is not in the catalog"),
        (("--to", "x", "--ipam=in-cluster:v1.0.0"), "no version v1.0.0"),
        (("--to", "x", "--all"), "the cluster has no providers"),
    ],
)
def test_export_rejects_invalid_arguments(
    providers: Providers, command: Command, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert list_providers(providers.client) == []
    result = command("export", *arguments)
    assert result.exit_code == 1
    assert message in " ".join(result.stderr.split())
