"""The objects of one function, in parts that installations combine; overlays leave them out by their labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shared.kube.resources import Object
from shared.triggers import Triggers

from . import eventing, rbac, workloads


def access(function: str, triggers: Triggers, *, account: str = "", role: str = "") -> list[Object]:
    """Returns the rights of a function, bound to a ServiceAccount `account`, by default its server's.

    `role` is the name of the ClusterRole, by default the function's name.
    """
    name = workloads.name_of(function)
    role, holder = role or role_of(function), account or name
    objects: list[Object] = []
    if allowed := rbac.function_rules(triggers):
        objects += [rbac.cluster_role(role, allowed), rbac.cluster_role_binding(role, holder)]
    if kinds := triggers.defined_kinds:
        of_providers = f"{role}-providers"
        objects.append(rbac.aggregated_role(of_providers, kinds.role_label))
        objects.append(rbac.cluster_role_binding(of_providers, holder))
    return [*_labelled(name, objects)]


def everywhere(function: str, triggers: Triggers) -> list[Object]:
    """Returns the cluster-wide rights of a function in an installation for some namespaces."""
    name = workloads.name_of(function)
    return [*_labelled(name, rbac.everywhere(role_of(function), triggers.needed_rules, name))]


def role_of(function: str) -> str:
    """Returns the name of a function's ClusterRole."""
    return f"capi-functions-{workloads.name_of(function)}"


def server(function: str, triggers: Triggers) -> list[Object]:
    """Returns ServiceAccount, Deployment and Service of a function that is served on its own."""
    name = workloads.name_of(function)
    objects = (
        rbac.service_account(name),
        workloads.deployment(triggers, name),
        workloads.service(name),
    )
    return [*_labelled(name, objects)]


def subscriptions(function: str, triggers: Triggers) -> list[Object]:
    """Returns the objects that connect the server of a function with the Broker."""
    name = workloads.name_of(function)
    objects = [*eventing.triggers_of(triggers, name)]
    if triggers.emits:
        objects.append(eventing.sink_binding(name))
    return [*_labelled(name, objects)]


def _labelled(name: str, objects: Iterable[Object]) -> Iterator[Object]:
    for obj in objects:
        obj["metadata"]["labels"] = workloads.labels(name)
        yield obj
