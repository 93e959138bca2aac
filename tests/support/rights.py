"""Judges the rights of pods by the manifests: which accounts amount to cluster-admin, and who uses them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from functions import catalog
from shared import profiles
from shared.kube import Object, dig

_WRITES = {"create", "update", "patch", "delete", "deletecollection", "*"}
_AMOUNTS_TO_ALL = (
    ({"rbac.authorization.k8s.io"}, {"*"}, _WRITES | {"escalate", "bind"}),
    ({"admissionregistration.k8s.io"}, {"*"}, _WRITES),
    ({"apiextensions.k8s.io"}, {"*"}, _WRITES),
    ({"apiregistration.k8s.io"}, {"*"}, _WRITES),
    ({"certificates.k8s.io"}, {"*"}, _WRITES | {"approve", "sign"}),
    ({"", "apps", "batch"}, {"pods", "deployments", "daemonsets", "statefulsets", "replicasets", "jobs"}, _WRITES),
    ({""}, {"serviceaccounts/token", "pods/exec", "pods/attach", "nodes/proxy", "pods/ephemeralcontainers"}, _WRITES),
    ({"*"}, {"*"}, {"impersonate"}),
)
"""API groups, resources and verbs that alone let an account get any other rights; `*` stands for all."""

PROVIDERS = frozenset(name for name, declared in catalog.triggers().items() if declared.profiles == profiles.PROVIDERS)
"""The functions that may have all rights."""
ALWAYS = frozenset(name for name, declared in catalog.triggers().items() if declared.profiles == profiles.ALWAYS)
"""The functions that may run beside them, in a process of the profile `providers` only."""


def violations(objects: Iterable[Object]) -> list[str]:
    """Returns why pods of an installation have too many rights for the functions that they serve."""
    objects = list(objects)
    rules = rules_of(objects)
    return [
        f"{name} serves {', '.join(sorted(served))} and may {reason}"
        for name, account, served in _pods(objects)
        if served
        for reason in too_much(rules.get(account, []))
    ] + [
        f"{account} may create and read Secrets, and no policy refuses those for tokens"
        for account in unpoliced(objects, rules)
    ]


def rules_of(objects: Iterable[Object]) -> dict[str, list[Object]]:
    """Returns the PolicyRules of each ServiceAccount, of Roles as well."""
    objects = list(objects)
    roles = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects if obj["kind"].endswith("Role")}
    found: dict[str, list[Object]] = {}
    for binding in (obj for obj in objects if obj["kind"].endswith("RoleBinding")):
        role = roles.get((binding["roleRef"]["kind"], binding["roleRef"]["name"]), {})
        for subject in binding["subjects"]:
            found.setdefault(subject["name"], []).extend(role.get("rules") or ())
    return found


def too_much(rules: Iterable[Object]) -> Iterator[str]:
    """Yields the rules that amount to all rights."""
    for rule in rules:
        groups, resources, verbs = ({*rule.get(field, ())} for field in ("apiGroups", "resources", "verbs"))
        everything = "*" in groups and "*" in resources
        if everything or any(
            _meet(groups, of_groups) and _meet(resources, of_resources) and verbs & of_verbs | verbs & {"*"}
            for of_groups, of_resources, of_verbs in _AMOUNTS_TO_ALL
        ):
            yield f"{', '.join(sorted(verbs))} {', '.join(sorted(resources))} of the groups {sorted(groups)}"


def unpoliced(objects: Iterable[Object], rules: Mapping[str, list[Object]]) -> list[str]:
    """Returns the accounts that can have the control plane write a token of any account, and read it.

    Accounts that may do everything anyway are not among them.
    """
    objects = list(objects)
    policies = [obj for obj in objects if obj["kind"] == "ValidatingAdmissionPolicy"]
    bound = {obj["spec"]["policyName"] for obj in objects if obj["kind"] == "ValidatingAdmissionPolicyBinding"}
    conditions = [
        dig(policy, "spec.matchConditions")[0]["expression"]
        for policy in policies
        if policy["metadata"]["name"] in bound and "service-account-token" in str(dig(policy, "spec.validations"))
    ]
    return sorted(
        account
        for account, granted in rules.items()
        if not [*too_much(granted)]
        and any("secrets" in rule["resources"] and {*rule["verbs"]} & {"create", "patch"} for rule in granted)
        and not any(f":{account}'" not in condition for condition in conditions)
    )


def _meet(named: set[str], wanted: set[str]) -> bool:
    return bool(named & wanted) or "*" in named or "*" in wanted


def _pods(objects: Iterable[Object]) -> Iterator[tuple[str, str, set[str]]]:
    """Yields name, account and served functions of each Deployment and Knative Service."""
    for obj in objects:
        pod = dig(obj, "spec.template.spec")
        if isinstance(pod, dict) and "containers" in pod:
            served = {name for container in pod["containers"] for name in _served(container)}
            yield obj["metadata"]["name"], pod.get("serviceAccountName", "default"), served


def _served(container: Object) -> Iterator[str]:
    target = re.search(r'create_app\("(\w+)"', " ".join(container.get("args", ())))
    if target is None:
        return
    if target[1] != "functions":
        names = {target[1]}
    else:
        variables = {one["name"]: one.get("value", "") for one in container.get("env", ())}
        chosen = profiles.parse(variables.get("CAPI_FUNCTIONS_PROFILES", ""))
        names = {*catalog.triggers(profiles=chosen)}
        if chosen == profiles.PROVIDERS:
            names -= ALWAYS
    yield from names - PROVIDERS
