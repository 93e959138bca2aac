"""Generates `infra/manifests/single`: forwarders and all functions in two Deployments, without Knative.

`PROVIDERS` installs the components of providers, so it may do everything. `LIFECYCLE` reads the input of tenants:
charts, releases, kubeconfigs. So they are pods with accounts of their own. Each pod has a forwarder, which calls the
functions in its own pod. If there are several replicas, only the forwarder that holds the Lease delivers; the others
stand by.

`sweep` and `dead_letters`, the functions of all profiles, run in both, for the objects of the pod's other functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from functions import serving
from shared import profiles
from shared.buckets import DEFAULT_STORE
from shared.kube.resources import Object
from shared.settings import INSTALLATION, KUBECONFIGS, NAMESPACE, Group
from shared.triggers import Rule, Triggers

from . import admission, forwarder, knative, network, parts, rbac, workloads
from .files import Document, component, in_namespace, kustomization, yaml_text
from .knative import in_a_cluster, kustomization_with_image, namespace

INGRESS = 8081
"""The port at which the forwarder receives the events that functions emit."""

_THREADS = 16
_STORE = "/var/lib/store"
_STORE_SIZE = "4Gi"
"""The pod is evicted beyond it; a release has at most 256 MiB, and unused ones are deleted."""
_NAMESPACED = """
Takes the rights in all namespaces from the account capi-functions. Add it to the components of a kustomization that has
infra/manifests/single or an overlay of it, and for each namespace of Clusters a kustomization with this namespace and
namespaced/bindings. docs/installation.md shows all of it.
"""
_BINDINGS = "The rights of the account capi-functions in the namespace of a kustomization with this resource."


@dataclass(frozen=True)
class Part:
    """One Deployment, with a ServiceAccount and a Service of its name.

    `profiles` has the profiles of all its functions, in an installation that runs every function. `lease` names the
    Lease of its forwarders, and their roles.
    """

    name: str
    profiles: tuple[str, ...]
    lease: str
    replicas: int
    memory: str
    requested: str
    what: str

    def chosen(self, wanted: Collection[str]) -> tuple[str, ...]:
        """Returns the profiles of the part in an installation with the profiles `wanted`; empty if it does not run."""
        if "all" in wanted:
            return self.profiles
        return tuple(name for name in wanted if (name in PROVIDERS.profiles) == (self is PROVIDERS))


LIFECYCLE = Part(
    workloads.SINGLE,
    ("standalone",),
    network.FORWARDER,
    2,
    "2Gi",
    workloads.MEMORY_AT_WORK,
    "All functions except the functions of providers. One replica works, and the other takes over if it fails.",
)
PROVIDERS = Part(
    workloads.SINGLE_PROVIDERS,
    profiles.PROVIDERS,
    f"{network.FORWARDER}-providers",
    1,
    "1Gi",
    workloads.MEMORY_IDLE,
    "The functions of providers. Their account may do everything, so no other function runs here.",
)
PARTS = (LIFECYCLE, PROVIDERS)


def files(declared: Mapping[str, Triggers]) -> dict[str, str]:
    """Returns the content of the generated files, by path below `infra/manifests/single`."""
    documents: dict[str, Iterable[Document]] = {
        "namespace.yaml": [("", namespace())],
        "access.yaml": [*admission.documents(), *(each for part in PARTS for each in _access(part, declared))],
        "single.yaml": [
            *(each for part in PARTS for each in _pods(part, declared)),
            ("", network.of_prometheus()),
        ],
    }
    documents["kustomization.yaml"] = [("", kustomization_with_image(["../crds", "../crds/cluster", *documents]))]
    documents["namespaced/everywhere.yaml"] = _everywhere(declared)
    documents["namespaced/kustomization.yaml"] = [(_NAMESPACED, _component(declared))]
    documents["namespaced/bindings/bindings.yaml"] = [("", rbac.in_namespace(obj)) for obj in _bindings(declared)]
    documents["namespaced/bindings/kustomization.yaml"] = [(_BINDINGS, kustomization(["bindings.yaml"]))]
    return {name: yaml_text(content) for name, content in documents.items()}


def _bindings(declared: Mapping[str, Triggers]) -> Iterable[Object]:
    """Yields the ClusterRoleBindings of the account whose rights can be limited to some namespaces."""
    return (obj for _, obj in _access(LIFECYCLE, declared) if obj["kind"] == "ClusterRoleBinding")


def _everywhere(declared: Mapping[str, Triggers]) -> Iterable[Document]:
    """Yields the objects that the component of namespaces adds. It removes bindings by the labels of functions."""
    granted = forwarder.everywhere(LIFECYCLE.name)
    for function, triggers in in_a_cluster(declared, LIFECYCLE.profiles).items():
        rules = triggers.needed_rules
        granted += rbac.everywhere(parts.role_of(function), rules, LIFECYCLE.name)
    for obj in granted:
        yield "", obj


def _component(declared: Mapping[str, Triggers]) -> Object:
    names = dict.fromkeys(obj["metadata"]["labels"][workloads.NAME] for obj in _bindings(declared))
    bound = {"kind": "ClusterRoleBinding", "labelSelector": f"{workloads.NAME} in ({', '.join(names)})"}
    return component(resources=["everywhere.yaml"], patches=[knative.removal(bound)])


def _access(part: Part, declared: Mapping[str, Triggers]) -> Iterable[Document]:
    chosen = in_a_cluster(declared, part.profiles)
    yield part.what, _labelled(part, rbac.service_account(part.name))
    for comment, obj in forwarder.access(chosen, part.name, lease=part.lease):
        yield comment, _labelled(part, obj)
    for function, triggers in chosen.items():
        for obj in access(part, function, triggers, declared):
            yield "", obj


def _pods(part: Part, declared: Mapping[str, Triggers]) -> Iterable[Document]:
    pods = deployment(part, declared)
    yield part.what, pods
    if part.replicas > 1:
        yield "", workloads.disruption_budget(pods)
    yield "", service(part)


def own(part: Part, declared: Mapping[str, Triggers]) -> Iterable[Object]:
    """Yields the objects of a part that do not depend on its functions.

    These are all but the ClusterRole of its forwarder, and the rights of its functions.
    """
    yield _labelled(part, rbac.service_account(part.name))
    yield from (_labelled(part, obj) for _, obj in forwarder.lease_access(part.name, lease=part.lease))
    for function, triggers in in_a_cluster(declared).items():
        if triggers.profiles == profiles.ALWAYS:
            yield from access(part, function, triggers, declared)
    yield deployment(part, declared)
    yield service(part)


def access(part: Part, function: str, triggers: Triggers, declared: Mapping[str, Triggers]) -> list[Object]:
    """Returns the rights of a function in a part.

    A function of all profiles has in each part the label of the part, and a role for the kinds of the part only.
    """
    if triggers.profiles != profiles.ALWAYS:
        return parts.access(function, triggers, account=part.name)
    role = parts.role_of(function) if part is LIFECYCLE else f"{part.name}-{workloads.name_of(function)}"
    narrowed = replace(triggers, rules=_of_part(part, triggers.rules, declared))
    return [_labelled(part, obj) for obj in parts.access(function, narrowed, account=part.name, role=role)]


def _of_part(part: Part, rules: Iterable[Rule], declared: Mapping[str, Triggers]) -> tuple[Rule, ...]:
    """Returns the rules without those for kinds that concern only functions of the other part."""
    every, here = in_a_cluster(declared), _kinds(in_a_cluster(declared, part.profiles))
    elsewhere = _kinds(every) - here
    return tuple(rule for rule in rules if not {(rule.group, name) for name in rule.resources} & elsewhere)


def _kinds(declared: Mapping[str, Triggers]) -> set[tuple[str, str]]:
    kinds = (kind for each in declared.values() for kind in (*each.primaries, *(one.resource for one in each.watches)))
    return {(kind.group, kind.plural) for kind in kinds}


def deployment(part: Part, declared: Mapping[str, Triggers]) -> Object:
    """Returns the Deployment of forwarder and functions of a part."""
    used = {group: None for triggers in in_a_cluster(declared, part.profiles).values() for group in triggers.settings}
    groups: tuple[Group, ...] = tuple(dict.fromkeys((INSTALLATION, KUBECONFIGS, *used)))
    result = workloads.deployment(Triggers(part.name, memory=part.memory, settings=groups), part.name)
    result["spec"]["replicas"] = part.replicas
    pod = result["spec"]["template"]["spec"]
    [functions] = pod["containers"]
    program, *arguments = serving.command("", f"--bind=0.0.0.0:{workloads.PORT}")
    functions |= {"name": "functions", "command": [program], "args": arguments}
    functions["resources"]["requests"]["memory"] = part.requested
    workloads.set_variables(functions, THREADS=str(_THREADS), K_SINK=f"http://127.0.0.1:{INGRESS}")
    delivering = forwarder.container(
        f"--lease={NAMESPACE}/{part.lease}",
        f"--functions=http://127.0.0.1:{workloads.PORT}",
        f"--port={INGRESS}",
        without(declared),
    )
    pod["containers"].append(delivering)
    for container in pod["containers"]:
        workloads.set_variables(container, CAPI_FUNCTIONS_PROFILES=",".join(part.profiles))
        if part is PROVIDERS:  # whatever the settings say about other functions
            workloads.set_variables(container, CAPI_FUNCTIONS_NAMESPACES="")
    _keep_store_in_pod(result)
    return result


def _keep_store_in_pod(deployment: Object) -> None:
    """Adds a folder for releases, components and dead letters, which is used unless a setting names another store.

    It ends with the pod, which costs another download and the dead letters. Pods that share these files need a bucket.
    """
    pod = deployment["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "store", "emptyDir": {"sizeLimit": _STORE_SIZE}})
    functions = pod["containers"][0]
    functions["volumeMounts"].append({"name": "store", "mountPath": _STORE})
    workloads.set_variables(functions, **{DEFAULT_STORE: f"file://{_STORE}/objects"})


def variables(part: Part, wanted: Collection[str]) -> Object:
    """Returns the patch of the part's Deployment for other profiles."""
    env = [{"name": "CAPI_FUNCTIONS_PROFILES", "value": ",".join(part.chosen(wanted))}]
    containers = [{"name": name, "env": env} for name in ("functions", network.FORWARDER)]
    return in_namespace("apps/v1", "Deployment", part.name, {"template": {"spec": {"containers": containers}}})


def without(declared: Mapping[str, Triggers]) -> str:
    """Returns the argument of a forwarder that names the functions that do not run in a cluster."""
    return "--without=" + ",".join(name for name, triggers in declared.items() if triggers.local)


def service(part: Part) -> Object:
    """Returns the Service, for Prometheus."""
    result = workloads.service(part.name)
    result["spec"]["ports"].append(workloads.metrics_port(workloads.FORWARDER_NAME))
    return result


def _labelled(part: Part, obj: Object) -> Object:
    """Returns the object with the labels of the part, by which overlays leave the object out."""
    obj["metadata"]["labels"] = workloads.labels(part.name)
    return obj
