"""Renders the templates of a HelmChartProxy for one Cluster: its values, its version, the names of its sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shared.charts import ValuesError, render_texts
from shared.kube import Object, dig, key_of

from .construction import Rendered

MAX_VALUES: Final = 2**19
"""Characters of rendered values, because they are stored in the HelmReleaseProxy."""
_MAX_NAME: Final = 253
_NO_VALUE: Final = "<no value>"

CONTROL_PLANE, INFRA_CLUSTER = "ControlPlane", "InfraCluster"


def reads(proxy: Mapping[str, Any], root: str) -> bool:
    """Returns whether a template of the HelmChartProxy names `ControlPlane` or `InfraCluster`."""
    return any(root in template for template in _templates(proxy))


def render(proxy: Mapping[str, Any], cluster: Object, roots: Mapping[str, Object]) -> Rendered:
    """Renders the templates for one Cluster.

    Args:
        proxy: The HelmChartProxy.
        cluster: The Cluster.
        roots: The objects that the Cluster refers to: `ControlPlane` and `InfraCluster`, each if it is needed.

    Raises:
        ChartError: A template fails, or its output cannot be used; the message names the Cluster.
    """
    templates = _templates(proxy)
    name = f"{dig(proxy, 'spec.chartName', '')}-{key_of(cluster).name}"
    if any(templates):
        values, version, *sources = render_texts(templates, {"Cluster": cluster, **roots}, name=name)
    else:
        values, version, *sources = templates
    if len(values) > MAX_VALUES:
        raise ValuesError(f"{name}: the values have more than {MAX_VALUES} characters")
    return Rendered(
        values,
        _short(version, f"{name}: spec.version"),
        tuple(_short(source, f"{name}: the name of spec.valuesFrom[{at}]") for at, source in enumerate(sources)),
    )


def _templates(proxy: Mapping[str, Any]) -> list[str]:
    spec = dig(proxy, "spec", {})
    names = [source.get("name") or "" for source in spec.get("valuesFrom") or []]
    return [spec.get("valuesTemplate") or "", spec.get("version") or "", *names]


def _short(text: str, what: str) -> str:
    """Returns a name or version without blanks around it. Raises `ValuesError` if it is too long, or lacks a value."""
    text = text.strip()
    if _NO_VALUE in text:
        raise ValuesError(f"{what} refers to a value that does not exist")
    if len(text) > _MAX_NAME:
        raise ValuesError(f"{what} has more than {_MAX_NAME} characters")
    return text
