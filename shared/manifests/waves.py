"""Puts objects into an order that an API server accepts: Helm's install order, with Helm's hooks around it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from shared.kube.resources import Object, dig

from .objects import identity

_BEFORE: Final = {"pre-install", "pre-upgrade"}
_AFTER: Final = {"post-install", "post-upgrade"}
_WEIGHT: Final = re.compile(r"[+-]?[0-9]{1,18}")
APPLIED_HOOKS: Final = _BEFORE | _AFTER | {"crd-install"}


def hooks_of(obj: Mapping[str, Any]) -> set[str]:
    """Returns the Helm hooks in the annotation of an object; empty without annotation."""
    hooks = str(dig(obj, ("metadata", "annotations", "helm.sh/hook"), ""))
    return {hook.strip() for hook in hooks.split(",") if hook.strip()}


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


def waves(objects: Iterable[Object]) -> list[Wave]:
    """Returns the waves to apply one after the other: namespaces, CRDs, Helm's pre-hooks, the rest, post-hooks.

    Hooks are ordered by their weight, a wave for each. The rest is in Helm's install order; objects of one kind keep
    their order.
    """
    namespaces: list[Object] = []
    crds: list[Object] = []
    rest: list[Object] = []
    before: dict[int, list[Object]] = {}
    after: dict[int, list[Object]] = {}
    for obj in objects:
        hooks = hooks_of(obj)
        match identity(obj)[:2]:
            case ("", "Namespace"):
                namespaces.append(obj)
            case ("apiextensions.k8s.io", "CustomResourceDefinition"):
                crds.append(obj)
            case _ if hooks & _BEFORE:
                before.setdefault(_weight(obj), []).append(obj)
            case _ if hooks & _AFTER:
                after.setdefault(_weight(obj), []).append(obj)
            case _:
                rest.append(obj)
    rest.sort(key=install_rank)
    ordered = [
        Wave(namespaces),
        Wave(crds),
        *(Wave(sorted(before[weight], key=install_rank), gate=True) for weight in sorted(before)),
        Wave(rest),
        *(Wave(sorted(after[weight], key=install_rank), gate=True) for weight in sorted(after)),
    ]
    return [wave for wave in ordered if wave.objects]


def _weight(obj: Mapping[str, Any]) -> int:
    text = str(dig(obj, ("metadata", "annotations", "helm.sh/hook-weight"), "0"))
    return int(text) if _WEIGHT.fullmatch(text) else 0


def install_rank(obj: Mapping[str, Any]) -> int:
    """Returns the position in Helm's install order of a mapping's `kind`; unknown kinds come last."""
    return _RANK.get(obj["kind"], len(_RANK))
