"""Decides from the Cluster and the object in an event alone whether `cluster` has nothing to do.

There is no second list of conditions for this: `decide` is asked, about the referenced objects as the event shows them
or as the Cluster's status records them.
"""

from __future__ import annotations

from datetime import UTC, datetime

from shared.api import cluster as cluster_api
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.conditions import get_condition
from shared.api.core import core_state
from shared.api.resources import KIND_CLUSTER
from shared.clients import LookupResult
from shared.event import Event
from shared.kube import Object, dig, key_of, owner_reference

from .decide import decide
from .observe import Observed
from .references import CONTROL_PLANE, INFRASTRUCTURE, Role

_NOT_READ = "not read"
_UNKNOWN = LookupResult("failed", error=_NOT_READ)
"""What has to be read. A decision that depends on it asks for a repetition."""


def is_reconciled(cluster: Object, event: Event) -> bool:
    """Returns whether the event needs no reconciliation, as far as that shows without further reads."""
    if event.object is None or event.change == "delete":
        return False
    now = datetime.now(UTC)
    observed = Observed(
        cluster,
        _shown(cluster, event) or _recorded(cluster, INFRASTRUCTURE, cluster_api.infrastructure_ref(cluster)),
        _recorded(cluster, CONTROL_PLANE, cluster_api.control_plane_ref(cluster)),
        failure=_NOT_READ,
        core=core_state(cluster, now),
    )
    return decide(observed, now).asks_for_nothing(cluster)


def _shown(cluster: Object, event: Event) -> LookupResult | None:
    """Returns the Cluster's infrastructure object if it is the one in the event."""
    reference = cluster_api.infrastructure_ref(cluster) or {}
    if event.kind != KIND_CLUSTER.kind or (reference.get("kind"), reference.get("name")) != (event.kind, event.name):
        return None
    return LookupResult("present", event.kind, event.object, KIND_CLUSTER)


def _recorded(cluster: Object, role: Role, reference: Object | None) -> LookupResult:
    """Returns the referenced object as the Cluster's status records it, once it is ready and has nothing more to give.

    Until then it is unknown: most kinds of such objects are not watched, so each event is a reason to read them.
    """
    if reference is None:
        return LookupResult("unreferenced")
    mirrored = get_condition(dig(cluster, "status.conditions"), role.condition) or {}
    if mirrored.get("status") != "True" or dig(cluster, "status.phase") != "Provisioned":
        return _UNKNOWN
    is_topology = dig(cluster, "spec.topology") is not None
    obj: Object = {
        "apiVersion": reference.get("apiVersion") or f"{reference.get('apiGroup')}/v1",
        "kind": reference["kind"],
        "metadata": {
            "name": reference["name"],
            "labels": {CLUSTER_NAME_LABEL: key_of(cluster).name},
            "ownerReferences": [owner_reference(cluster, controller=is_topology)],
        },
        "status": {
            "initialization": {"provisioned": True, "controlPlaneInitialized": True},
            "failureDomains": dig(cluster, "status.failureDomains"),
            "conditions": [{**mirrored, "type": role.mirrored}],
        },
    }
    return LookupResult("present", reference["kind"], obj)
