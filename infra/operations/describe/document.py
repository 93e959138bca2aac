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
from shared.api.resources import HELM_RELEASE_PROXY
from shared.applier import inventory
from shared.applier.inventory import SYNCED, InventoryEntry
from shared.applier.policy import PREFIX, Policy, PolicyError
from shared.applier.prune import KEPT
from shared.kube import Key, Object, deleting, dig, key_of
from shared.references import LookupResult

from ..finalizers import finalizers
from ..text import age
from .cluster_objects import ClusterObjects, release_of, time_of
from .conditions import NO_RELEASE, describe_condition, describe_conditions, filled, remedy
from .machines import control_plane_machines, replicas, workers


def document(objects: ClusterObjects, now: datetime) -> Object:
    """Returns the document as JSON, without empty values; `for` fields say how long a state has lasted.

    Args:
        objects: The objects around the Cluster.
        now: The present time.
    """
    cluster, addon, parts = objects.cluster, objects.addon.object or {}, objects.parts
    found: Object = filled(
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
            "controlPlane": {
                **_looked_up(objects.control_plane, _referred(cluster, cluster_api.control_plane_ref), now),
                "replicas": replicas(objects.control_plane.object),
                "machines": control_plane_machines(parts.objects, now),
            },
            "workers": workers(parts.objects, now),
            "versions": {
                "wanted": cluster_api.class_name(cluster),
                "applied": dig(addon, "spec.clusterStack"),
                "addons": dig(addon, "spec.version"),
                "kubernetes": dig(cluster, "spec.topology.version"),
                "kubernetesToldToCharts": dig(addon, "status.kubernetesVersion"),
            },
            "addon": {**_looked_up(objects.addon, addon_of(cluster), now), **describe_addon(addon, now)},
            "policy": _policy(cluster, addon),
            "release": {
                **_looked_up(objects.release, release_of(cluster), now),
                "kubernetesVersion": dig(objects.release.object, "status.kubernetesVersion"),
            },
            "helmReleases": [_helm_release(one) for one in parts.objects if one["kind"] == HELM_RELEASE_PROXY.kind],
            "resourceSets": [_resource_set(one) for one in mappings(parts.binding or {}, "spec.bindings")],
            "problems": list(parts.problems),
            "events": [describe_event(event, now) for event in objects.events],
        }
    )
    return found


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
        "conditions": describe_conditions(obj["kind"], mappings(obj, "status.conditions"), now),
    }


def describe_addon(addon: Object, now: datetime) -> Object:
    """Returns release, wait, stages, objects, drift and history of a ClusterAddon."""
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
        "inventory": describe_inventory(entries),
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
    return (
        None
        if cause.get("reason") in (NO_RELEASE, REMOVED, ROLLED_BACK)
        else describe_condition("ClusterAddon", cause, now)
    )


def describe_inventory(entries: Sequence[InventoryEntry]) -> Object:
    """Counts the applied objects by state, and lists objects that fail or are not ready, with the reason."""

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


def _helm_release(release: Object) -> Object:
    """Describes a HelmReleaseProxy briefly; `describe helm-release` has the rest."""
    ready = get_condition(mappings(release, "status.conditions"), READY) or {}
    is_ready = ready.get("status") == "True"
    return {
        "kind": release["kind"],
        "namespace": key_of(release).namespace,
        "name": key_of(release).name,
        "chart": dig(release, "spec.chartName"),
        "version": dig(release, "status.chartVersion") or dig(release, "spec.version"),
        "status": dig(release, "status.status"),
        "ready": ready.get("status", "Unknown"),
        **({} if is_ready else {"reason": ready.get("reason"), "message": ready.get("message")}),
        **({} if is_ready else remedy(release["kind"], ready.get("reason"))),
    }


def _resource_set(entry: Mapping[str, Any]) -> Object:
    sources = mappings(entry, "resources")
    failed = [f"{one.get('kind')} {one.get('name')}" for one in sources if one.get("applied") is not True]
    name = entry.get("clusterResourceSetName")
    return {"kind": "ClusterResourceSet", "name": name, "sources": len(sources), "notApplied": failed}


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


def describe_event(event: Object, now: datetime) -> Object:
    """Returns an event with its age and its object."""
    about = event.get("involvedObject") or {}
    return {
        "at": time_of(event),
        "for": age(time_of(event), now),
        "object": f"{about.get('kind')} {about.get('name')}",
        **{name: event.get(name) for name in ("type", "reason", "message", "count")},
    }
