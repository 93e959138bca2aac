"""`provider init`, `list` and `plan` on a real API server with the real providers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.operations.providers import init
from infra.operations.providers.requests import parse_request
from infra.operations.providers.status import list_providers
from infra.operations.waiting import WaitTimeout
from shared.api.provider import BOOTSTRAP, CONTROL_PLANE, INFRASTRUCTURE, download_labels
from shared.api.resources import CONFIG_MAP, NAMESPACE
from shared.applier import inventory
from shared.applier.diff import compare
from shared.components.repositories import Files, config_maps
from shared.kube import Key, Object, dig, key_of
from tests.support.http_server import Response
from tests.support.provider_commands import CORE_KEY, Command, core, done, outlooks, places, served, working
from tests.support.provider_world import Providers
from tests.support.real_providers import CURRENT, DOWNLOADS, PREVIOUS, components, reduced

# -- init and list -------------------------------------------------------------------------------------------------


def test_init_installs_providers_and_leaves_existing_ones(providers: Providers, command: Command) -> None:
    providers.releases.append(reduced(CURRENT))
    four = [f"--{word}={name}::{CURRENT}" for word, name in (("core", "cluster-api"), ("infrastructure", "docker"))]
    four += [f"--bootstrap=kubeadm:{CURRENT}", f"--control-plane=kubeadm:{CURRENT}"]
    names = (
        CORE_KEY,
        (BOOTSTRAP, "kubeadm", "capi-kubeadm-bootstrap-system"),
        (CONTROL_PLANE, "kubeadm", "capi-kubeadm-control-plane-system"),
        (INFRASTRUCTURE, "docker", "docker-infrastructure-system"),
    )
    with working(providers, *names):
        output = done(command("init", *four, "--wait", "--timeout=120"))
    assert "InfrastructureProvider docker-infrastructure-system/docker: NotLookedAt" in output
    assert f"CoreProvider capi-system/cluster-api: {CURRENT} is ready" in output
    assert "all are ready" in output
    for one in json.loads(done(command("list", "-o", "json"))):
        assert (one["installed"], one["wanted"], one["contract"], one["ready"]) == (CURRENT, CURRENT, "v1beta2", "True")

    # The second time nothing changes, and all providers are listed.
    before = [(key_of(each), each["metadata"]["resourceVersion"]) for each in list_providers(providers.client)]
    result = command("init", "-i", "docker:not-there:v1.0.0")
    output, notes = done(result), " ".join(result.stderr.split())
    assert "InfrastructureProvider docker-infrastructure-system/docker exists: left unchanged" in output
    assert f"has {CURRENT} in its spec instead of v1.0.0: `kubectl -n docker-infrastructure-system patch" in notes
    assert """--type merge -p '{"spec":{"version":"v1.0.0"}}'` changes it""" in notes
    assert "docker-infrastructure-system/docker stays in its namespace" in notes
    assert "CoreProvider capi-system/cluster-api exists: left unchanged" in output
    assert before == [(key_of(each), each["metadata"]["resourceVersion"]) for each in list_providers(providers.client)]
    assert providers.client.find(NAMESPACE, Key("", "not-there")) is None


def test_init_does_not_wait_without_functions(providers: Providers, command: Command) -> None:
    output = done(command("init", "--ipam=in-cluster:ipam-test", "--config-secret=variables:vault", "--no-wait"))
    assert "Namespace ipam-test created" in output
    assert "IPAMProvider ipam-test/in-cluster created with the newest version" in output
    made = {one["kind"]: one for one in list_providers(providers.client)}
    assert set(made) == {"CoreProvider", "IPAMProvider"}
    assert made["IPAMProvider"]["spec"] == {"configSecret": {"name": "variables", "namespace": "vault"}}
    rows = done(command("list")).splitlines()
    assert rows[0].split() == ["KIND", "NAME", "NAMESPACE", "INSTALLED", "WANTED", "CONTRACT", "READY", "REASON"]
    assert rows[2].split() == ["IPAMProvider", "in-cluster", "ipam-test", "-", "newest", "-", "Unknown", "NotLookedAt"]


def test_added_providers_have_the_version_of_the_existing_core_provider(providers: Providers, command: Command) -> None:
    providers.apply(*CORE_KEY, version=PREVIOUS)
    done(command("init", "-i", "aws:v2.0.0", "--annotate=capi-functions.dev/wait=false", "--no-wait"))
    made = {one["kind"]: one for one in list_providers(providers.client)}
    versions = {kind: one["spec"]["version"] for kind, one in made.items()}
    assert versions == {
        "CoreProvider": PREVIOUS,
        "BootstrapProvider": PREVIOUS,
        "ControlPlaneProvider": PREVIOUS,
        "InfrastructureProvider": "v2.0.0",
    }
    assert made["InfrastructureProvider"]["metadata"]["annotations"]["capi-functions.dev/wait"] == "false"


@pytest.mark.parametrize(
    ("asked", "note"),
    [
        ("in-cluster:brought", "have v1.0.0, v1.0.1, which are used once spec.version is one of them"),
        ("in-cluster:brought:v1.0.2", "have v1.0.0, v1.0.1, not v1.0.2"),
        ("in-cluster:brought:1.0.1", ""),
    ],
)
def test_init_notes_config_maps_of_other_versions(
    providers: Providers, command: Command, asked: str, note: str
) -> None:
    made: Object = {"kind": "IPAMProvider", "metadata": {"name": "in-cluster", "namespace": "brought"}}
    for version in ("v1.0.1", "v1.0.0"):
        providers.config_map(version, "brought", download_labels(made, version))
    result = command("init", "--ipam", asked, "--no-wait")
    done(result)
    stderr = " ".join(result.stderr.split())
    assert ("note: IPAMProvider brought/in-cluster: ConfigMaps in its namespace " in stderr) is bool(note)
    assert note in stderr


def test_timeout_reports_the_reason(providers: Providers) -> None:
    providers.apply(INFRASTRUCTURE, "docker", "capd-system", version=CURRENT)
    providers.reconcile(INFRASTRUCTURE, "docker", "capd-system")
    provider, messages = parse_request(INFRASTRUCTURE, "docker:capd-system"), list[str]()
    with pytest.raises(WaitTimeout, match="docker: WaitingForCoreProviderReady: Waiting for the CoreProvider"):
        init.wait(providers.client, [provider], within=0.2, progress=messages.append, pause=0.05)
    [line] = messages
    assert line.startswith("InfrastructureProvider capd-system/docker: WaitingForCoreProviderReady")


def test_wait_ends_at_once_with_an_error_that_only_a_change_ends(providers: Providers, command: Command) -> None:
    providers.releases.clear()
    with served(providers, CORE_KEY):
        result = command("init", f"--core=cluster-api:{CURRENT}", "--wait", "--timeout=300")
    message = " ".join(result.stderr.split())
    assert result.exit_code == 1, result.output
    assert "CoreProvider capi-system/cluster-api: ComponentsFetchError: " in message
    for way in ("capi-functions provider export", "local package", "up --from", "Sites without internet access"):
        assert way in message
    # The same command tries again, and finds what has been brought.
    providers.releases.append(reduced(CURRENT))
    with served(providers, CORE_KEY):
        output = done(command("init", f"--core=cluster-api:{CURRENT}", "--wait", "--timeout=120"))
    assert f"CoreProvider capi-system/cluster-api: {CURRENT} is ready" in output


def test_list_of_a_cluster_without_providers(providers: Providers, command: Command) -> None:
    assert list_providers(providers.client) == []
    assert "the cluster has no providers" in done(command("list"))
    assert done(command("list", "-o", "json")) == "[]\n"


# -- plan ----------------------------------------------------------------------------------------------------------


def contents(providers: Providers, provider: Object) -> dict[tuple[str, str], Object]:
    """Returns the live objects of a provider."""
    found = {}
    for entry in inventory.load(dig(provider, "status.resources")):
        resource = providers.clients.discovery.resource(entry.api_version, entry.kind)
        assert resource is not None
        found[entry.kind, entry.name] = providers.client.get(resource, Key(entry.namespace, entry.name))
    return found


def test_plan_predicts_the_changes_of_an_upgrade(providers: Providers, command: Command) -> None:
    present = contents(providers, core(providers, PREVIOUS, release=components))
    providers.releases.append(components(CURRENT))
    before = providers.versions()
    arguments = ("plan", "core", "cluster-api", "--version", CURRENT, "-o", "json")
    [planned] = outlooks(command(*arguments, "--exit-code"), 3)
    assert providers.versions() == before
    assert planned["version"] == {"installed": PREVIOUS, "wanted": CURRENT}
    assert (planned["contract"], planned["obstacle"]) == ("v1beta2", "")
    assert planned["source"].startswith(providers.site.url)

    text = done(command("plan", "cacp", "cluster-api", "--version", CURRENT))
    assert f"CoreProvider capi-system/cluster-api  {PREVIOUS} -> {CURRENT}" in text
    assert f"cluster-api-controller:{PREVIOUS}" in text
    assert f"{planned['summary']['update']} to update" in text

    after = contents(providers, core(providers, CURRENT, release=components))
    both = present.keys() & after.keys()
    assert places(planned["changes"], "create") == after.keys() - present.keys()
    assert places(planned["changes"], "delete") == present.keys() - after.keys()
    updated = {place for place in both if compare(present[place], after[place])}
    assert places(planned["changes"], "update") == updated
    assert len(updated) > 5
    assert after["Deployment", "capi-controller-manager"]["metadata"]["uid"] in str(present)
    [settled] = outlooks(command(*arguments, "--exit-code"))
    assert not places(settled["changes"], "update", "create", "recreate", "delete")


def test_plan_chooses_the_newest_published_version(providers: Providers, command: Command, tmp_path: Path) -> None:
    core(providers, PREVIOUS)
    listing = tmp_path / "repos/kubernetes-sigs/cluster-api/releases"
    listing.parent.mkdir(parents=True)
    listing.write_text(json.dumps([{"tag_name": tag, "assets": []} for tag in (PREVIOUS, CURRENT)]))
    providers.releases += [tmp_path, reduced(CURRENT)]
    [planned] = outlooks(command("plan", "-o", "json", "--exit-code"), 3)
    assert planned["version"]["wanted"] == CURRENT
    core(providers, CURRENT)
    [planned] = outlooks(command("plan", "all", "-o", "json", "--exit-code"))
    assert planned["notes"] == ["it is the newest"]


def brought(providers: Providers, version: str) -> Object:
    """Creates a ConfigMap with a version of the core provider, as on a site without internet access."""
    release = reduced(version) / DOWNLOADS / version
    files = Files((release / "metadata.yaml").read_text(), (release / "core-components.yaml").read_text())
    provider: Object = {"kind": "CoreProvider", "metadata": {"name": "cluster-api", "namespace": "capi-system"}}
    made = config_maps.to_config_map(provider, version, files, owned=False)
    providers.namespace("capi-system")
    return providers.client.apply(CONFIG_MAP, made, manager="user")


def test_plan_chooses_the_newest_version_in_config_maps(providers: Providers, command: Command) -> None:
    """With a selector, and without."""
    made = [brought(providers, version) for version in (PREVIOUS, CURRENT)]
    selector = {"matchLabels": {"provider.cluster.x-k8s.io/type": "core"}}
    for config in ({"selector": selector}, {"url": providers.url("core-components.yaml")}):
        providers.apply(*CORE_KEY, version=PREVIOUS, fetchConfig=config)
        providers.until_ready(*CORE_KEY)
        [planned] = outlooks(command("plan", "core", "-o", "json", "--exit-code"), 3)
        assert planned["version"] == {"installed": PREVIOUS, "wanted": CURRENT}
        place = f"the ConfigMaps in its namespace ({PREVIOUS}, {CURRENT})"
        expected = f"the newest of {place}; its source has no list of versions: "
        assert [note.startswith(expected) for note in planned["notes"]] == [True] * ("url" in config)
        assert "set spec.version" not in str(planned["notes"])
    # The installed version is one of them, or newer.
    providers.client.delete(CONFIG_MAP, key_of(made.pop()))
    [planned] = outlooks(command("plan", "core", "-o", "json"))
    assert planned["notes"][0].startswith("it is the newest of the ConfigMaps in its namespace")
    # Versions without a ConfigMap cannot be installed.
    [planned] = outlooks(command("plan", "core", "cluster-api", "--version", CURRENT, "-o", "json"), 4)
    assert planned["obstacle"]
    assert planned["notes"] == [f"ConfigMaps in the provider's namespace contain the versions {PREVIOUS}"]
    for config_map in made:
        providers.client.delete(CONFIG_MAP, key_of(config_map))


def test_plan_finds_a_newer_version_in_config_maps_than_the_catalogs_source_has(
    providers: Providers, command: Command
) -> None:
    """Such as in a run of `up --from`, whose package lists one version."""
    providers.releases.append(reduced(PREVIOUS))
    files = providers.site.answer
    listed = Response(body=json.dumps([{"tag_name": PREVIOUS}]).encode())
    providers.site.answer = lambda request: listed if request.path.startswith("/repos/") else files(request)
    providers.apply(*CORE_KEY, version=PREVIOUS)
    providers.until_ready(*CORE_KEY)
    [plan] = outlooks(command("plan", "core", "-o", "json"))
    assert plan["notes"] == ["it is the newest"]
    made = brought(providers, CURRENT)
    [plan] = outlooks(command("plan", "core", "-o", "json", "--exit-code"), 3)
    assert plan["version"] == {"installed": PREVIOUS, "wanted": CURRENT}
    place = f"the newest of the ConfigMaps in its namespace ({CURRENT})"
    assert plan["notes"] == [f"{place}; its newest release is {PREVIOUS}"]
    providers.client.delete(CONFIG_MAP, key_of(made))


def test_plan_reports_obstacles(providers: Providers, command: Command) -> None:
    core(providers)
    for version, obstacle in ((PREVIOUS, "Downgrade is not supported"), ("v1.14.99", "no version v1.14.99")):
        text = done(command("plan", "core", "cluster-api", "--version", version, "--exit-code"), 4)
        assert "cannot be installed: " in text
        assert obstacle in text
    providers.releases.clear()  # nor is there a list of versions; the others are planned for nevertheless
    providers.apply(INFRASTRUCTURE, "docker", "capd-system", version=CURRENT, configSecret={"name": "missing"})
    core_says, docker_says = outlooks(command("plan", "-o", "json"), 4)
    assert "cannot find the latest version" in core_says["obstacle"]
    assert "--version" in core_says["obstacle"]
    assert "Secret capd-system/missing (spec.configSecret) does not exist" in docker_says["obstacle"]
    source = {"url": providers.url("core-components.yaml")}
    paused = {"cluster.x-k8s.io/paused": ""}
    providers.apply(*CORE_KEY, paused, version=CURRENT, fetchConfig=source, manager={"verbosity": 5})
    [planned] = outlooks(command("plan", "core", "cluster-api", "--version", CURRENT, "-o", "json"))
    assert planned["notes"] == [
        "the provider is paused, so nothing changes until the annotation cluster.x-k8s.io/paused is removed"
    ]
    assert planned["obstacle"] == ""
    assert places(planned["changes"], "update") == {("Deployment", "capi-controller-manager")}


def test_plan_works_before_the_core_provider_is_ready(providers: Providers, command: Command) -> None:
    providers.releases.append(reduced(CURRENT))
    providers.apply(*CORE_KEY, {"cluster.x-k8s.io/paused": ""}, version=CURRENT)
    url = providers.url("infrastructure-components-development.yaml")
    spec: dict[str, Any] = {
        "fetchConfig": {"url": url},
        "patches": [{"target": {"kind": "Deploymnt"}, "patch": "a: 1"}],
    }
    providers.apply(INFRASTRUCTURE, "docker", "capd-system", version=CURRENT.removeprefix("v"), **spec)
    [core_says, docker_says] = outlooks(command("plan", "-o", "json"), 4)
    assert core_says["obstacle"] == ""
    note = "it waits until CoreProvider capi-system/cluster-api is ready"
    assert docker_says["notes"][:2] == [
        "spec.version has this version already",
        "release tags usually begin with v, as in v1.14.0; the version is looked up exactly as written",
    ]
    assert note in docker_says["notes"]
    assert "no version 1.14.0" in docker_says["obstacle"]
    providers.apply(INFRASTRUCTURE, "docker", "capd-system", version=CURRENT, **spec)
    [docker_says] = outlooks(command("plan", "infrastructure", "-o", "json", "--exit-code"), 3)
    assert docker_says["obstacle"] == ""
    assert note in docker_says["notes"]
    assert "spec.patches[0] matches no object and changes nothing" in docker_says["notes"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nodes",), "'nodes' is not a kind of provider"),
        (("infrastructure", "docker"), "the cluster has no InfrastructureProvider docker"),
        (("--version", "v1.2.3"), "--version applies to one provider"),
        (("core", "cluster-api", "--version", "newest"), "is not a version such as v1.2.3"),
    ],
)
def test_plan_rejects_invalid_arguments(
    providers: Providers, command: Command, arguments: tuple[str, ...], message: str
) -> None:
    providers.apply(*CORE_KEY, version=CURRENT)
    result = command("plan", *arguments)
    assert result.exit_code == 1
    assert message in " ".join(result.stderr.split())
