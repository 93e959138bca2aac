"""The controllers that can run beside an API server: Kubernetes' own, a scheduler, and kwok in place of kubelets.

With them Deployments become Available, Jobs complete, owned objects are collected and namespaces end. No
container runs: a pod is Ready as soon as it has a node.
"""

from pathlib import Path

from infra.local_control_plane.layout import Layout

NAMES = ("kube-controller-manager", "kube-scheduler", "kwok")
USERS = {"kube-controller-manager": "system:kube-controller-manager", "kube-scheduler": "system:kube-scheduler"}
"""Those that are not the admin; Kubernetes has roles for these users."""

READY = "/api/v1/namespaces/default/serviceaccounts/default"
"""What the controllers have made when they work."""

STAGES = Path(__file__).with_name("kwok.yaml")
NODES = ("node-1", "node-2")

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
# One user on one machine: the servers are as patient as it gets.
_COMMON = (
    "--leader-elect=false",
    "--secure-port=0",
    "--profiling=false",
    "--kube-api-qps=500",
    "--kube-api-burst=1000",
)


def command(name: str, binary: Path, layout: Layout) -> list[str]:
    """The command line of the controller `name`; none listens anywhere."""
    kubeconfig = layout.kubeconfig_of(name if name in USERS else "admin")
    start = [str(binary), f"--kubeconfig={kubeconfig}"]
    if name == "kwok":
        return [*start, f"--config={STAGES}", "--manage-all-nodes"]
    if name == "kube-scheduler":
        return [*start, *_COMMON]
    return [
        *start,
        *_COMMON,
        f"--controllers={','.join(f'{loop}-controller' for loop in _LOOPS)}",
        # Every loop has the rights of its own role, no more: as in a cluster.
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.key('service-account')}",
        f"--root-ca-file={layout.certificate('ca')}",
    ]


def nodes() -> list[dict[str, object]]:
    """Nodes for kwok to take care of."""
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**labels, "kubernetes.io/hostname": name}},
        }
        for name in NODES
    ]
