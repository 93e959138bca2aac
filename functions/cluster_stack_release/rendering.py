"""Renders the class chart of a release. This is a part of `observe`: charts may look up objects of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from shared import charts
from shared.applier.connection import ClusterConnection
from shared.applier.desired import MANAGEMENT, UnknownKinds, desired
from shared.kube import Object, dig
from shared.manifests import identity
from shared.releases.naming import ReleaseName


@dataclass(frozen=True)
class RenderedClass:
    """The objects of a class chart, or why there are none that may be applied."""

    objects: tuple[Object, ...] = ()
    problem: str = ""
    unknown_kinds: bool = False
    """Whether the problem is that the management cluster does not serve a kind, which may come soon."""


def render(
    chart: bytes, file: str, name: ReleaseName, connection: ClusterConnection, version: str, namespace: str
) -> RenderedClass:
    """Renders the chart in `file` for a management cluster of this Kubernetes version."""
    try:
        return RenderedClass(_objects(chart, file, name, connection, version, namespace))
    except (charts.ChartError, UnknownKinds) as error:
        return RenderedClass(problem=str(error), unknown_kinds=isinstance(error, UnknownKinds))


def _objects(
    chart: bytes, file: str, name: ReleaseName, connection: ClusterConnection, version: str, namespace: str
) -> tuple[Object, ...]:
    """Returns the objects. Raises `ChartError` or `UnknownKinds`."""
    served = connection.served
    manifests = charts.render(
        chart,
        {},
        name=file,
        release_name=name.stack,
        namespace=namespace,
        kube_version=version,
        api_versions=sorted({text for version, kind in served for text in (version, f"{version}/{kind}")}),
    )
    parsed = charts.parse(manifests, default_namespace=namespace)
    objects = desired(parsed, served, default_namespace=namespace, where=MANAGEMENT)
    if not objects:
        raise charts.ChartError(f"{file}: the chart renders no objects, a ClusterClass is needed")
    for obj in objects:
        # Whoever may create a release must not gain access to other namespaces through it.
        if (elsewhere := dig(obj, "metadata.namespace", "")) != namespace:
            where = f"is meant for {elsewhere}" if elsewhere else "is cluster-scoped"
            raise charts.ChartError(
                f"{file}: {identity(obj)} {where}, only objects in {namespace} are allowed; "
                "take it out of the class chart, and apply it by other means"
            )
    return tuple(objects)
