"""Converts the status of Clusters and Machines between v1beta1, which Cluster API 1.7 to 1.10 serve, and v1beta2.

Functions use only the shape of v1beta2. An object that was read in v1beta1 is converted to this shape, but keeps its
apiVersion, because owner references and events must name a served version, and its spec, because accessors read either
shape.

Cluster API 1.9 and 1.10 have the fields of v1beta2 in `status.v1beta2`, beside conditions of v1beta1. Earlier releases
only have conditions of v1beta1: without `observedGeneration`, and with a `severity`. The fields that the server keeps,
not its release, determine the place of a condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.kube.resources import Object, dig

from .conditions import get_condition, is_true

_BLOCK = "v1beta2"
"""The field of the status that has fields of v1beta2."""
_OLDER = "v1beta1"
"""The field of an upgraded status that has the conditions as they were read."""
_OWN_TYPES = ("Ready", "InfrastructureReady", "ControlPlaneReady", "ControlPlaneInitialized", "TopologyReconciled")
"""The types of a Cluster's conditions of v1beta1. All other types in one list with them belong to v1beta2."""
_ONLY_IN_BLOCK = ("controlPlane", "workers")
"""The fields of a Cluster that v1beta1 has in that field only."""
_CONVERTED = ("conditions", "initialization", "deprecated", "failureDomains")
_COMPARED = ("status", "reason", "message")
_DEPRECATED = ("failureReason", "failureMessage")
"""The fields of v1beta1 that v1beta2 has in `status.deprecated.v1beta1`."""
_INITIALIZED = "ControlPlaneInitialized"


def upgrade(obj: Object) -> Object:
    """Returns an object that was read in v1beta1 with a status of v1beta2; an upgraded one is returned as it is.

    The fields of v1beta1 stay beside the fields of v1beta2.
    """
    status = obj.get("status")
    if not isinstance(status, Mapping) or not status or "deprecated" in status:
        return obj
    conditions, older = dig(status, f"{_BLOCK}.conditions"), _entries(status.get("conditions"))
    deprecated = {name: status[name] for name in _DEPRECATED if name in status}
    if conditions is None:
        conditions = [_metav1(entry, status) for entry in older]
        if own := [_shown(entry) for entry in older if entry.get("type") in _OWN_TYPES]:
            deprecated["conditions"] = own
    elif older:
        deprecated["conditions"] = older
    upgraded: Object = {
        **status,
        **(dig(status, _BLOCK) or {}),
        "conditions": conditions,
        "deprecated": {"v1beta1": deprecated},
        _OLDER: {"conditions": older},
    }
    if facts := _facts(status, conditions):
        upgraded["initialization"] = {**dig(status, "initialization", {}), **facts}
    domains = status.get("failureDomains")
    if isinstance(domains, Mapping):
        upgraded["failureDomains"] = [{"name": name, **(domain or {})} for name, domain in sorted(domains.items())]
    return {**obj, "status": upgraded}


def has_older_conditions_only(obj: Mapping[str, Any]) -> bool:
    """Returns whether the status of an upgraded object lacks conditions with generations, as before Cluster API 1.9."""
    return dig(obj, "status.deprecated") is not None and _BLOCK not in obj["status"] and _is_v1beta1(obj)


def _is_v1beta1(obj: Mapping[str, Any]) -> bool:
    return str(obj.get("apiVersion")).endswith("/v1beta1")


