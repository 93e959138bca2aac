"""The missing requirements of functions: served kinds, rights, the object store. `GET /readyz` lists them.

It is no readiness probe, because an outage of the object store would remove all functions from their Services, and none
of them could report the reason in a status.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..clients import Clients
from ..kube import ApiError
from ..kube.connect import KubeconfigError
from ..settings import STORAGE
from ..triggers import Rule, Triggers

_REMEMBERED = 5.0
"""Seconds for which the findings are cached, however many requests arrive."""


class Readiness:
    """Finds out what functions lack.

    Args:
        clients: The clients of the functions.
        declared: Returns the functions that run in this installation.
    """

    def __init__(self, clients: Clients, declared: Callable[[], Iterable[Triggers]]) -> None:
        self._clients = clients
        self._declared = declared
        self._lock = threading.Lock()
        self._until = float("-inf")
        self._missing: list[str] = []

    def missing(self) -> list[str]:
        """Returns a sentence for each missing requirement.

        While another thread checks, returns the last findings, because an API server that hangs must not hold all
        threads.
        """
        if self._lock.acquire(blocking=self._until < 0):
            try:
                if time.monotonic() >= self._until:
                    self._missing = self._find()
                    self._until = time.monotonic() + _REMEMBERED
            finally:
                self._lock.release()
        return self._missing

    def _find(self) -> list[str]:
        found: list[str] = []
        try:
            found.extend(find_missing(self._clients, self._declared()))
        except ValueError as error:  # a setting is wrong
            found.append(str(error))
        return found


def find_missing(clients: Clients, functions: Iterable[Triggers]) -> Iterator[str]:
    """Yields a sentence for each missing requirement of these functions. Sends two to four requests."""
    functions = [*functions]
    try:
        yield from _kinds(clients, functions)
        yield from _rights(clients, functions)
    except (ApiError, KubeconfigError) as error:
        yield f"the management cluster cannot be used: {error}"
    if any(STORAGE in triggers.settings for triggers in functions):
        yield from _storage()


def _kinds(clients: Clients, functions: Iterable[Triggers]) -> Iterator[str]:
    for resource in dict.fromkeys(kind for triggers in functions for kind in triggers.primaries):
        if clients.discovery.preferred(resource.group, resource.kind) is None:
            yield f"{resource.kind}.{resource.group} is not served: is its CRD installed?"


def _rights(clients: Clients, functions: Iterable[Triggers]) -> Iterator[str]:
    """Compares the rules of the functions with the rules of the process.

    Rights in single namespaces count only in an installation for these namespaces.
    """
    needed = [rule for triggers in functions for rule in triggers.needed_rules]
    for namespace in clients.management.namespaces or ("",):
        absent: dict[tuple[str, str], set[str]] = {}
        granted = _granted(clients, namespace or "none")
        for rule in needed:
            for resource in rule.resources:
                for verb in rule.verbs:
                    if not any(_grants(one, rule, resource, verb) for one in granted):
                        absent.setdefault((resource, rule.group), set()).add(verb)
        where = f" in namespace {namespace}" if namespace else ""
        for (resource, group), verbs in sorted(absent.items()):
            named = f"{resource}.{group}" if group else resource
            yield f"the ServiceAccount may not {', '.join(sorted(verbs))} {named}{where}"


def _granted(clients: Clients, namespace: str) -> list[Mapping[str, Any]]:
    """Returns the rules of the process in a namespace, cluster-wide rules included."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    status = clients.management.request("POST", path, body=review, subject="SelfSubjectRulesReview")["status"]
    return [rule for rule in status.get("resourceRules") or () if not rule.get("resourceNames")]


def _grants(granted: Mapping[str, Any], rule: Rule, resource: str, verb: str) -> bool:
    asked = (("apiGroups", rule.group), ("resources", resource), ("verbs", verb))
    return all(not {value, "*"}.isdisjoint(granted.get(field) or ()) for field, value in asked)


def _storage() -> Iterator[str]:
    from ..records import Records
    from ..storage import ObjectStore, StorageError

    try:
        Records(ObjectStore.from_env()).get("readyz")
    except StorageError as error:
        yield f"the object store cannot be used: {error}"
