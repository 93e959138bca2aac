"""Deployments as a provider's spec changes them; named after what Cluster API Operator's users rely on."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from shared.components.customize import customize
from shared.components.durations import whole_seconds
from shared.components.errors import CustomizationError
from shared.kube import Object
from tests.support.provider_objects import provider

PROXY: Object = {"name": "kube-rbac-proxy", "image": "registry.example/proxy:v0.13.1", "args": ["--secure"]}
MANAGER: Object = {
    "name": "manager",
    "image": "registry.example/manager:1.6.2",
    "args": ["--webhook-port=2345"],
    "env": [{"name": "test1", "value": "value1"}],
    "livenessProbe": {"httpGet": {"path": "/healthz", "port": "healthz"}},
    "readinessProbe": {"httpGet": {"path": "/readyz", "port": "healthz"}},
}
TOLERATION: Object = {"key": "a", "effect": "NoSchedule"}


def deployment(name: str = "anything", *containers: Object, **pod: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "n"},
        "spec": {"replicas": 1, "template": {"spec": {"containers": list(containers or (PROXY, MANAGER)), **pod}}},
    }


def of(obj: Object, container: str = "manager") -> Object:
    (found,) = [one for one in obj["spec"]["template"]["spec"]["containers"] if one["name"] == container]
    return dict(found)


def changed(obj: Object, **spec: Any) -> Object:
    """The one Deployment after customization, which leaves its input as it was."""
    before, made = deepcopy(obj), provider(**spec)
    asked = deepcopy(made)
    (result,) = customize([obj], made)
    assert (obj, made) == (before, asked)
    return result


@pytest.mark.parametrize("spec", [{}, {"deployment": {}}, {"manager": {}}, {"manager": {"verbosity": 1}}], ids=str)
def test_cu1_provider_without_customization_changes_nothing(spec: Object) -> None:
    assert changed(deployment(), **spec) == deployment()


POD_FIELDS: Object = {
    "nodeSelector": {"disk": "fast"},
    "tolerations": [TOLERATION],
    "affinity": {"podAffinity": {"x": []}},
    "serviceAccountName": "other",
    "imagePullSecrets": [{"name": "pull"}],
}


@pytest.mark.parametrize("field", list(POD_FIELDS))
def test_cu3_to_cu7_field_of_the_pod_is_replaced(field: str) -> None:
    before = deployment(**{name: type(value)() for name, value in POD_FIELDS.items()}, hostNetwork=True)
    expected = deepcopy(before)
    expected["spec"]["template"]["spec"][field] = POD_FIELDS[field]
    assert changed(before, deployment={field: POD_FIELDS[field]}) == expected


def test_empty_strings_change_nothing() -> None:
    changes = {"serviceAccountName": "", "containers": [{"name": "manager", "imageUrl": ""}]}
    before = deployment(serviceAccountName="given")
    assert changed(before, deployment=changes) == before


def test_customized_objects_share_no_values_with_the_spec() -> None:
    container = {"name": "manager", "resources": {"limits": {}}, "env": [{"name": "A", "valueFrom": {}}]}
    made = provider(deployment={"tolerations": [TOLERATION], "containers": [container]})
    (result,) = customize([deployment()], made)
    pod = result["spec"]["template"]["spec"]
    for part in (pod["tolerations"], of(result)["resources"]["limits"], of(result)["env"][-1]["valueFrom"]):
        part.clear()
    assert made["spec"]["deployment"]["tolerations"] == [TOLERATION]
    pod["containers"][1]["resources"]["new"] = pod["containers"][1]["env"][-1]["new"] = 1
    assert container == {"name": "manager", "resources": {"limits": {}}, "env": [{"name": "A", "valueFrom": {}}]}


@pytest.mark.parametrize("replicas", [0, 3])
def test_cu2_replicas_are_set(replicas: int) -> None:
    expected = deployment()
    expected["spec"]["replicas"] = replicas
    assert changed(deployment(), deployment={"replicas": replicas}) == expected


def test_cu9_all_fields_apply_together() -> None:
    container = {"name": "manager", "imageUrl": "registry.example/other:v2", "command": ["/expected"]}
    result = changed(deployment(), deployment={"replicas": 2, **POD_FIELDS, "containers": [container]})
    manager = MANAGER | {"image": "registry.example/other:v2", "command": ["/expected"]}
    expected = deployment("anything", PROXY, manager, **POD_FIELDS)
    expected["spec"]["replicas"] = 2
    assert result == expected


def test_cu8_cu10_container_fields_are_set() -> None:
    changes = {
        "name": "manager",
        "imageUrl": "registry.example/other:v2",
        "args": {"--webhook-port": "3456", "--log_dir": "/logs"},
        "env": [{"name": "test1", "value": "value2"}, {"name": "new1", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
        "resources": {"limits": {"memory": "16Gi"}},
    }
    result = changed(deployment(), deployment={"containers": [changes]})
    expected = MANAGER | {
        "image": "registry.example/other:v2",
        "args": ["--webhook-port=3456", "--log_dir=/logs"],
        "env": changes["env"],
        "resources": {"limits": {"memory": "16Gi"}},
    }
    assert result == deployment("anything", PROXY, expected)


def test_container_without_args_gets_flags_in_order() -> None:
    changes = {"name": "bare", "args": {"--b": "2", "--a": "1"}, "env": [{"name": "A", "value": "1"}]}
    result = changed(deployment("d", {"name": "bare"}), deployment={"containers": [changes]})
    assert of(result, "bare") == {"name": "bare", "args": ["--a=1", "--b=2"], "env": changes["env"]}


def test_environment_variable_replaces_all_of_its_name() -> None:
    present = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}]
    changes = {"name": "c", "env": [{"name": "A", "value": "4"}]}
    result = changed(deployment("d", {"name": "c", "env": present}), deployment={"containers": [changes]})
    assert of(result, "c")["env"] == [present[1], changes["env"][0]]


ALL_OF_MANAGER: Object = {
    "featureGates": {"TEST": True, "ANOTHER": False},
    "profilerAddress": "localhost:1234",
    "verbosity": 5,
    "cacheNamespace": "tenant",
    "syncPeriod": "7h",
    "maxConcurrentReconciles": 12,
    "gracefulShutDown": "1m",
    "controller": {
        "groupKindConcurrency": {"Machine": 3, "Cluster": 4},
        "cacheSyncTimeout": 1,
        "recoverPanic": True,
    },
    "metrics": {"bindAddress": ":4567", "diagnosticsAddress": ":8443", "insecureDiagnostics": True},
    "health": {
        "healthProbeBindAddress": ":6789",
        "readinessEndpointName": "readyish",
        "livenessEndpointName": "mostly",
    },
    "webhook": {"port": 3579, "host": "0.0.0.0", "certDir": "/tmp/certs"},
    "leaderElection": {
        "leaderElect": True,
        "resourceName": "foo",
        "resourceNamespace": "here",
        "leaseDuration": "7h0m0s",
        "renewDeadline": "6h59m59.6s",
        "retryPeriod": "25200000ms",
    },
    "additionalArgs": {"--test-option": "test-value", "--another-option": "another-value"},
}


def test_cu11_all_fields_of_spec_manager_become_flags() -> None:
    result = changed(deployment(), manager=ALL_OF_MANAGER)
    assert of(result)["args"] == [
        "--webhook-port=3579",
        "--cluster-concurrency=4",
        "--machine-concurrency=3",
        "--max-concurrent-reconciles=12",
        "--namespace=tenant",
        "--health-addr=:6789",
        "--metrics-bind-addr=:4567",
        "--diagnostics-address=:8443",
        "--webhook-host=0.0.0.0",
        "--webhook-cert-dir=/tmp/certs",
        "--profiler-address=localhost:1234",
        "--insecure-diagnostics=true",
        "--sync-period=25200s",
        "--leader-elect=true",
        "--leader-election-id=here/foo",
        "--leader-elect-lease-duration=25200s",
        "--leader-elect-renew-deadline=25200s",
        "--leader-elect-retry-period=25200s",
        "--v=5",
        "--feature-gates=ANOTHER=false,TEST=true",
        "--another-option=another-value",
        "--test-option=test-value",
    ]
    assert of(result)["livenessProbe"] == {"httpGet": {"path": "/mostly", "port": "healthz"}}
    assert of(result)["readinessProbe"] == {"httpGet": {"path": "/readyish", "port": "healthz"}}
    assert of(result, "kube-rbac-proxy") == PROXY


def added(manager: Object, *args: str) -> list[str]:
    """What a manager with these args gets beside them."""
    result = changed(deployment("d", {"name": "manager", "args": list(args)}), manager=manager)
    return [arg for arg in of(result)["args"] if arg not in args]


@pytest.mark.parametrize(
    ("manager", "expected"),
    [
        ({"leaderElection": {"leaderElect": False, "leaseDuration": "1h"}}, ["--leader-elect=false"]),
        ({"leaderElection": {"leaseDuration": "1h", "resourceName": "a", "resourceNamespace": "b"}}, []),
        ({"leaderElection": {"leaderElect": True, "resourceName": "a"}}, ["--leader-elect=true"]),
        ({"leaderElection": {"leaderElect": True, "leaseDuration": "0s", "retryPeriod": "0"}}, ["--leader-elect=true"]),
        ({"syncPeriod": "400ms"}, []),
        ({"syncPeriod": "500ms"}, ["--sync-period=1s"]),
        ({"syncPeriod": "-5s"}, []),
        ({"webhook": {"port": 0}}, ["--webhook-port=0"]),
        ({"verbosity": 0}, ["--v=0"]),
        (
            {"cacheNamespace": "", "metrics": {"bindAddress": "", "diagnosticsAddress": "0"}},
            ["--diagnostics-address=0"],
        ),
        ({"metrics": {"insecureDiagnostics": False}}, []),  # CU16
        ({"metrics": {"insecureDiagnostics": True}}, ["--insecure-diagnostics=true"]),  # CU16
        ({"controller": {"groupKindConcurrency": {"ReplicaSet.apps": 2}}}, ["--replicaset.apps-concurrency=2"]),
        ({"featureGates": {}}, []),
        ({"additionalArgs": {"--empty": ""}}, ["--empty="]),
    ],
    ids=str,
)
def test_cu16_default_and_empty_values_set_no_flag(manager: Object, expected: list[str]) -> None:
    assert added(manager, "--kept") == expected


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ([], "A=true"),
        (["--feature-gates="], "A=true"),
        (["--feature-gates=B=true"], "A=true,B=true"),
        (["--feature-gates=B=true,A=false, C=False"], "A=true,B=true,C=False"),
        (["--webhook-port=1", "--feature-gates=B=false,nonsense", "--v=5"], "A=true,B=false"),
    ],
    ids=str,
)
def test_cu17_feature_gates_of_the_manifest_are_kept(present: list[str], expected: str) -> None:
    assert added({"featureGates": {"A": True}}, *present) == [f"--feature-gates={expected}"]


def test_cu18_feature_gates_are_merged_in_their_place() -> None:
    args = ["--a=1", "--feature-gates=MachinePool=true,MachineSetPreflightChecks=true,PriorityQueue=false", "--b=2"]
    result = changed(
        deployment("d", {"name": "manager", "args": args}),
        manager={"featureGates": {"ClusterTopology": True, "MachineSetPreflightChecks": False}},
    )
    merged = "ClusterTopology=true,MachinePool=true,MachineSetPreflightChecks=false,PriorityQueue=false"
    assert of(result)["args"] == ["--a=1", f"--feature-gates={merged}", "--b=2"]


def test_first_container_is_customized_if_none_is_named_manager() -> None:
    result = changed(deployment("d", {"name": "controller"}, PROXY), manager={"verbosity": 3})
    assert of(result, "controller")["args"] == ["--v=3"]
    assert of(result, "kube-rbac-proxy") == PROXY


def test_missing_probes_are_not_created() -> None:
    bare = deployment("d", {"name": "manager", "livenessProbe": {"tcpSocket": {"port": 1}}})
    assert changed(bare, manager={"health": ALL_OF_MANAGER["health"] | {"healthProbeBindAddress": ""}}) == bare


def test_flags_of_spec_manager_override_those_of_spec_deployment() -> None:
    container = {"name": "manager", "args": {"--v": "9", "--sync-period": "1h"}}
    result = changed(deployment(), deployment={"containers": [container]}, manager={"verbosity": 3})
    assert of(result)["args"] == ["--webhook-port=2345", "--sync-period=1h", "--v=3"]


def test_cu14_empty_tolerations_remove_those_of_the_pod() -> None:
    before = deployment(tolerations=[TOLERATION])
    cleared = changed(before, deployment={"tolerations": []})
    assert cleared["spec"]["template"]["spec"]["tolerations"] == []
    assert changed(before, deployment={"replicas": 1}) == before


# -- which Deployment ----------------------------------------------------------------------------------------------

VERBOSE: Object = {"verbosity": 3}


@pytest.mark.parametrize(
    "name",
    [
        "non-manager",
        "ca-non-manager",
        "non-manager-controller-manager",
        "ca-controller-manager-of-another",
        "",
        "azureserviceoperator-controller-manager",
    ],
)
def test_cu15_only_the_main_deployment_of_several_is_customized(name: str) -> None:
    main, other = deployment("cap-controller-manager"), deployment(name)
    changes: Any = {"manager": VERBOSE, "deployment": {"replicas": 3}}
    result = customize([other, main], provider(**changes, additionalDeployments={"another": changes}))
    assert result[0] == other
    assert of(result[1])["args"] == ["--webhook-port=2345", "--v=3"]
    assert result[1]["spec"]["replicas"] == 3


def test_cu15_additional_deployment_has_its_own_customization() -> None:
    names = ("cap-controller-manager", "azureserviceoperator-controller-manager")
    spec: Object = {
        "deployment": {"replicas": 3},
        "additionalDeployments": {names[1]: {"manager": VERBOSE}, names[0]: {"manager": {"verbosity": 9}}},
    }
    main, other = customize([deployment(name) for name in names], provider(**spec))
    assert (main["spec"]["replicas"], of(main)) == (3, MANAGER)
    assert (other["spec"]["replicas"], of(other)["args"]) == (1, ["--webhook-port=2345", "--v=3"])


def test_only_deployments_are_customized() -> None:
    others = [
        deployment("cap-controller-manager") | {"kind": "DaemonSet"},
        deployment("cap-controller-manager") | {"apiVersion": "example.com/v1"},
    ]
    result = customize([others[0], deployment("single"), others[1]], provider(manager=VERBOSE))
    assert [result[0], result[2]] == others
    assert of(result[1])["args"] == ["--webhook-port=2345", "--v=3"]


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (  # CU12
            {"manager": {"additionalArgs": {"--webhook-port": "1"}}},
            "spec.manager.additionalArgs: --webhook-port exists already; "
            "use deployment.containers[].args to replace a flag "
            "(container 'manager' of Deployment anything)",
        ),
        (  # CU12, also where it says the same
            {"manager": {"additionalArgs": {"--webhook-port": "2345"}}},
            "spec.manager.additionalArgs: --webhook-port exists already",
        ),
        (
            {"manager": {"verbosity": 2, "additionalArgs": {"--v": "2"}}},
            "spec.manager.additionalArgs: --v exists already",
        ),
        (  # CU13
            {"deployment": {"containers": [{"name": "manager"}, {"name": "unknown"}]}},
            "spec.deployment.containers[1].name: Deployment anything has no container 'unknown'",
        ),
        ({"manager": {"syncPeriod": "soon"}}, "spec.manager.syncPeriod: 'soon' is not a duration such as 1h30m or 10s"),
        (
            {"manager": {"leaderElection": {"leaderElect": True, "retryPeriod": "2"}}},
            "spec.manager.leaderElection.retryPeriod: '2' is not a duration",
        ),
    ],
    ids=str,
)
def test_error_names_the_field(spec: Object, message: str) -> None:
    with pytest.raises(CustomizationError) as caught:
        changed(deployment(), **spec)
    assert message in str(caught.value)


def test_error_names_the_additional_deployment() -> None:
    changes = {"deployment": {"containers": [{"name": "unknown"}]}}
    objects = [deployment("cap-controller-manager"), deployment("other")]
    with pytest.raises(CustomizationError) as caught:
        customize(objects, provider(additionalDeployments={"other": changes}))
    where = "spec.additionalDeployments.other.deployment.containers[0].name"
    assert str(caught.value) == f"{where}: Deployment other has no container 'unknown'"


@pytest.mark.parametrize(
    "broken",
    [
        {"spec": None},
        {"spec": "text"},
        {"spec": {"template": {"spec": []}}},
        {"spec": {"template": {"spec": {}}}},
        {"spec": {"template": {"spec": {"containers": {"a": 1}}}}},
        {"spec": {"template": {"spec": {"containers": ["manager"]}}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "manager", "args": "--v=1"}]}}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "manager", "args": [1]}]}}}},
    ],
    ids=str,
)
def test_malformed_deployment_is_an_error(broken: Object) -> None:
    with pytest.raises(CustomizationError, match=r"^spec\.manager: .*Deployment anything"):
        changed(deployment() | broken, manager=VERBOSE)


def test_malformed_environment_is_an_error() -> None:
    changes = {"name": "c", "env": [{"name": "A", "value": "1"}]}
    with pytest.raises(CustomizationError, match="env of container 'c' of Deployment d"):
        changed(deployment("d", {"name": "c", "env": ["A=1"]}), deployment={"containers": [changes]})


# -- durations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("1h2m3s", 3723),
        ("10m0s", 600),
        ("1.5m", 90),
        (".5h", 1800),
        ("1.s", 1),
        ("1499ms", 1),
        ("1500ms", 2),
        ("1500000us", 2),
        ("1500000\u00b5s", 2),
        ("1500000\u03bcs", 2),
        ("1500000000ns", 2),
        ("-90s", -90),
        ("+1m30s", 90),
        ("30s1m", 90),
        ("0" * 62 + "5s", 5),
    ],
)
def test_duration_is_rounded_to_seconds(text: str, seconds: int) -> None:
    assert whole_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "s", ".s", "1d", "1 h", "1h ", "1h-2m", "--1s", "1e3s", "1s\n", "9" * 70 + "s"]
)
def test_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        whole_seconds(text)
