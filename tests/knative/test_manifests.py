"""The generated CRDs and manifests on a real API server with Knative's CRDs.

Knative's CRDs come from the Go module that the adapter and the broker are built from, so both are of one version.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from functions import catalog
from infra.cli.main import app
from infra.generate import rbac, serving
from infra.local_control_plane import kubeconfig, remove, start
from shared.api.models import CUSTOM_RESOURCES
from shared.api.provider import CORE
from shared.api.resources import API_SERVER_SOURCE, CLUSTER, CLUSTER_ADDON, DEPLOYMENT, KIND_CLUSTER
from shared.clients import Clients
from shared.event import Event, change_event
from shared.kube import ApiError, Client, Key, Object, Resource, dig, key_of
from shared.kube.client import APPLY_PATCH
from shared.kube.connect import from_kubeconfig
from shared.kube.crds import CRD
from shared.kube.resources import conventional_plural, split_api_version
from tests.support.knative_serving import knative_serving
from tests.support.pods import functions
from tests.support.real_providers import CURRENT, DOWNLOADS, PROVIDERS, components
from tests.support.until import until

Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
PROJECT = Path(__file__).parents[2]
MANIFESTS = PROJECT / "infra/manifests/base"
SOURCES = PROJECT / "infra/manifests/sources/sources.yaml"
FORWARDER = PROJECT / "infra/manifests/forwarder/forwarder.yaml"
EVENT = Resource("", "v1", "Event", "events")
DOCKER_CLUSTER = Resource("infrastructure.cluster.x-k8s.io", "v1beta2", "DockerCluster", "dockerclusters")
CLUSTER_V1BETA1 = Resource(CLUSTER.group, "v1beta1", CLUSTER.kind, CLUSTER.plural)


def documents(path: Path) -> list[Object]:
    return [document for document in yaml.load_all(path.read_text(), Loader) if document]


def manifests() -> list[Object]:
    """Returns all objects of an installation with ApiServerSources, those of the base in its order."""
    (kustomization,) = documents(MANIFESTS / "kustomization.yaml")
    return [*(obj for name in kustomization["resources"] for obj in documents(MANIFESTS / name)), *documents(SOURCES)]


def resource_of(obj: Object) -> Resource:
    group, version = split_api_version(obj["apiVersion"])
    return Resource(
        group, version, obj["kind"], conventional_plural(obj["kind"]), namespaced="namespace" in obj["metadata"]
    )


def apply(client: Client, obj: Object, **options: str) -> Object:
    """Applies an object; the server refuses unknown fields."""
    path = resource_of(obj).path(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
    query = {"fieldManager": "test", "fieldValidation": "Strict", **options}
    return client.request("PATCH", path, body=obj, query=query, content_type=APPLY_PATCH, subject=obj["kind"])


def install(client: Client, definitions: list[Object]) -> None:
    names = [apply(client, definition)["metadata"]["name"] for definition in definitions]
    for name in names:
        deadline = time.monotonic() + 20
        while True:
            conditions = dig(client.get(CRD, Key("", name)), "status.conditions", [])
            state = {condition["type"]: condition["status"] for condition in conditions}
            assert state.get("NonStructuralSchema") != "True", conditions
            if state.get("Established") == "True":
                break
            assert time.monotonic() < deadline, f"{name} is not established: {conditions}"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an API server."""
    directory = tmp_path_factory.mktemp("manifests") / "plane"
    start(directory, owner=os.getpid())
    yield kubeconfig(directory)
    remove(directory)


@pytest.fixture(scope="module")
def client(server: Path) -> Iterator[Client]:
    """Connected to the API server with our CRDs and the namespace `team`."""
    connected = from_kubeconfig(str(server))
    crds = sorted((PROJECT / "infra/manifests/crds").rglob("*.yaml"))
    install(connected, [crd for path in crds for crd in documents(path) if crd["kind"] == CRD.kind])
    apply(connected, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    yield connected
    connected.close()


@pytest.fixture(scope="module")
def knative() -> list[Object]:
    """Knative Eventing's own CRDs."""
    if shutil.which("go") is None:
        pytest.skip("Knative's CRDs are in its Go module, and there is no go")
    command = ["go", "mod", "download", "-json", "knative.dev/eventing"]
    download = subprocess.run(
        command, cwd=PROJECT / "infra/binaries/knative", capture_output=True, text=True, check=True, timeout=170
    )
    files = sorted(Path(json.loads(download.stdout)["Dir"], "config/core/resources").glob("*.yaml"))
    return [document for path in files for document in documents(path) if document.get("kind") == CRD.kind]


# -- our CRDs ----------------------------------------------------------------------------------------------------


def made(client: Client, resource: Resource, name: str, **fields: Any) -> Object:
    metadata = {"name": name, "namespace": "team"}
    return client.create(
        resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}
    )


def status(client: Client, resource: Resource, name: str, patch: Object) -> Object:
    return client.patch(resource, Key("team", name), {"status": patch}, subresource="status")


