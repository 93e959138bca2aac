"""Generates `infra/manifests/forwarder`: the functions with Knative Eventing, and the forwarder as the source."""

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
from .knative import BASE, in_a_cluster, kustomization_with_image
from .network import FORWARDER as NAME

PROFILES = "capi-functions.dev/profiles"
"""The annotation of the forwarder's pods with their profiles. A change restarts the pods, which read profiles once."""

_REPLICAS = 2
_MEMORY = "256Mi"

_READ = "The forwarder watches the kinds that start functions, and CustomResourceDefinitions to learn of new kinds."
READ_TRIGGERS = Rule(TRIGGER.group, (TRIGGER.plural,), ("list",))
"""With a Broker: the forwarder repeats events that new Triggers may have missed."""

_WATCH_CRDS = Rule(CRD.group, (CRD.plural,), rbac.READ, everywhere=True)
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
        "kustomization.yaml": yaml_text([("", kustomization_with_image([BASE, name]))]),
    }


def role_of(lease: str = NAME) -> str:
    """Returns the name of the ClusterRole of the forwarders with this Lease."""
    return f"capi-functions-{lease}"


def rules(declared: Mapping[str, Triggers]) -> list[Object]:
    """Returns the PolicyRules to watch the kinds that start these functions, and CRDs."""
    return rbac.policy_rules([*rbac.watch_rules(declared.values(), rbac.WATCH), _WATCH_CRDS])


def access(declared: Mapping[str, Triggers], account: str = NAME, *more: Rule, lease: str = NAME) -> Iterable[Document]:
    """Yields the rights of a forwarder with this Lease, and `more` in its namespace, bound to a ServiceAccount."""
    yield _READ, rbac.cluster_role(role_of(lease), rules(declared))
    yield from lease_access(account, *more, lease=lease)


def lease_access(account: str = NAME, *more: Rule, lease: str = NAME) -> Iterable[Document]:
    """Yields the rights of a forwarder that do not depend on the functions, bound to a ServiceAccount."""
    use_leases = Rule(LEASE.group, (LEASE.plural,), ("get", "create", "patch"))
    yield "", rbac.cluster_role_binding(role_of(lease), account)
    yield _LEASE, rbac.role(lease, rbac.policy_rules([use_leases, *more]))
    yield "", rbac.role_binding(lease, account)


def everywhere(account: str = NAME, lease: str = NAME) -> list[Object]:
    """Returns the cluster-wide rights of a forwarder in an installation for some namespaces."""
    return rbac.everywhere(role_of(lease), [_WATCH_CRDS], account)


def _documents(declared: Mapping[str, Triggers]) -> Iterable[Document]:
    yield "", rbac.service_account(NAME)
    yield from access(declared, NAME, READ_TRIGGERS)
    pods = deployment()
    yield _REPLICATED, pods
    yield "", workloads.disruption_budget(pods)
    yield "", service()
    yield "", eventing.sink_binding(NAME)


def deployment(*arguments: str) -> Object:
    """Returns the Deployment of a forwarder with these arguments; without any it posts to K_SINK."""
    return _deployment(f"--lease={NAMESPACE}/{NAME}", *arguments)


def service() -> Object:
    """Returns the Service of the forwarders, for Prometheus."""
    result = workloads.service(NAME)
    result["spec"]["ports"] = [workloads.metrics_port(workloads.FORWARDER_NAME)]
    return result


def container(*arguments: str) -> Object:
    """Returns the container of a forwarder with these arguments, for the pods of functions."""
    [found] = _deployment(*arguments)["spec"]["template"]["spec"]["containers"]
    return dict(found)


def _deployment(*arguments: str) -> Object:
    deployment = workloads.deployment(Triggers(NAME, memory=_MEMORY, settings=(INSTALLATION, KUBECONFIGS)), NAME)
    deployment["spec"]["replicas"] = _REPLICAS
    template = deployment["spec"]["template"]
    template["metadata"]["annotations"] = {
        **workloads.SCRAPED,
        "prometheus.io/port": str(workloads.FORWARDER),
        PROFILES: "all",
    }
    [only] = template["spec"]["containers"]
    port = workloads.FORWARDER_NAME
    only |= {
        "name": NAME,
        "command": ["python", "-m", "infra.forwarder"],
        "args": [*arguments, f"--health-port={workloads.FORWARDER}"],
        "ports": [{"name": port, "containerPort": workloads.FORWARDER}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": port}, "periodSeconds": 5},
        "livenessProbe": workloads.liveness(port, "HTTP"),
    }
    workloads.unset_variables(only, workloads.METRICS_PORT, "THREADS", "WORKERS")
    return deployment
