"""The owner of the addons of a cluster stack.

This package is only for the addons of cluster stacks; other charts have another owner.
"""

from __future__ import annotations

from typing import Final

from shared.api.names import OWNED, OWNED_LABEL
from shared.api.resources import CLUSTER
from shared.applier.owner import Owner

OWNER: Final = Owner(CLUSTER.kind, {OWNED_LABEL: OWNED})
"""A Cluster. Its addons have the common label only, because they have the workload cluster to themselves."""
