"""Helm: renders a chart, with the values of a release's values template, to Kubernetes objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..kube.resources import Object
from ..redaction import redact
from .archive import folder, inspect, pack
from .engine import NAMESPACE, RELEASE_NAME, render
from .errors import ArchiveError, ChartError, HelmMissing, OutputError, RenderError, ValuesError
from .live import LiveCluster
from .program import find_helm, provide_helm
from .sandboxed import parse, traits, with_fixed_time
from .traits import Traits, needs_cluster_facts
from .values import render_values

__all__ = [
    "NAMESPACE",
    "RELEASE_NAME",
    "VALUES_FILE",
    "ArchiveError",
    "ChartError",
    "HelmMissing",
    "LiveCluster",
    "OutputError",
    "RenderError",
    "Traits",
    "ValuesError",
    "find_helm",
    "folder",
    "inspect",
    "needs_cluster_facts",
    "pack",
    "parse",
    "provide_helm",
    "render",
    "render_addon",
    "render_values",
    "traits",
    "with_fixed_time",
]

VALUES_FILE = "cluster-addon-values.yaml"


def render_addon(
    chart: bytes,
    values_template: str | None,
    context: Mapping[str, Any],
    *,
    chart_name: str,
    values_name: str = VALUES_FILE,
    kube_version: str | None,
    api_versions: Sequence[str] = (),
    helm: Callable[[], Path] | None = None,
    live: LiveCluster | None = None,
) -> list[Object]:
    """Returns the objects of an addon chart for the cluster in `context`.

    Args:
        chart: The chart archive.
        values_template: The text of cluster-addon-values.yaml; None for the chart's defaults.
        context: The objects that the template reads: `Cluster`, `ControlPlane`, `InfraCluster`.
        chart_name: The name of the archive, for messages.
        values_name: The name of the template, for messages.
        kube_version: The version of the cluster (`v1.36.3`); None for the engine's version.
        api_versions: The API list of the cluster (`apps/v1`, `apps/v1/Deployment`).
        helm: Returns the helm program, for charts that need it.
        live: The cluster that answers `lookup`; without it lookups find nothing.

    Raises:
        ChartError: The chart or the template is unusable. The message quotes no Secret that was looked up.
        ApiError: The live cluster does not answer.
    """
    try:
        return _render_addon(
            chart, values_template, context, chart_name, values_name, kube_version, api_versions, helm, live
        )
    except ChartError as error:
        if live is None or not live.secrets:
            raise
        raise type(error)(redact(str(error), live.secrets)) from None


def _render_addon(
    chart: bytes,
    values_template: str | None,
    context: Mapping[str, Any],
    chart_name: str,
    values_name: str,
    kube_version: str | None,
    api_versions: Sequence[str],
    helm: Callable[[], Path] | None,
    live: LiveCluster | None,
) -> list[Object]:
    values = {} if values_template is None else render_values(values_template, context, name=values_name)
    manifests = render(
        chart, values, name=chart_name, kube_version=kube_version, api_versions=api_versions, helm=helm, live=live
    )
    return parse(manifests, default_namespace=NAMESPACE, name=chart_name)
