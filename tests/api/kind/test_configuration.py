"""Configurations that the real kind program rejects, and how its errors are classified. No node image is needed.

The cases are those of kind's own tests (pkg/internal/apis/config, encoding), but those of empty fields: the program
fills these in before it looks. It looks once it has asked a container engine for clusters of the name.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from infra.local.kind.config import kind_config
from infra.local.kind.errors import classify
from infra.local_control_plane.binaries import locate
from tests.support import kind_engine

pytestmark = pytest.mark.timeout(1800)  # another test run may use podman

Create = Callable[..., str]
"""Runs `kind create cluster` with a configuration, which must fail, and returns its output from the error on."""

ERROR = "ERROR: failed to create cluster: "
V4, V6 = "192.168.0.2/24", "fd00:1::/25"
BOTH = f"{V4},{V6}"
PAIRS = "expected one (IPv4 or IPv6) CIDR or two CIDRs from each family for dual-stack networking"
TAKEN = "port mapping with same listen address, port and protocol already configured: "
WRONG = {"role": "worker", "extraPortMappings": [{"containerPort": 65536}]}


@pytest.fixture(scope="module")
def create() -> Iterator[Create]:
    with kind_engine.podman(image=False) as folder:
        program = locate(["kind"], progress=print)["kind"]

        def create(config: str, file: str = "-", name: str = "ab1") -> str:
            options = [f"--name={name}", f"--config={file}", f"--kubeconfig={folder / 'kubeconfig'}"]
            command = [program, "create", "cluster", *options]
            done = subprocess.run(command, input=config, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr.count(ERROR)) == (1, 1), done.stderr
            return done.stderr[done.stderr.index(ERROR) :]

        yield create


def of(**fields: Any) -> str:
    """Returns the configuration for a KINDCluster with these fields."""
    return json.dumps(kind_config({"image": "localhost/absent", **fields}, "uid", "/owner"))


def networking(**fields: Any) -> dict[str, Any]:
    return {"networking": fields}


def mappings(*ports: tuple[str, int] | tuple[str, int, str]) -> dict[str, Any]:
    """Returns the fields of a cluster whose node publishes ports: listen address, port, and protocol if not TCP.

    kind has no default for the protocol: without one, a port does not clash with the same of TCP.
    """
    names = ("listenAddress", "hostPort", "protocol")
    published = [{"containerPort": 80, "protocol": "TCP", **dict(zip(names, port, strict=False))} for port in ports]
    return {"nodes": [{"role": "control-plane", "extraPortMappings": published}]}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"nodes": [{"role": "control-plane"}, {"role": "worker"}, {"role": "worker"}]},
        networking(ipFamily="ipv6"),
        networking(ipFamily="dual", podSubnet=BOTH, serviceSubnet=BOTH),
        networking(ipFamily="dual", podSubnet=BOTH, serviceSubnet=V4),
        networking(ipFamily="dual", podSubnet=V4, serviceSubnet=BOTH),
        networking(apiServerPort=-1),
        networking(apiServerPort=10),
        mappings(("", 0), ("", 0)),
        mappings(("", -1), ("", -1)),
        mappings(("", 80)),
        mappings(("127.0.0.1", 80), ("127.0.0.1", 80, "UDP"), ("192.0.2.1", 80), ("::1", 80)),
    ],
)
def test_valid_configuration_has_no_error_but_that_of_a_wrong_node(create: Create, fields: dict[str, Any]) -> None:
    """kind reports all errors together."""
    nodes = [*fields.get("nodes", [{"role": "control-plane"}]), WRONG]
    wrong = f"invalid configuration for node {len(nodes) - 1}: invalid containerPort: invalid port number: 65536"
    assert create(of(**{**fields, "nodes": nodes})).splitlines() == [ERROR + wrong]


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        (
            networking(podSubnet="aa"),
            ['invalid pod subnet failed to parse cidr value:"aa" with error: invalid CIDR address: aa'],
        ),
        (
            networking(serviceSubnet="aa"),
            ['invalid service subnet failed to parse cidr value:"aa" with error: invalid CIDR address: aa'],
        ),
        (networking(apiServerPort=9999999), ["invalid apiServerPort: invalid port number: 9999999"]),
        (networking(apiServerPort=-2), ["invalid apiServerPort: invalid port number: -2"]),
        (networking(apiServerPort=65536), ["invalid apiServerPort: invalid port number: 65536"]),
        (networking(kubeProxyMode="notiptables"), ["invalid kubeProxyMode: notiptables"]),
        (networking(ipFamily="ds"), ["invalid ipFamily: ds"]),
        (
            networking(podSubnet=f"{V4},2.2.2.0/24"),
            ["invalid pod subnet only one CIDR allowed for single-stack networking"],
        ),
        (
            networking(ipFamily="dual", podSubnet=BOTH, serviceSubnet=f"{BOTH},10.0.0.0/16"),
            [f"invalid service subnet {PAIRS}"],
        ),
        (
            networking(ipFamily="dual", podSubnet=f"{V4},2.2.2.0/25", serviceSubnet=f"{V4},2.2.2.0/25"),
            [f"invalid pod subnet {PAIRS}", f"invalid service subnet {PAIRS}"],
        ),
        (
            networking(ipFamily="ipv6", podSubnet=V4, serviceSubnet=V4),
            [f"invalid {each} subnet expected IPv6 CIDR for IPv6 family" for each in ("pod", "service")],
        ),
        (
            networking(ipFamily="ipv4", podSubnet=V6, serviceSubnet=V6),
            [f"invalid {each} subnet expected IPv4 CIDR for IPv4 family" for each in ("pod", "service")],
        ),
        ({"nodes": [{"role": "worker"}]}, ["must have at least one control-plane node"]),
        (
            {"nodes": [{"role": "bogus"}, {"role": "control-plane"}]},
            ['invalid configuration for node 0: "bogus" is not a valid node role'],
        ),
    ],
)
def test_errors_of_an_invalid_configuration(create: Create, fields: dict[str, Any], errors: list[str]) -> None:
    output = create(of(**fields))
    assert output.splitlines() == [ERROR + (errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")]
    found = classify(output)
    assert found.reason == "InvalidConfiguration"
    assert errors[0] in found.message


@pytest.mark.parametrize(
    ("ports", "error"),
    [
        ([("", 999999999)], "invalid hostPort: invalid port number: 999999999"),
        ([("127.0.0.1", 80), ("127.0.0.1", 80, "UDP"), ("127.0.0.1", 80)], f"{TAKEN}127.0.0.1:80/TCP"),
        ([("::1", 80), ("::1", 80, "UDP"), ("::1", 80)], f"{TAKEN}::1:80/TCP"),
        ([("127.0.0.1", 80), ("0.0.0.0", 80, "UDP"), ("::1", 80), ("::", 80, "UDP")], f"{TAKEN}:::80/UDP"),
        ([("127.0.0.1", 80), ("0.0.0.0", 80)], f"{TAKEN}0.0.0.0:80/TCP"),
        ([("0.0.0.0", 80), ("127.0.0.1", 80)], f"{TAKEN}127.0.0.1:80/TCP"),
        ([("::1", 80), ("::", 80)], f"{TAKEN}:::80/TCP"),
        ([("::", 80, "SCTP"), ("::1", 80, "SCTP")], f"{TAKEN}::1:80/SCTP"),
        ([("", 80), ("127.0.0.1", 80)], f"{TAKEN}127.0.0.1:80/TCP"),
        ([("not-an-ip", 80)], "invalid listen address: not-an-ip"),
    ],
)
def test_errors_of_port_mappings(create: Create, ports: list[tuple[str, int]], error: str) -> None:
    output = create(of(**mappings(*ports)))
    kind = "" if error.startswith("invalid hostPort") else "invalid portMapping: "
    assert output.splitlines() == [f"{ERROR}invalid configuration for node 0: {kind}{error}"]
    assert classify(output).reason == "InvalidConfiguration"


HEAD = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n"


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        (
            f"{HEAD}nodes:\n- role: worker\n  nOtAReaLFielD: bar\n",
            {},
            "unable to decode config: yaml: unmarshal errors",
        ),
        (
            f"{HEAD}nodes:\n- role: worker\n  - role: worker\n",
            {},
            "could not determine kind / apiVersion for config: yaml: line 3",
        ),
        ('":', {}, "could not determine kind / apiVersion for config: yaml"),
        ("kind: Cluster\napiVersion: not-valid\n", {}, "unknown apiVersion: not-valid"),
        ("kind: not-valid\napiVersion: kind.x-k8s.io/v1alpha4\n", {}, "unknown kind not-valid"),
        ("", {"file": "/nowhere"}, "error reading file: open /nowhere: no such file or directory"),
        (HEAD, {"name": "Not_valid"}, "'Not_valid' is not a valid cluster name"),
    ],
)
def test_configuration_that_cannot_be_read(create: Create, text: str, options: dict[str, str], error: str) -> None:
    output = create(text, **options)
    assert error in output
    assert classify(output).reason == "InvalidConfiguration"
