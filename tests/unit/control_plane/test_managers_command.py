"""The command of a manager's process, decided from its Deployment."""

from __future__ import annotations

import socket
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from infra.local.managers.command import Addresses, Command, ManagerError, Volume, command_of, printed_flags, volumes_of
from infra.local.managers.ports import free_ports, is_free
from infra.local.managers.status import deployment_status
from infra.local_control_plane.ports import has_address
from shared.api.resources import CONFIG_MAP, SECRET
from shared.kube import Key, Object

ADDRESSES = Addresses("127.0.0.1", 1, 2, 3, Path("/certificates"), Path("/kubeconfig"))
OWN = ("--webhook-port=3", "--webhook-cert-dir=/certificates")
KUBECONFIG = {"KUBECONFIG": "/kubeconfig"}
CLUSTER_API = ("--leader-elect=false", "--health-addr=127.0.0.1:1", "--diagnostics-address=127.0.0.1:2", *OWN)


def deployment(*containers: Object) -> Object:
    metadata = {"name": "capi-controller-manager", "namespace": "capi-system"}
    pod = {"containers": list(containers), "serviceAccountName": "capi-manager"}
    return {"kind": "Deployment", "metadata": metadata, "spec": {"template": {"spec": pod}}}


def test_address_of_ipv6_is_in_brackets() -> None:
    found = command_of(deployment(manager()), replace(ADDRESSES, host="::1"))
    assert found.arguments[1:3] == ("--health-addr=[::1]:1", "--diagnostics-address=[::1]:2")


