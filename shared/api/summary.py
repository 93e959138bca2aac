"""Summarizes several conditions of one object in one condition, by the rules of Cluster API's v1beta2 conditions.

Each condition is an issue, unknown, or information. One issue makes the result bad, else one unknown makes it Unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from shared.kube.resources import Object

from .conditions import get_condition

Weight = Literal["issue", "unknown", "info"]

WEIGHTS: tuple[Weight, ...] = ("issue", "unknown", "info")

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
    weight: Callable[[Object], Weight] = weigh,
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
    result = worst(weight(one) for one in found)
    shown = [one for one in found if weight(one) != "info" or (result == "info" and one.get("message"))]
    lines = [f"* {one['type']}:{indented(one.get('message') or one.get('reason') or '')}" for one in shown]
    return merged(result, reasons, lines)


def worst(weights: Iterable[Weight]) -> Weight:
    """Returns the weight of the result."""
    return min(weights, key=WEIGHTS.index, default="info")


def merged(weight: Weight, reasons: Reasons, lines: Sequence[str], *, negative: bool = False) -> Merged:
    """Returns the merged condition of this weight; with `negative` it is good if it is False."""
    status, reason = {
        "issue": ("True" if negative else "False", reasons.bad),
        "unknown": ("Unknown", reasons.unknown),
        "info": ("False" if negative else "True", reasons.good),
    }[weight]
    return Merged(status, reason, "\n".join(lines))


def indented(text: str) -> str:
    """Returns the text after a bullet; several lines, or a list, begin on a new line."""
    lines = text.split("\n")
    bullets = [_BULLET.match(line) is not None for line in lines]
    if len(lines) == 1 and not bullets[0]:
        return f" {text}"
    deeper = "  " if all(bullets) else "    "
    return "".join(f"\n{deeper if bullet else '  * '}{line}" for line, bullet in zip(lines, bullets, strict=True))
