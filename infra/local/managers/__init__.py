"""Runs the managers of Cluster API providers as processes beside a local control plane, which runs no pods.

`managers` looks for the Deployments of providers, as a kubelet looks for pods. A Deployment becomes a command line and
an environment (`command`), and a supervised process (`process`), whose health the Deployment's status reports. The
program is pinned, or given by the user (`programs`). The API server calls the manager's webhooks at a port of this
machine, by the URL in a provider's annotation `capi-functions.dev/webhooks` (`shared.components.webhooks`).
"""

from .command import ManagerError
from .managers import Managers, webhook_host
from .ports import free_ports
from .programs import SUFFIX, GivenManager, place
from .programs import parse as parse_manager

__all__ = [
    "SUFFIX",
    "GivenManager",
    "ManagerError",
    "Managers",
    "free_ports",
    "parse_manager",
    "place",
    "webhook_host",
]
