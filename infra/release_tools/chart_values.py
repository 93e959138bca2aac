"""The charts that a release's authors wrote, with the values that their templates are rendered with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared import bounded_yaml, charts
from shared.addons.assets import AddonAssets
from shared.addons.content import OVERWRITE
from shared.kube import dig

from .keys import ANY
from .samples import Sample


@dataclass(frozen=True)
class OwnChart:
    """A chart without its subcharts; `defaults` are its values, `template` that of the values of one cluster."""

    name: str
    templates: Mapping[str, str]
    defaults: Mapping[str, Any]
    template: str = ""

    def values(self, samples: Sequence[Sample]) -> list[dict[str, Any]]:
        """For each cluster; of one for which they cannot be rendered nothing."""
        return [merged(self.defaults, own) for sample in samples if (own := self._of(sample)) is not None]

    def _of(self, sample: Sample) -> dict[str, Any] | None:
        try:
            return charts.render_values(self.template, sample, name=self.name)
        except charts.ChartError:
            return None


def own_charts(assets: AddonAssets, members: Mapping[str, bytes]) -> Iterator[OwnChart]:
    """Those in a release's addon archive, `members`, whose files can be read."""
    for path in members:
        name, slash, file = path.partition("/")
        if file != "Chart.yaml" or not slash:
            continue
        template = members.get(f"{name}/{OVERWRITE}") if assets.stages else assets.values_template
        try:
            if any(dig(dependency, "import-values") for dependency in _dependencies(members[path])):
                continue  # what comes from subcharts may be anywhere
            yield OwnChart(name, _templates(members, name), _defaults(members, name), (template or b"").decode())
        except (UnicodeDecodeError, bounded_yaml.YAMLError):
            continue  # rendering says what is wrong with it


def merged(values: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """As Helm does it, but for null, which takes a default away there: a template may ask for it all the same."""
    result = dict(values)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            result[key] = merged(below, value)
        elif below is not ANY:
            result[key] = value
    return result


def _templates(members: Mapping[str, bytes], chart: str) -> dict[str, str]:
    prefix, notes = f"{chart}/templates/", "/NOTES.txt"
    return {
        path: data.decode() for path, data in members.items() if path.startswith(prefix) and not path.endswith(notes)
    }


def _defaults(members: Mapping[str, bytes], chart: str) -> dict[str, Any]:
    """A subchart has defaults of its own, under its name."""
    subcharts = {path.split("/")[2].removesuffix(".tgz") for path in members if path.startswith(f"{chart}/charts/")}
    for dependency in _dependencies(members[f"{chart}/Chart.yaml"]):
        subcharts |= {str(dig(dependency, field, "")) for field in ("name", "alias")}
    own = bounded_yaml.load(members.get(f"{chart}/values.yaml", b"").decode())
    return (own if isinstance(own, dict) else {}) | dict.fromkeys({*subcharts, "global"}, ANY)


def _dependencies(description: bytes) -> list[Any]:
    found = dig(bounded_yaml.load(description.decode()), "dependencies", [])
    return found if isinstance(found, list) else []
