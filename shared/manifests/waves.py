"""Puts objects into an order that an API server accepts: Helm's install order, with Helm's hooks around it.

Also determines the hooks of an operation of Helm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from shared.kube.resources import Object, dig

from .objects import Identity, identity

_BEFORE: Final = {"pre-install", "pre-upgrade"}
_AFTER: Final = {"post-install", "post-upgrade"}
_WEIGHT: Final = re.compile(r"[+-]?[0-9]{1,18}")
_DELETE: Final = {"pre-delete", "post-delete"}
APPLIED_HOOKS: Final = _BEFORE | _AFTER | {"crd-install"}
"""The hooks of installation and upgrade."""
RELEASE_HOOKS: Final = APPLIED_HOOKS | _DELETE
"""The hooks of installation, upgrade and deletion."""

Operation = Literal["install", "upgrade", "rollback", "delete", "check"]
"""The operation of Helm that a sync corresponds to. A `check` looks for drift, which Helm has no operation for."""


def hooks_of(obj: Mapping[str, Any]) -> set[str]:
    """Returns the Helm hooks in the annotation of an object; empty without annotation."""
    hooks = str(dig(obj, ("metadata", "annotations", "helm.sh/hook"), ""))
    return {hook.strip() for hook in hooks.split(",") if hook.strip()}


def runs_in(obj: Mapping[str, Any], operation: Operation) -> bool:
    """Returns whether Helm applies an object in this operation: always, unless it is a hook of other operations."""
    hooks = hooks_of(obj)
    return not hooks or not hooks.isdisjoint({"crd-install", f"pre-{operation}", f"post-{operation}"})


def runs_at_both_ends(obj: Mapping[str, Any], operation: Operation | None) -> bool:
    """Returns whether Helm applies an object both before and after the other objects in this operation."""
    return {f"pre-{operation}", f"post-{operation}"} <= hooks_of(obj)


def delete_policies(obj: Mapping[str, Any]) -> list[str]:
    """Returns when Helm deletes a hook: `before-hook-creation` (default), `hook-succeeded`, `hook-failed`."""
    named = str(dig(obj, ("metadata", "annotations", "helm.sh/hook-delete-policy"), ""))
    return [policy.strip() for policy in named.split(",") if policy.strip()] or [HOOK_CREATION]


def is_hook_run(obj: Mapping[str, Any]) -> bool:
    """Returns whether an object is a hook that is created anew at each operation.

    These are Jobs and Pods, and hooks that are deleted after their operation. Helm deletes no CRD.
    """
    kind = identity(obj)[:2]
    if hooks_of(obj).isdisjoint(_BEFORE | _AFTER | _DELETE) or kind in _LASTING:
        return False
    return kind in _RUNS or not {HOOK_SUCCEEDED, HOOK_FAILED}.isdisjoint(delete_policies(obj))


HOOK_CREATION, HOOK_SUCCEEDED, HOOK_FAILED = "before-hook-creation", "hook-succeeded", "hook-failed"
_RUNS: Final = {("batch", "Job"), ("", "Pod")}
_LASTING: Final = {("", "Namespace"), ("apiextensions.k8s.io", "CustomResourceDefinition")}
_INSTALL_ORDER: Final = (
    *("PriorityClass", "Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "PodSecurityPolicy"),
    *("PodDisruptionBudget", "ServiceAccount", "Secret", "ConfigMap", "StorageClass", "PersistentVolume"),
    *("PersistentVolumeClaim", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Role"),
    *("RoleBinding", "Service", "DaemonSet", "Pod", "ReplicationController", "ReplicaSet", "Deployment"),
    *("HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob", "IngressClass", "Ingress", "APIService"),
    *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
)
"""The order in which Helm installs kinds (`InstallOrder` of Helm's releaseutil)."""

_RANK: Final = {kind: rank for rank, kind in enumerate(_INSTALL_ORDER)}


class Wave(NamedTuple):
    """Objects to apply together. With `gate` its Jobs and Pods have to be complete before the next wave."""

    objects: list[Object]
    gate: bool = False


def waves(objects: Iterable[Object], operations: Mapping[Identity, Operation] | None = None) -> list[Wave]:
    """Returns the waves to apply one after the other: namespaces, CRDs, Helm's pre-hooks, the rest, post-hooks.

    Hooks are ordered by weight. Hooks of one weight are applied together; then their Jobs and Pods run one after the
    other in the order of their names (`execHook` of Helm). Other objects are in Helm's install order; objects of one
    kind keep their order.

    Args:
        objects: The objects to apply.
        operations: The operation in which an object is applied, because a hook may run before other objects at an
            upgrade, and after them at an installation. A hook without operation runs before other objects if any of its
            hooks does.
    """
    namespaces: list[Object] = []
    crds: list[Object] = []
    rest: list[Object] = []
    before: dict[int, list[Object]] = {}
    after: dict[int, list[Object]] = {}
    for obj in objects:
        hooks = hooks_of(obj)
        if operation := (operations or {}).get(identity(obj)):
            hooks = hooks & {f"pre-{operation}", f"post-{operation}"} or hooks
        match identity(obj)[:2]:
            case ("", "Namespace"):
                namespaces.append(obj)
            case ("apiextensions.k8s.io", "CustomResourceDefinition"):
                crds.append(obj)
            case _ if hooks & _BEFORE or hooks == {"pre-delete"}:
                before.setdefault(_weight(obj), []).append(obj)
            case _ if hooks & _AFTER or hooks == {"post-delete"}:
                after.setdefault(_weight(obj), []).append(obj)
            case _:
                rest.append(obj)
    rest.sort(key=install_rank)
    ordered = [
        Wave(namespaces),
        Wave(crds),
        *_hook_waves(before),
        Wave(rest),
        *_hook_waves(after),
    ]
    return [wave for wave in ordered if wave.objects]


def _hook_waves(by_weight: Mapping[int, list[Object]]) -> Iterator[Wave]:
    for weight in sorted(by_weight):
        runs = [obj for obj in by_weight[weight] if identity(obj)[:2] in _RUNS]
        others = [obj for obj in by_weight[weight] if identity(obj)[:2] not in _RUNS]
        yield Wave(sorted(others, key=install_rank), gate=True)
        for obj in sorted(runs, key=lambda obj: str(obj["metadata"]["name"])):
            yield Wave([obj], gate=True)


def _weight(obj: Mapping[str, Any]) -> int:
    text = str(dig(obj, ("metadata", "annotations", "helm.sh/hook-weight"), "0"))
    return int(text) if _WEIGHT.fullmatch(text) else 0


def install_rank(obj: Mapping[str, Any]) -> int:
    """Returns the position in Helm's install order of a mapping's `kind`; unknown kinds come last."""
    return _RANK.get(obj["kind"], len(_RANK))
