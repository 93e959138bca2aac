"""The charts of a release without their subcharts, and the values of their templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared import bounded_yaml, charts
from shared.addons.chart_objects import OVERWRITE, AddonAssets
from shared.kube import dig

from .samples import Sample
from .template_fields import ANY


@dataclass(frozen=True)
class OwnChart:
    """A chart without its subcharts: its default values, and the template of values for a cluster."""

    name: str
    templates: Mapping[str, str]
    defaults: Mapping[str, Any]
    template: str = ""

    def values(self, samples: Sequence[Sample]) -> list[dict[str, Any]]:
        """Returns the values for each sample cluster; samples that fail to render are left out."""
        return [merge_values(self.defaults, own) for sample in samples if (own := self._values_for(sample)) is not None]

    def _values_for(self, sample: Sample) -> dict[str, Any] | None:
        try:
            return charts.render_values(self.template, sample, name=self.name)
        except charts.ChartError:
            return None


def own_charts(assets: AddonAssets, members: Mapping[str, bytes]) -> Iterator[OwnChart]:
    """Yields the charts in a release's addon archive (`members`) that can be parsed."""
    for path in members:
        name, slash, file = path.partition("/")
        if file != "Chart.yaml" or not slash:
            continue
        template = members.get(f"{name}/{OVERWRITE}") if assets.stages else assets.values_template
        try:
            if any(dig(dependency, "import-values") for dependency in _dependencies(members[path])):
                continue  # values imported from subcharts may be anywhere
            yield OwnChart(name, _templates(members, name), _defaults(members, name), (template or b"").decode())
        except (UnicodeDecodeError, bounded_yaml.YAMLError):
            continue  # rendering reports the error


def merge_values(values: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merges values as Helm does, except that null does not remove a default: a template may use it."""
    result = dict(values)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            result[key] = merge_values(below, value)
        elif below is not ANY:
            result[key] = value
    return result


def _templates(members: Mapping[str, bytes], chart: str) -> dict[str, str]:
    prefix, notes = f"{chart}/templates/", "/NOTES.txt"
    return {
        path: data.decode() for path, data in members.items() if path.startswith(prefix) and not path.endswith(notes)
    }


def _defaults(members: Mapping[str, bytes], chart: str) -> dict[str, Any]:
    """Returns the default values; subcharts may have any values below their names."""
    subcharts = {path.split("/")[2].removesuffix(".tgz") for path in members if path.startswith(f"{chart}/charts/")}
    for dependency in _dependencies(members[f"{chart}/Chart.yaml"]):
        subcharts |= {str(dig(dependency, field, "")) for field in ("name", "alias")}
    own = bounded_yaml.load(members.get(f"{chart}/values.yaml", b"").decode())
    return (own if isinstance(own, dict) else {}) | dict.fromkeys({*subcharts, "global"}, ANY)


def _dependencies(description: bytes) -> list[Any]:
    found = dig(bounded_yaml.load(description.decode()), "dependencies", [])
    return found if isinstance(found, list) else []
