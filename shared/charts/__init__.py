"""Helm: renders a chart, with the values of a release's values template, to Kubernetes objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from shared.manifests import RELEASE_HOOKS, hooks_of

from ..kube.resources import Object
from ..redaction import redact
from .archive import folder, inspect, pack
from .engine import find_helm, provide_helm, render
from .errors import ArchiveError, ChartError, HelmMissing, OutputError, RenderError, ValuesError
from .release import DEFAULT, NO_CLUSTER, NOTES, Capabilities, LiveCluster, Release, RenderedChart, api_list, is_in_crds
from .sandboxed import parse, traits, with_fixed_time
from .traits import Traits, needs_cluster_facts
from .values import render_texts, render_values

__all__ = [
    "VALUES_FILE",
    "ArchiveError",
    "Capabilities",
    "ChartError",
    "HelmMissing",
    "LiveCluster",
    "OutputError",
    "Release",
    "RenderError",
    "RenderedChart",
    "Traits",
    "ValuesError",
    "api_list",
    "find_helm",
    "folder",
    "inspect",
    "needs_cluster_facts",
    "pack",
    "parse",
    "provide_helm",
    "render",
    "render_addon",
    "render_release",
    "render_texts",
    "render_values",
    "traits",
    "with_fixed_time",
]

VALUES_FILE = "cluster-addon-values.yaml"


def render_addon(
    chart: bytes,
    values_template: str | None,
    context: Mapping[str, Any],
    release: Release = DEFAULT,
    *,
    chart_name: str,
    values_name: str = VALUES_FILE,
    capabilities: Capabilities = NO_CLUSTER,
) -> list[Object]:
    """Returns the objects of an addon chart for the cluster in `context`.

    Args:
        chart: The chart archive.
        values_template: The text of cluster-addon-values.yaml; None for the chart's defaults.
        context: The objects that the template reads: `Cluster`, `ControlPlane`, `InfraCluster`.
        release: The Helm release.
        chart_name: The name of the archive, for messages.
        values_name: The name of the template, for messages.
        capabilities: The cluster as the chart sees it.

    Raises:
        ChartError: The chart or the template is unusable. The message quotes no Secret that was looked up.
        ApiError: The live cluster does not answer.
    """
    with _secrets_redacted(capabilities.live):
        values = {} if values_template is None else render_values(values_template, context, name=values_name)
        manifests = render(chart, values, release, name=chart_name, capabilities=capabilities)
        return parse(manifests, default_namespace=release.namespace, name=chart_name)


def render_release(
    chart: bytes,
    values: Mapping[str, Any],
    release: Release,
    *,
    chart_name: str,
    capabilities: Capabilities = NO_CLUSTER,
) -> RenderedChart:
    """Returns the objects, hooks, notes and CRDs of any chart for a Helm release.

    Hooks of tests and rollbacks are left out.

    Args:
        chart: The chart archive.
        values: The values; large integers print as floats, as in Helm.
        release: The Helm release, with the revision and the operation that templates see.
        chart_name: The name of the archive, for messages.
        capabilities: The cluster as the chart sees it.

    Raises:
        ChartError: The chart, its output, or the name of the release is unusable. The message quotes no Secret that
            was looked up.
        ApiError: The live cluster does not answer.
    """
    if release.problem:
        raise RenderError(f"{chart_name}: {release.problem}")
    with _secrets_redacted(capabilities.live):
        manifests = render(
            chart,
            values,
            release,
            name=chart_name,
            capabilities=capabilities,
            notes=True,
            exact_integers=False,
        )
        crds = [manifest for manifest in manifests if is_in_crds(manifest.source)]
        texts = [manifest for manifest in manifests if manifest.source != NOTES and manifest not in crds]
        parsed = parse(texts, default_namespace=release.namespace, name=chart_name, hooks=RELEASE_HOOKS)
        defined = parse(crds, default_namespace=release.namespace, name=chart_name) if crds else []
    return RenderedChart(
        objects=[obj for obj in parsed if not hooks_of(obj)],
        hooks=[obj for obj in parsed if hooks_of(obj)],
        notes="".join(text for source, text in manifests if source == NOTES),
        crds=defined,
    )


@contextmanager
def _secrets_redacted(live: LiveCluster | None) -> Iterator[None]:
    """Redacts the values of Secrets that were looked up from the message of a `ChartError`."""
    try:
        yield
    except ChartError as error:
        if live is None or not live.secrets:
            raise
        raise type(error)(redact(str(error), live.secrets)) from None
