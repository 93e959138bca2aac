"""Aggregates one condition of many objects in one condition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from shared.api.cluster import CONTROL_PLANE_LABEL
from shared.api.conditions import get_condition
from shared.api.summary import WEIGHTS, Merged, Reasons, Weight, indented, merged, weigh, worst
from shared.kube import Object, dig

_REST = {"issue": "with other issues", "unknown": "with status unknown", "info": "with additional info"}
_MAX_MESSAGES = 3
"""The messages that an aggregate repeats; the objects with other messages are counted."""


def aggregate(
    objects: Iterable[Object],
    type_: str,
    reasons: Reasons,
    conditions: Callable[[Object], Sequence[Object]],
    *,
    negative: bool = False,
) -> Merged:
    """Returns the aggregate of one condition of the objects, of which there is at least one.

    `negative`: the condition is good if it is False, and so is the result.
    """
    found = []
    for obj in objects:
        missing = {"status": "Unknown", "message": f"Condition {type_} not yet reported"}
        condition = get_condition(conditions(obj), type_) or missing
        weight = weigh(condition, negative=negative)
        text = condition.get("message") or ("" if weight == "info" else condition.get("reason") or "")
        found.append((obj, text, weight))
    result = worst(weight for _, _, weight in found)
    groups: dict[tuple[str, str], _Group] = {}
    for obj, text, weight in found:
        if weight != "info" or (result == "info" and text):
            group = groups.setdefault((obj["kind"], text), _Group(obj["kind"], text))
            group.members.append(obj)
            group.weight = worst((group.weight, weight))
    return merged(result, reasons, list(_lines(sorted(groups.values(), key=_Group.order))), negative=negative)


def subject(kind: str, names: Sequence[str]) -> str:
    """Returns the objects of a kind as the subject of a message."""
    return f"{kind}{'s' if len(names) > 1 else ''} {enumerated(names)}"


def enumerated(names: Sequence[str], most: int = 3) -> str:
    """Returns the first names, and the number of the others."""
    more = f", ... ({len(names) - most} more)" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


@dataclass
class _Group:
    """The objects of one kind whose conditions have the same text."""

    kind: str
    text: str
    weight: Weight = "info"
    members: list[Object] = field(default_factory=list)

    def order(self) -> tuple[object, ...]:
        """Returns the key by which groups are sorted; within a kind, groups of the control plane come first."""
        first = any(_is_control_plane(obj) for obj in self.members)
        return self.kind, not first, WEIGHTS.index(self.weight), -len(self.members), _names(self.members)


def _lines(groups: Sequence[_Group]) -> Iterator[str]:
    """Yields a line for each of the first groups, and after the groups of a kind the number of its other objects."""
    left = _MAX_MESSAGES
    for kind, of_kind in groupby(groups, key=lambda group: group.kind):
        members = list(of_kind)
        for group in members[:left]:
            yield f"* {_objects(kind, group.members)}:{indented(group.text)}"
        for weight in WEIGHTS:
            number = sum(len(group.members) for group in members[left:] if group.weight == weight)
            if number:
                yield f"And {number} {kind}{'s' if number > 1 else ''} {_REST[weight]}"
        left = max(0, left - len(members))


def _objects(kind: str, members: Sequence[Object]) -> str:
    return subject(kind, _names(members))


def _names(members: Iterable[Object]) -> list[str]:
    """Returns the names of objects, control-plane Machines first."""
    return [obj["metadata"]["name"] for obj in sorted(members, key=_by_role)]


def _by_role(obj: Object) -> tuple[bool, str]:
    return not _is_control_plane(obj), obj["metadata"]["name"]


def _is_control_plane(obj: Object) -> bool:
    return obj["kind"] == "Machine" and CONTROL_PLANE_LABEL in dig(obj, "metadata.labels", {})
