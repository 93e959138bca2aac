"""Generates RBAC objects: each function has the rights that its declaration needs, and no others."""

from __future__ import annotations

from collections.abc import Iterable

from shared.kube.resources import Object
from shared.triggers import Rule, Triggers

READ = ("get", "list", "watch")

_API = "rbac.authorization.k8s.io"
_ORDER = (*READ, "create", "update", "patch", "delete")


def rules(triggers: Triggers) -> list[Object]:
    """Returns the PolicyRules of a function: read its primary kinds, write their status and events, and its own rules.

    A watch needs no right of the function, since the event sources watch.
    """
    wanted = [Rule(kind.group, (kind.plural,), ("get",)) for kind in triggers.primaries]
    if triggers.reports and triggers.primaries:
        wanted += [Rule(kind.group, (f"{kind.plural}/status",), ("patch",)) for kind in triggers.primaries]
        wanted.append(Rule("", ("events",), ("create", "get", "patch")))
    wanted += triggers.rules
    return merged(wanted)


def merged(wanted: Iterable[Rule]) -> list[Object]:
    """Merges rules into few PolicyRules: verbs by resource, resources with equal verbs by group."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for rule in wanted:
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


def watching(functions: Iterable[Triggers]) -> list[Rule]:
    """Returns the rules to watch what starts these functions."""
    found = []
    for triggers in functions:
        found += [Rule(watch.resource.group, (watch.resource.plural,), READ) for watch in triggers.watches]
        if triggers.defined_kinds is not None:
            found += [Rule(group, ("*",), READ) for group in triggers.defined_kinds.groups]
    return found


def account(name: str, namespace: str) -> Object:
    """Returns a ServiceAccount."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def cluster_role(name: str, allowed: list[Object]) -> Object:
    """Returns a ClusterRole with these PolicyRules."""
    return {"apiVersion": f"{_API}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": allowed}


def aggregated_role(name: str, label: str) -> Object:
    """Returns a ClusterRole with the rules of all that have a label with the value `true`."""
    role = cluster_role(name, []) | {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}}
    del role["rules"]  # Kubernetes sets them
    return role


def cluster_role_binding(role: str, service_account: str, namespace: str) -> Object:
    """Returns the binding of a ClusterRole to a ServiceAccount."""
    return _binding("ClusterRole", {"name": role}, service_account, namespace)


def role(name: str, namespace: str, allowed: list[Object]) -> Object:
    """Returns a Role with these PolicyRules."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": f"{_API}/v1", "kind": "Role", "metadata": metadata, "rules": allowed}


def role_binding(role: str, service_account: str, namespace: str) -> Object:
    """Returns the binding of a Role to a ServiceAccount of its namespace."""
    return _binding("Role", {"name": role, "namespace": namespace}, service_account, namespace)


def _binding(kind: str, metadata: Object, service_account: str, namespace: str) -> Object:
    return {
        "apiVersion": f"{_API}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _API, "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": service_account, "namespace": namespace}],
    }
