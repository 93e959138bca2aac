"""Reads the inputs of a preview from the management cluster: the objects of Clusters with topology, and their servers.

No Secret is read. So the throwaway control plane knows no kubeconfig, and its managers cannot reach a workload cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from infra.local.managers.programs import image_version
from shared.api.cluster import CLUSTER_NAME_LABEL, class_name, class_namespace
from shared.api.provider import COMPONENT_LABEL, CORE_NAME, GROUP, PROVIDER_LABEL
from shared.api.resources import CLUSTER, CLUSTER_CLASS, DEPLOYMENT, WEBHOOK_CONFIGURATIONS
from shared.kube import Client, Key, Object, Resource, deleting, dig, key_of
from shared.kube.client import METADATA_LIST
from shared.kube.crds import CRD, stored_resource
from shared.kube.resources import split_api_version
from shared.running_core import of_administrators
from shared.semver import try_parse

from ..failure import Failure
from .change import Change

Kind = tuple[str, str]
"""The group and kind of an object."""
_ROOT = "cluster.x-k8s.io"
_NOT_COPIED = (GROUP, "clusterctl.cluster.x-k8s.io")
"""Groups that no manager of the preview reads."""
OWN_CONTROLLERS = ("addons", "ipam", "runtime")
"""Groups whose objects are not copied, because their controllers would act on them, or call extensions."""
_EXTENSIONS = ("runtime.cluster.x-k8s.io", "ExtensionConfig")
_WEBHOOKS_OF = ("control-plane-", "bootstrap-")
"""Prefixes of the labels of providers whose managers serve webhooks in a preview."""
_CONTRACT = "cluster.x-k8s.io/v"
"""The prefix of the labels that name the versions of a CRD by contract (Cluster API book, provider contracts)."""
_ATTEMPTS = 3
AT_ONCE = 8
"""Requests at the same time."""
_OLDEST = (1, 11)
"""The first version of core that stores v1beta2, whose conditions have an observedGeneration."""


@dataclass(frozen=True)
class Snapshot:
    """The objects of the management cluster that a preview needs.

    Attributes:
        clusters: The Clusters by key.
        resources: The kinds of Cluster API in the versions in which they are stored.
        crds: Their definitions.
        objects: The Clusters, their objects, and their classes with templates.
        core: The Deployment of the core provider.
        providers: The Deployments of the providers whose webhooks the objects pass through.
        webhooks: The webhook configurations of all these.
        extensions: The names of the registered runtime extensions.
    """

    clusters: Mapping[Key, Object]
    resources: Mapping[Kind, Resource]
    crds: tuple[Object, ...]
    objects: tuple[Object, ...]
    core: Object
    providers: tuple[Object, ...]
    webhooks: tuple[Object, ...]
    extensions: tuple[str, ...]

    @property
    def core_version(self) -> str:
        """The version of the core provider; empty if the image has no tag."""
        return image_version(self.core)

    def resource(self, obj: Mapping[str, object]) -> Resource:
        """Returns the kind of an object. Raises `Failure` if it is no kind of Cluster API."""
        kind = kind_of(obj)
        if kind not in self.resources:
            raise Failure(f"{kind[1]} ({kind[0]}) is not a kind of Cluster API that the management cluster serves")
        return self.resources[kind]


def kind_of(obj: Mapping[str, object]) -> Kind:
    """Returns the group and kind of an object or reference."""
    return split_api_version(str(obj.get("apiVersion") or ""))[0], str(obj.get("kind") or "")


def provider_of(obj: Object) -> str:
    """Returns the label of the provider that an object belongs to; empty without one."""
    return str(dig(obj, ("metadata", "labels", PROVIDER_LABEL), ""))


def take(client: Client, changes: Mapping[Key, Change]) -> Snapshot:
    """Reads all inputs of the preview for these Clusters.

    Raises `Failure` if a Cluster has no topology, or its class has external patches.
    """
    with ThreadPoolExecutor(AT_ONCE) as threads:
        crds = list(threads.map(lambda key: client.get(CRD, key), _definitions(client)))
    resources = {(found.group, found.kind): found for crd in crds if (found := stored_resource(crd))}
    clusters = {key: _cluster(client, resources, key) for key in changes}
    configurations = [
        obj for resource in WEBHOOK_CONFIGURATIONS for obj in client.list(resource, selector=PROVIDER_LABEL)
    ]
    deployments = managers(client.list(DEPLOYMENT, selector=PROVIDER_LABEL), configurations)
    if CORE_NAME not in deployments:
        raise Failure("the management cluster has no Deployment of Cluster API core, so its version is not known")
    check_version(image_version(deployments[CORE_NAME]))
    providers = [obj for label, obj in sorted(deployments.items()) if label.startswith(_WEBHOOKS_OF)]
    labels = {CORE_NAME, *map(provider_of, providers)}
    webhooks = [obj for obj in configurations if provider_of(obj) in labels]
    extensions = resources.get(_EXTENSIONS)
    objects = tuple(_consistent(client, resources, clusters, changes))
    needed = set(needed_kinds((*objects, *(obj for change in changes.values() for obj in change.manifests))))
    kept = [
        crd
        for crd in crds
        if provider_of(crd) in labels or (dig(crd, "spec.group"), dig(crd, "spec.names.kind")) in needed
    ]
    return Snapshot(
        clusters,
        {(found.group, found.kind): found for crd in kept if (found := stored_resource(crd))},
        tuple(kept),
        objects,
        deployments[CORE_NAME],
        tuple(providers),
        tuple(webhooks),
        tuple(key_of(obj).name for obj in client.list(extensions)) if extensions else (),
    )


def managers(deployments: Iterable[Object], webhooks: Collection[Object]) -> dict[str, Object]:
    """Returns the Deployments of administrators by the label of their provider: a preview runs their managers."""
    found: dict[str, list[Object]] = {}
    for deployment in deployments:
        found.setdefault(provider_of(deployment), []).append(deployment)
    return {
        label: one
        for label, labelled in found.items()
        for one in of_administrators(labelled, (obj for obj in webhooks if provider_of(obj) == label))
    }


def needed_kinds(objects: Iterable[Object]) -> Iterator[Kind]:
    """Yields the kinds of the objects, of objects that they refer to, and of objects that core makes from templates.

    An infrastructure provider has many more kinds, and each would cost time.
    """
    for obj in objects:
        for group, kind in (kind_of(obj), *(map(kind_of, references(obj)))):
            yield group, kind
            yield group, kind.removesuffix("Template")


def clusters_of(client: Client, cluster_class: Key) -> list[Key]:
    """Returns the Clusters of a ClusterClass that are not being deleted."""
    return sorted(
        key_of(obj)
        for obj in client.list(CLUSTER)
        if (class_name(obj), class_namespace(obj)) == (cluster_class.name, cluster_class.namespace)
        and not deleting(obj)
    )


def check_version(core: str) -> None:
    """Raises `Failure` for a core that is too old for a preview."""
    version = try_parse(core)
    if version is not None and version.series < _OLDEST:
        raise Failure(
            f"the management cluster has Cluster API core {core}: a preview needs v1.11 or newer, whose status shows "
            "when a topology is reconciled; upgrade core first"
        )


def _definitions(client: Client) -> Iterator[Key]:
    """Yields the keys of the CRDs of Cluster API and of its providers."""
    for page in client.pages(CRD, accept=f"{METADATA_LIST},application/json"):
        for item in page["items"]:
            group = item["metadata"]["name"].partition(".")[2]
            labels = dig(item, "metadata.labels", {})
            is_provided = COMPONENT_LABEL in labels or any(str(label).startswith(_CONTRACT) for label in labels)
            if group not in _NOT_COPIED and (is_provided or group == _ROOT or group.endswith(f".{_ROOT}")):
                yield key_of(item)


def _cluster(client: Client, resources: Mapping[Kind, Resource], key: Key) -> Object:
    resource = resources.get((CLUSTER.group, CLUSTER.kind), CLUSTER)
    cluster = client.find(resource, key)
    if cluster is None:
        raise Failure(f"Cluster {key} does not exist")
    if deleting(cluster):
        raise Failure(f"Cluster {key} is being deleted")
    if not dig(cluster, "spec.topology"):
        raise Failure(f"Cluster {key} has no spec.topology, so Cluster API core does not reconcile its objects")
    return cluster


def _consistent(
    client: Client, resources: Mapping[Kind, Resource], clusters: Mapping[Key, Object], changes: Mapping[Key, Change]
) -> list[Object]:
    """Reads the objects until no spec changes between two reads, a few times at most."""
    found = list(_objects(client, resources, clusters, changes))
    for _ in range(_ATTEMPTS):
        again = list(_objects(client, resources, clusters, changes))
        if _generations(found) == _generations(again):
            break
        found = again
    return again


def _generations(objects: Iterable[Object]) -> dict[str, int]:
    return {obj["metadata"]["uid"]: obj["metadata"].get("generation", 0) for obj in objects}


def _objects(
    client: Client, resources: Mapping[Kind, Resource], clusters: Mapping[Key, Object], changes: Mapping[Key, Change]
) -> Iterator[Object]:
    classes: set[Key] = set()
    for key, known in clusters.items():
        cluster = client.get(resources[CLUSTER.group, CLUSTER.kind], key)
        classes |= changes[key].classes(known)
        yield cluster
    names: dict[str, list[str]] = {}
    for key in sorted(clusters):
        names.setdefault(key.namespace, []).append(key.name)
    wanted = [
        (resource, namespace)
        for resource in resources.values()
        for namespace in names
        if resource.namespaced and resource.group.split(".")[0] not in OWN_CONTROLLERS and resource.kind != CLUSTER.kind
    ]

    def listed(what: tuple[Resource, str]) -> list[Object]:
        resource, namespace = what
        selector = f"{CLUSTER_NAME_LABEL} in ({','.join(names[namespace])})"
        return [obj for obj in client.list(resource, namespace, selector=selector) if not deleting(obj)]

    with ThreadPoolExecutor(AT_ONCE) as threads:
        for found in threads.map(listed, wanted):
            yield from found
    given = {id(obj): obj for change in changes.values() for obj in change.manifests}  # often the same for all
    yield from _classes(client, resources, classes, list(given.values()))


def _classes(
    client: Client, resources: Mapping[Kind, Resource], classes: Collection[Key], given: Collection[Object]
) -> Iterator[Object]:
    """Yields the ClusterClasses, and their templates before and after the change.

    A class or template that only the manifests have is left out.
    """
    new = {(kind_of(obj), key_of(obj).name) for obj in given}
    templates = {
        (kind_of(reference), Key(key_of(obj).namespace or key.namespace, reference["name"]))
        for obj in given
        for key in classes
        for reference in references(obj)
    }
    for key in sorted(classes):
        found = client.find(resources[CLUSTER_CLASS.group, CLUSTER_CLASS.kind], key)
        if found is None:
            if ((CLUSTER_CLASS.group, CLUSTER_CLASS.kind), key.name) not in new:
                raise Failure(f"ClusterClass {key} does not exist")
            continue
        refuse_external_patches(found)
        yield found
        templates |= {(kind_of(reference), Key(key.namespace, reference["name"])) for reference in references(found)}
    for kind, key in sorted(templates):
        if kind in resources and (template := client.find(resources[kind], key)) is not None:
            yield template


def references(value: object) -> Iterator[Object]:
    """Yields all references to objects (apiVersion, kind, name) in a value."""
    if isinstance(value, Mapping):
        if all(isinstance(value.get(name), str) for name in ("apiVersion", "kind", "name")):
            yield dict(value)
        for below in value.values():
            yield from references(below)
    elif isinstance(value, list):
        for below in value:
            yield from references(below)


def refuse_external_patches(cluster_class: Object) -> None:
    """Raises `Failure` for a class whose patches a runtime extension generates, because a preview calls none."""
    external = [
        one.get("name", "") for one in dig(cluster_class, "spec.patches", []) if one.get("external") is not None
    ]
    if external:
        raise Failure(
            f"ClusterClass {key_of(cluster_class)} has patches of runtime extensions ({', '.join(external)}): "
            "a preview does not call runtime extensions, so their changes are not known"
        )
