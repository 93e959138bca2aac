"""The Helm chart: which objects it renders by its values, which values it refuses, and what it tells Prometheus."""

import base64
import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from cryptography import x509

from events.delivery import TIMEOUT
from functions import catalog
from infra.generate import values
from infra.operations.providers.requests import default_namespace
from shared import metrics, profiles
from shared.api.provider import KINDS
from shared.buckets import DEFAULT_STORE
from shared.certificates import load_certificates, load_key
from shared.kube.resources import Object, dig
from shared.storage import ObjectStore

CHART = Path(__file__).parents[3] / "infra/chart"
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Rendered = Mapping[tuple[str, str], Object]


def run(helm: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm, *arguments], capture_output=True, text=True, check=False, timeout=60)


def rendered(helm: Path, *settings: str, namespace: str = "team", api_versions: tuple[str, ...] = ()) -> Rendered:
    """Returns the objects of a release by kind and name, by default without CRDs."""
    chosen = [part for setting in ("crds.install=false", *settings) for part in ("--set", setting)]
    served = [f"--api-versions={kind}" for kind in api_versions]
    done = run(helm, "template", "release", str(CHART), f"--namespace={namespace}", *served, *chosen)
    assert done.returncode == 0, done.stderr
    objects = [obj for obj in yaml.load_all(done.stdout, Loader) if obj]
    result = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
    assert len(result) == len(objects), "an object is rendered twice"
    return result


def names(objects: Rendered, kind: str) -> set[str]:
    return {name for found, name in objects if found == kind}


def variables(container: Object) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container["env"]}


def pod(objects: Rendered, deployment: str) -> Object:
    return dict(dig(objects["Deployment", deployment], "spec.template.spec"))


