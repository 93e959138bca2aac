"""Merges conditions into one: a summary of many types of one object, or an aggregate of one type of many objects.

Each condition is an issue, unknown, or information. One issue makes the result bad, else one unknown makes it Unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, NamedTuple

from shared.api.cluster import CONTROL_PLANE_LABEL
from shared.api.conditions import get_condition
from shared.kube import Object, dig

Weight = Literal["issue", "unknown", "info"]

_WEIGHTS: tuple[Weight, ...] = ("issue", "unknown", "info")
_REST = {"issue": "with other issues", "unknown": "with status unknown", "info": "with additional info"}
_MAX_MESSAGES = 3
"""The messages that an aggregate repeats; the objects with other messages are counted."""

_BULLET = re.compile(r"\s*\*\s+")


class Reasons(NamedTuple):
    """The reasons of a merged condition."""

    good: str
    bad: str
    unknown: str


class Merged(NamedTuple):
    """Status, reason and message of a merged condition."""

    status: str
    reason: str
    message: str


def weigh(condition: Mapping[str, str], *, negative: bool = False) -> Weight:
    """Classifies a condition; with `negative` it is good if it is False."""
    match condition.get("status"):
        case "True":
            return "issue" if negative else "info"
        case "False":
            return "info" if negative else "issue"
        case _:
            return "unknown"


def summarize(
    conditions: Sequence[Object],
    types: Iterable[str],
    reasons: Reasons,
    weight: Callable[[Object], Weight],
    *,
    optional: Collection[str] = (),
) -> Merged:
    """Returns the summary of the conditions of these types, in this order; `optional` types may be missing."""
    found = [
        get_condition(conditions, type_)
        or {"type": type_, "status": "Unknown", "message": "Condition not yet reported"}
        for type_ in dict.fromkeys(types)
        if type_ not in optional or get_condition(conditions, type_) is not None
    ]
    worst = _worst(weight(one) for one in found)
    shown = [one for one in found if weight(one) != "info" or (worst == "info" and one.get("message"))]
    lines = [f"* {one['type']}:{_indented(one.get('message') or one.get('reason') or '')}" for one in shown]
    return _merged(worst, reasons, lines)


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
    worst = _worst(weight for _, _, weight in found)
    groups: dict[tuple[str, str], _Group] = {}
    for obj, text, weight in found:
        if weight != "info" or (worst == "info" and text):
            group = groups.setdefault((obj["kind"], text), _Group(obj["kind"], text))
            group.members.append(obj)
            group.weight = _worst((group.weight, weight))
    return _merged(worst, reasons, list(_lines(sorted(groups.values(), key=_Group.order))), negative=negative)


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
        return self.kind, not first, _WEIGHTS.index(self.weight), -len(self.members), _names(self.members)


def _lines(groups: Sequence[_Group]) -> Iterator[str]:
    """Yields a line for each of the first groups, and after the groups of a kind the number of its other objects."""
    left = _MAX_MESSAGES
    for kind, of_kind in groupby(groups, key=lambda group: group.kind):
        members = list(of_kind)
        for group in members[:left]:
            yield f"* {_objects(kind, group.members)}:{_indented(group.text)}"
        for weight in _WEIGHTS:
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


def _worst(weights: Iterable[Weight]) -> Weight:
    return min(weights, key=_WEIGHTS.index, default="info")


def _merged(worst: Weight, reasons: Reasons, lines: Sequence[str], *, negative: bool = False) -> Merged:
    status, reason = {
        "issue": ("True" if negative else "False", reasons.bad),
        "unknown": ("Unknown", reasons.unknown),
        "info": ("False" if negative else "True", reasons.good),
    }[worst]
    return Merged(status, reason, "\n".join(lines))


def _indented(text: str) -> str:
    """Returns the text after a bullet; several lines, or a list, begin on a new line."""
    lines = text.split("\n")
    bullets = [_BULLET.match(line) is not None for line in lines]
    if len(lines) == 1 and not bullets[0]:
        return f" {text}"
    deeper = "  " if all(bullets) else "    "
    return "".join(f"\n{deeper if bullet else '  * '}{line}" for line, bullet in zip(lines, bullets, strict=True))
