"""The network of pods that an API server belongs to, unless it only listens on a loopback address."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """A network with pods.

    Attributes:
        address: The address of this machine in it, which the API server listens on.
        services: The range of the cluster IPs (CIDR).
        has_node: Whether the pods belong to this control plane, on a node. Then Services and service accounts work as
            in any cluster. Otherwise they belong to another control plane, and only reach the API server.
    """

    address: str
    services: str
    has_node: bool = False

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses that pods reach the API server at: its own, and the cluster IP of the Service `kubernetes`."""
        return self.address, str(ipaddress.ip_network(self.services)[1])
