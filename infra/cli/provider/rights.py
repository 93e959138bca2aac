"""Rights that roles give: which of them are new. Names only, no judgement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any, NamedTuple

from shared.kube import Object, Resource, dig, key_of

_GROUP = "rbac.authorization.k8s.io"
RESOURCES = (
    Resource(_GROUP, "v1", "ClusterRole", "clusterroles", namespaced=False),
    Resource(_GROUP, "v1", "Role", "roles"),
    Resource(_GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    Resource(_GROUP, "v1", "RoleBinding", "rolebindings"),
)
KINDS = {resource.kind: resource for resource in RESOURCES}

_MOST = 20_000
"""Rights that are compared: a role can be written so that it gives any number."""


class Right(NamedTuple):
    """`scope` is a namespace, empty for the whole cluster; `name` the only object it is about, or `*`."""

    scope: str
    verb: str
    group: str
    resource: str
    name: str = "*"

    def within(self, other: Right) -> bool:
        """Whether who has `other` has this one, too."""
        if other.scope not in ("", self.scope):
            return False
        return all(theirs in ("*", mine) for mine, theirs in zip(self[1:], other[1:], strict=True))


def widened(before: Iterable[Object], after: Iterable[Object]) -> list[str]:
    """A line for each resource on which objects of RBAC give more `after` than `before`."""
    had = set(islice(_rights(list(before)), _MOST))
    given = list(islice(_rights(list(after)), _MOST))
    new = [right for right in sorted(set(given) - had) if not any(right.within(other) for other in had)]
    verbs: dict[tuple[str, str, str, str], list[str]] = {}
    for right in new:
        verbs.setdefault((right.scope, right.group, right.resource, right.name), []).append(right.verb)
    lines = [_line(*where, what) for where, what in verbs.items()]
    return lines if len(given) < _MOST else [*lines, f"beyond the first {_MOST} rights nothing was compared"]


def _line(scope: str, group: str, resource: str, name: str, verbs: Sequence[str]) -> str:
    where = f"in namespace {scope}" if scope else "cluster-wide"
    called = f" called {name}" if name != "*" else ""
    return f"{where}: {', '.join(verbs)} {resource}{f'.{group}' if group else ''}{called}"


def _rights(objects: Sequence[Mapping[str, Any]]) -> Iterator[Right]:
    own = {(obj["kind"], key_of(obj).name) for obj in objects}
    for obj in objects:
        scope = key_of(obj).namespace
        for rule in obj.get("rules") or []:
            yield from _of_rule(scope, rule)
        role = dig(obj, "roleRef", {})
        if role and (role.get("kind"), role.get("name")) not in own:
            # The rights of a role that is not theirs, such as cluster-admin.
            for subject in obj.get("subjects") or []:
                who = f"for {subject.get('kind')} {subject.get('name')}"
                yield Right(scope, "all rights of", "", f"{role.get('kind')} {role.get('name')}", who)


def _of_rule(scope: str, rule: Mapping[str, Any]) -> Iterator[Right]:
    def given(name: str) -> Sequence[str]:
        return rule.get(name) or []

    for verb, group, resource, name in product(
        given("verbs"), given("apiGroups"), given("resources"), given("resourceNames") or ["*"]
    ):
        yield Right(scope, verb, group, resource, name)
    for verb, url in product(given("verbs"), given("nonResourceURLs")):
        yield Right(scope, verb, "", url)