@pytest.mark.parametrize(
    ("name", "spec", "version"),
    [
        ("test1", {"clusterName": "test-1"}, "1.21"),
        ("test2", {"clusterName": "test-2", "kubernetesVersion": "1.20"}, "1.20"),
        ("oldest", {"clusterName": "c", "kubernetesVersion": "1.14"}, "1.14"),
        ("newer", {"clusterName": "c", "kubernetesVersion": "1.36", "runtime": "local"}, "1.36"),
        ("longest", {"clusterName": "x" * 64}, "1.21"),
    ],
)
def test_valid_kind_cluster_is_accepted(client: Client, name: str, spec: Object, version: str) -> None:
    created = made(client, KIND_CLUSTER, name, spec=spec)
    assert created["spec"] == {**spec, "kubernetesVersion": version}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"kubernetesVersion": "1.21"}, "spec.clusterName"),
        ({"clusterName": "x" * 96}, "spec.clusterName"),
        ({"clusterName": "test-3", "kubernetesVersion": "1.13"}, "spec.kubernetesVersion"),
        ({"clusterName": "test-3", "kubernetesVersion": "latest"}, "spec.kubernetesVersion"),
        ({"clusterName": "Test_3"}, "spec.clusterName"),
        ({"clusterName": "test-3", "runtime": "vm"}, "spec.runtime"),
        (None, "spec"),
    ],
)
def test_invalid_kind_cluster_is_refused(client: Client, spec: Object | None, field: str) -> None:
    with pytest.raises(ApiError, match=field) as refused:
        made(client, KIND_CLUSTER, "invalid", **({"spec": spec} if spec is not None else {}))
    assert refused.value.status == 422


def test_status_of_a_kind_cluster_is_kept(client: Client) -> None:
    made(client, KIND_CLUSTER, "reported", spec={"clusterName": "reported"})
    entry = {"timestamp": "2026-03-01T12:00:00Z", "message": "Cluster was successfully created", "reason": ""}
    reported = {
        "ready": True,
        "failureMessage": "",
        "conditions": [entry] * 32,
        "initialization": {"provisioned": True},
        "phase": "Ready",
    }
    assert status(client, KIND_CLUSTER, "reported", reported)["status"] == reported
    with pytest.raises(ApiError, match="at most 32"):
        status(client, KIND_CLUSTER, "reported", {"conditions": [entry] * 33})


def test_v1beta1_cluster_is_unchanged_at_v1beta2(client: Client) -> None:
    reference = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "K", "name": "k", "namespace": "team"}
    spec = {
        "paused": False,
        "clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/16"]}, "apiServerPort": 6443},
        "controlPlaneEndpoint": {"host": "", "port": 0},
        "infrastructureRef": reference,
        "controlPlaneRef": reference | {"kind": "C"},
        "topology": {"class": "scs-1-33-v1", "version": "v1.33.1", "variables": [{"name": "a", "value": {"b": None}}]},
    }
    made(client, CLUSTER_V1BETA1, "old", spec=spec)
    seen = client.get(CLUSTER, Key("team", "old"))
    assert (seen["apiVersion"], seen["spec"]) == (CLUSTER.api_version, spec)
    client.patch(CLUSTER, Key("team", "old"), {"metadata": {"labels": {"seen": "yes"}}})
    assert client.get(CLUSTER_V1BETA1, Key("team", "old"))["spec"] == spec


@pytest.mark.parametrize("spec", [{"topology": None}, {"topology": {}}, {}, {"availabilityGates": []}])
def test_cluster_without_topology_is_accepted(client: Client, spec: Object) -> None:
    name = f"plain-{len(str(spec))}"
    set_fields = {field: value for field, value in spec.items() if value is not None}
    assert made(client, CLUSTER, name, spec=spec)["spec"] == set_fields


def test_cluster_keeps_conditions_of_both_api_versions(client: Client) -> None:
    made(client, CLUSTER, "conditions")
    time_ = "2026-03-01T12:00:00Z"
    metav1 = {
        "type": "InfrastructureReady",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": time_,
        "observedGeneration": 1,
    }
    v1beta1 = {"type": "Ready", "status": "False", "severity": "Warning", "lastTransitionTime": time_}
    reported = {
        "conditions": [metav1, v1beta1],
        "initialization": {"infrastructureProvisioned": True},
        "phase": "Provisioned",
        "failureDomains": [{"name": "a", "controlPlane": True}],
        "infrastructureReady": True,
        "observedGeneration": 1,
    }
    assert status(client, CLUSTER, "conditions", reported)["status"] == reported
    assert client.get(CLUSTER_V1BETA1, Key("team", "conditions"))["status"] == reported
    with pytest.raises(ApiError, match="Duplicate"):
        status(client, CLUSTER, "conditions", {"conditions": [metav1, metav1]})


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ({"failureDomains": []}, "at least 1 items"),
        ({"failureDomains": [{"name": str(number)} for number in range(101)]}, "at most 100 items"),
        ({"initialization": {}}, "at least 1 properties"),
    ],
)
def test_cluster_refuses_what_the_crd_of_cluster_api_refuses(client: Client, patch: Object, problem: str) -> None:
    name = f"refused-{next(iter(patch)).lower()}-{len(str(patch))}"
    made(client, CLUSTER, name)
    with pytest.raises(ApiError, match=problem) as refused:
        status(client, CLUSTER, name, patch)
    assert refused.value.status == 422


@pytest.mark.parametrize("domains", [{}, {"a": {"controlPlane": True}}])
def test_failure_domains_of_v1beta1_are_a_map(client: Client, domains: Object) -> None:
    name = f"domains-{len(domains)}"
    made(client, CLUSTER_V1BETA1, name)
    assert status(client, CLUSTER_V1BETA1, name, {"failureDomains": domains})["status"] == {"failureDomains": domains}


