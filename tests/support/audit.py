"""What service accounts did, from the audit log of an API server, compared with what they may do."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from shared.kube import Object, dig

_PREFIX = "system:serviceaccount:"


class Right(NamedTuple):
    """A verb on a resource (with its subresource) of an API group."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


@dataclass(frozen=True)
class AuditLog:
    """The requests of the service accounts of one namespace, in a log that `flags` has the API server write."""

    path: Path
    namespace: str

    def flags(self) -> list[str]:
        """Returns the flags of the API server, after writing the policy beside the log."""
        policy = self.path.with_suffix(".policy")
        rules = [
            {"level": "Metadata", "userGroups": [f"{_PREFIX[:-1]}s:{self.namespace}"]},
            {"level": "None"},
        ]
        content = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": rules,
        }
        policy.write_text(json.dumps(content))
        return [
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.path}",
            "--audit-log-maxsize=100000",
        ]

    def used(self) -> dict[str, set[Right]]:
        """Returns the rights that each account used."""
        return self._rights(denied=False)

    def denied(self) -> dict[str, set[Right]]:
        """Returns the rights that each account lacked."""
        return self._rights(denied=True)

    def _rights(self, *, denied: bool) -> dict[str, set[Right]]:
        found: dict[str, set[Right]] = defaultdict(set)
        for event in self._events():
            of = event.get("objectRef", {})
            forbidden = dig(event, ("annotations", "authorization.k8s.io/decision")) == "forbid"
            if of.get("resource") and forbidden == denied:
                resource = "/".join(filter(None, (of["resource"], of.get("subresource"))))
                right = Right(of.get("apiGroup", ""), resource, event["verb"])
                found[event["user"]["username"].removeprefix(f"{_PREFIX}{self.namespace}:")].add(right)
        return dict(found)

    def _events(self) -> Iterator[Object]:
        for line in self.path.read_text().splitlines():
            yield json.loads(line)


def prove(audit: AuditLog, objects: Iterable[Object], *, removed: str = "") -> None:
    """Asserts that no account lacked a right, and prints the rights that none needed; `objects` are the manifests.

    `removed` is an account that was removed with its roles meanwhile: its last pods may have outlived them.
    """
    used = audit.used()
    for account, granted_rights in sorted(granted(objects).items()):
        needless = ", ".join(map(str, unused(granted_rights, used.get(account, ()))))
        print(f"{account}: not needed in this journey: {needless or 'nothing'}")
    denied = audit.denied()
    assert {account: rights for account, rights in denied.items() if account != removed} == {}


def granted(objects: Iterable[Object]) -> dict[str, list[Right]]:
    """Returns the rights that roles and bindings among the objects grant to accounts, one for each verb of a rule."""
    objects = list(objects)
    roles = {(obj["kind"], obj["metadata"]["name"]): obj.get("rules") or [] for obj in objects if "Role" in obj["kind"]}
    found: dict[str, list[Right]] = defaultdict(list)
    for obj in objects:
        if obj["kind"] not in ("ClusterRoleBinding", "RoleBinding"):
            continue
        for rule in roles.get((obj["roleRef"]["kind"], obj["roleRef"]["name"]), []):
            rights = [
                Right(group, resource, verb)
                for group in rule.get("apiGroups", [])
                for resource in rule.get("resources", [])
                for verb in rule["verbs"]
            ]
            for subject in obj.get("subjects", []):
                found[subject["name"]] += rights
    return dict(found)


def unused(rights: Iterable[Right], used: Iterable[Right]) -> list[Right]:
    """Returns the granted rights that none of the used ones needed, sorted."""
    used = set(used)
    return sorted(right for right in set(rights) if not any(_covers(right, other) for other in used))


def _covers(granted: Right, used: Right) -> bool:
    return all(mine in ("*", theirs) for mine, theirs in zip(granted, used, strict=True))
