"""The addresses of the node and of its pods, from the range for tests of network devices (RFC 2544).

The machine and the node are the two ends of one link. The machine has a route to pods and Services over it, so that
API servers on this machine reach webhooks and kubelets as in any cluster. There is no route beyond the machine.
"""

from infra.local_control_plane.network import Network

LINK = "capi-node"
"""The name of the machine's end of the link. There is one node at a time on a machine."""
MACHINE = "198.18.0.1"
NODE = "198.18.0.2"
PREFIX = 30
PODS = "198.18.1.0/24"
SERVICES = "198.19.0.0/16"
DNS = "198.19.0.10"

MANAGEMENT = Network(MACHINE, SERVICES, has_node=True)
"""The network of the control plane that the node belongs to."""
WORKLOAD = Network(MACHINE, "127.96.0.0/16")
"""The network of other control planes that pods reach."""
