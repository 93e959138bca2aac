"""Builds the document about one Cluster, for JSON output and for the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from functions import catalog
from shared.addons.owner import OWNER
from shared.addons.status import REMOVED, ROLLED_BACK
from shared.api import cluster as cluster_api
from shared.api.conditions import READY, get_condition
from shared.api.names import ROLLBACK_ANNOTATION, addon_of
from shared.applier import inventory
from shared.applier.inventory import SYNCED, InventoryEntry
from shared.applier.policy import PREFIX, Policy, PolicyError
from shared.applier.prune import KEPT
from shared.kube import Key, Object, deleting, dig, key_of
from shared.references import LookupResult

from ..finalizers import finalizers
from ..text import age
from .cluster_objects import ClusterObjects, release_of, time_of

NO_RELEASE = "NoClusterStack"
"""The condition reason of a ClusterAddon whose Cluster has a class of no cluster stack."""


def document(objects: ClusterObjects, now: datetime) -> Object:
    """Returns the document as JSON, without empty values; `for` fields say how long a state has lasted.

    Args:
        objects: The objects around the Cluster.
        now: The present time.
    """
    cluster, addon = objects.cluster, objects.addon.object or {}
    found: Object = _filled(
        {
            "cluster": {
                **describe_object(cluster, now),
                "phase": dig(cluster, "status.phase"),
                "paused": cluster_api.is_paused(cluster),
                "class": cluster_api.class_name(cluster),
            },
            "infrastructure": _looked_up(
                objects.infrastructure, _referred(cluster, cluster_api.infrastructure_ref), now
            ),
            "controlPlane": _looked_up(objects.control_plane, _referred(cluster, cluster_api.control_plane_ref), now),
            "versions": {
                "wanted": cluster_api.class_name(cluster),
                "applied": dig(addon, "spec.clusterStack"),
                "addons": dig(addon, "spec.version"),
                "kubernetes": dig(cluster, "spec.topology.version"),
                "kubernetesToldToCharts": dig(addon, "status.kubernetesVersion"),
            },
            "addon": {**_looked_up(objects.addon, addon_of(cluster), now), **_addon(addon, now)},
            "policy": _policy(cluster, addon),
            "release": {
                **_looked_up(objects.release, release_of(cluster), now),
                "kubernetesVersion": dig(objects.release.object, "status.kubernetesVersion"),
            },
            "events": [_event(event, now) for event in objects.events],
        }
    )
    return found


def _filled(value: Any) -> Any:
    """Returns the value without null and empty items."""
    if isinstance(value, Mapping):
        filled = {name: _filled(item) for name, item in value.items()}
        return {name: item for name, item in filled.items() if item is not None and item not in ("", [], {})}
    return [_filled(item) for item in value] if isinstance(value, list) else value


def mappings(obj: Mapping[str, Any], path: str) -> list[Mapping[str, Any]]:
    """Returns the mappings in a list field; an empty list if another program wrote the field in another form."""
    value = dig(obj, path)
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def _referred(cluster: Object, reference: Callable[[Object], Object | None]) -> Key | None:
    found = reference(cluster)
    return Key(key_of(cluster).namespace, found["name"]) if found else None


def _looked_up(found: LookupResult, key: Key | None, now: datetime) -> Object:
    """Describes a looked-up object; `key` is its name if it does not exist."""
    if found.object is not None:
        return describe_object(found.object, now)
    if found.state == "unreferenced":
        return {}
    where = {"namespace": key.namespace, "name": key.name} if key else {}
    return {"kind": found.kind, **where, "state": found.state, "error": found.error}


def describe_object(obj: Object, now: datetime) -> Object:
    """Returns kind, name, deletion and conditions of an object."""
    return {
        "kind": obj["kind"],
        "namespace": key_of(obj).namespace,
        "name": key_of(obj).name,
        "deleting": deleting(obj),
        "deletingFor": age(dig(obj, "metadata.deletionTimestamp"), now),
        "finalizers": finalizers(obj, catalog.triggers().values()),
        "conditions": [_condition(one, now) for one in mappings(obj, "status.conditions")],
    }


def _condition(condition: Mapping[str, Any], now: datetime) -> Object:
    if "type" not in condition:  # a history of messages, not Kubernetes conditions
        return {"message": condition.get("message"), "for": age(condition.get("timestamp"), now)}
    fields = {name: condition.get(name) for name in ("type", "status", "severity", "reason", "message")}
    since = condition.get("lastTransitionTime")
    return {**fields, "since": since, "for": age(since, now)}


def _addon(addon: Object, now: datetime) -> Object:
    entries = inventory.load(dig(addon, "status.resources"))
    return {
        "ready": dig(addon, "status.ready"),
        "hook": dig(addon, "spec.hook"),
        "rollbackFrom": dig(addon, ("metadata", "annotations", ROLLBACK_ANNOTATION)),
        "waitingFor": _waiting(addon, now),
        "stages": [
            {
                **{name: stage.get(name) for name in ("name", "action", "phase", "since")},
                "for": age(stage.get("since"), now),
            }
            for stage in mappings(addon, "status.stages")
        ],
        "inventory": _inventory(entries),
        "drift": dig(addon, "status.drift"),
        "history": [
            {
                **{name: entry.get(name) for name in ("clusterStack", "version", "at")},
                "for": age(entry.get("at"), now),
            }
            for entry in mappings(addon, "status.history")
        ],
    }


def _waiting(addon: Object, now: datetime) -> Object | None:
    """Returns the condition that Ready summarises, if Ready is not true and the state can still change."""
    conditions = mappings(addon, "status.conditions")
    ready = get_condition(conditions, READY) or {}
    if ready.get("status") in (None, "True"):
        return None
    same = [one for one in conditions if one.get("type") != READY and one.get("message") == ready.get("message")]
    cause = same[0] if same else ready
    return None if cause.get("reason") in (NO_RELEASE, REMOVED, ROLLED_BACK) else _condition(cause, now)


def _inventory(entries: Sequence[InventoryEntry]) -> Object:
    def listed(chosen: Iterable[InventoryEntry], field: str) -> list[Object]:
        return [{"object": str(entry), "stage": entry.stage, "why": getattr(entry, field)} for entry in chosen]

    kept = [entry for entry in entries if entry.status == KEPT]
    failing = [entry for entry in entries if entry.error and entry.status != KEPT]
    waiting = [entry for entry in entries if entry.waiting and not entry.error]
    pending = [
        entry for entry in entries if entry.status not in (SYNCED, KEPT) and not entry.error and not entry.waiting
    ]
    synced = [entry for entry in entries if entry.status == SYNCED and not entry.error and not entry.waiting]
    parts = {"synced": synced, "pending": pending, "failing": failing, "waiting": waiting, "kept": kept}
    return {
        "total": len(entries),
        "counts": {name: len(part) for name, part in parts.items()},
        "failing": listed(failing, "error"),
        "waiting": listed(waiting, "waiting"),
        "kept": listed(kept, "error"),
    }


def _policy(cluster: Object, addon: Object) -> Object:
    """Describes the policy annotations; the addon's take precedence over the Cluster's."""
    found: Object = {}
    for obj in (cluster, addon):
        annotations = dig(obj, "metadata.annotations", {})
        found |= {
            name.removeprefix(PREFIX): {"value": str(value), "from": obj["kind"]}
            for name, value in annotations.items()
            if name.startswith(PREFIX) and name != ROLLBACK_ANNOTATION
        }
    try:
        Policy.of(OWNER, cluster, addon)
    except PolicyError as error:
        return {"annotations": found, "problem": str(error)}
    return {"annotations": found}


def _event(event: Object, now: datetime) -> Object:
    about = event.get("involvedObject") or {}
    return {
        "at": time_of(event),
        "for": age(time_of(event), now),
        "object": f"{about.get('kind')} {about.get('name')}",
        **{name: event.get(name) for name in ("type", "reason", "message", "count")},
    }
