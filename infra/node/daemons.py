"""The daemons of the node: configuration and command lines of containerd, kubelet and kube-proxy. The folder
of the node is its /node.
"""

from __future__ import annotations

import json

import yaml

from infra.node import addresses

NAME = "node-1"
PAUSE = "localhost/pause:1"
"""The image of the container that holds a pod's namespaces."""
SOCKET = "/run/containerd/containerd.sock"
KUBECONFIGS = {"kubelet": (f"system:node:{NAME}", "system:nodes"), "kube-proxy": ("system:kube-proxy", "")}
"""User and group of the daemons that connect to the API server."""

_NETWORK = {
    "cniVersion": "1.0.0",
    "name": "node",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "hairpinMode": True,  # a pod reaches itself through its Service
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": addresses.PODS}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
    ],
}

_CONTAINERD = f"""version = 2
disabled_plugins = [{", ".join(f'"io.containerd.{name}"' for name in (
    "snapshotter.v1.btrfs", "snapshotter.v1.zfs", "snapshotter.v1.devmapper", "snapshotter.v1.aufs",
    "internal.v1.tracing", "tracing.processor.v1.otlp",
))}]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  disable_apparmor = true
  restrict_oom_score_adj = true  # containers of a machine may lack CAP_SYS_RESOURCE
  tolerate_missing_hugetlb_controller = true
  disable_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/node/cni"
"""  # fmt: skip


_KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "failCgroupV1": False,
    "cgroupDriver": "cgroupfs",
    "containerRuntimeEndpoint": f"unix://{SOCKET}",
    "authentication": {
        "anonymous": {"enabled": False},
        "webhook": {"enabled": True},
        "x509": {"clientCAFile": "/node/ca.crt"},
    },
    "authorization": {"mode": "Webhook"},
    "clusterDNS": [addresses.DNS],
    "clusterDomain": "cluster.local",
    "resolvConf": "",  # pods only know the cluster's DNS
    "failSwapOn": False,
    "makeIPTablesUtilChains": False,
    "imageGCHighThresholdPercent": 100,  # no image could be pulled again
    "evictionHard": {"nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
    "maxPods": 110,
    "podCIDR": addresses.PODS,
    "registerNode": True,
    "syncFrequency": "10s",  # changed ConfigMaps arrive after this time
    "shutdownGracePeriod": "0s",
}

_PROXY = {
    "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
    "kind": "KubeProxyConfiguration",
    "mode": "nftables",
    "clientConnection": {"kubeconfig": "/node/kube-proxy.kubeconfig"},
    "clusterCIDR": addresses.PODS,
    "hostnameOverride": NAME,
    # These sysctls belong to the whole machine.
    "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
}


def configurations() -> dict[str, str]:
    """Returns the contents of the configuration files by their paths in the node's folder."""
    return {
        "cni/10-node.conflist": json.dumps(_NETWORK),
        "containerd.toml": _CONTAINERD,
        "kubelet.yaml": yaml.safe_dump(_KUBELET),
        "kube-proxy.yaml": yaml.safe_dump(_PROXY),
    }


COMMANDS = {
    "containerd": ("containerd", "--config=/node/containerd.toml"),
    "kubelet": (
        "kubelet",
        "--config=/node/kubelet.yaml",
        "--kubeconfig=/node/kubelet.kubeconfig",
        f"--hostname-override={NAME}",
        f"--node-ip={addresses.NODE}",
    ),
    "kube-proxy": ("kube-proxy", "--config=/node/kube-proxy.yaml"),
}
