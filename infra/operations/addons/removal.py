"""The command `addons remove`: requests the removal of a Cluster's addons, and reports remaining objects."""

from __future__ import annotations

from shared.addons.status import is_removal_requested
from shared.api.conditions import counted, get_condition
from shared.api.names import REMOVE_ANNOTATION
from shared.api.resources import CLUSTER
from shared.applier import inventory
from shared.kube import Client, Object, dig, key_of

from ..failure import Failure
from ..text import plain


def summarize(addon: Object) -> str:
    """Returns the number of objects of the inventory that will be removed."""
    return counted(len(inventory.load(dig(addon, "status.resources"))), "object")


def request_removal(management: Client, cluster: Object) -> None:
    """Annotates the Cluster, so that `addon_apply` removes its addons."""
    _annotate(management, cluster, "true")


def cancel_removal(management: Client, cluster: Object) -> None:
    """Removes the annotation; raises `Failure` if no removal is requested."""
    if not is_removal_requested(cluster):
        raise Failure(f"no removal of the addons of Cluster {key_of(cluster)} is requested")
    _annotate(management, cluster, None)


def what_stays(addon: Object) -> list[str]:
    """Returns lines about the remaining objects in the condition, and about the record."""
    applied = get_condition(dig(addon, "status.conditions", []), "HelmChartApplied") or {}
    return [
        plain(applied.get("message") or "", most=4000),
        f"in the management cluster stay ClusterAddon {key_of(addon).name} with its history, and the Secrets with its "
        "manifests and generated values",
        "in the workload cluster stay volumes, and what controllers and hooks of the addons have made",
    ]


def _annotate(management: Client, cluster: Object, value: str | None) -> None:
    management.patch(CLUSTER, key_of(cluster), {"metadata": {"annotations": {REMOVE_ANNOTATION: value}}})
