"""Controllers that can run beside an API server: kube-controller-manager, kube-scheduler, and kwok instead of kubelets.

With them Deployments become Available, Jobs complete, and garbage collection and namespace deletion work. No container
runs: kwok reports a pod as Ready as soon as the pod has a node.
"""

from pathlib import Path

from infra.local_control_plane.layout import ADMIN, Layout
from infra.local_control_plane.network import Network

NAMES = ("kube-controller-manager", "kube-scheduler", "kwok")
USERS = {"kube-controller-manager": "system:kube-controller-manager", "kube-scheduler": "system:kube-scheduler"}
"""User names of the controllers that do not run as admin; Kubernetes has built-in roles for these users."""

READY = "/api/v1/namespaces/default/serviceaccounts/default"
"""The object that exists once the controllers work."""

STAGES = Path(__file__).with_name("kwok.yaml")
NODES = 2
"""The default number of nodes."""

_LOOPS = (
    "daemonset",
    "deployment",
    "endpointslice",
    "garbage-collector",
    "job",
    "namespace",
    "replicaset",
    "serviceaccount",
    "statefulset",
)
# One user on one machine needs no rate limits.
_COMMON = (
    "--leader-elect=false",
    "--secure-port=0",
    "--profiling=false",
    "--kube-api-qps=500",
    "--kube-api-burst=1000",
)


def chosen(network: Network | None) -> tuple[str, ...]:
    """Returns the names of the controllers that run in this network: beside a node there is no kwok."""
    return tuple(name for name in NAMES if not (name == "kwok" and network and network.has_node))


def command(name: str, binary: Path, layout: Layout, network: Network | None = None) -> list[str]:
    """Returns the command line of the controller `name`. No controller listens on a port."""
    kubeconfig = layout.kubeconfig_of(name if name in USERS else ADMIN)
    start = [str(binary), f"--kubeconfig={kubeconfig}"]
    if name == "kwok":
        return [*start, f"--config={STAGES}", "--manage-all-nodes"]
    if name == "kube-scheduler":
        return [*start, *_COMMON]
    return [
        *start,
        *_COMMON,
        f"--controllers={_loops(network)}",
        # Each loop has only the rights of its own role, as in a real cluster.
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.key('service-account')}",
        f"--root-ca-file={layout.certificate('ca')}",
    ]


def _loops(network: Network | None) -> str:
    if network and network.has_node:
        return "*"  # pods need many more: tokens, the CA in each namespace, endpoints, aggregated roles
    return ",".join(f"{loop}-controller" for loop in _LOOPS)


def nodes(count: int) -> list[dict[str, object]]:
    """Returns the Node objects that kwok manages."""
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**labels, "kubernetes.io/hostname": name}},
        }
        for name in (f"node-{number}" for number in range(1, count + 1))
    ]
