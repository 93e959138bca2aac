"""Runs the managers of Cluster API providers as processes beside a local control plane, which runs no pods.

The Deployment of a manager becomes a process with its arguments and environment (`command`). The API server calls the
manager's webhooks at a port of this machine (`shared.components.webhooks`). `process` keeps one manager running;
`managers` installs providers and runs the managers of all of them.
"""

from .command import ManagerError
from .managers import LocalProvider, Managers

__all__ = ["LocalProvider", "ManagerError", "Managers"]
