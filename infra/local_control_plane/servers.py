"""The command lines of etcd and kube-apiserver: fast to start, small, on loopback unless pods must reach them."""

from collections.abc import Iterable
from pathlib import Path

from infra.local_control_plane.layout import Layout
from infra.local_control_plane.network import Network

# Unix sockets in a private directory need neither ports nor TLS. Their paths are relative to Layout.run, because a path
# may have 107 bytes only. etcd requires a port in a peer URL; here it is a part of the file name.
ETCD_SOCKET = "client:0"
_ETCD_URL = f"unix://{ETCD_SOCKET}"
_PEER_URL = "unix://peer:0"

# A loopback range, because there is no kube-proxy, and the API server's requests to webhooks must not leave the
# machine.
SERVICE_RANGE = "127.96.0.0/16"
# IPv6 has no such range. Routers discard packets to this range (RFC 6666).
SERVICE_RANGE_IPV6 = "100::/112"
SERVICE_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
SERVICE_ADDRESSES = ("127.0.0.1", "::1", "127.96.0.1", "100::1")
HOSTS = {"ipv4": "127.0.0.1", "ipv6": "::1"}
"""The address of the API server by IP family."""
# The issuer is not the URL of the server, so that tokens stay valid when the port changes.
_ISSUER = "https://kubernetes.default.svc.cluster.local"

KUBELET_CLIENT = "kubelet-client"
"""The name of the certificate that the API server shows to kubelets."""

_WITHOUT_NODE = (
    "--authorization-mode=RBAC",
    # Endpoints with a loopback address are invalid, because the API server would retry forever to write them.
    "--endpoint-reconciler-type=none",
)


def with_flags(command: list[str], flags: Iterable[str]) -> list[str]:
    """Returns a command line with more flags, each in the place of all flags of the same name in it.

    Args:
        command: The executable and its flags, each an argument of its own.
        flags: The flags, such as "v=2" or "--v=2".
    """
    given = [f"--{flag.lstrip('-')}" for flag in flags]
    names = {flag.partition("=")[0] for flag in given}
    return [*(argument for argument in command if argument.partition("=")[0] not in names), *given]


def etcd(binary: Path, layout: Layout) -> list[str]:
    """Returns the command line of a single-member etcd on a unix socket.

    A crash of the machine can lose data, a crash of etcd cannot.
    """
    return [
        str(binary),
        f"--data-dir={layout.data}",
        f"--listen-client-urls={_ETCD_URL}",
        f"--advertise-client-urls={_ETCD_URL}",
        f"--listen-peer-urls={_PEER_URL}",
        f"--initial-advertise-peer-urls={_PEER_URL}",
        f"--initial-cluster=default={_PEER_URL}",
        "--unsafe-no-fsync=true",
        # A single member need not wait for votes, which saves 0.5 s at each start.
        "--heartbeat-interval=50",
        "--election-timeout=250",
        "--log-level=warn",
    ]


def apiserver(
    binary: Path, layout: Layout, host: str, port: int, *, controllers: bool = False, network: Network | None = None
) -> list[str]:
    """Returns the command line of an API server on a port of `host`, which the socket of ports.py reserves.

    Args:
        binary: The executable.
        layout: The paths of the instance.
        host: The address to listen on.
        port: The port to listen on.
        controllers: Whether controllers run beside it, see controllers.py.
        network: The network of pods that `host` is in, if there is one.
    """
    # Without controllers there are no default service accounts, which the plugin ServiceAccount requires. With
    # controllers and kwok, nothing removes the taint that TaintNodesByCondition sets.
    unwanted = "TaintNodesByCondition" if controllers else "ServiceAccount"
    return [
        str(binary),
        f"--etcd-servers={_ETCD_URL}",
        f"--bind-address={host}",
        f"--secure-port={port}",
        "--permit-port-sharing=true",
        # Without this flag the start fails on a machine without a default route.
        f"--advertise-address={host}",
        *(_of_node(layout) if network and network.has_node else _WITHOUT_NODE),
        f"--tls-cert-file={layout.certificate('apiserver')}",
        f"--tls-private-key-file={layout.key('apiserver')}",
        f"--client-ca-file={layout.certificate('ca')}",
        f"--token-auth-file={layout.tokens}",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={layout.certificate('service-account')}",
        f"--service-account-signing-key-file={layout.key('service-account')}",
        f"--service-cluster-ip-range={_services(host, network)}",
        f"--disable-admission-plugins={unwanted}",
        "--allow-privileged=true",
        # One user on one machine needs neither fairness nor limits.
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=0",
        "--max-mutating-requests-inflight=0",
        "--profiling=false",
        # Ends the watches at SIGTERM; without this flag, the server waits a minute for its clients to end them.
        "--shutdown-watch-termination-grace-period=1s",
    ]


def _services(host: str, network: Network | None) -> str:
    if network:
        return network.services
    return SERVICE_RANGE_IPV6 if ":" in host else SERVICE_RANGE


def _of_node(layout: Layout) -> tuple[str, ...]:
    return (
        "--authorization-mode=Node,RBAC",
        f"--kubelet-client-certificate={layout.certificate(KUBELET_CLIENT)}",
        f"--kubelet-client-key={layout.key(KUBELET_CLIENT)}",
        "--kubelet-preferred-address-types=InternalIP",
    )
