"""What each ServiceAccount may do: what its declarations need and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from shared.kube.resources import Object
from shared.triggers import Rule, Triggers

READ = ("get", "list", "watch")

_API = "rbac.authorization.k8s.io"
_ORDER = (*READ, "create", "update", "patch", "delete")


def rules(triggers: Triggers) -> list[Object]:
    """For a function: to get its primary objects, to report in their status and as events, and its own rules.

    Nothing follows from a watch: the sources watch, and the functions are called. What a function reads of other kinds
    it declares.
    """
    wanted = [Rule(kind.group, (kind.plural,), ("get",)) for kind in triggers.primaries]
    if triggers.reports and triggers.primaries:
        wanted += [Rule(kind.group, (f"{kind.plural}/status",), ("patch",)) for kind in triggers.primaries]
        wanted.append(Rule("", ("events",), ("create", "get", "patch")))
    wanted += triggers.rules
    return merged(wanted)


def merged(wanted: Iterable[Rule]) -> list[Object]:
    """The same as few PolicyRules: verbs joined by resource, resources of equal verbs joined by group."""
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


def account(name: str, namespace: str) -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def cluster_role(name: str, allowed: list[Object]) -> Object:
    return {"apiVersion": f"{_API}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": allowed}


def cluster_role_binding(role: str, service_account: str, namespace: str) -> Object:
    return {
        "apiVersion": f"{_API}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role},
        "roleRef": {"apiGroup": _API, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": service_account, "namespace": namespace}],
    }
