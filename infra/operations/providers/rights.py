"""Compares the rights that roles grant, and lists the new ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any, NamedTuple

from shared.api.resources import CLUSTER_ROLE
from shared.kube import Object, Resource, dig, key_of

_GROUP = "rbac.authorization.k8s.io"
RESOURCES = (
    CLUSTER_ROLE,
    Resource(_GROUP, "v1", "Role", "roles"),
    Resource(_GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    Resource(_GROUP, "v1", "RoleBinding", "rolebindings"),
)
KINDS = {resource.kind: resource for resource in RESOURCES}

_MAX_RIGHTS = 20_000
"""The maximum number of compared rights, because one role can grant any number."""


class Right(NamedTuple):
    """One right. `scope` is a namespace, or empty for the whole cluster; `name` is one object's, or `*`."""

    scope: str
    verb: str
    group: str
    resource: str
    name: str = "*"

    def is_covered_by(self, other: Right) -> bool:
        """Returns whether `other` includes this right."""
        if other.scope not in ("", self.scope):
            return False
        return all(granted in ("*", needed) for needed, granted in zip(self[1:], other[1:], strict=True))


def new_rights(before: Iterable[Object], after: Iterable[Object]) -> list[str]:
    """Returns a text for each resource on which the RBAC objects `after` grant more than those `before`."""
    had = set(islice(_rights(list(before)), _MAX_RIGHTS))
    given = list(islice(_rights(list(after)), _MAX_RIGHTS))
    new = [right for right in sorted(set(given) - had) if not any(right.is_covered_by(other) for other in had)]
    verbs: dict[tuple[str, str, str, str], list[str]] = {}
    for right in new:
        verbs.setdefault((right.scope, right.group, right.resource, right.name), []).append(right.verb)
    lines = [_line(*where, what) for where, what in verbs.items()]
    return lines if len(given) < _MAX_RIGHTS else [*lines, f"rights after the first {_MAX_RIGHTS} were not compared"]


def _line(scope: str, group: str, resource: str, name: str, verbs: Sequence[str]) -> str:
    where = f"in namespace {scope}" if scope else "cluster-wide"
    called = f" called {name}" if name != "*" else ""
    return f"{where}: {', '.join(verbs)} {resource}{f'.{group}' if group else ''}{called}"


def _rights(objects: Sequence[Mapping[str, Any]]) -> Iterator[Right]:
    """Yields the rights that the rules of these roles grant, and a right for each binding of another role."""
    own = {(obj["kind"], key_of(obj).name) for obj in objects}
    for obj in objects:
        scope = key_of(obj).namespace
        for rule in obj.get("rules") or []:
            yield from _rights_of_rule(scope, rule)
        role = dig(obj, "roleRef", {})
        if role and (role.get("kind"), role.get("name")) not in own:
            # The role is not among these objects (such as cluster-admin): its name stands for its rights.
            for subject in obj.get("subjects") or []:
                who = f"for {subject.get('kind')} {subject.get('name')}"
                yield Right(scope, "all rights of", "", f"{role.get('kind')} {role.get('name')}", who)


def _rights_of_rule(scope: str, rule: Mapping[str, Any]) -> Iterator[Right]:
    def given(name: str) -> Sequence[str]:
        return rule.get(name) or []

    for verb, group, resource, name in product(
        given("verbs"), given("apiGroups"), given("resources"), given("resourceNames") or ["*"]
    ):
        yield Right(scope, verb, group, resource, name)
    for verb, url in product(given("verbs"), given("nonResourceURLs")):
        yield Right(scope, verb, "", url)