def test_chart_passes_lint(helm: Path) -> None:
    done = run(helm, "lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("mode", [*values.MODES])
@pytest.mark.parametrize("profile", ["all", "addons", "addons-providers", "providers", "standalone"])
def test_mode_and_profile_choose_what_runs(mode: str, profile: str, helm: Path) -> None:
    objects = rendered(helm, f"mode={mode}", f"profile={profile}")
    wanted = tuple(profile.split("-"))
    chosen = {name: each for name, each in catalog.triggers(profiles=wanted).items() if not each.local}
    functions = {name.replace("_", "-") for name in chosen}
    deployments = {
        "single": {
            *({"capi-functions"} if wanted != ("providers",) else ()),
            *({"capi-functions-providers"} if {"all", "providers"} & {*wanted} else ()),
        },
        "direct": functions | {"forwarder"},
        "forwarder": functions | {"forwarder"},
        "sources": functions,
    }
    assert names(objects, "Deployment") == deployments[mode]
    knative = {kind for kind, _ in objects if kind in ("Broker", "Trigger", "SinkBinding", "PingSource")}
    assert bool(knative) == (mode in ("forwarder", "sources"))
    assert bool(names(objects, "ApiServerSource")) == (mode == "sources")

    accounts = names(objects, "ServiceAccount")
    for deployment in names(objects, "Deployment"):
        assert pod(objects, deployment)["serviceAccountName"] in accounts
    bindings = [obj for (kind, _), obj in objects.items() if kind.endswith("RoleBinding")]
    assert {subject["name"] for binding in bindings for subject in binding["subjects"]} <= accounts
    roles = names(objects, "ClusterRole") | names(objects, "Role")
    assert {binding["roleRef"]["name"] for binding in bindings} == roles
    setting = objects["ConfigMap", "capi-functions-installation"]["data"]["CAPI_FUNCTIONS_PROFILES"]
    assert profiles.parse(setting) == wanted


@pytest.mark.parametrize("mode", ["single", "direct", "forwarder"])
def test_another_profile_restarts_the_forwarder_which_reads_it_once(mode: str, helm: Path) -> None:
    name = "capi-functions" if mode == "single" else "forwarder"
    templates = [
        rendered(helm, f"mode={mode}", f"profile={profile}")["Deployment", name]["spec"]["template"]
        for profile in ("all", "addons-providers")
    ]
    assert templates[0] != templates[1]
    if mode != "single":
        assert dig(templates[1], "metadata.annotations")["capi-functions.dev/profiles"] == "addons,providers"


@pytest.mark.parametrize(
    ("profile", "parts"),
    [
        ("all", {"capi-functions": "standalone", "capi-functions-providers": "providers"}),
        ("addons-providers", {"capi-functions": "addons", "capi-functions-providers": "providers"}),
        ("addons-kubeconfig", {"capi-functions": "addons,kubeconfig"}),
        ("providers", {"capi-functions-providers": "providers"}),
    ],
)
def test_each_part_of_single_serves_and_watches_for_its_own_profiles(
    profile: str, parts: dict[str, str], helm: Path
) -> None:
    objects = rendered(helm, f"profile={profile}", "replicas=2")
    assert names(objects, "Deployment") == names(objects, "Service") == parts.keys()
    leases = set()
    for name, chosen in parts.items():
        for container in pod(objects, name)["containers"]:
            assert variables(container)["CAPI_FUNCTIONS_PROFILES"] == chosen
        assert pod(objects, name)["serviceAccountName"] == name
        leases |= {argument for argument in pod(objects, name)["containers"][1]["args"] if "--lease=" in argument}
    assert len(leases) == len(parts), "with one Lease one part would wait for the other"


@pytest.mark.parametrize("mode", [*values.MODES])
def test_every_pod_has_the_watch_filter(mode: str, helm: Path) -> None:
    objects = rendered(helm, f"mode={mode}", "watchFilter=blue", "hooks=true")
    for name in names(objects, "Deployment"):
        for container in pod(objects, name)["containers"]:
            assert variables(container)["CAPI_FUNCTIONS_WATCH_FILTER"] == "blue", name


@pytest.mark.parametrize(
    "variable",
    ["CAPI_FUNCTIONS_PROFILES", "CAPI_FUNCTIONS_NAMESPACES", "CAPI_FUNCTIONS_WATCH_FILTER", "METRICS_PORT"],
)
def test_variable_that_differs_from_pod_to_pod_is_refused_for_all(variable: str, helm: Path) -> None:
    """`env.CAPI_FUNCTIONS_PROFILES=all` would have the account of providers serve every function."""
    done = run(helm, "template", "release", str(CHART), "--set", f"env.{variable}=all")
    assert "values don't meet the specifications of the schema" in done.stderr


def test_image_of_a_digest_is_that_of_every_container(helm: Path) -> None:
    digest = f"sha256:{'a' * 64}"
    for mode in values.MODES:
        objects = rendered(helm, f"mode={mode}", f"image.digest={digest}", "image.tag=x", "hooks=true")
        for name in names(objects, "Deployment"):
            images = {container["image"] for container in pod(objects, name)["containers"]}
            assert images == {f"capi-functions@{digest}"}, name


@pytest.mark.parametrize("mode", [*values.MODES])
def test_pods_bound_what_they_write_and_have_a_token_only_with_rights(mode: str, helm: Path) -> None:
    objects = rendered(helm, f"mode={mode}", "hooks=true")
    holders = {
        subject["name"]
        for (kind, _), obj in objects.items()
        if kind.endswith("RoleBinding")
        for subject in obj["subjects"]
    }
    for name in names(objects, "Deployment"):
        found = pod(objects, name)
        (temporary,) = [volume for volume in found["volumes"] if volume["name"] == "tmp"]
        assert temporary["emptyDir"]["sizeLimit"]
        assert found.get("automountServiceAccountToken", True) == (found["serviceAccountName"] in holders), name


@pytest.mark.parametrize("mode", [*values.MODES])
def test_prometheus_may_read_every_port_of_metrics_and_nothing_else_of_single(mode: str, helm: Path) -> None:
    objects = rendered(helm, f"mode={mode}")
    peers: dict[int, set[str]] = {}
    for rule in dig(objects["NetworkPolicy", "functions"], "spec.ingress"):
        for port in rule["ports"]:
            found = {
                dig(peer, "podSelector.matchLabels", {}).get("app.kubernetes.io/name", "") for peer in rule["from"]
            }
            peers.setdefault(port["port"], set()).update(found)
    assert peers.pop(9090) == peers.pop(9091) == {"prometheus"}
    assert bool(peers) == (mode != "single"), "its functions are called inside their pod"
    for name in names(objects, "Deployment"):
        template = objects["Deployment", name]["spec"]["template"]
        ports = {port["containerPort"] for c in template["spec"]["containers"] for port in c.get("ports", ())}
        assert int(template["metadata"]["annotations"]["prometheus.io/port"]) in ports & {9090, 9091}
        for container in template["spec"]["containers"]:
            of_forwarder = container["name"] == "forwarder"
            assert variables(container).get("METRICS_PORT") == (None if of_forwarder else "9091")
            if of_forwarder:
                probed = (container["livenessProbe"]["httpGet"]["path"], container["readinessProbe"]["httpGet"]["path"])
                assert probed == ("/healthz", "/readyz")
                assert 9090 in {port["containerPort"] for port in container["ports"]}


def test_egress_is_restricted_on_request(helm: Path) -> None:
    assert ("NetworkPolicy", "egress") not in rendered(helm)
    objects = rendered(helm, "networkPolicy.egress=true", "networkPolicy.egressPorts={443,16443}")
    spec = objects["NetworkPolicy", "egress"]["spec"]
    assert spec["policyTypes"] == ["Egress"]
    *_, anywhere = spec["egress"]
    assert anywhere == {"ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 16443}]}
    assert spec["egress"][0]["ports"] == [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]
    selected = spec["podSelector"]["matchLabels"].items()
    labels = dig(objects["Deployment", "capi-functions"], "spec.template.metadata.labels")
    assert selected <= labels.items()


def test_policy_of_secrets_is_left_out_where_kubernetes_has_none(helm: Path) -> None:
    def policies(version: str) -> set[str]:
        done = run(helm, "template", "release", str(CHART), "--kube-version", version, "--set=crds.install=false")
        assert done.returncode == 0, done.stderr
        return {obj["kind"] for obj in yaml.load_all(done.stdout, Loader) if obj and "Admission" in obj["kind"]}

    assert policies("1.29.3") == set()
    assert policies("1.30.0") == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}


@pytest.mark.parametrize("mode", [*values.MODES])
def test_everything_is_in_the_namespace_of_the_release(mode: str, helm: Path) -> None:
    objects = rendered(helm, f"mode={mode}", "hooks=true", namespace="elsewhere")
    assert {obj["metadata"].get("namespace", "elsewhere") for obj in objects.values()} == {"elsewhere"}
    text = json.dumps([*objects.values()])
    assert '"namespace": "capi-functions"' not in text
    assert "capi-functions/forwarder" not in text
    assert "{{" not in text
    if mode != "sources":
        container = pod(objects, "capi-functions" if mode == "single" else "forwarder")["containers"][-1]
        assert "--lease=elsewhere/forwarder" in container["args"]


def test_single_pod_calls_its_own_functions_and_they_its_forwarder(helm: Path) -> None:
    functions, forwarder = pod(rendered(helm), "capi-functions")["containers"]
    port = functions["ports"][0]["containerPort"]
    assert {f"--functions=http://127.0.0.1:{port}", "--without=kind_cluster"} <= {*forwarder["args"]}
    (ingress,) = [each.removeprefix("--port=") for each in forwarder["args"] if each.startswith("--port=")]
    assert variables(functions)["K_SINK"] == f"http://127.0.0.1:{ingress}"


def test_direct_forwarder_calls_services_and_functions_reach_it_through_its_own(helm: Path) -> None:
    objects = rendered(helm, "mode=direct", "profile=addons")
    (forwarder,) = pod(objects, "forwarder")["containers"]
    assert "--functions=http://{function}" in forwarder["args"]
    assert names(objects, "Service") >= {"addon-apply", "sweep", "forwarder"}
    (sweep,) = pod(objects, "sweep")["containers"]
    assert variables(sweep)["K_SINK"] == "http://forwarder"
    assert "K_SINK" not in variables(forwarder)
    assert objects["Deployment", "forwarder"]["spec"]["strategy"] == {"type": "Recreate"}, "a standby refuses events"
    admitted = dig(objects["NetworkPolicy", "forwarder"], "spec.ingress")[0]
    (events,) = [port["containerPort"] for port in forwarder["ports"] if port["name"] == "events"]
    assert admitted["ports"][0]["port"] == events


def test_values_reach_the_pods(helm: Path) -> None:
    objects = rendered(
        helm,
        *("replicas=3", "image.repository=registry.example/it", "image.pullPolicy=Never"),
        *("priorityClassName=high", "nodeSelector.disk=fast", "logFormat=json", "env.A=b", "podAnnotations.team=x"),
        *("deployments.capi-functions.resources.limits.memory=4Gi", "serviceAccountAnnotations.role=r"),
        *("secrets.storage=mine", "settings.storage.S3_ENDPOINT_URL=https://s3.example.com"),
        *("webIdentity.roleARN=arn:aws:iam::1:role/it", "spreadOver={zone}"),
    )
    deployment = objects["Deployment", "capi-functions"]
    spec = pod(objects, "capi-functions")
    assert deployment["spec"]["replicas"] == 3
    assert objects["PodDisruptionBudget", "capi-functions"]["spec"]["selector"] == deployment["spec"]["selector"]
    assert (spec["priorityClassName"], spec["nodeSelector"]) == ("high", {"disk": "fast"})
    assert dig(deployment, "spec.template.metadata.annotations")["team"] == "x"
    assert spec["topologySpreadConstraints"][0]["topologyKey"] == "zone"
    functions, forwarder = spec["containers"]
    for container in (functions, forwarder):
        assert re.fullmatch(r"registry\.example/it:\d+\.\d+\.\d+", container["image"])
        assert container["imagePullPolicy"] == "Never"
        assert variables(container).items() >= {"LOG_FORMAT": "json", "A": "b", "HOME": "/tmp"}.items()
    assert functions["resources"] == {"requests": {"cpu": "10m", "memory": "192Mi"}, "limits": {"memory": "4Gi"}}
    assert forwarder["resources"]["limits"] == {"memory": "256Mi"}

    token = variables(functions)["AWS_WEB_IDENTITY_TOKEN_FILE"]
    (mount,) = [each for each in functions["volumeMounts"] if token.startswith(each["mountPath"] + "/")]
    (volume,) = [each for each in spec["volumes"] if each["name"] == mount["name"]]
    assert volume["projected"]["sources"][0]["serviceAccountToken"]["path"] == Path(token).name

    (settings,) = [each["projected"]["sources"] for each in spec["volumes"] if each["name"] == "settings"]
    secrets = [source["secret"]["name"] for source in settings if "secret" in source]
    assert "mine" in secrets
    assert "capi-functions-storage" not in secrets
    storage = objects["ConfigMap", "capi-functions-storage"]["data"]
    assert storage == {"S3_ENDPOINT_URL": "https://s3.example.com"}
    assert objects["ServiceAccount", "capi-functions"]["metadata"]["annotations"] == {"role": "r"}


def test_numbers_and_booleans_become_text(helm: Path) -> None:
    objects = rendered(helm, "env.COUNT=5", "env.FLAG=true", "settings.releases.RELEASE_POLL_SECONDS=10000000")
    (functions, _) = pod(objects, "capi-functions")["containers"]
    assert variables(functions).items() >= {"COUNT": "5", "FLAG": "true"}.items()
    assert objects["ConfigMap", "capi-functions-releases"]["data"] == {"RELEASE_POLL_SECONDS": "10000000"}


def test_values_of_a_deployment_that_the_release_cannot_have_are_refused(helm: Path) -> None:
    def rejected(*settings: str) -> str:
        done = run(helm, "template", "release", str(CHART), *(p for each in settings for p in ("--set", each)))
        assert done.returncode != 0
        return done.stderr

    assert "deployments.sweep: " in rejected("deployments.sweep.replicas=2")
    assert "deployments.clutser: " in rejected("mode=direct", "deployments.clutser.replicas=2")
    assert "has one forwarder" in rejected("mode=direct", "deployments.forwarder.replicas=2")
    assert "mode=single calls functions without Knative" in rejected("serving.enabled=true")
    assert "mode=forwarder has shards" in rejected("forwarder.shards=2")


def test_number_of_replicas_is_that_of_functions_unless_a_deployment_has_its_own(helm: Path) -> None:
    objects = rendered(helm, "mode=forwarder", "replicas=2", "deployments.sweep.replicas=1")
    replicas = {name: dig(obj, "spec.replicas", 1) for (kind, name), obj in objects.items() if kind == "Deployment"}
    assert (replicas["cluster"], replicas["sweep"], replicas["forwarder"]) == (2, 1, 2)
    several = {name for name, number in replicas.items() if number > 1}
    assert names(objects, "PodDisruptionBudget") == several


def test_single_installation_keeps_releases_in_a_bounded_folder_of_the_pod(helm: Path) -> None:
    spec = pod(rendered(helm), "capi-functions")
    store = urlsplit(variables(spec["containers"][0])[DEFAULT_STORE])
    assert store.scheme == "file"
    (mount,) = [one for one in spec["containers"][0]["volumeMounts"] if store.path.startswith(one["mountPath"] + "/")]
    (volume,) = [one for one in spec["volumes"] if one["name"] == mount["name"]]
    assert volume["emptyDir"].keys() == {"sizeLimit"}


@pytest.mark.parametrize(
    ("settings", "storage"),
    [
        (["settings.storage.S3_ENDPOINT_URL=https://s3.example.com"], {"S3_ENDPOINT_URL": "https://s3.example.com"}),
        (["settings.storage.CAPI_FUNCTIONS_STORE=gs://b"], {"CAPI_FUNCTIONS_STORE": "gs://b"}),
        (["webIdentity.roleARN=arn:aws:iam::1:role/it"], {"CAPI_FUNCTIONS_BUCKET": "capi-functions"}),
        (
            ["webIdentity.roleARN=arn:aws:iam::1:role/it", "settings.storage.CAPI_FUNCTIONS_STORE=s3://b"],
            {"CAPI_FUNCTIONS_STORE": "s3://b"},
        ),
    ],
)
def test_bucket_of_the_values_takes_the_place_of_the_folder(
    settings: list[str], storage: dict[str, str], helm: Path
) -> None:
    objects = rendered(helm, *settings)
    data = objects["ConfigMap", "capi-functions-storage"]["data"]
    assert data == storage
    folder = variables(pod(objects, "capi-functions")["containers"][0])[DEFAULT_STORE]
    assert not ObjectStore.from_env({**data, DEFAULT_STORE: folder}).is_folder


@pytest.mark.parametrize("mode", ["direct", "forwarder", "sources"])
def test_pods_that_share_releases_have_no_folder(mode: str, helm: Path) -> None:
    objects = rendered(helm, f"mode={mode}")
    for name in names(objects, "Deployment"):
        assert all(DEFAULT_STORE not in variables(container) for container in pod(objects, name)["containers"])


def test_definitions_are_kept_when_the_release_is_deleted(helm: Path) -> None:
    objects = rendered(helm, "crds.install=true", "crds.cluster=true")
    kept = {
        name: obj["metadata"]["annotations"]
        for (kind, name), obj in objects.items()
        if kind == "CustomResourceDefinition"
    }
    assert "clusteraddons.clusterstack.x-k8s.io" in kept
    assert "clusters.cluster.x-k8s.io" in kept
    assert all(each["helm.sh/resource-policy"] == "keep" for each in kept.values())
    assert not names(rendered(helm), "CustomResourceDefinition")


@pytest.mark.parametrize(
    ("settings", "api_versions", "profile", "brings_cluster"),
    [
        ((), (), "all", True),
        (("profile=standalone",), (), "standalone", True),
        (("profile=addons",), (), "addons", False),
        (("profile=addons", "crds.cluster=true"), (), "addons", True),
        (("crds.cluster=false",), (), "all", False),
        ((), ("cluster.x-k8s.io/v1beta2/Cluster",), "all", True),
        ((), ("cluster.x-k8s.io/v1beta1/Machine",), "addons,providers,kubeconfig", False),
        (("profile=all",), ("cluster.x-k8s.io/v1beta2/Machine",), "all", False),
        ((), ("acme.cluster.x-k8s.io/v1/Machine",), "all", True),
    ],
)
def test_kinds_of_a_core_choose_profile_and_definitions(
    settings: tuple[str, ...], api_versions: tuple[str, ...], profile: str, brings_cluster: bool, helm: Path
) -> None:
    """As Argo CD renders it: without a look at the cluster, but with the kinds that it serves."""
    objects = rendered(helm, "crds.install=true", *settings, api_versions=api_versions)
    assert objects["ConfigMap", "capi-functions-installation"]["data"]["CAPI_FUNCTIONS_PROFILES"] == profile
    assert (("CustomResourceDefinition", "clusters.cluster.x-k8s.io") in objects) == brings_cluster
    assert ("CustomResourceDefinition", "clusterstacks.clusterstack.x-k8s.io") in objects


@pytest.mark.parametrize("mode", ["single", "direct", "forwarder"])
def test_forwarders_have_the_options_of_the_values(mode: str, helm: Path) -> None:
    values = ("workers=64", "rate=900", "resync=3600", "resources.limits.memory=512Mi")
    objects = rendered(helm, f"mode={mode}", *(f"forwarder.{value}" for value in values))
    found = [
        container
        for name in names(objects, "Deployment")
        for container in pod(objects, name)["containers"]
        if container["name"] == "forwarder"
    ]
    assert len(found) == (2 if mode == "single" else 1)
    for container in found:
        assert container["args"][-3:] == ["--workers=64", "--rate=900", "--resync=3600"]
        assert container["resources"]["limits"]["memory"] == "512Mi"
        assert "memory" in container["resources"]["requests"]
    plain = rendered(helm, f"mode={mode}")
    assert not [part for part in yaml.safe_dump([*plain.values()]).split() if part.startswith("--workers")]


CONSOLE = "capi-functions-console"


@pytest.mark.parametrize("mode", [*values.MODES])
def test_console_is_installed_on_request_and_read_only(mode: str, helm: Path) -> None:
    assert CONSOLE not in names(rendered(helm, f"mode={mode}"), "Deployment")
    objects = rendered(helm, f"mode={mode}", "console.enabled=true", "console.hosts={capi.example.com}")
    [container] = pod(objects, CONSOLE)["containers"]
    assert container["args"] == ["--login", "--port=8080", "--host=capi.example.com"]
    assert objects["Service", CONSOLE]["spec"]["selector"] == {"app.kubernetes.io/name": CONSOLE}
    changing = rendered(helm, f"mode={mode}", "console.enabled=true", "console.allowChanges=true")
    assert pod(changing, CONSOLE)["containers"][0]["args"][2:] == ["--allow-changes"]


def test_console_has_no_credentials(helm: Path) -> None:
    settings = ("console.enabled=true", "webIdentity.roleARN=role", "tracing.endpoint=http://t", "tracing.secret=s")
    objects = rendered(helm, *settings, "serviceAccountAnnotations.role=cloud", "namespaces={a}")
    bindings = [obj for (kind, _), obj in objects.items() if kind.endswith("RoleBinding")]
    assert CONSOLE not in {subject["name"] for binding in bindings for subject in binding["subjects"]}
    account = objects["ServiceAccount", CONSOLE]
    assert account["automountServiceAccountToken"] is False
    assert "annotations" not in account["metadata"]
    spec = pod(objects, CONSOLE)
    assert spec["automountServiceAccountToken"] is False
    assert [volume["name"] for volume in spec["volumes"]] == ["authority"]
    assert not [each for each in spec["containers"][0]["env"] if "valueFrom" in each or "AWS" in each["name"]]
    assert [volume["name"] for volume in pod(objects, "capi-functions")["volumes"]][-1] == "identity"


def test_console_knows_the_issuer(helm: Path) -> None:
    issuer = ("console.enabled=true", "console.oidcIssuerURL=https://issuer.example", "console.oidcClientID=console")
    plain = pod(rendered(helm, *issuer), CONSOLE)
    options = ["--oidc-issuer-url=https://issuer.example", "--oidc-client-id=console", "--oidc-scope=email"]
    assert plain["containers"][0]["args"][2:] == options
    assert [volume["name"] for volume in plain["volumes"]] == ["authority"]
    files = ("console.oidcSecret=client", "console.oidcCAConfigMap=authority", "console.oidcScopes={email,groups}")
    spec = pod(rendered(helm, *issuer, *files), CONSOLE)
    [container] = spec["containers"]
    more = [
        "--oidc-scope=groups",
        "--oidc-client-secret-file=/etc/oidc/client-secret",
        "--oidc-ca-file=/etc/oidc/ca.crt",
    ]
    assert container["args"][2:] == [*options, *more]
    assert container["volumeMounts"][-1] == {"name": "oidc", "mountPath": "/etc/oidc", "readOnly": True}
    assert [[*source] for source in spec["volumes"][-1]["projected"]["sources"]] == [["secret"], ["configMap"]]


def test_each_shard_of_the_forwarder_is_a_deployment(helm: Path) -> None:
    settings = ("deployments.forwarder.replicas=3", "forwarder.workers=9")
    objects = rendered(helm, "mode=forwarder", "forwarder.shards=2", *settings)
    for index, name in enumerate(("forwarder-0", "forwarder-1")):
        spec = objects["Deployment", name]["spec"]
        [container] = pod(objects, name)["containers"]
        assert {f"--shard={index}/2", "--workers=9"} < {*container["args"]}
        assert spec["replicas"] == 3
        label = {"capi-functions.dev/shard": str(index)}
        assert (
            label.items() <= spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
        )
        assert objects["SinkBinding", name]["spec"]["subject"]["name"] == name
        assert objects["PodDisruptionBudget", name]["spec"]["selector"] == spec["selector"]
    assert {("Deployment", "forwarder"), ("SinkBinding", "forwarder")}.isdisjoint(objects)
    selector = objects["Service", "forwarder"]["spec"]["selector"]
    assert selector.items() <= spec["template"]["metadata"]["labels"].items()


def test_broker_has_the_class_and_delivery_of_the_values(helm: Path) -> None:
    plain = rendered(helm, "mode=forwarder")
    delivery = plain["Broker", "capi-functions"]["spec"]["delivery"]
    objects = rendered(
        helm,
        *("mode=forwarder", "broker.class=Kafka", "broker.ordered=true", "broker.config.kind=ConfigMap"),
        *("broker.delivery.retry=3", "broker.delivery.deadLetterSink.uri=http://dead"),
    )
    broker = objects["Broker", "capi-functions"]
    annotations = plain["Broker", "capi-functions"]["metadata"]["annotations"]
    assert broker["metadata"]["annotations"] == {**annotations, "eventing.knative.dev/broker.class": "Kafka"}
    assert broker["spec"]["config"] == {"kind": "ConfigMap"}
    assert broker["spec"]["delivery"] == {**delivery, "retry": 3, "deadLetterSink": {"uri": "http://dead"}}
    assert delivery["timeout"] == f"PT{TIMEOUT:.0f}S", "as with the forwarder"
    assert delivery["deadLetterSink"]["ref"]["namespace"] == "team"
    assert ("Service", delivery["deadLetterSink"]["ref"]["name"]) in plain
    without = rendered(helm, "mode=forwarder", "broker.delivery.deadLetterSink=null")["Broker", "capi-functions"]
    del delivery["deadLetterSink"]
    assert without["spec"]["delivery"] == delivery
    orders = [dig(obj, "metadata.annotations", {}) for (kind, _), obj in objects.items() if kind == "Trigger"]
    assert {one.get("kafka.eventing.knative.dev/delivery.order") for one in orders} == {"ordered"}


def test_jetstream_broker_has_the_delivery_in_its_triggers(helm: Path) -> None:
    """Its controller and filter read `spec.delivery` of Triggers, and nothing of that of the Broker."""
    objects = rendered(helm, "mode=forwarder", "broker.class=NatsJetStreamBroker", "broker.delivery.retry=3")
    delivery = objects["Broker", "capi-functions"]["spec"]["delivery"]
    triggers = [obj["spec"] for (kind, _), obj in objects.items() if kind == "Trigger"]
    assert [spec["delivery"] for spec in triggers] == [delivery] * len(triggers)
    assert triggers
    assert (delivery["retry"], delivery["backoffPolicy"]) == (3, "exponential")
    plain = rendered(helm, "mode=forwarder", "broker.class=Kafka")
    assert not any("delivery" in obj["spec"] for (kind, _), obj in plain.items() if kind == "Trigger")


def test_jetstream_broker_has_its_stream_of_the_values(helm: Path) -> None:
    objects = rendered(helm, "mode=forwarder", "broker.class=NatsJetStreamBroker", "broker.jetStream.stream.replicas=3")
    annotations = objects["Broker", "capi-functions"]["metadata"]["annotations"]
    assert annotations["eventing.knative.dev/broker.class"] == "NatsJetStreamBroker"
    assert json.loads(annotations["natsjetstream.eventing.knative.dev/config"]) == {
        "stream": {"retention": "Interest", "storage": "File", "replicas": 3, "maxAge": "24h"},
        "filter": {"env": [{"name": "CONSUMER_FETCH_BATCH_SIZE", "value": "1"}]},
    }


@pytest.mark.parametrize(("chosen", "there"), [("NatsJetStreamBroker", True), ("Kafka", False), ("", False)])
def test_filter_of_a_jetstream_broker_may_call_functions(chosen: str, there: bool, helm: Path) -> None:
    """It runs in the namespace of the Broker, where other brokers deliver from their own."""
    objects = rendered(helm, "mode=forwarder", f"broker.class={chosen}")
    labels = {"eventing.knative.dev/broker": "capi-functions", "eventing.knative.dev/role": "filter"}
    peers = [peer for rule in objects["NetworkPolicy", "functions"]["spec"]["ingress"] for peer in rule["from"]]
    assert ({"podSelector": {"matchLabels": labels}} in peers) == there


@pytest.mark.parametrize(("mode", "there"), [("single", False), ("forwarder", True), ("sources", True)])
def test_event_policy_admits_senders_of_the_namespace_to_the_broker(mode: str, there: bool, helm: Path) -> None:
    objects = rendered(helm, f"mode={mode}", "eventPolicy=true")
    assert names(objects, "EventPolicy") == ({"capi-functions"} if there else set())
    if there:
        spec = objects["EventPolicy", "capi-functions"]["spec"]
        assert spec["from"] == [{"sub": "system:serviceaccount:team:*"}]
        assert spec["to"][0]["ref"]["name"] in names(objects, "Broker")


def test_traces_are_sent_where_the_values_say(helm: Path) -> None:
    def of_tracing(*settings: str) -> list[Object]:
        containers = pod(rendered(helm, *settings), "capi-functions")["containers"]
        found = [[one for one in container["env"] if one["name"].startswith("OTEL_")] for container in containers]
        assert found[0] == found[1], "functions and forwarder"
        return found[0]

    assert of_tracing("tracing.secret=receiver") == []
    assert of_tracing("tracing.endpoint=http://c:4318", "tracing.ratio=0.1", "tracing.secret=receiver") == [
        {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://c:4318"},
        {"name": "OTEL_TRACES_SAMPLER", "value": "parentbased_traceidratio"},
        {"name": "OTEL_TRACES_SAMPLER_ARG", "value": "0.1"},
        {
            "name": "OTEL_EXPORTER_OTLP_HEADERS",
            "valueFrom": {"secretKeyRef": {"name": "receiver", "key": "OTEL_EXPORTER_OTLP_HEADERS"}},
        },
    ]


def test_knative_services_scale_as_the_values_say(helm: Path) -> None:
    settings = ("mode=sources", "profile=addons", "serving.enabled=true", "serving.maxReplicas=9", "env.THREADS=3")
    more = ("deployments.addon-apply.replicas=2", "serviceMonitor.enabled=true")
    objects = rendered(helm, *settings, *more)

    def scale(name: str) -> tuple[str, ...]:
        annotations = dig(objects["Service", name], "spec.template.metadata.annotations")
        return tuple(annotations[f"autoscaling.knative.dev/{bound}-scale"] for bound in ("min", "max"))

    assert names(objects, "Deployment") == set()
    assert (scale("addon-apply"), scale("sweep")) == (("2", "9"), ("0", "9"))
    spec = dig(objects["Service", "sweep"], "spec.template.spec")
    assert spec["containerConcurrency"] == 3
    assert "topologySpreadConstraints" not in spec, "Serving refuses it unless a feature is enabled"
    endpoints = dig(objects["PodMonitor", "capi-functions"], "spec.podMetricsEndpoints")
    assert "user-port" in {endpoint["port"] for endpoint in endpoints}
    (container,) = spec["containers"]
    assert "METRICS_PORT" not in variables(container), "Serving's proxy has this port"
    annotations = dig(objects["Service", "sweep"], "spec.template.metadata.annotations")
    assert annotations["prometheus.io/port"] == str(container["ports"][0]["containerPort"])
    (rule,) = [
        rule
        for rule in dig(objects["NetworkPolicy", "functions"], "spec.ingress")
        if 8080 in {port["port"] for port in rule["ports"]} and len(rule["from"]) == 1
    ]
    assert dig(rule["from"][0], "podSelector.matchLabels") == {"app.kubernetes.io/name": "prometheus"}


def test_hooks_are_called_from_the_namespace_of_core(helm: Path) -> None:
    objects = rendered(helm, "hooks=true", "networkPolicy.core=elsewhere")
    core = dig(objects["NetworkPolicy", "cluster-hooks"], "spec.ingress")[0]["from"][0]
    assert objects["ExtensionConfig", "capi-functions"]["metadata"]["labels"]["app.kubernetes.io/part-of"]
    assert core["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "elsewhere"}


@pytest.mark.parametrize(
    ("settings", "served", "by_helm"),
    [
        ((), (), True),
        ((), ("cert-manager.io/v1/Certificate",), False),
        (("hooksIssuer=cert-manager",), (), False),
        (("hooksIssuer=helm",), ("cert-manager.io/v1/Certificate",), True),
    ],
)
def test_hooks_have_a_certificate_also_without_cert_manager(
    settings: tuple[str, ...], served: tuple[str, ...], by_helm: bool, helm: Path
) -> None:
    objects = rendered(helm, "hooks=true", *settings, api_versions=served)
    assert bool(names(objects, "Certificate")) != by_helm
    assert bool(names(objects, "Issuer")) != by_helm
    volumes = {volume["name"]: volume for volume in pod(objects, "cluster-hooks")["volumes"]}
    key = ("Secret", volumes["tls"]["secret"]["secretName"])
    assert (key in objects) == by_helm
    injected = objects["ExtensionConfig", "capi-functions"]["metadata"]["annotations"]
    assert f"team/{key[1]}" in injected.values()
    if by_helm:
        data = {name: base64.b64decode(value) for name, value in objects[key]["data"].items()}
        [certificate] = load_certificates(data["tls.crt"])
        certificate.verify_directly_issued_by(load_certificates(data["ca.crt"])[0])
        assert load_key(data["tls.key"]).public_key() == certificate.public_key()
        names_of = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert "cluster-hooks.team.svc" in names_of.get_values_for_type(x509.DNSName)


@pytest.mark.parametrize(
    "setting",
    [
        "mode=knative",
        "profile=everything",
        "replica=2",
        "replicas=many",
        "settings.storage.AWS_SECRET_ACCESS_KEY=secret",
        "env.AWS_SECRET_ACCESS_KEY=secret",
        "env.OTEL_EXPORTER_OTLP_HEADERS=secret",
        "tracing.ratio=2",
        "tracing.ratio=some",
        "env.A.b=c",
        "settings.unknown.A=b",
        "image.digest=latest",
        "deployments.cluster.image=x",
        "networkPolicy.enable=true",
    ],
)
def test_wrong_value_is_refused(setting: str, helm: Path) -> None:
    done = run(helm, "template", "release", str(CHART), "--set", setting)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


def test_default_values_are_those_of_the_table() -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    for value in values.values():
        assert dig(defaults, value.path) == value.default, value.path


# -- monitoring --------------------------------------------------------------------------------------------------


ALERTS = yaml.safe_load((CHART / "alerts.yaml").read_text())


def expressions() -> list[str]:
    rules = [rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]]
    panels = json.loads((CHART / "dashboard.json").read_text())["panels"]
    return rules + [target["expr"] for panel in panels for target in panel["targets"]]


def test_alerts_and_dashboard_ask_for_metrics_and_labels_that_functions_have() -> None:
    for labels in (("sweep", "done"), ("sweep", "failed")):
        metrics.DELIVERIES.labels(*labels)
    metrics.SECONDS.labels("sweep")
    metrics.REQUESTS.labels("management", "GET")
    metrics.WAITED.labels("sweep", "Ready")
    metrics.HOOKS.labels("h", "continue")
    metrics.OBJECT_FAILURES.labels("sweep")
    metrics.FORWARDED.labels("sweep", "done")
    metrics.WATCH_RESTARTS.labels("failed")
    metrics.QUEUE_ITEMS.labels("ready")
    metrics.PROBLEMS.labels("watch")
    for gauge in (metrics.QUEUE_OLDEST, metrics.LEASE_HELD):
        gauge.labels("0/1")
    series: dict[str, set[str]] = {}
    for line in metrics.exposition().decode().splitlines():
        if match := re.match(r"(capi_functions_\w+)(?:\{(.*)\})? ", line):
            series.setdefault(match[1], set()).update(re.findall(r"(\w+)=", match[2] or ""))
    asked = expressions()
    assert len(asked) > 10
    for expression in asked:
        metric_names = re.findall(r"capi_functions_\w+", expression)
        assert metric_names, expression
        available = set.intersection(*(series[name] for name in metric_names))
        grouped = {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
        filtered = set(re.findall(r"[{,](\w+)=", expression))
        assert grouped | filtered <= available, expression
        assert expression.count("(") == expression.count(")")


def test_prometheus_objects_are_rendered_on_request(helm: Path) -> None:
    kinds = {"ServiceMonitor", "PrometheusRule"}
    assert not kinds & {kind for kind, _ in rendered(helm)}
    wanted: list[Any] = [f"{name}.enabled=true" for name in ("serviceMonitor", "prometheusRule", "dashboard")]
    objects = rendered(helm, *wanted, "hooks=true", "serviceMonitor.labels.release=prometheus")
    monitor = objects["ServiceMonitor", "capi-functions"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    services = [obj for (kind, _), obj in objects.items() if kind == "Service"]
    selected = [
        s for s in services if monitor["spec"]["selector"]["matchLabels"].items() <= s["metadata"]["labels"].items()
    ]
    scraped = {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]}
    assert scraped == {"metrics", "forwarder"}
    for service in selected:
        assert scraped & {port["name"] for port in service["spec"]["ports"]}, service["metadata"]["name"]
    assert objects["PrometheusRule", "capi-functions"]["spec"] == ALERTS
    board = objects["ConfigMap", "capi-functions-dashboard"]["data"]["capi-functions.json"]
    assert json.loads(board)["title"] == "capi-functions"


@pytest.mark.parametrize(("settings", "refused"), [((), True), (("admissionPolicies=false",), False)])
def test_admission_policies_are_off_by_a_value(helm: Path, settings: tuple[str, ...], refused: bool) -> None:
    objects = rendered(helm, *settings)
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        found = names(objects, kind)
        assert ({"capi-functions-clusters", "capi-functions-providers"} <= found) is refused
        assert "capi-functions-secrets" in found


def providers(objects: Rendered) -> dict[str, tuple[str, str, Object]]:
    """Returns namespace, name and spec of the providers by kind."""
    found = {kind: obj for (kind, _), obj in objects.items() if kind.endswith("Provider")}
    return {kind: (obj["metadata"]["namespace"], obj["metadata"]["name"], obj["spec"]) for kind, obj in found.items()}


def test_values_create_providers_and_those_that_they_need(helm: Path) -> None:
    assert providers(rendered(helm)) == {}
    gates = "manager.featureGates.docker.MachinePool=true"
    objects = rendered(helm, "infrastructure.docker.version=v1.14.0", gates, "configSecret.name=variables")
    secret = {"configSecret": {"name": "variables"}}
    assert providers(objects) == {
        "CoreProvider": ("capi-system", "cluster-api", secret),
        "BootstrapProvider": ("capi-kubeadm-bootstrap-system", "kubeadm", secret),
        "ControlPlaneProvider": ("capi-kubeadm-control-plane-system", "kubeadm", secret),
        "InfrastructureProvider": (
            "docker-infrastructure-system",
            "docker",
            {"version": "v1.14.0", "manager": {"featureGates": {"MachinePool": True}}, **secret},
        ),
    }
    assert names(objects, "Namespace") == {namespace for namespace, _, _ in providers(objects).values()}
    given = ("core.cluster-api.namespace=capi", "core.cluster-api.createNamespace=false")
    source = "fetchConfig.in-cluster.oci=registry.example.com/ipam"
    objects = rendered(
        helm, *given, "core.cluster-api.version=v1.14.0", "ipam.in-cluster.deployment.replicas=2", source
    )
    assert providers(objects) == {
        "CoreProvider": ("capi", "cluster-api", {"version": "v1.14.0"}),
        "IPAMProvider": (
            "in-cluster-ipam-system",
            "in-cluster",
            {"deployment": {"replicas": 2}, "fetchConfig": {"oci": "registry.example.com/ipam"}},
        ),
    }
    assert names(objects, "Namespace") == {"in-cluster-ipam-system"}


def test_namespaces_of_providers_are_those_of_the_command_line(helm: Path) -> None:
    settings = [f"{values.provider_key(kind)}.foo.version=v1.0.0" for kind in KINDS if not kind.is_core]
    found = providers(rendered(helm, "core.cluster-api.version=v1.0.0", *settings))
    assert {kind: found[kind.kind][0] for kind in KINDS} == {
        kind: default_namespace(kind, "cluster-api" if kind.is_core else "foo") for kind in KINDS
    }


def test_providers_outlive_the_release_and_no_upgrade_recreates_them(helm: Path) -> None:
    first = rendered(helm, "core.cluster-api.version=v1.14.0")["CoreProvider", "cluster-api"]["metadata"]
    assert first["annotations"]["helm.sh/hook-delete-policy"] == "hook-failed", "not before-hook-creation"
    assert first["annotations"]["meta.helm.sh/release-name"] == "release"
    served = ("--api-versions", "operator.cluster.x-k8s.io/v1alpha2/CoreProvider")
    chosen = ("--set", "core.cluster-api.version=v1.14.0", "--show-only", "templates/providers.yaml")
    done = run(helm, "template", "release", str(CHART), *served, *chosen)
    found = [obj for obj in yaml.load_all(done.stdout, Loader) if obj and obj["kind"] == "CoreProvider"]
    assert [obj["metadata"]["annotations"] for obj in found] == [{"helm.sh/resource-policy": "keep"}]


def test_providers_need_a_profile_with_their_functions(helm: Path) -> None:
    done = run(helm, "template", "release", str(CHART), "--set", "profile=addons,core.cluster-api.version=v1.14.0")
    assert "profile=addons has no functions of providers" in done.stderr
