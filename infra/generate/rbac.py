"""Generates RBAC objects. A function has the rights that its triggers declare or imply, and no others."""

from __future__ import annotations

from collections.abc import Iterable

from shared.kube.resources import Object
from shared.settings import NAMESPACE
from shared.triggers import Rule, Triggers

from . import workloads

READ = ("get", "list", "watch")
WATCH = ("list", "watch")

_API = "rbac.authorization.k8s.io"
_ORDER = (*READ, "create", "update", "patch", "delete")


def function_rules(triggers: Triggers) -> list[Object]:
    """Returns the PolicyRules of a function."""
    return policy_rules(triggers.needed_rules)


def needed_everywhere(rules: Iterable[Rule]) -> list[Object]:
    """Returns the PolicyRules that an installation for some namespaces needs in the whole cluster."""
    return policy_rules(rule for rule in rules if rule.everywhere)


def policy_rules(rules: Iterable[Rule]) -> list[Object]:
    """Returns the PolicyRules for the rules: resources of one group with the same verbs share a PolicyRule."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for rule in rules:
        for resource in rule.resources:
            verbs.setdefault((rule.group, resource), set()).update(rule.verbs)
    grouped: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), allowed in sorted(verbs.items()):
        in_order = tuple(sorted(allowed, key=lambda verb: (_ORDER.index(verb) if verb in _ORDER else 99, verb)))
        grouped.setdefault((group, in_order), []).append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(allowed)}
        for (group, allowed), resources in grouped.items()
    ]


def watch_rules(functions: Iterable[Triggers], verbs: tuple[str, ...] = READ) -> list[Rule]:
    """Returns the rules that an event source needs to watch all kinds that start these functions.

    Knative starts an adapter only if its account has the verb `get`, which the adapter never uses.
    """
    needed: list[Rule] = []
    for triggers in functions:
        needed += [Rule(watch.resource.group, (watch.resource.plural,), verbs) for watch in triggers.watches]
        if triggers.defined_kinds is not None:
            needed += [Rule(group, ("*",), verbs) for group in triggers.defined_kinds.groups]
    return needed


def service_account(name: str) -> Object:
    """Returns a ServiceAccount."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}


def cluster_role(name: str, allowed: list[Object]) -> Object:
    """Returns a ClusterRole with these PolicyRules."""
    return {"apiVersion": f"{_API}/v1", "kind": "ClusterRole", "metadata": _in_cluster(name), "rules": allowed}


def aggregated_role(name: str, label: str) -> Object:
    """Returns a ClusterRole that aggregates all ClusterRoles with the label `label: "true"`."""
    role = cluster_role(name, []) | {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}}
    del role["rules"]  # the control plane fills in the rules
    return role


EVERYWHERE = "-everywhere"
"""The suffix of the additional ClusterRoles and bindings of an installation for some namespaces."""


def everywhere(role: str, rules: Iterable[Rule], service_account: str) -> list[Object]:
    """Returns a ClusterRole with the rules that are needed in the whole cluster, and its binding."""
    if not (needed := needed_everywhere(rules)):
        return []
    name = f"{role}{EVERYWHERE}"
    return [cluster_role(name, needed), cluster_role_binding(name, service_account)]


def in_namespace(binding: Object) -> Object:
    """Returns the RoleBinding that grants the rights of a ClusterRoleBinding in the namespace of its kustomization."""
    return {**binding, "kind": "RoleBinding"}


def cluster_role_binding(role: str, service_account: str) -> Object:
    """Returns the binding of a ClusterRole to a ServiceAccount."""
    return _binding("ClusterRole", _in_cluster(role), service_account)


def role(name: str, allowed: list[Object]) -> Object:
    """Returns a Role with these PolicyRules."""
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": f"{_API}/v1", "kind": "Role", "metadata": metadata, "rules": allowed}


def role_binding(role: str, service_account: str) -> Object:
    """Returns the binding of a Role to a ServiceAccount of its namespace."""
    return _binding("Role", {"name": role, "namespace": NAMESPACE}, service_account)


def _in_cluster(name: str) -> Object:
    """Returns the metadata of an object without a namespace, with a label for objects of the project."""
    return {"name": name, "labels": dict([workloads.PART_OF])}


def _binding(kind: str, metadata: Object, service_account: str) -> Object:
    return {
        "apiVersion": f"{_API}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _API, "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": service_account, "namespace": NAMESPACE}],
    }
