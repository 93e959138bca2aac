"""Generates `infra/forwarder`: the functions in a cluster with Knative Eventing, with the forwarder as the source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from events.new_triggers import TRIGGER
from shared.api.resources import LEASE
from shared.kube.crds import CRD
from shared.kube.resources import Object
from shared.settings import INSTALLATION, KUBECONFIGS, NAMESPACE
from shared.triggers import Rule, Triggers

from . import eventing, rbac, workloads
from .files import Document, yaml_text
from .knative import BASE, in_a_cluster, kustomization
from .network import FORWARDER as NAME

ROLE = f"capi-functions-{NAME}"
"""The ClusterRole of the forwarder."""

PROFILES = "capi-functions.dev/profiles"
"""The annotation of the forwarder's pods that names their profiles: a change restarts them, as they read these once."""

_REPLICAS = 2
_MEMORY = "256Mi"

_READ = "The forwarder watches the kinds that start functions, and CustomResourceDefinitions to learn of new kinds."
READ_TRIGGERS = Rule(TRIGGER.group, (TRIGGER.plural,), ("list",))
"""With a Broker: the forwarder sends again what new Triggers may have missed."""

_LEASE = "The holder of the Lease delivers. The rule has no names of Leases, since each shard has a Lease of its own."
_REPLICATED = """
One replica delivers; the other one watches, and takes over if the first fails. If one replica cannot deliver all
events, use an overlay with a Deployment for each part of the namespaces, with the argument --shard=I/N.
"""


def files(declared: Mapping[str, Triggers]) -> dict[str, str]:
    """Returns the content of the generated files, by file name."""
    name = f"{NAME}.yaml"
    return {
        name: yaml_text(_documents(in_a_cluster(declared))),
        "kustomization.yaml": yaml_text([("", kustomization([BASE, name]))]),
    }


def rules(declared: Mapping[str, Triggers]) -> list[Object]:
    """Returns the PolicyRules to watch the kinds that start these functions, and CRDs."""
    watched = rbac.watch_rules(declared.values(), rbac.WATCH)
    return rbac.policy_rules([*watched, Rule(CRD.group, (CRD.plural,), rbac.READ)])


def access(declared: Mapping[str, Triggers], account: str = NAME, *more: Rule) -> Iterable[Document]:
    """Yields the rights of the forwarder, and `more` in its namespace, bound to a ServiceAccount."""
    yield _READ, rbac.cluster_role(ROLE, rules(declared))
    yield from lease_access(account, *more)


def lease_access(account: str = NAME, *more: Rule) -> Iterable[Document]:
    """Yields the rights of the forwarder that do not depend on the functions, bound to a ServiceAccount."""
    use_leases = Rule(LEASE.group, (LEASE.plural,), ("get", "create", "patch"))
    yield "", rbac.cluster_role_binding(ROLE, account, NAMESPACE)
    yield _LEASE, rbac.role(NAME, NAMESPACE, rbac.policy_rules([use_leases, *more]))
    yield "", rbac.role_binding(NAME, account, NAMESPACE)


def _documents(declared: Mapping[str, Triggers]) -> Iterable[Document]:
    yield "", rbac.service_account(NAME, NAMESPACE)
    yield from access(declared, NAME, READ_TRIGGERS)
    pods = deployment()
    yield _REPLICATED, pods
    yield "", workloads.disruption_budget(pods)
    yield "", eventing.sink_binding(NAME, NAMESPACE)


def deployment(*arguments: str) -> Object:
    """Returns the Deployment of a forwarder with these arguments; without any it posts to K_SINK."""
    deployment = workloads.deployment(
        Triggers(NAME, memory=_MEMORY, settings=(INSTALLATION, KUBECONFIGS)), NAME, NAMESPACE
    )
    deployment["spec"]["replicas"] = _REPLICAS
    template = deployment["spec"]["template"]
    template["metadata"]["annotations"] = {PROFILES: "all"}
    [container] = template["spec"]["containers"]
    for field in ("ports", "readinessProbe", "livenessProbe"):  # without --port it serves no HTTP
        del container[field]
    container |= {
        "name": NAME,
        "command": ["python", "-m", "infra.forwarder"],
        "args": [f"--lease={NAMESPACE}/{NAME}", *arguments],
        "env": [variable for variable in container["env"] if variable["name"] not in ("THREADS", "WORKERS")],
    }
    return deployment
