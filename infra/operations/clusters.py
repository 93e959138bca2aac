"""One Cluster of a management cluster in detail."""

from __future__ import annotations

from datetime import datetime

from shared.api.resources import CLUSTER
from shared.kube import Client, Key, Object

from .describe.cluster_objects import gather
from .describe.document import document
from .failure import Failure


def get_cluster(management: Client, key: Key) -> Object:
    """Returns a Cluster. Raises `Failure` if it does not exist."""
    found = management.find(CLUSTER, key)
    if found is None:
        raise Failure(f"Cluster {key} does not exist")
    return found


def describe(management: Client, cluster: Object, now: datetime) -> Object:
    """Returns the document about a Cluster, its addons with their history, and its events; see `document`."""
    return document(gather(management, cluster), now)