def manager(*args: str, **content: Any) -> Object:
    return {"name": "manager", "args": list(args), **content}


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ((), CLUSTER_API),
        (
            (
                "--leader-elect",
                "--diagnostics-address=:8443",
                "--insecure-diagnostics=false",
                "--feature-gates=MachinePool=true,ClusterTopology=true",
            ),
            ("--insecure-diagnostics=false", "--feature-gates=MachinePool=true,ClusterTopology=true", *CLUSTER_API),
        ),
        (
            # names of other projects, and values that are arguments of their own
            (
                "-enable-leader-election",
                "--metrics-bind-address",
                ":8080",
                "--health-probe-bind-address=:9440",
                "--v=2",
            ),
            (
                "--v=2",
                "--enable-leader-election=false",
                "--health-probe-bind-address=127.0.0.1:1",
                "--metrics-bind-address=127.0.0.1:2",
                *OWN,
            ),
        ),
        (("--webhook-port", "9443", "positional"), ("positional", *CLUSTER_API)),
        (("--webhook_port=9443", "--kubeconfig", "/mine"), CLUSTER_API),
        (("--name=$(POD_NAME)", "--literal=$$(POD_NAME)", "--other=$(OTHER)"), ()),
    ],
)
def test_flags_of_the_deployment_are_kept_but_for_addresses_certificates_and_leader_election(
    given: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    env = [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    found = command_of(deployment(manager(*given, env=env)), ADDRESSES).arguments
    expanded = ("--name=capi-controller-manager", "--literal=$(POD_NAME)", "--other=$(OTHER)", *CLUSTER_API)
    assert found == (arguments or expanded)


GO_FLAGS = """Usage of manager:
  -health-probe-bind-address string
    \tThe address (default ":8081"), see --health-addr of others
  -leader-elect
    \tEnable leader election
"""
PFLAGS = """Usage of manager:
      --health-probe-addr string   The address of --health (default ":8081")
  -v, --v Level                    Verbosity
"""


@pytest.mark.parametrize(
    ("usage", "given", "arguments"),
    [
        (GO_FLAGS, (), ("--leader-elect=false", "--health-probe-bind-address=127.0.0.1:1")),
        (PFLAGS, (), ("--health-probe-addr=127.0.0.1:1",)),
        (PFLAGS, ("--health-addr=:1",), ("--health-addr=127.0.0.1:1",)),
        ("no help", (), CLUSTER_API),
    ],
)
def test_flag_that_a_program_does_not_have_is_left_out(usage: str, given: tuple[str, ...], arguments: object) -> None:
    assert command_of(deployment(manager(*given)), ADDRESSES, printed_flags(usage)).arguments == arguments


def test_manager_without_webhooks_gets_no_flags_for_these() -> None:
    found = command_of(deployment(manager("--webhook-port=9443")), replace(ADDRESSES, certificates=None))
    assert found.arguments == CLUSTER_API[:3]


def test_volumes_are_local_folders_in_arguments_and_environment() -> None:
    mounts = [{"name": name, "mountPath": f"/etc/{name}"} for name in ("cert", "cloud", "settings", "scratch")]
    content = manager(
        "--cloud=/etc/cloud/config",
        "--other=/etc/cloudy",
        volumeMounts=mounts,
        env=[{"name": "A", "value": "/etc/cloud"}],
    )
    found = deployment(content)
    found["spec"]["template"]["spec"]["volumes"] = [
        {"name": "cloud", "secret": {"secretName": "credentials", "optional": True}},
        {"name": "settings", "configMap": {"name": "c", "items": [{"key": "k", "path": "file"}]}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "not-mounted", "secret": {"secretName": "other"}},
    ]
    assert volumes_of(found) == [
        Volume("cloud", "/etc/cloud", SECRET, Key("capi-system", "credentials"), optional=True),
        Volume("settings", "/etc/settings", CONFIG_MAP, Key("capi-system", "c"), items=(("k", "file"),)),
    ]
    command = command_of(found, replace(ADDRESSES, folders={"/etc/cloud": Path("/run/cloud")}))
    assert command.arguments[:2] == ("--cloud=/run/cloud/config", "--other=/etc/cloudy")
    assert command.environment["A"] == "/run/cloud"


@pytest.mark.parametrize(
    ("path", "resource", "expected"),
    [
        ("/tmp/k8s-webhook-server/serving-certs", SECRET, True),
        ("/tmp/k8s-webhook-server/serving-certs", CONFIG_MAP, False),
        ("/home/.aws", SECRET, False),
    ],
)
def test_certificates_of_webhooks_are_found_by_their_path(path: str, resource: Any, expected: bool) -> None:
    assert Volume("v", path, resource, Key("a", "b")).has_certificates is expected


def test_environment_has_the_fields_of_the_pod() -> None:
    def field(path: str) -> Object:
        return {"name": path.replace(".", "_"), "valueFrom": {"fieldRef": {"fieldPath": path}}}

    paths = ("metadata.name", "metadata.namespace", "metadata.uid", "status.podIP", "spec.serviceAccountName")
    env = [*map(field, paths), {"name": "DOCKER_HOST"}, {"name": "A", "value": "$(metadata_name)/b"}]
    found = dict(command_of(deployment(manager(env=env)), ADDRESSES).environment)
    assert len(found.pop("metadata_uid")) == 36
    assert found == {
        "metadata_name": "capi-controller-manager",
        "metadata_namespace": "capi-system",
        "status_podIP": "127.0.0.1",
        "spec_serviceAccountName": "capi-manager",
        "DOCKER_HOST": "",
        "A": "capi-controller-manager/b",
        **KUBECONFIG,
    }


def test_container_is_named_manager_or_the_only_one() -> None:
    proxy, other = {"name": "kube-rbac-proxy"}, {"name": "controller", "args": ["--v=5"]}
    arguments = ("--v=5", *CLUSTER_API)
    named = manager("--v=5", command=["/bin/capi"])
    assert command_of(deployment(proxy, named), ADDRESSES) == Command("/bin/capi", arguments, KUBECONFIG)
    assert command_of(deployment(other), ADDRESSES) == Command("/manager", arguments, KUBECONFIG)


@pytest.mark.parametrize(
    ("containers", "message"),
    [
        ([{"name": "a"}, {"name": "b"}], "has 2 containers, but no container manager"),
        ([manager(envFrom=[{"secretRef": {"name": "x"}}])], "cannot take its environment from envFrom"),
        (
            [manager(env=[{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}])],
            "variable TOKEN has a source that a local process cannot read",
        ),
    ],
)
def test_what_a_process_cannot_have_is_refused(containers: list[Object], message: str) -> None:
    with pytest.raises(ManagerError, match=f"capi-system/capi-controller-manager.*{message}"):
        command_of(deployment(*containers), ADDRESSES)


@pytest.mark.parametrize(("healthy", "ready"), [(True, 1), (False, 0)])
def test_status_of_a_deployment_is_that_of_its_process(healthy: bool, ready: int) -> None:
    status = deployment_status({"metadata": {"generation": 3}}, healthy, datetime(2026, 1, 2, tzinfo=UTC))
    (condition,) = status.pop("conditions")
    assert (condition["type"], condition["status"]) == ("Available", str(healthy))
    assert status == {
        "observedGeneration": 3,
        "replicas": 1,
        "updatedReplicas": 1,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": 1 - ready,
    }


def test_manager_keeps_its_ports_where_they_are_free() -> None:
    first, again, other = free_ports("one"), free_ports("one"), free_ports("another")
    assert [next(first), next(first)] == [next(again), next(again)] != [next(other), next(other)]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_port_that_is_taken_at_any_address_is_not_free(address: str) -> None:
    if not has_address(address):
        pytest.skip(f"this machine has no address {address}")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)