def test_cluster_addon_keeps_its_fields(client: Client) -> None:
    reference = {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "name": "c", "namespace": "team", "uid": "u"}
    spec = {"clusterRef": reference, "clusterStack": "docker-ferrol-1-33-v1", "version": "v1", "hook": ""}
    made(client, CLUSTER_ADDON, "addon", spec=spec)
    resource = {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "n", "name": "d"}
    reported = {
        "resources": [resource | {"status": "not-synced", "error": "no", "uid": "u", "hash": "h"}],
        "stages": [{"name": "cni", "action": "apply", "phase": "waitingForPreCondition"}, {"name": "b", "phase": ""}],
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "severity": "Info",
                "reason": "R",
                "message": "m",
                "lastTransitionTime": "2026-03-01T12:00:00Z",
            }
        ],
        "observedGeneration": 1,
        "digest": "sha256:0",
        "kubernetesVersion": "v1.33.1",
    }
    assert status(client, CLUSTER_ADDON, "addon", reported)["status"] == reported | {"ready": False}
    with pytest.raises(ApiError, match="clusterRef"):
        made(client, CLUSTER_ADDON, "nothing", spec={})


# -- Knative -----------------------------------------------------------------------------------------------------


def kustomized(kubectl: Path, folder: str) -> list[Object]:
    """Returns the objects that `kubectl kustomize` builds from a folder of `infra/manifests`."""
    command = [kubectl, "kustomize", str(PROJECT / "infra/manifests" / folder)]
    built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (built.returncode, built.stderr) == (0, "")
    return list(yaml.load_all(built.stdout, Loader))


@pytest.mark.parametrize("folder", ["forwarder", "sources", "serving", "crds", "single", "console"])
def test_kustomization_builds(folder: str, kubectl: Path) -> None:
    objects = kustomized(kubectl, folder)
    images = {container["image"] for obj in objects for container in dig(obj, "spec.template.spec.containers", [])}
    assert all(image.startswith("capi-functions:") for image in images)
    # `crds` leaves out Cluster API's own kinds.
    ours = [custom for custom in CUSTOM_RESOURCES if not custom.of_core]
    of_single = [
        document for path in (PROJECT / "infra/manifests/single").glob("*.yaml") for document in documents(path)
    ]
    expected = {
        "console": 3,
        "crds": len(ours),
        "forwarder": len(manifests()) - len(documents(SOURCES)) + len(documents(FORWARDER)),
        "sources": len(manifests()),
        "serving": len(manifests()) - len(documents(SOURCES)) + len(documents(FORWARDER)) - len(functions()),
        "single": len(CUSTOM_RESOURCES) + len(of_single) - 1,
    }
    assert len(objects) == expected[folder]
    assert bool([obj for obj in objects if obj["kind"] == "ApiServerSource"]) == (folder == "sources")
    assert folder != "single" or not [obj for obj in objects if ".knative.dev/" in obj["apiVersion"]]


