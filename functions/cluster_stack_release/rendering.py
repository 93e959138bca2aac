"""Renders the class chart of a release. This is a part of `observe`. Charts may look up objects of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from shared import charts
from shared.api.contract import contract_version
from shared.applier.connection import ClusterConnection
from shared.applier.desired import MANAGEMENT, UnknownKinds, desired
from shared.kube import Object, dig
from shared.kube.crds import find_definition
from shared.manifests import identity
from shared.releases.naming import ReleaseName

from .kinds import refuse
from .ownership import owner


@dataclass(frozen=True)
class RenderedClass:
    """The objects of a class chart, or why they cannot be applied."""

    objects: tuple[Object, ...] = ()
    problem: str = ""
    unknown_kinds: bool = False
    """Whether the problem is a kind that the management cluster does not serve; it may be installed later."""


def render(
    chart: bytes, file_name: str, name: ReleaseName, connection: ClusterConnection, kube_version: str, namespace: str
) -> RenderedClass:
    """Renders a chart for a management cluster of this Kubernetes version; messages name the chart's file."""
    try:
        return RenderedClass(_objects(chart, file_name, name, connection, kube_version, namespace))
    except (charts.ChartError, UnknownKinds) as error:
        return RenderedClass(problem=str(error), unknown_kinds=isinstance(error, UnknownKinds))


def _objects(
    chart: bytes, file_name: str, name: ReleaseName, connection: ClusterConnection, kube_version: str, namespace: str
) -> tuple[Object, ...]:
    """Returns the objects. Raises `ChartError` or `UnknownKinds`."""
    served = connection.served
    manifests = charts.render(
        chart,
        {},
        charts.Release(name.stack, namespace),
        name=file_name,
        capabilities=charts.Capabilities(kube_version, charts.api_list(served)),
    )
    parsed = charts.parse(manifests, default_namespace=namespace)
    if refusal := refuse(parsed, name.stack, lambda version, kind: _follows_contract(connection, version, kind)):
        raise charts.ChartError(f"{file_name}: {refusal}")
    objects = desired(parsed, served, owner(name), default_namespace=namespace, where=MANAGEMENT)
    if not objects:
        raise charts.ChartError(f"{file_name}: the chart renders no objects, but needs a ClusterClass")
    for obj in objects:
        # Whoever may create a release must not gain access to other namespaces through it.
        if (other := dig(obj, "metadata.namespace", "")) != namespace:
            fault = f"is in namespace {other}" if other else "is cluster-scoped"
            raise charts.ChartError(
                f"{file_name}: {identity(obj)} {fault}, but only objects in {namespace} are allowed; "
                "remove it from the class chart, and apply it by other means"
            )
    return tuple(objects)


def _follows_contract(connection: ClusterConnection, api_version: str, kind: str) -> bool:
    """Returns whether the CRD of a kind has the label of a contract; True if the kind is not served yet."""
    resource = connection.served.get((api_version, kind))
    if resource is None:
        return True
    definition = find_definition(connection.cluster.client, resource)
    return contract_version(dig(definition, "metadata.labels", {})) is not None
