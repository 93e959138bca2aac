"""What a real node needs of a machine, its cgroups and configuration, and the report on rights, without a node."""

from __future__ import annotations

import fcntl
import ipaddress
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from infra.local_control_plane import servers
from infra.local_control_plane.layout import Layout
from infra.local_control_plane.modules import MODULES, module_of
from infra.local_control_plane.processes import Process
from infra.node import addresses, cgroups, daemons, images, keeper, requirements
from tests.support.audit import AuditLog, Right, granted, unused

V1 = """9:name=systemd:/
8:pids:/
4:memory:/jobs/a b:c
2:cpu,cpuacct:/
0::/
"""


def test_cgroups_of_the_node_are_below_those_of_its_keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    for name in ("systemd", "memory", "cpu,cpuacct"):
        (tmp_path / name).mkdir()
    found = {hierarchy.options: hierarchy.cgroup for hierarchy in cgroups.hierarchies(V1)}
    assert found == {
        "name=systemd": tmp_path / "systemd/capi-functions-node",
        "memory": tmp_path / "memory/jobs/a b:c/capi-functions-node",
        "cpu,cpuacct": tmp_path / "cpu,cpuacct/capi-functions-node",
    }


def test_cgroup_v2_alone_has_no_hierarchies() -> None:
    assert cgroups.hierarchies("0::/user.slice\n") == []


def test_other_users_than_root_are_reported_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert requirements.missing() == ["A node needs root, for namespaces, mounts and cgroups."]


def test_missing_programs_are_named_with_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    (problem,) = requirements.missing()
    assert problem.startswith("A node needs ip, unshare, nsenter")
    assert problem.endswith("apt-get install iproute2 util-linux mount.")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
def test_process_without_rights_on_the_network_is_reported() -> None:
    command = ["setpriv", "--bounding-set=-net_admin", sys.executable, "-m", "infra.node", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "This process lacks CAP_NET_ADMIN, as in a container that is not privileged.\n"


@pytest.mark.parametrize("signalled", [True, False])
def test_keeper_that_waits_for_the_node_of_another_run_ends_with_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signalled: bool
) -> None:
    monkeypatch.setattr(keeper, "LOCK", tmp_path / "lock")
    owner = Process.of(os.getpid())
    assert owner is not None
    waiting = keeper.Keeper(tmp_path, owner if signalled else Process(owner.pid, owner.started + 1))
    if signalled:
        waiting.stop()
    with keeper.LOCK.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting.run(["false"])
    failed = (tmp_path / keeper.FAILED).read_text()
    assert failed == ("stopped by a signal: " if signalled else "the owner has ended: ")


def test_addresses_of_nodes_are_for_tests_only() -> None:
    reserved = ipaddress.ip_network("198.18.0.0/15")
    link = ipaddress.ip_network(f"{addresses.MACHINE}/{addresses.PREFIX}", strict=False)
    networks = [link, *map(ipaddress.ip_network, (addresses.PODS, addresses.SERVICES))]
    assert all(network.subnet_of(reserved) for network in networks)
    assert not any(a.overlaps(b) for a in networks for b in networks if a is not b)
    assert ipaddress.ip_address(addresses.DNS) in ipaddress.ip_network(addresses.SERVICES)
    manifests = list(yaml.safe_load_all(Path(images.__file__).with_name("dns.yaml").read_text()))
    assert addresses.DNS in [obj["spec"].get("clusterIP") for obj in manifests if obj["kind"] == "Service"]


def test_kubelet_has_the_version_of_the_api_server() -> None:
    assert module_of("kubelet").version == module_of("kube-apiserver").version
    assert module_of("eventing-controller").version == module_of("ingress").version
    assert module_of("serving-controller").version == module_of("serving-webhook").version
    of_nodes = {"kubelet", "node", "knative-controllers", "knative-serving-controllers"}
    assert {module.directory for module in MODULES if module.on_demand} == {*of_nodes, "envtest", "nats"}


def test_daemons_write_no_setting_of_the_machine() -> None:
    configurations = daemons.configurations()
    kubelet, proxy = (yaml.safe_load(configurations[f"{name}.yaml"]) for name in ("kubelet", "kube-proxy"))
    assert proxy["conntrack"] == {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
    assert kubelet["makeIPTablesUtilChains"] is False
    assert json.loads(configurations["cni/10-node.conflist"])["plugins"][0]["ipam"]["ranges"] == [
        [{"subnet": addresses.PODS}]
    ]


def test_api_server_listens_for_pods_only_where_a_node_runs() -> None:
    layout = Layout(Path("/plane"))
    alone = servers.apiserver(Path("a"), layout, "127.0.0.1", 1)
    assert "--bind-address=127.0.0.1" in alone
    assert "--endpoint-reconciler-type=none" in alone
    of_pods = servers.apiserver(Path("a"), layout, addresses.MACHINE, 1, controllers=True, network=addresses.MANAGEMENT)
    assert {"--bind-address=198.18.0.1", "--authorization-mode=Node,RBAC"} <= {*of_pods}
    assert "--service-cluster-ip-range=198.19.0.0/16" in of_pods
    assert "--endpoint-reconciler-type=none" not in of_pods
    assert addresses.MANAGEMENT.addresses == ("198.18.0.1", "198.19.0.1")


def test_report_on_rights_names_the_denied_and_the_unused(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log", "capi-functions")
    assert any(str(tmp_path / "audit.policy") in flag for flag in log.flags())
    entries = [
        ("sweep", "list", {"apiGroup": "a", "resource": "widgets"}, "allow"),
        ("sweep", "patch", {"apiGroup": "a", "resource": "widgets", "subresource": "status"}, "forbid"),
        ("forwarder", "get", {"resource": "secrets"}, "allow"),
        ("forwarder", "get", {}, "allow"),  # a path without a resource
    ]
    lines = [
        {
            "user": {"username": f"system:serviceaccount:capi-functions:{account}"},
            "verb": verb,
            "objectRef": of,
            "annotations": {"authorization.k8s.io/decision": decision},
        }
        for account, verb, of, decision in entries
    ]
    log.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert log.denied() == {"sweep": {Right("a", "widgets/status", "patch")}}
    assert log.used() == {"sweep": {Right("a", "widgets", "list")}, "forwarder": {Right("", "secrets", "get")}}
    rules = [{"apiGroups": ["a"], "resources": ["*"], "verbs": ["list", "get"]}]
    objects = [
        {"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules},
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"name": "sweep"}],
        },
    ]
    rights = granted(objects)["sweep"]
    assert list(map(str, unused(rights, log.used()["sweep"]))) == ["get *.a"]
