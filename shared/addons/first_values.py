"""Keeps the first values of fields that a release generates at each rendering: passwords, certificates, dates.

Such a release is rendered twice; the fields that differ are the generated ones. Each of them keeps the value that was
generated first until the version of the addons changes, so that neither a retry nor a drift check rotates it. All other
fields follow the inputs.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from shared import charts
from shared.charts import varying
from shared.kube import Object
from shared.manifests import Identity, identity

from . import chart_objects
from .chart_objects import AddonAssets

StageObjects = list[tuple[str, list[Object]]]
"""Objects by stage."""

Path = tuple[str | int, ...]

_POD_ANNOTATIONS = ("template", "metadata", "annotations")


class GeneratedField(NamedTuple):
    """A generated field of an object.

    `object` is the object's kind and name; a generated name is replaced by the number of the object within its kind.
    """

    stage: str
    object: str
    path: Path

    def __str__(self) -> str:
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return f"{self.object}: {steps.removeprefix('.')}"

    @property
    def restarts_pods(self) -> bool:
        """Whether the field is an annotation of a pod template: in most charts a checksum over settings."""
        return any(self.path[at : at + 3] == _POD_ANNOTATIONS for at in range(len(self.path) - 3))


@dataclass(frozen=True)
class FirstValues:
    """The values that an addon chart generated first.

    `chart` is the file name of the chart, and `digests` has a digest of all fields that are not generated, by stage.
    """

    chart: str = ""
    values: Mapping[GeneratedField, Any] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)

    def for_chart(self, chart: str) -> FirstValues:
        """Returns this record if it belongs to the chart, otherwise an empty record."""
        return self if self.chart == chart else FirstValues(chart)

    def dump(self) -> Object:
        """Returns the record as JSON, for `load`. Existing Secrets have the same keys."""
        values = [[*each[:2], list(each.path), value] for each, value in self.values.items()]
        return {"addons": self.chart, "values": values, "steady": dict(self.digests)}

    @classmethod
    def load(cls, data: Any) -> FirstValues:
        """Returns the record from the JSON that `dump` returned; raises `ValueError` for other data."""
        try:
            values = {GeneratedField(stage, name, tuple(path)): value for stage, name, path, value in data["values"]}
            return cls(data["addons"], values, dict(data["steady"]))
        except (TypeError, KeyError) as error:
            raise ValueError("the data is not a record of generated values") from error


@dataclass(frozen=True)
class RenderedAddons:
    """Objects by stage with their first values, and the record of these values."""

    stages: StageObjects
    record: FirstValues
    fields: tuple[GeneratedField, ...] = ()
    """The fields that differ at each rendering."""

    @property
    def objects(self) -> list[Object]:
        """All objects."""
        return [obj for _, objects in self.stages for obj in objects]

    @property
    def stage_of(self) -> dict[Identity, str]:
        """The stage of each object."""
        return {identity(obj): stage for stage, objects in self.stages for obj in objects}


def may_vary(assets: AddonAssets) -> bool:
    """Returns whether the release's templates call functions that may return another value each time.

    Raises:
        ChartError: The charts exceed a limit.
    """
    return chart_objects.chart_traits(assets).varies or (
        assets.values_template is not None and varying.text_may_vary(assets.values_template)
    )


def render(assets: AddonAssets, renderer: Callable[[AddonAssets], StageObjects], record: FirstValues) -> RenderedAddons:
    """Renders the release, with first values in generated fields.

    Args:
        assets: The files of the release.
        renderer: Renders the objects from the files. Called again if values may be generated, with another date if the
            chart allows it.
        record: The values that were generated first; values of another chart are ignored.

    Raises:
        ChartError: The charts exceed a limit.
        Exception: Whatever `renderer` raises.
    """
    rendered = renderer(assets)
    record = record.for_chart(assets.release.addon_chart)  # releases with the same chart share their values
    if not may_vary(assets):
        return RenderedAddons(rendered, record)
    try:
        at_another_time = dict(renderer(_with_fixed_time(assets)))
    except charts.ChartError:  # the chart cannot be rendered with another date
        at_another_time = dict(renderer(assets))
    fields: list[GeneratedField] = []
    stages: StageObjects = []
    for stage, objects in rendered:
        objects, generated, record = _with_first_values(stage, objects, at_another_time.get(stage, objects), record)
        stages.append((stage, objects))
        fields += generated
    return RenderedAddons(stages, record, tuple(fields))


def _with_fixed_time(assets: AddonAssets) -> AddonAssets:
    template = assets.values_template
    archive = charts.with_fixed_time(assets.archive, assets.release.addon_chart)
    return replace(
        assets,
        archive=archive,
        values_template=template if template is None else varying.text_with_fixed_time(template),
    )


def _with_first_values(
    stage: str, objects: list[Object], at_another_time: list[Object], record: FirstValues
) -> tuple[list[Object], list[GeneratedField], FirstValues]:
    """Returns the objects with first values, the generated fields, and the record with new values."""
    common = {identity(obj) for obj in objects} & {identity(obj) for obj in at_another_time}
    objects = deepcopy(objects)
    named, others = _by_name(objects, common), _by_name(at_another_time, common)
    generated = [
        GeneratedField(stage, name, path)
        for name, obj in named.items()
        if name in others
        for path in _differences(obj, others[name], ())
    ]
    first = {each: value for each, value in record.values.items() if each.stage == stage}
    fields = _outermost_fields(
        each
        for each in {**first, **dict.fromkeys(generated)}
        if each.object in named and _has_field(named[each.object], each)
    )
    if not fields:
        return objects, generated, record
    fresh = {each: _replace_value(named[each.object], each.path, None) for each in fields}
    digest = _digest(objects)
    is_unchanged = record.digests.get(stage) == digest
    # One generated value may be in several fields: a new field gets the value of the others.
    replaced = {fresh[each]: first[each] for each in fields if each in first and isinstance(fresh[each], str)}
    values = dict(record.values)
    for each, value in fresh.items():
        if each.restarts_pods:
            # A checksum must change with the settings that it covers. If no other field of the stage has changed, it
            # differs only because values were generated anew.
            value = values[each] = first.get(each, value) if is_unchanged else value
        elif each in generated:
            value = values[each] = first.get(each, replaced.get(value, value) if isinstance(value, str) else value)
        # Any other field has a first value and is equal in both renderings: the chart looks it up in the cluster.
        _replace_value(named[each.object], each.path, deepcopy(value))
    return objects, generated, replace(record, values=values, digests={**record.digests, stage: digest})


def _outermost_fields(fields: Iterable[GeneratedField]) -> list[GeneratedField]:
    """Returns the fields that are not inside another of the fields."""
    every = set(fields)
    return [
        each
        for each in sorted(every, key=str)
        if not any(each._replace(path=each.path[:length]) in every for length in range(len(each.path)))
    ]


def _by_name(objects: Sequence[Object], common: Container[Identity]) -> dict[str, Object]:
    """Returns the objects by identity, or by kind and number if the name is generated."""
    named: dict[str, Object] = {}
    counts: Counter[Identity] = Counter()
    for obj in objects:
        who = identity(obj)
        if who not in common:
            kind = who._replace(name="")
            counts[kind] += 1
            who = who._replace(name=f"#{counts[kind]}")
        named[str(who)] = obj
    return named


def _differences(one: Any, other: Any, path: Path) -> Iterator[Path]:
    """Yields the paths that differ; mappings with other keys and lists of another length differ as a whole."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from _differences(one[key], other[key], (*path, key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other, strict=True)):
            yield from _differences(*pair, (*path, index))
    elif one != other:
        yield path


def _has_field(obj: Any, each: GeneratedField) -> bool:
    for step in each.path:
        if not (
            step in obj
            if isinstance(obj, dict)
            else isinstance(obj, list) and isinstance(step, int) and step < len(obj)
        ):
            return False
        obj = obj[step]
    return True


def _replace_value(obj: Any, path: Path, value: Any) -> Any:
    """Sets the value at `path`, and returns the previous value."""
    if not path:
        before = dict(obj)
        obj.clear()
        obj.update(value or {})
        return before
    *parents, last = path
    for step in parents:
        obj = obj[step]
    before, obj[last] = obj[last], value
    return before


def _digest(objects: Sequence[Object]) -> str:
    return hashlib.sha256(json.dumps(objects, sort_keys=True).encode()).hexdigest()