def downgrade(obj: Mapping[str, Any], patch: Object) -> Object:
    """Converts a merge patch for the status of `obj`, which was upgraded, to one for the status in v1beta1."""
    status = dig(obj, "status", {})
    found = {name: value for name, value in patch.items() if name not in (*_CONVERTED, *_ONLY_IN_BLOCK)}
    block: Object = {name: patch[name] for name in _ONLY_IN_BLOCK if name in patch}
    found |= dig(patch, "deprecated.v1beta1") or {}
    if patch.get("conditions") and has_older_conditions_only(obj) and dig(status, f"{_OLDER}.conditions"):
        # The list also has conditions of other programs, because `dropped` writes the whole list. If the server keeps
        # the block, the next patch writes the conditions of v1beta1.
        found.pop("conditions", None)
    initialization = patch.get("initialization") or {}
    if "infrastructureProvisioned" in initialization:
        found["infrastructureReady"] = initialization["infrastructureProvisioned"] is True
    if "conditions" in patch:
        copied = [] if _BLOCK in status else dig(status, f"{_OLDER}.conditions", [])
        block["conditions"] = [one for one in patch["conditions"] or [] if not _is_same(one, _of_type(copied, one))]
    if "failureDomains" in patch:
        found["failureDomains"] = _domains(patch["failureDomains"], status)
    return found | ({_BLOCK: block} if block else {})


def dropped(stored: Mapping[str, Any], patch: Object) -> Object:
    """Returns the fields of the downgraded `patch` that the server has dropped, in a form that it keeps.

    `stored` is the upgraded object after that patch. Before Cluster API 1.9 it only has conditions of v1beta1.
    """
    if not patch.get("conditions") or _BLOCK in dig(stored, "status", {}):
        return {}
    before = dig(stored, f"status.{_OLDER}.conditions", [])
    deprecated = _entries(dig(patch, "deprecated.v1beta1.conditions"))
    found = [_newest(one, _of_type(before, one), _of_type(deprecated, one)) for one in patch["conditions"]]
    return {"conditions": found + [entry for entry in deprecated if not _of_type(found, entry)]}


def _newest(condition: Object, before: Object, deprecated: Object) -> Object:
    """Returns the v1beta1 form of a condition; if only its v1beta1 original has changed, returns that."""
    if not _is_same(condition, before):
        return _v1beta1(condition)
    return deprecated if deprecated and deprecated != _shown(before) else before


def _shown(entry: Object) -> Object:
    """Returns a condition of v1beta1 without the fields that a condition of v1beta2 may have added."""
    added = ("reason",) if entry.get("status") == "True" else ()
    return {name: value for name, value in entry.items() if name not in added and (name != "message" or value)}


def _facts(status: Mapping[str, Any], conditions: Iterable[Mapping[str, Any]]) -> Object:
    """Returns the true facts of the first provisioning."""
    facts = {
        "infrastructureProvisioned": status.get("infrastructureReady") is True,
        "controlPlaneInitialized": is_true(conditions, _INITIALIZED) or is_true(status.get("conditions"), _INITIALIZED),
    }
    return {name: True for name, holds in facts.items() if holds}


def _metav1(entry: Object, status: Mapping[str, Any]) -> Object:
    """Returns a condition of v1beta1 as a condition of metav1, with the generation of the status."""
    observed = status.get("observedGeneration")
    default: Object = {"message": ""} | ({"observedGeneration": observed} if isinstance(observed, int) else {})
    return default | {name: value for name, value in entry.items() if name != "severity"}


def _v1beta1(condition: Object) -> Object:
    found = {name: value for name, value in condition.items() if name != "observedGeneration"}
    return found | ({"severity": "Info"} if condition.get("status") == "False" else {})


def _is_same(one: Object, other: Object) -> bool:
    return bool(other) and all((one.get(name) or "") == (other.get(name) or "") for name in _COMPARED)


def _of_type(conditions: Iterable[Mapping[str, Any]], condition: Object) -> Object:
    """Returns the condition of the same type; empty if there is none."""
    return get_condition(conditions, condition["type"]) or {}


def _domains(domains: Any, status: Mapping[str, Any]) -> Object | None:
    """Returns a merge patch of the map of failure domains; None removes a domain, or all."""
    if not domains:
        return None
    gone = {domain["name"]: None for domain in dig(status, "failureDomains", []) if isinstance(domain, Mapping)}
    return gone | {
        domain["name"]: {name: value for name, value in domain.items() if name != "name"} for domain in domains
    }


def _entries(conditions: Any) -> list[Object]:
    return [entry for entry in conditions if isinstance(entry, dict)] if isinstance(conditions, list) else []