@pytest.mark.parametrize(
    ("profiles", "base"),
    [
        (("addons",), "sources"),
        (("addons", "providers"), "sources"),
        (("addons", "providers"), "forwarder"),
        (("standalone",), "sources"),
        (("kubeconfig",), "forwarder"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else value,
)
def test_overlay_of_profiles_has_their_functions_only(profiles: tuple[str, ...], base: str, kubectl: Path) -> None:
    objects = kustomized(kubectl, f"profiles/{'-'.join(profiles)}/{base}")
    declared = {name: each for name, each in catalog.triggers(profiles=profiles).items() if not each.local}
    named = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
    assert len(named) == len(objects)

    own = {name.replace("_", "-") for name in declared}
    forwarders = {"forwarder"} if base == "forwarder" else set()
    assert {name for kind, name in named if kind == "Deployment"} == own | forwarders
    assert {dig(obj, "spec.subscriber.ref.name") for obj in objects if obj["kind"] == "Trigger"} <= own
    reader = "capi-functions-forwarder" if forwarders else "capi-functions-sources"
    accounts = own | {"forwarder" if forwarders else reader}
    assert {name for kind, name in named if kind == "ServiceAccount"} == accounts

    watches = [watch for each in declared.values() for watch in each.watches]
    kinds = {(watch.resource.group, watch.resource.plural) for watch in watches}
    defined = [each.defined_kinds for each in declared.values() if each.defined_kinds is not None]
    kinds |= {(group, "*") for each in defined for group in each.groups}
    readable = {
        (group, plural)
        for rule in named["ClusterRole", reader]["rules"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    assert readable == kinds | ({(CRD.group, CRD.plural)} if forwarders else set())
    sources = [obj for obj in objects if obj["kind"] == "ApiServerSource"]
    watched = {(one["apiVersion"], one["kind"]) for source in sources for one in source["spec"]["resources"]}
    assert watched == (
        set() if forwarders else {(watch.resource.api_version, watch.resource.kind) for watch in watches}
    )
    assert named["ConfigMap", "capi-functions-installation"]["data"] == {"CAPI_FUNCTIONS_PROFILES": ",".join(profiles)}


@pytest.mark.parametrize("profiles", [("addons",), ("addons", "providers")], ids="-".join)
def test_overlay_without_knative_has_the_rights_of_its_functions_only(profiles: tuple[str, ...], kubectl: Path) -> None:
    objects = kustomized(kubectl, f"profiles/{'-'.join(profiles)}/single")
    functions = [each for each in catalog.triggers(profiles=profiles).values() if not each.local]
    rules = {f"capi-functions-{each.name.replace('_', '-')}": rbac.function_rules(each) for each in functions}
    roles = {obj["metadata"]["name"]: obj["rules"] for obj in objects if obj["kind"] == "ClusterRole"}
    forwarders = {name for name in roles if name.startswith("capi-functions-forwarder")}
    # The functions of all profiles have a role in each part, for the objects of all functions of that part.
    shared = {name for name in roles if name.endswith(("-sweep", "-dead-letters"))}
    assert {name: roles[name] for name in roles.keys() - forwarders - shared} == {
        name: rules[name] for name in rules.keys() - shared
    }
    assert len(forwarders) == len(profiles)
    assert len(shared) == 2 * len(profiles)
    others = [rule for name in shared for rule in roles[name] if rule["resources"] != ["events"]]
    assert {verb for rule in others for verb in rule["verbs"]} <= {"get", "list"}
    setting = next(obj for obj in objects if obj["metadata"]["name"] == "capi-functions-installation")
    assert setting["data"] == {"CAPI_FUNCTIONS_PROFILES": ",".join(profiles)}
    chosen: dict[str, set[str]] = {}
    for obj in objects:
        for container in dig(obj, "spec.template.spec.containers", []):
            variables = {one["name"]: one["value"] for one in container["env"]}
            chosen.setdefault(variables.get("CAPI_FUNCTIONS_PROFILES", ""), set()).add(obj["metadata"]["name"])
    parts = {"addons": {"capi-functions"}, "providers": {"capi-functions-providers"}}
    assert chosen == {profile: parts[profile] for profile in profiles}


def rendered_chart(helm: Path, *settings: str) -> dict[tuple[str, str], Object]:
    """Returns the objects of a release of the chart in the namespace of the kustomizations."""
    chosen = [part for setting in settings for part in ("--set", setting)]
    command = [helm, "template", "it", PROJECT / "infra/chart", "--namespace=capi-functions", *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in yaml.load_all(done.stdout, Loader) if obj}


def without_values(obj: Object) -> Object:
    """Returns an object without what the values of the chart add to all objects or all pods."""
    content = {field: value for field, value in obj.items() if field != "metadata"}
    for container in dig(content, "spec.template.spec.containers", []):
        container["env"] = {
            each["name"]: each["value"] for each in container["env"] if not each["name"].startswith("LOG_")
        }
    dig(content, "spec.template.spec", {}).pop("topologySpreadConstraints", None)
    return content


@pytest.mark.parametrize(
    ("mode", "folder"),
    [
        ("single", "single"),
        ("forwarder", "forwarder"),
        ("sources", "sources"),
        ("single", "profiles/addons-providers/single"),
        ("sources", "profiles/addons/sources"),
        ("forwarder", "serving"),
        ("forwarder", "profiles/addons-kubeconfig/serving"),
    ],
)
def test_chart_has_the_objects_of_the_kustomization(mode: str, folder: str, kubectl: Path, helm: Path) -> None:
    profile = folder.split("/")[1] if "/" in folder else "all"
    chart = rendered_chart(
        helm,
        f"mode={mode}",
        f"profile={profile}",
        f"serving.enabled={str(folder.endswith('serving')).lower()}",
        "crds.install=false",
    )
    chart.pop(("ConfigMap", "capi-functions-installation"))
    others = ("Namespace", "CustomResourceDefinition")
    kustomization = {
        (obj["kind"], obj["metadata"]["name"]): obj
        for obj in (*kustomized(kubectl, folder), *kustomized(kubectl, "admission"))
        if obj["kind"] not in others and obj["metadata"]["name"] != "capi-functions-installation"
    }
    assert chart.keys() == kustomization.keys()
    for key, obj in kustomization.items():
        assert without_values(chart[key]) == without_values(obj), key


def test_server_accepts_the_objects_of_the_chart_in_each_mode(
    client: Client, knative: list[Object], helm: Path
) -> None:
    install(client, knative)
    apply(client, next(obj for obj in manifests() if obj["kind"] == "Namespace"))
    accepted: list[Object] = []
    for mode in ("single", "direct", "forwarder", "sources"):
        settings = (f"mode={mode}", "eventPolicy=true", "replicas=2")
        role = "webIdentity.roleARN=arn:aws:iam::1:role/it"
        for obj in (*rendered_chart(helm, *settings, role).values(), *rendered_chart(helm, *settings).values()):
            if obj in accepted:
                continue
            accepted.append(obj)
            apply(client, obj, dryRun="All")
            if obj["kind"] == "Deployment":  # the server's admission decides: the namespace is restricted
                metadata = {"name": obj["metadata"]["name"], "namespace": "capi-functions"}
                spec = dig(obj, "spec.template.spec")
                apply(client, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, dryRun="All")


def installed(client: Client, *resources: Resource) -> set[str]:
    """Returns the names of the objects of an installation, apart from what the control plane adds."""
    names: set[str] = set()
    for resource in resources:
        found = client.list(resource, "capi-functions" if resource.namespaced else "")
        names |= {obj["metadata"]["name"] for obj in found if resource.namespaced or "capi-functions" in str(obj)}
    return names - {"default", "kube-root-ca.crt"}


def test_installation_is_adopted_by_helm_upgraded_to_another_mode_and_removed_without_remains(
    client: Client, server: Path, kubectl: Path, helm: Path
) -> None:
    def run(*command: object) -> None:
        done = subprocess.run(
            [*map(str, command)],
            env={**os.environ, "KUBECONFIG": str(server)},
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr

    roles = [
        Resource("rbac.authorization.k8s.io", "v1", kind, f"{kind.lower()}s", namespaced=False)
        for kind in ("ClusterRole", "ClusterRoleBinding")
    ]
    places = [Resource("", "v1", kind, f"{kind.lower()}s") for kind in ("Service", "ServiceAccount", "ConfigMap")]
    places += [Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"), DEPLOYMENT]
    places.append(Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"))
    release = ("capi-functions", "infra/chart", "--namespace=capi-functions")
    of_kind_clusters = Key("", f"{KIND_CLUSTER.plural}.{KIND_CLUSTER.group}")
    made(client, CLUSTER_ADDON, "mine", spec={"clusterRef": {"name": "c"}})
    for role in installed(client, *roles):  # of other tests
        for resource in roles:
            client.delete(resource, Key("", role))

    run(kubectl, "apply", "--server-side", "--force-conflicts", "-k", "infra/manifests/single")
    client.delete(CRD, of_kind_clusters)
    until(lambda: client.find(CRD, of_kind_clusters) is None)
    first = client.get(DEPLOYMENT, Key("capi-functions", "capi-functions"))["metadata"]["uid"]
    run(helm, "install", *release, "--take-ownership", "--force-conflicts")
    assert client.get(DEPLOYMENT, Key("capi-functions", "capi-functions"))["metadata"]["uid"] == first
    assert installed(client, DEPLOYMENT) == {"capi-functions", "capi-functions-providers"}
    of_clusterctl = Key("", "providers.clusterctl.cluster.x-k8s.io")
    managers = {
        name: {entry["manager"] for entry in client.get(CRD, name)["metadata"]["managedFields"]}
        for name in (of_kind_clusters, Key("", f"{CLUSTER_ADDON.plural}.{CLUSTER_ADDON.group}"), of_clusterctl)
    }
    assert ["helm" in found for found in managers.values()] == [True, True, False], "it may be that of clusterctl"
    policy = Key("capi-functions", "functions")
    client.patch(places[-1], policy, {"metadata": {"annotations": {"example.com/mine": "kept"}}})

    run(helm, "upgrade", *release, "--set=mode=direct,profile=providers", "--force-conflicts")
    providers = {name.replace("_", "-") for name in catalog.triggers(profiles=("providers",))}
    assert installed(client, DEPLOYMENT) == providers | {"forwarder"}
    assert installed(client, *roles) == {f"capi-functions-{name}" for name in (*providers, "forwarder")}
    assert client.get(places[-1], policy)["metadata"]["annotations"]["example.com/mine"] == "kept"

    run(helm, "uninstall", "capi-functions", "--namespace=capi-functions")
    assert installed(client, *roles, *places) == set()
    assert client.get(CLUSTER_ADDON, Key("team", "mine"))["spec"] == {"clusterRef": {"name": "c"}}
    assert client.find(CRD, of_kind_clusters), "Helm has installed it, and keeps it"


def test_server_with_knatives_crds_accepts_all_manifests(client: Client, knative: list[Object]) -> None:
    install(client, knative)
    for obj in (*manifests(), *documents(PROJECT / "infra/manifests/event-policy/event-policy.yaml")):
        apply(client, obj)


def test_sources_of_a_cluster_watch_the_kinds_of_its_providers(
    client: Client, knative: list[Object], server: Path
) -> None:
    def sources(*options: str) -> Result:
        return CliRunner().invoke(app, ["sources", "--profile", "standalone", "--kubeconfig", str(server), *options])

    def diagnosis() -> str:
        output = CliRunner().invoke(app, ["doctor", "--kubeconfig", str(server)]).stdout
        return next(line for line in output.splitlines() if "event sources" in line)

    install(client, knative)
    forwarder = next(obj for obj in documents(FORWARDER) if obj["kind"] == "Deployment")
    for obj in manifests():
        if obj["kind"] in ("Namespace", "ApiServerSource"):
            apply(client, obj)
    apply(client, forwarder)
    assert "• event sources    the forwarder and the ApiServerSources resources, references both send" in diagnosis()
    client.delete(DEPLOYMENT, Key("capi-functions", "forwarder"))
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    cloud = {
        "apiVersion": CRD.api_version,
        "kind": CRD.kind,
        "metadata": {"name": "cloudclusters.example.dev", "labels": {"cluster.x-k8s.io/v1beta2": "v1alpha2"}},
        "spec": {
            "group": "example.dev",
            "scope": "Namespaced",
            "names": {"kind": "CloudCluster", "plural": "cloudclusters"},
            "versions": [{"name": "v1alpha2", "served": True, "storage": True, "schema": schema}],
        },
    }
    install(client, [cloud])
    checked = sources("--check")
    assert checked.exit_code == 3
    left_out = {line.split()[1] for line in checked.stderr.splitlines() if line.endswith("is not served and left out")}
    assert left_out == {"Machine", "MachineSet", "MachineDeployment", "MachinePool"}, "Cluster API is not installed"
    assert "resources: CloudCluster.example.dev is missing, should be v1alpha2\n" in checked.stdout
    assert "• event sources    resources: CloudCluster.example.dev is missing, should be v1alpha2" in diagnosis()
    for obj in yaml.safe_load_all(sources().stdout):
        apply(client, obj)
    assert (sources("--check").exit_code, sources("--check").stdout) == (0, "")

    client.delete(CRD, Key("", "cloudclusters.example.dev"))
    until(lambda: client.find(CRD, Key("", "cloudclusters.example.dev")) is None)
    assert sources("--check").stdout == "resources: CloudCluster.example.dev is not served\n"

    for name in ("resources", "references"):
        client.delete(API_SERVER_SOURCE, Key("capi-functions", name))
    for left in client.list(DEPLOYMENT, "capi-functions"):  # of other tests
        client.delete(DEPLOYMENT, key_of(left))
    assert "no functions run in the namespace capi-functions: docs/installation.md installs them" in diagnosis()
    other = next(obj for obj in manifests() if obj["kind"] == "Deployment")
    apply(client, other)
    assert "and no forwarder: only the sweep starts functions" in diagnosis()
    client.delete(DEPLOYMENT, Key("capi-functions", other["metadata"]["name"]))
    assert "infra/manifests/sources installs them" in sources("--check").output
    apply(client, forwarder)
    assert "no pod of the Deployment forwarder is available" in diagnosis()
    running = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    client.patch(DEPLOYMENT, Key("capi-functions", "forwarder"), {"status": running}, subresource="status")
    assert diagnosis().endswith("the forwarder")


def docker_clusters() -> Object:
    """Returns the definition of DockerCluster as Cluster API publishes it, without its webhook, which does not run."""
    file = next(provider.file for provider in PROVIDERS if provider.name == "docker")
    found = documents(components(CURRENT) / DOWNLOADS / CURRENT / file)
    crd = next(obj for obj in found if obj["metadata"]["name"].startswith("dockerclusters."))
    crd["spec"]["conversion"] = {"strategy": "None"}
    return crd


def test_cluster_tells_that_the_sources_do_not_watch_its_infrastructure(
    client: Client, knative: list[Object], server: Path
) -> None:
    """The sources that an installation begins with name no kind of a provider; those of `sources` name its kinds."""

    def unwatched(event: Event, status: int = 202) -> list[str]:
        """Returns the messages of Kubernetes events about it once a new process of `cluster` has handled `event`."""
        assert catalog.handler("cluster")(Clients(client), event).status == status
        about = [obj for obj in client.list(EVENT, "team") if obj["involvedObject"]["name"] == event.name]
        assert about, "each Cluster has others"
        return [obj["message"] for obj in about if obj["reason"] == "KindNotWatched"]

    install(client, [*knative, docker_clusters()])
    for obj in manifests():
        if obj["kind"] in ("Namespace", "ApiServerSource"):
            apply(client, obj)
    made(client, DOCKER_CLUSTER, "in-docker", spec={})
    reference = {"apiGroup": DOCKER_CLUSTER.group, "kind": DOCKER_CLUSTER.kind, "name": "in-docker"}
    cluster = made(client, CLUSTER, "in-docker", spec={"infrastructureRef": reference})

    [message] = unwatched(change_event(cluster, "add", source="/test"))
    assert message.startswith(f"No event source watches DockerCluster ({DOCKER_CLUSTER.group})")
    assert "`capi-functions sources`" in message
    look = change_event(client.get(CLUSTER, Key("team", "in-docker")), "update", source="/test", resync=True)
    assert unwatched(look) == [message], "once is enough"

    printed = CliRunner().invoke(app, ["sources", "--profile", "standalone", "--kubeconfig", str(server)])
    for obj in yaml.safe_load_all(printed.stdout):
        apply(client, obj)
    made(client, DOCKER_CLUSTER, "watched", spec={})
    cluster = made(client, CLUSTER, "watched", spec={"infrastructureRef": {**reference, "name": "watched"}})
    assert unwatched(change_event(cluster, "add", source="/test"), status=204) == []
    client.delete(CRD, Key("", f"{DOCKER_CLUSTER.plural}.{DOCKER_CLUSTER.group}"))


# -- Knative Serving ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["serving", "profiles/addons/serving"])
def test_what_refers_to_functions_refers_to_their_knative_services(folder: str, kubectl: Path) -> None:
    objects = kustomized(kubectl, folder)
    present = {(obj["apiVersion"], obj["kind"], obj["metadata"]["name"]) for obj in objects}
    references = [
        *(dig(obj, "spec.subscriber.ref") for obj in objects if obj["kind"] == "Trigger"),
        *(dig(obj, "spec.subject") for obj in objects if obj["kind"] == "SinkBinding"),
        *(dig(obj, "spec.delivery.deadLetterSink.ref") for obj in objects if obj["kind"] == "Broker"),
    ]
    assert {(ref["apiVersion"], ref["kind"], ref["name"]) for ref in references} <= present
    assert {(version, name) for version, kind, name in present if kind == "Deployment"} == {("apps/v1", "forwarder")}
    served = [obj for obj in objects if obj["kind"] == "Service" and obj["metadata"]["name"] != "forwarder"]
    assert {obj["apiVersion"] for obj in served} == {serving.SERVICE["apiVersion"]}
    assert {obj["metadata"]["labels"]["networking.knative.dev/visibility"] for obj in served} == {"cluster-local"}


def test_serving_admits_functions_and_the_cluster_admits_their_containers(
    client: Client, server: Path, kubectl: Path, helm: Path, tmp_path: Path
) -> None:
    """Serving's own webhook decides about a Knative Service, and the restricted namespace about its container."""
    kustomization = kustomized(kubectl, "serving")
    settings = ("mode=forwarder", "serving.enabled=true", "replicas=1", "webIdentity.roleARN=arn:aws:iam::1:role/it")
    services = [obj for obj in kustomization if obj["apiVersion"] == serving.SERVICE["apiVersion"]]
    assert len(services) == len(functions())
    services.append(rendered_chart(helm, *settings)["Service", "addon-apply"])
    apply(client, next(obj for obj in kustomization if obj["kind"] == "Namespace"))
    with knative_serving(client, server, tmp_path / "webhook.log"):
        for obj in services:
            admitted = apply(client, obj, dryRun="All")
            assert admitted["spec"]["traffic"] == [{"latestRevision": True, "percent": 100}], "the webhook was asked"
            pod = admitted["spec"]["template"]["spec"]
            for field in serving.changes()["pod"]:
                del pod[field]
            pod["containers"][0].pop("readinessProbe")  # a period of 0 is Serving's own
            metadata = {"name": obj["metadata"]["name"], "namespace": "capi-functions"}
            apply(client, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}, dryRun="All")
        deployment = next(obj for obj in manifests() if obj["kind"] == "Deployment")
        unchanged = {**deployment, **serving.SERVICE, "spec": {"template": deployment["spec"]["template"]}}
        with pytest.raises(ApiError, match="Port name http is not allowed"):
            apply(client, unchanged, dryRun="All")


def unknown(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    """Yields fields that a schema does not name, even if it preserves unknown fields."""
    if isinstance(value, dict) and "properties" in schema:
        for name, child in value.items():
            if name in schema["properties"]:
                yield from unknown(child, schema["properties"][name], f"{where}.{name}")
            else:
                yield f"{where}.{name}"
    elif isinstance(value, list):
        for child in value:
            yield from unknown(child, schema.get("items", {}), f"{where}[]")


def test_manifests_use_only_fields_of_knatives_schemas(knative: list[Object]) -> None:
    schemas = {
        (crd["spec"]["group"], version["name"], crd["spec"]["names"]["kind"]): version["schema"]["openAPIV3Schema"]
        for crd in knative
        for version in crd["spec"]["versions"]
    }
    known = [obj for obj in manifests() if ".knative.dev/" in obj["apiVersion"]]
    assert {obj["kind"] for obj in known} == {"Broker", "Trigger", "ApiServerSource", "PingSource", "SinkBinding"}
    for obj in known:
        schema = schemas[*split_api_version(obj["apiVersion"]), obj["kind"]]
        found = set(unknown(obj["spec"], schema["properties"]["spec"], obj["kind"]))
        assert found <= {"Broker.delivery.timeout"}, "Knative's webhook knows this one, its schema preserves it"


@pytest.mark.parametrize(
    ("account", "verb", "group", "resource", "allowed"),
    [
        ("capi-functions-sources", "watch", "", "secrets", True),
        ("capi-functions-sources", "watch", CLUSTER.group, CLUSTER.plural, True),
        ("capi-functions-sources", "patch", CLUSTER.group, CLUSTER.plural, False),
        ("kubeconfig", "create", "", "secrets", True),
        ("kubeconfig", "list", "", "secrets", False),
        ("kubeconfig", "patch", CLUSTER.group, f"{CLUSTER.plural}/status", True),
        ("addon-apply", "patch", CLUSTER_ADDON.group, CLUSTER_ADDON.plural, True),
        ("addon-apply", "create", "", "events", True),
        ("addon-create", "create", CLUSTER_ADDON.group, CLUSTER_ADDON.plural, True),
        ("addon-create", "get", "", "secrets", False),
        ("kind-cluster", "get", "", "secrets", False),
        ("provider-wake", "get", "", "secrets", False),
        ("provider-wake", "get", "", "configmaps", True),
        ("provider-wake", "patch", CORE.resource.group, f"{CORE.resource.plural}/status", False),
        ("provider-delete", "delete", "apps", "deployments", True),
        ("provider-delete", "patch", "apps", "deployments", False),
        ("provider-delete", "patch", "", "secrets", False),
        ("provider-delete", "patch", CORE.resource.group, CORE.resource.plural, True),
        ("provider-install", "escalate", "rbac.authorization.k8s.io", "clusterroles", True),
        ("cluster", "watch", CLUSTER.group, CLUSTER.plural, False),
        ("sweep", "list", KIND_CLUSTER.group, KIND_CLUSTER.plural, True),
        ("sweep", "patch", KIND_CLUSTER.group, KIND_CLUSTER.plural, False),
    ],
)
def test_service_accounts_have_the_declared_rights(
    client: Client, account: str, verb: str, group: str, resource: str, allowed: bool
) -> None:
    for obj in manifests():
        if obj["kind"] in ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"):
            apply(client, obj)
    name, _, subresource = resource.partition("/")
    wanted = {"verb": verb, "group": group, "resource": name, "subresource": subresource, "namespace": "team"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {"user": f"system:serviceaccount:capi-functions:{account}", "resourceAttributes": wanted},
    }
    kind = Resource("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
    deadline = time.monotonic() + 5  # the authorizer caches roles
    while (granted := client.create(kind, review)["status"]["allowed"]) != allowed and time.monotonic() < deadline:
        time.sleep(0.05)
    assert granted == allowed


# -- access to the functions -------------------------------------------------------------------------------------


def test_pods_pass_the_pod_security_standard_of_their_namespace(client: Client) -> None:
    """The server's admission decides: it refuses a pod that may run as root."""
    apply(client, next(obj for obj in manifests() if obj["kind"] == "Namespace"))
    deployments = [obj for obj in manifests() if obj["kind"] == "Deployment"]
    deployments += [
        obj for obj in documents(PROJECT / "infra/manifests/hooks/cluster-hooks.yaml") if obj["kind"] == "Deployment"
    ]
    for deployment in deployments:
        metadata = {"name": deployment["metadata"]["name"], "namespace": "capi-functions"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dig(deployment, "spec.template.spec")}
        apply(client, pod)
        assert pod["spec"]["securityContext"].pop("runAsNonRoot")
        with pytest.raises(ApiError, match="restricted") as refused:
            apply(client, {**pod, "metadata": metadata | {"name": "as-root"}})
        assert refused.value.status == 403


FUNCTION = {"app.kubernetes.io/name": "cluster", "app.kubernetes.io/part-of": "capi-functions"}
HOOKS = FUNCTION | {"app.kubernetes.io/name": "cluster-hooks"}
PROMETHEUS = {"app.kubernetes.io/name": "prometheus"}
API_CORE = {"cluster.x-k8s.io/provider": "cluster-api"}


@pytest.mark.parametrize(
    ("to", "port", "namespace", "labels", "allowed"),
    [
        (FUNCTION, 8080, "knative-eventing", {"eventing.knative.dev/brokerRole": "filter"}, True),
        (FUNCTION, 8080, "knative-eventing", {"app": "kafka-broker-dispatcher"}, True),
        (FUNCTION, 8080, "monitoring", PROMETHEUS, False),
        (FUNCTION, 9090, "monitoring", PROMETHEUS, True),
        (FUNCTION, 9091, "monitoring", PROMETHEUS, True),
        (FUNCTION, 9091, "knative-eventing", {}, False),
        (FUNCTION, 8080, "capi-functions", FUNCTION | {"app.kubernetes.io/name": "forwarder"}, True),
        (FUNCTION, 8080, "capi-functions", FUNCTION, False),
        (FUNCTION, 8080, "capi-functions", {"app.kubernetes.io/name": "forwarder"}, False),
        (FUNCTION, 8080, "team", FUNCTION | {"app.kubernetes.io/name": "forwarder"}, False),
        (FUNCTION, 8080, "team", PROMETHEUS, False),
        (FUNCTION, 8080, "monitoring", {}, False),
        (FUNCTION, 8080, "team", {}, False),
        (FUNCTION, 9443, "knative-eventing", {}, False),
        (HOOKS, 9443, "capi-system", API_CORE, True),
        (HOOKS, 9443, "monitoring", PROMETHEUS, False),
        (HOOKS, 9091, "monitoring", PROMETHEUS, True),
        (HOOKS, 9443, "capi-system", {}, False),
        (HOOKS, 9443, "team", API_CORE, False),
        (HOOKS, 9443, "knative-eventing", {}, False),
    ],
)
def test_network_policies_admit_brokers_forwarders_and_prometheus(
    client: Client, to: Mapping[str, str], port: int, namespace: str, labels: Mapping[str, str], allowed: bool
) -> None:
    """Evaluates the policies on the server by the rules of NetworkPolicy."""
    objects = [*manifests(), *documents(PROJECT / "infra/manifests/hooks/cluster-hooks.yaml")]
    apply(client, next(obj for obj in objects if obj["kind"] == "Namespace"))
    policies = [apply(client, obj)["spec"] for obj in objects if obj["kind"] == "NetworkPolicy"]
    of_namespace = {"kubernetes.io/metadata.name": namespace}

    def has(selector: Object | None, found: Mapping[str, str]) -> bool:
        assert selector is None or set(selector) <= {"matchLabels"}
        return dig(selector, "matchLabels", {}).items() <= found.items()

    def lets_in(peer: Object) -> bool:
        here = "namespaceSelector" in peer or namespace == "capi-functions"
        return here and has(peer.get("namespaceSelector"), of_namespace) and has(peer.get("podSelector"), labels)

    selecting = [policy for policy in policies if has(policy["podSelector"], to)]
    assert selecting
    assert all(policy["policyTypes"] == ["Ingress"] for policy in selecting)
    rules = [rule for policy in selecting for rule in policy["ingress"]]
    ports = [rule for rule in rules if {"protocol": "TCP", "port": port} in rule["ports"]]
    assert any(lets_in(peer) for rule in ports for peer in rule["from"]) == allowed
