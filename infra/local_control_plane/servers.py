"""The command lines of etcd and the API server: fast, small, loopback only, and the same on every start."""

from pathlib import Path

from infra.local_control_plane.layout import Layout

# Sockets in a private directory need neither ports nor TLS. Relative to Layout.run, as the path of a unix
# socket may have 107 bytes only. etcd wants a port in a peer URL, though it is but a part of a file name.
ETCD_SOCKET = "client:0"
_ETCD_URL = f"unix://{ETCD_SOCKET}"
_PEER_URL = "unix://peer:0"

# Loopback: no proxy leads from a Service to pods here, and what the server asks of webhooks must not leave the machine.
SERVICE_RANGE = "127.96.0.0/16"
SERVICE_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
SERVICE_ADDRESSES = ("127.0.0.1", "::1", "127.96.0.1")
# Not the URL of the server, so that tokens survive a change of port.
_ISSUER = "https://kubernetes.default.svc.cluster.local"


def etcd(binary: Path, layout: Layout) -> list[str]:
    """A single member, on a unix socket only. A crash of the machine may lose data, one of etcd does not."""
    return [
        str(binary),
        f"--data-dir={layout.data}",
        f"--listen-client-urls={_ETCD_URL}",
        f"--advertise-client-urls={_ETCD_URL}",
        f"--listen-peer-urls={_PEER_URL}",
        f"--initial-advertise-peer-urls={_PEER_URL}",
        f"--initial-cluster=default={_PEER_URL}",
        "--unsafe-no-fsync=true",
        # The only member need not wait a second for the votes of others: this is 0.5 s of every start.
        "--heartbeat-interval=50",
        "--election-timeout=250",
        "--log-level=warn",
    ]


def apiserver(binary: Path, layout: Layout, port: int, *, controllers: bool = False) -> list[str]:
    """An API server on 127.0.0.1:`port` that shares the port with the socket that holds it (see ports.py).

    With `controllers`, admission counts on the controllers that controllers.py has.
    """
    # Nobody else would create the default service accounts that the one asks for, or take away the taint of the other.
    unwanted = "TaintNodesByCondition" if controllers else "ServiceAccount"
    return [
        str(binary),
        f"--etcd-servers={_ETCD_URL}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--permit-port-sharing=true",
        # Without it the start fails on a machine that has no default route.
        "--advertise-address=127.0.0.1",
        # Endpoints of a loopback address are invalid, the API server would try for ever to write them.
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={layout.certificate('apiserver')}",
        f"--tls-private-key-file={layout.key('apiserver')}",
        f"--client-ca-file={layout.certificate('ca')}",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={layout.certificate('service-account')}",
        f"--service-account-signing-key-file={layout.key('service-account')}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=RBAC",
        f"--disable-admission-plugins={unwanted}",
        "--allow-privileged=true",
        # One user on one machine: nobody to be fair to, and no limit worth having.
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=0",
        "--max-mutating-requests-inflight=0",
        "--profiling=false",
        # Ends the watches when it is told to stop; without it, it waits a minute for the clients to do so.
        "--shutdown-watch-termination-grace-period=1s",
    ]
