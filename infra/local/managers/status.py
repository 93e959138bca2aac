"""The status of a Deployment whose only pod is a local process."""

from __future__ import annotations

from datetime import datetime

from shared.kube import Object, dig


def deployment_status(live: Object, healthy: bool, now: datetime) -> Object:
    """Returns the status, as the controllers of a cluster would write it."""
    ready = int(healthy)
    time = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    condition = {
        "type": "Available",
        "status": str(healthy),
        "reason": "MinimumReplicasAvailable" if healthy else "MinimumReplicasUnavailable",
        "message": f"the manager runs as a local process and is {'healthy' if healthy else 'not healthy'}",
        "lastUpdateTime": time,
        "lastTransitionTime": time,
    }
    return {
        "observedGeneration": dig(live, "metadata.generation"),
        "replicas": 1,
        "updatedReplicas": 1,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": 1 - ready,
        "conditions": [condition],
    }
